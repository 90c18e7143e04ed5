//! The files of Bundles that are stored in a registry, as Fleet does with `spec.ociContents`.
//!
//! Source: Fleet's `internal/ocistorage`.

use std::{io::Write, sync::Arc, time::Instant};

use helmops_model::{chart::source::ChartSource, reason::Reason};
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use kube::Client;
use thiserror::Error;

use super::{
    AccessSource, Resolver, TIME_LIMIT,
    access::{self, Access},
    download::{DownloadError, Downloaded, Pull},
    login::Login,
    secret::{Keys, SecretError, Server, fetch, hold},
};
use helmops_fair::DeadlineExceeded;

/// The type of the Secret that names the registry.
const SECRET_TYPE: &str = "fleet.cattle.io/bundle-oci-storage/v1alpha1";
/// The tag that files have.
const TAG: &str = "latest";

/// Why files cannot be fetched.
#[derive(Debug, Error)]
pub enum StorageError {
    /// There is no Secret that names the registry.
    #[error(
        "Secret {namespace}/{name} with the registry of the files of this Bundle does not exist in the management cluster: its controller \
         writes it next to the BundleDeployment; if it does not, change a label of the Bundle"
    )]
    NoSecret {
        /// The namespace of the BundleDeployment.
        namespace: String,
        /// The name, which is the ID of the files.
        name: String,
    },
    /// The Secret is of another type.
    #[error(
        "Secret {name} is of type {found:?}, and a Secret with the registry of files has the type {SECRET_TYPE:?}"
    )]
    Type {
        /// Its name.
        name: String,
        /// Its type.
        found: String,
    },
    /// The Secret does not name a registry.
    #[error(
        "Secret {name} has no key reference with the registry of the files, such as registry.example.com/fleet"
    )]
    NoReference {
        /// Its name.
        name: String,
    },
    /// The Secret cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The files cannot be downloaded.
    #[error(transparent)]
    Download(#[from] Box<DownloadError>),
}

impl ClassifiedError for StorageError {
    fn classify(&self) -> Classified {
        match self {
            Self::NoSecret { .. } => classified(Reason::SecretNotFound, Class::Absent),
            Self::Type { .. } | Self::NoReference { .. } => classified(Reason::InvalidSecret, Class::Absent),
            Self::Secret(error) => error.classify(),
            Self::Download(error) => error.classify(),
        }
    }
}

impl Resolver {
    /// Downloads the files of a Bundle, as JSON, from the registry that a Secret with the name of their ID names. After an error the content of
    /// the output is of no use.
    ///
    /// # Errors
    /// If the Secret cannot be used, or the files cannot be fetched or written.
    pub async fn download_content<W: Write + Send + 'static>(
        &self,
        client: &Client,
        source: AccessSource<'_>,
        limit: u64,
        output: W,
    ) -> Result<Downloaded<W>, StorageError> {
        let id = source.secret;
        let (access, reference) = {
            let _permit = self.http.permits.secret(&source.charged_to.into()).await;
            access_of(client, source).await?
        };
        let _memory = hold(&self.budget, &access)?;
        let pull = Pull {
            sources: self.sources(),
            access: &access,
            limit,
            since: Instant::now(),
        };
        let download = Box::pin(pull.content(&reference, id, output));
        let downloaded = helmops_fair::deadline::bounded(TIME_LIMIT, download).await;
        let downloaded = downloaded.unwrap_or_else(|DeadlineExceeded| {
            Err(DownloadError::Deadline {
                seconds: TIME_LIMIT.as_secs(),
            })
        });
        Ok(downloaded.map_err(Box::new)?)
    }
}

/// The access to the registry, and the reference of the files.
async fn access_of(client: &Client, source: AccessSource<'_>) -> Result<(Access, String), StorageError> {
    let (name, namespace) = (source.secret, source.namespace);
    let secret = fetch(client, namespace, name).await;
    let secret = secret.map_err(|error| match error {
        SecretError::NotFound { namespace, name } => StorageError::NoSecret { namespace, name },
        error => error.into(),
    })?;
    let found = secret.type_.clone().unwrap_or_default();
    if found != SECRET_TYPE {
        let name = name.to_owned();
        return Err(StorageError::Type { name, found });
    }
    of_keys(
        &Keys {
            name,
            secret,
            server: Server::Charts,
        },
        source.charged_to,
    )
}

