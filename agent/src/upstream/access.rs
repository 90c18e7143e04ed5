//! Keeps the access to the management cluster: renews the token, and follows changes of the Secret.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use futures::StreamExt;
use helmops_join::access::SECRET;
use helmops_kube::{lease::Leadership, watch_one};
use helmops_process::{OnChange, exit::with_causes};
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Secret, ServiceAccount},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    credential::{Credential, CredentialError},
    token::Token,
};

/// The delay after a renewal that failed.
const RETRY: Duration = Duration::from_secs(30);
/// The longest wait: timers of days are not exact.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// The access to a management cluster other than this one.
pub struct Access {
    /// The workload cluster.
    pub downstream: Client,
    /// The management cluster.
    pub upstream: Client,
    /// Only the leader renews the token.
    pub leadership: Leadership,
    /// The namespace of the agent.
    pub namespace: String,
    /// The Secret, as it was read last.
    pub credential: Credential,
    /// The file from which the client of the management cluster reads the token.
    pub token_file: PathBuf,
    /// The part of the life of a token after which it is renewed.
    pub renew_at: f64,
}

impl Access {
    /// Keeps the access until `stop`.
    ///
    /// # Errors
    /// If the Secret leads to another cluster: then the process has to start again.
    pub async fn keep(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let api = Api::<Secret>::namespaced(self.downstream.clone(), &self.namespace);
        let mut secrets = watch_one(api, SECRET).boxed();
        let mut logged = OnChange::default();
        // A time, and no wait that each event of the watch would start again.
        let mut due = Instant::now() + self.until_renewal()?;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                secret = secrets.next() => {
                    // A Secret that is deleted, or cannot be watched, is no reason to give up a working access.
                    if let Some(Some(secret)) = secret {
                        self.changed(&secret).await?;
                        due = Instant::now() + self.until_renewal()?;
                    }
                },
                () = sleep_until(due) => {
                    let wait = self.until_renewal()?;
                    due = Instant::now() + wait;
                    if !wait.is_zero() {
                        continue;
                    }
                    if self.leadership.remaining().is_none() {
                        // The leader renews it, and the watch brings it here.
                        due = Instant::now() + RETRY;
                        continue;
                    }
                    let error = self.renew().await.err().map(|error| format!("{error:#}"));
                    if error.is_some() {
                        due = Instant::now() + RETRY;
                    }
                    if logged.record(error.clone()) && let Some(error) = error {
                        tracing::warn!(error, "the token for the management cluster cannot be renewed; retrying");
                    }
                }
            }
        }
    }

    /// How long until the token is to be renewed; at most an hour.
    fn until_renewal(&self) -> anyhow::Result<Duration> {
        let token = Token::parse(&self.credential.token()?);
        let Some(times) = token.and_then(|token| token.times) else {
            // It does not expire.
            return Ok(MAX_WAIT);
        };
        let until = times.renewal(self.renew_at).duration_since(Timestamp::now());
        Ok(Duration::try_from(until).unwrap_or_default().min(MAX_WAIT))
    }

    /// Takes a changed Secret over. One that cannot be used changes nothing: the access that this process has still works.
    async fn changed(&mut self, secret: &Secret) -> anyhow::Result<()> {
        let (credential, new) = match Self::read(secret) {
            Ok((credential, _)) if credential == self.credential => return Ok(()),
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(
                    error = with_causes(&error),
                    "ignoring the changed Secret {SECRET}"
                );
                return Ok(());
            }
        };
        let old = self.credential.token()?;
        if self.credential.with_token(&old, &new) != credential {
            bail!(
                "Secret {}/{SECRET} leads to another cluster now; starting again",
                self.namespace
            );
        }
        write_token(&self.token_file, &new).await?;
        self.credential = credential;
        tracing::info!("the token for the management cluster was changed");
        Ok(())
    }

    /// What a Secret grants, with its token.
    fn read(secret: &Secret) -> Result<(Credential, String), CredentialError> {
        let credential = Credential::of(secret)?;
        let token = credential.token()?;
        Ok((credential, token))
    }

    /// Requests another token with the same lifetime, for the same ServiceAccount.
    async fn renew(&mut self) -> anyhow::Result<()> {
        let old = self.credential.token()?;
        let Some((account, times)) = Token::parse(&old).and_then(|token| Some((token.clone(), token.times?)))
        else {
            return Ok(());
        };
        let api = Api::<ServiceAccount>::namespaced(self.upstream.clone(), &account.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: i64::try_from(times.lifetime().as_secs()).ok(),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let name = account.service_account.as_str();
        let created = bounded(api.create_token_request(name, &PostParams::default(), &request)).await;
        let object = format!("a token of ServiceAccount {}/{name}", account.namespace);
        let created = created.map_err(CallError::of("create", object))?;
        let new = created.status.and_then(|status| status.token);
        let new = new.context("the API server has created no token")?;
        let renewed = self.credential.with_token(&old, &new);
        // The Secret first: a process that starts now must not use the old token until it expires.
        let patch = json!({ "stringData": { "kubeconfig": renewed.kubeconfig } });
        let secrets = Api::<Secret>::namespaced(self.downstream.clone(), &self.namespace);
        let written = bounded(secrets.patch(SECRET, &PatchParams::default(), &Patch::Merge(patch))).await;
        written.map_err(CallError::of(
            "update",
            format_args!("Secret {}/{SECRET}", self.namespace),
        ))?;
        write_token(&self.token_file, &new).await?;
        self.credential = renewed;
        tracing::info!("renewed the token for the management cluster");
        Ok(())
    }
}

