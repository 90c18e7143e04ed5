//! The flags of the import.

use std::path::PathBuf;

use clap::ArgAction;
use helmops_join::{access::ManagementServer, import::kubeconfig::https};
use thiserror::Error;

/// The largest file with a CA, in bytes.
const MAX_CA: u64 = 1 << 20;

/// Flags of the import of clusters by their kubeconfigs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ImportArgs {
    /// With the bundle controller: install an agent on the cluster of each Cluster with spec.kubeConfigSecret. A user who writes such a
    /// Cluster and Secrets beside it can use what these kubeconfigs open
    #[arg(
        long,
        env = "HELMOPS_IMPORT_CLUSTERS",
        default_value_t = false,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub import_clusters: bool,

    /// Address of this API server for the agents of imported clusters, unless the Secret with the kubeconfig has the key apiServerURL
    #[arg(long, env = "HELMOPS_API_SERVER_URL", value_name = "URL")]
    pub api_server_url: Option<String>,

    /// File with the CA of this API server for the agents of imported clusters, unless the Secret with the kubeconfig has the key
    /// apiServerCA; by default they trust the CAs of their image
    #[arg(long, env = "HELMOPS_API_SERVER_CA", value_name = "FILE")]
    pub api_server_ca: Option<PathBuf>,

    /// Image of the agents of imported clusters, with the registry; by default helmops-agent in the version of the controller
    #[arg(long, env = "HELMOPS_AGENT_IMAGE", value_name = "IMAGE")]
    pub agent_image: Option<String>,

    /// Namespaces in which Clusters of all namespaces may name Secrets with kubeconfigs, comma-separated; by default only the namespace
    /// of the Cluster itself
    #[arg(
        long,
        env = "HELMOPS_IMPORT_SECRET_NAMESPACES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub import_secret_namespaces: Vec<String>,
}

/// A flag of the import cannot be used.
#[derive(Debug, Error)]
pub enum ImportArgsError {
    /// The address is no URL of an API server.
    #[error("{0}")]
    Address(String),
    /// The file with the CA cannot be read.
    #[error("cannot read --api-server-ca {path}: {cause}")]
    Authority {
        /// Its path.
        path: String,
        /// Why.
        cause: String,
    },
}

/// What the import needs of the flags.
#[derive(Clone, Debug, Default)]
pub struct ImportSettings {
    /// Where agents reach this API server; without an address, the Secrets must have it.
    pub server: ManagementServer,
    /// The image of agents; empty for that of the manifests.
    pub image: String,
    /// The namespaces of Secrets that every Cluster may name.
    pub secret_namespaces: Vec<String>,
}

impl ImportArgs {
    /// Checks the flags, and reads the file that they name.
    ///
    /// # Errors
    /// If one of them cannot be used.
    pub fn settings(&self) -> Result<ImportSettings, ImportArgsError> {
        let server = self
            .api_server_url
            .as_deref()
            .map(str::trim)
            .filter(|url| !url.is_empty());
        let server = server.map(|url| https(url, "--api-server-url")).transpose();
        let server = server.map_err(ImportArgsError::Address)?;
        let names = self
            .import_secret_namespaces
            .iter()
            .map(|name| name.trim().to_owned());
        Ok(ImportSettings {
            server: ManagementServer {
                server: server
                    .map(|url| url.as_str().trim_end_matches('/').to_owned())
                    .unwrap_or_default(),
                authorities: self.authorities()?,
                server_name: None,
            },
            image: self.agent_image.clone().unwrap_or_default(),
            secret_namespaces: names.filter(|name| !name.is_empty()).collect(),
        })
    }

    fn authorities(&self) -> Result<String, ImportArgsError> {
        let Some(path) = self
            .api_server_ca
            .as_ref()
            .filter(|path| !path.as_os_str().is_empty())
        else {
            return Ok(String::new());
        };
        let failed = |cause: String| ImportArgsError::Authority {
            path: path.display().to_string(),
            cause,
        };
        let size = std::fs::metadata(path)
            .map_err(|error| failed(error.to_string()))?
            .len();
        if size > MAX_CA {
            return Err(failed(format!(
                "it has {size} bytes; at most {MAX_CA} are allowed"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            return Err(failed("it has no certificate in PEM format".to_owned()));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_one_of_an_api_server_and_the_file_has_a_certificate() {
        let settings = |url: &str, ca: &str| {
            let args = ImportArgs {
                api_server_url: Some(url.to_owned()),
                api_server_ca: Some(ca.into()),
                import_secret_namespaces: vec![" capi".to_owned(), String::new()],
                ..ImportArgs::default()
            };
            args.settings().map_err(|error| error.to_string())
        };
        let valid = settings("https://api.example.com:6443/", "").unwrap();
        assert_eq!(valid.server.server, "https://api.example.com:6443");
        assert_eq!(valid.secret_namespaces, ["capi"]);
        assert!(settings("", "").unwrap().server.server.is_empty());
        for (url, ca, expected) in [
            (
                "http://api.example.com",
                "",
                "--api-server-url \"http://api.example.com\" must be",
            ),
            ("api.example.com:6443", "", "--api-server-url"),
            (
                "",
                "/does/not/exist",
                "cannot read --api-server-ca /does/not/exist",
            ),
            ("", "Cargo.toml", "no certificate in PEM format"),
        ] {
            let error = settings(url, ca).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