fn of_keys(keys: &Keys<'_>, charged_to: &str) -> Result<(Access, String), StorageError> {
    let text = |key| Ok::<_, SecretError>(keys.text(key)?.filter(|text| !text.is_empty()));
    let Some(registry) = text("reference")? else {
        let name = keys.name.to_owned();
        return Err(StorageError::NoReference { name });
    };
    let registry = registry.trim_start_matches("oci://").trim_end_matches('/');
    let reference = format!("oci://{registry}/{}:{TAG}", keys.name);
    // Those of agents can only read.
    let own = |of_agents, of_all| Ok::<_, SecretError>(text(of_agents)?.or(text(of_all)?));
    let username = own("agentUsername", "username")?;
    let password = own("agentPassword", "password")?.unwrap_or_default();
    let plain_http = keys.flag("basicHTTP")?;
    let mut tls = keys.tls_config()?;
    // As in Fleet, the other name counts only without this one.
    let insecure = match keys.text("insecureSkipTLS")? {
        Some(_) => "insecureSkipTLS",
        None => "insecure",
    };
    tls.insecure_skip_tls_verify = keys.flag(insecure)?;
    let mut access = Access {
        login: username.map(|username| Login { username, password }),
        origin: access::chart_origin(ChartSource::Oci { repo: &reference }, plain_http),
        plain_http,
        secret: keys.name.to_owned(),
        namespace: charged_to.into(),
        ..Access::default()
    };
    access.connection.tls = Arc::new(tls);
    Ok((access, reference))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{ByteString, api::core::v1::Secret};

    use super::*;

    fn of(entries: &[(&str, &str)]) -> Result<(Access, String), StorageError> {
        let data = entries.iter().map(|(key, value)| {
            let value = ByteString(value.as_bytes().to_vec());
            ((*key).to_owned(), value)
        });
        let secret = Secret {
            data: Some(data.collect()),
            ..Secret::default()
        };
        of_keys(
            &Keys {
                name: "s-1",
                secret,
                server: Server::Charts,
            },
            "team",
        )
    }

    #[test]
    fn the_secret_names_the_registry_and_a_login_for_agents() {
        let both = [
            ("reference", "r.example.com/fleet/"),
            ("username", "writer"),
            ("password", "w"),
        ];
        let (access, reference) = of(&both).unwrap();
        assert_eq!(reference, "oci://r.example.com/fleet/s-1:latest");
        assert_eq!(access.origin, "https://r.example.com");
        let login = |access: Access| access.login.map(|login| (login.username, login.password));
        assert_eq!(login(access), Some(("writer".to_owned(), "w".to_owned())));
        let for_agents = [&both[..], &[("agentUsername", "reader"), ("agentPassword", "r")]].concat();
        let (access, _) = of(&for_agents).unwrap();
        assert_eq!(login(access), Some(("reader".to_owned(), "r".to_owned())));
        let insecure = [
            ("reference", "oci://h:5000"),
            ("basicHTTP", "true"),
            ("insecure", "1"),
        ];
        let (access, reference) = of(&insecure).unwrap();
        assert_eq!(reference, "oci://h:5000/s-1:latest");
        assert!(access.plain_http && access.connection.tls.insecure_skip_tls_verify);
        assert!(access.login.is_none());
        for (own, other, expected) in [("false", "true", false), ("true", "false", true)] {
            let both = [
                ("reference", "oci://h"),
                ("insecureSkipTLS", own),
                ("insecure", other),
            ];
            let (access, _) = of(&both).unwrap();
            assert_eq!(access.connection.tls.insecure_skip_tls_verify, expected, "{own}");
        }
        let error = of(&[("username", "a")]).unwrap_err();
        assert!(matches!(error, StorageError::NoReference { .. }), "{error}");
    }
}
