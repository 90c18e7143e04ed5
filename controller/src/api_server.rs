//! The flags that say where agents reach this API server.

use std::path::{Path, PathBuf};

use helmops_join::{access::ManagementServer, import::kubeconfig::https};
use thiserror::Error;

/// The most that a file with CAs may have, in bytes: it is in the Secret of each token and of each agent.
const MAX_AUTHORITIES: u64 = 256 << 10;

/// Where the agents of clusters that are imported or register themselves reach this API server.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ApiServerArgs {
    /// Address of this API server for agents, with https:// and the port; for an imported cluster, the key apiServerURL of the Secret with
    /// its kubeconfig has precedence
    #[arg(long, env = "HELMOPS_API_SERVER_URL", value_name = "URL")]
    pub api_server_url: Option<String>,

    /// File with the CA of this API server for agents, PEM; without it they trust the CAs of their system. For an imported cluster, the
    /// key apiServerCA of the Secret with its kubeconfig has precedence
    #[arg(long, env = "HELMOPS_API_SERVER_CA", value_name = "FILE")]
    pub api_server_ca: Option<PathBuf>,
}

/// One of these flags cannot be used.
#[derive(Debug, Error)]
pub enum ApiServerArgsError {
    /// The address is no URL of an API server.
    #[error("{0}")]
    Address(String),
    /// The file with the CA cannot be read.
    #[error("cannot read --api-server-ca {}", .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// The file has no certificate, or is too large.
    #[error("--api-server-ca {} must be a PEM file with certificates, of at most {MAX_AUTHORITIES} bytes", .0.display())]
    NoCertificates(PathBuf),
}

impl ApiServerArgs {
    /// Checks the address, which is empty without a flag, and reads the file.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn read(&self) -> Result<ManagementServer, ApiServerArgsError> {
        let url = self.api_server_url.as_deref().map_or("", str::trim);
        let server = if url.is_empty() {
            String::new()
        } else {
            let url = https(url, "--api-server-url").map_err(ApiServerArgsError::Address)?;
            url.as_str().trim_end_matches('/').to_owned()
        };
        let path = self.api_server_ca.as_deref();
        let path = path.filter(|path| !path.as_os_str().is_empty());
        Ok(ManagementServer {
            server,
            authorities: path.map(authorities).transpose()?.unwrap_or_default(),
            server_name: None,
        })
    }
}

fn authorities(path: &Path) -> Result<String, ApiServerArgsError> {
    let unreadable = |error| ApiServerArgsError::Unreadable(path.to_owned(), error);
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    let text = if size > MAX_AUTHORITIES {
        String::new()
    } else {
        std::fs::read_to_string(path).map_err(unreadable)?
    };
    if text.contains("-----BEGIN CERTIFICATE-----") {
        Ok(text)
    } else {
        Err(ApiServerArgsError::NoCertificates(path.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, ca: &Path) -> Result<ManagementServer, String> {
        let args = ApiServerArgs {
            api_server_url: Some(url.to_owned()),
            api_server_ca: Some(ca.to_owned()),
        };
        args.read().map_err(|error| error.to_string())
    }

    #[test]
    fn the_address_is_one_of_an_api_server_and_the_file_has_a_certificate() {
        let none = Path::new("");
        assert_eq!(
            read("https://api.example.com:6443/", none).unwrap().server,
            "https://api.example.com:6443"
        );
        assert!(read("", none).unwrap().server.is_empty());
        let folder = tempfile::tempdir().unwrap();
        let [file, other] = ["ca.pem", "other"].map(|name| folder.path().join(name));
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\n").unwrap();
        std::fs::write(&other, "no").unwrap();
        assert_eq!(read("", &file).unwrap().authorities.len(), 28);
        for (url, ca, expected) in [
            (
                "http://api.example.com",
                none,
                "--api-server-url \"http://api.example.com\" must be",
            ),
            ("api.example.com:6443", none, "--api-server-url"),
            (
                "",
                Path::new("/does/not/exist"),
                "cannot read --api-server-ca /does/not/exist",
            ),
            ("", &other, "must be a PEM file with certificates"),
        ] {
            let error = read(url, ca).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