/// Writes the token that the client of the management cluster reads.
///
/// # Errors
/// If the file cannot be written.
pub async fn write_token(file: &Path, token: &str) -> anyhow::Result<()> {
    // A reader must not see half of it.
    let new = file.with_extension("new");
    let written = async {
        tokio::fs::write(&new, token).await?;
        tokio::fs::rename(&new, file).await
    };
    written
        .await
        .with_context(|| format!("cannot write {} (--work-dir)", file.display()))
}

#[cfg(test)]
mod tests {
    use helmops_api::NamespacedName;
    use serde_json::Value;
    use tempfile::TempDir;

    use super::*;
    use crate::{
        testing::server,
        upstream::credential::tests::{KUBECONFIG, secret_with},
    };

    /// An access whose clusters do not respond.
    fn access(folder: &TempDir) -> Access {
        let client = || server(|_, _| (503, Value::Null)).0;
        Access {
            leadership: Leadership::always(),
            downstream: client(),
            upstream: client(),
            namespace: "cattle-fleet-system".to_owned(),
            credential: Credential::of(&secret_with(KUBECONFIG)).unwrap(),
            token_file: folder.path().join("token"),
            renew_at: 0.5,
        }
    }

    #[tokio::test]
    async fn an_unusable_secret_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut access = access(&folder);
        for unusable in [
            "",
            "{",
            "kind: Config",
            &KUBECONFIG.replace("current-context: default", "current-context: other"),
            &KUBECONFIG.replace("token: first", "username: a"),
            &KUBECONFIG.replace("token: first", "token: ''"),
        ] {
            access.changed(&secret_with(unusable)).await.unwrap();
            assert_eq!(access.credential.token().unwrap(), "first", "{unusable}");
            assert!(!access.token_file.exists(), "{unusable}");
        }
        let renewed = KUBECONFIG.replace("token: first", "token: second");
        access.changed(&secret_with(&renewed)).await.unwrap();
        assert_eq!(access.credential.token().unwrap(), "second");
        assert_eq!(std::fs::read_to_string(&access.token_file).unwrap(), "second");
    }

    #[tokio::test]
    async fn a_secret_of_another_cluster_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut access = access(&folder);
        let other = KUBECONFIG.replace("6443", "7443");
        let error = access.changed(&secret_with(&other)).await.unwrap_err();
        assert!(error.to_string().contains("another cluster"), "{error}");
        assert_eq!(
            access.credential.cluster,
            NamespacedName::new("fleet-default", "edge")
        );
    }
}
