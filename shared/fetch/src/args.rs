//! The flags that restrict the addresses of requests.

use thiserror::Error;

use crate::http::{Addresses, Cidr, CidrError};

/// The flags of a process that sends requests to addresses which its users choose.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct AddressArgs {
    /// CIDRs to allow although they are denied by default (loopback, link-local, multicast and cloud metadata addresses),
    /// comma-separated, such as 127.0.0.0/8
    #[arg(
        long,
        env = "HELMOPS_ALLOW_CIDRS",
        value_name = "CIDRS",
        value_delimiter = ','
    )]
    pub allow_cidrs: Vec<String>,

    /// CIDRs to which no request is sent, comma-separated; they take precedence over --allow-cidrs
    #[arg(long, env = "HELMOPS_DENY_CIDRS", value_name = "CIDRS", value_delimiter = ',')]
    pub deny_cidrs: Vec<String>,
}

/// A flag has an invalid CIDR.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{flag}: {source}")]
pub struct AddressArgsError {
    flag: &'static str,
    source: CidrError,
}

impl AddressArgs {
    /// The addresses to which requests may be sent.
    ///
    /// # Errors
    /// If a CIDR is invalid; the error names its flag.
    pub fn parse(&self) -> Result<Addresses, AddressArgsError> {
        Ok(Addresses {
            allow: cidrs("--allow-cidrs", &self.allow_cidrs)?,
            deny: cidrs("--deny-cidrs", &self.deny_cidrs)?,
        })
    }
}

/// Parses CIDRs. Empty ones are ignored, as in an environment variable without a value.
fn cidrs(flag: &'static str, texts: &[String]) -> Result<Vec<Cidr>, AddressArgsError> {
    let texts = texts
        .iter()
        .map(|text| text.trim())
        .filter(|text| !text.is_empty());
    texts
        .map(|text| text.parse().map_err(|source| AddressArgsError { flag, source }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(allow: &[&str], deny: &[&str]) -> Result<Addresses, AddressArgsError> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let args = AddressArgs {
            allow_cidrs: texts(allow),
            deny_cidrs: texts(deny),
        };
        args.parse()
    }

    #[test]
    fn spaces_and_empty_texts_are_ignored() {
        let addresses = addresses(&["127.0.0.0/8", " ::1/128"], &[""]).unwrap();
        assert_eq!((addresses.allow.len(), addresses.deny.len()), (2, 0));
    }

    #[test]
    fn an_invalid_cidr_names_its_flag() {
        let error = addresses(&[], &["10.0.0.0/8", "corp"]).unwrap_err().to_string();
        assert!(
            error.starts_with("--deny-cidrs: \"corp\" is not a range"),
            "{error}"
        );
    }
}
