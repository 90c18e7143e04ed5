//! What a certificate shows of itself, and whether a client that trusts some CAs trusts it.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use thiserror::Error;

/// What a certificate shows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its subject, such as `CN=helmops`.
    pub subject: String,
    /// The first second of its lifetime, in seconds since 1970.
    pub not_before: i64,
    /// The first second after its lifetime, in seconds since 1970.
    pub not_after: i64,
    /// Whether it may sign others.
    pub is_ca: bool,
}

/// Why a certificate is not trusted.
#[derive(Debug, Error)]
pub enum NotTrusted {
    #[error("there is no certificate")]
    NoCertificate,
    /// There is no CA.
    #[error("there is no CA certificate")]
    NoAuthority,
    /// The name of the server is no DNS name or address.
    #[error("{0:?} is no name of a server")]
    Name(String),
    /// The certificate is of another CA, for another name, or not valid at that time.
    #[error(transparent)]
    Invalid(#[from] rustls::Error),
}

/// The certificates of a PEM text. What follows a damaged one is left out, and so is what is no X.509 certificate.
pub fn shown(pem: &[u8]) -> Vec<Shown> {
    certificates(pem).iter().filter_map(show).collect()
}

fn show(der: &CertificateDer<'static>) -> Option<Shown> {
    let (_, x509) = x509_parser::parse_x509_certificate(der).ok()?;
    Some(Shown {
        subject: x509.subject().to_string(),
        not_before: x509.validity().not_before.timestamp(),
        not_after: x509.validity().not_after.timestamp(),
        is_ca: x509.is_ca(),
    })
}

/// Checks that a client which trusts the CAs of `authorities` (PEM) accepts `chain` (PEM) from a server with this name, at a time in
/// seconds since 1970.
///
/// # Errors
/// If it does not.
pub fn check(authorities: &[u8], chain: &[u8], name: &str, at: i64) -> Result<(), NotTrusted> {
    verify(certificates(authorities), &certificates(chain), name, at)
}

/// The same for parsed certificates. CAs that are no certificates are left out.
pub(crate) fn verify(
    authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    chain: &[CertificateDer<'_>],
    name: &str,
    at: i64,
) -> Result<(), NotTrusted> {
    let (leaf, issuers) = chain.split_first().ok_or(NotTrusted::NoCertificate)?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|_| NotTrusted::NoAuthority)?;
    let server = ServerName::try_from(name).map_err(|_| NotTrusted::Name(name.to_owned()))?;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(at).unwrap_or_default()));
    verifier.verify_server_cert(leaf, issuers, &server, &[], at)?;
    Ok(())
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem)
        .map_while(Result::ok)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::issue::{issue_ca, issue_leaf};
    use crate::pair::unix_seconds;

    #[test]
    fn a_certificate_is_trusted_with_its_ca_its_name_and_in_its_lifetime() {
        let begin = SystemTime::now();
        let day = Duration::from_hours(24);
        let [ca, other] = ["a", "b"].map(|name| issue_ca(name, begin, 10 * day).unwrap());
        let leaf = issue_leaf(&ca, &["web.example".to_owned()], &[], begin, day).unwrap();
        let both = format!("{}{}", other.cert_pem(), ca.cert_pem());
        let now = unix_seconds(begin) + 60;
        for (authorities, name, at, is_trusted) in [
            (ca.cert_pem(), "web.example", now, true),
            (&both, "web.example", now, true),
            (other.cert_pem(), "web.example", now, false),
            ("", "web.example", now, false),
            (ca.cert_pem(), "other.example", now, false),
            (ca.cert_pem(), "web.example", now + 90_000, false),
            (ca.cert_pem(), "web.example", now - 3600, false),
        ] {
            let checked = check(authorities.as_bytes(), leaf.cert_pem.as_bytes(), name, at);
            assert_eq!(checked.is_ok(), is_trusted, "{name} at {at}: {checked:?}");
        }
    }

    #[test]
    fn a_certificate_shows_its_lifetime_and_whether_it_is_a_ca() {
        let begin = SystemTime::now();
        let ca = issue_ca("helmops", begin, Duration::from_hours(24)).unwrap();
        let text = format!("{}not a certificate", ca.cert_pem());
        let found = shown(text.as_bytes());
        assert_eq!(found.len(), 1);
        assert!(
            found[0].is_ca && found[0].subject.contains("helmops"),
            "{found:?}"
        );
        assert_eq!(found[0].not_after - found[0].not_before, 86_400);
    }
}
