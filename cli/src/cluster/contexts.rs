//! The contexts of workload clusters, which commands read beside the management cluster.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use helmops_process::lock;
use tokio::{sync::Mutex as AsyncMutex, task::spawn_blocking};

use super::{Cluster, ClusterArgs};
use crate::failure::Failure;

/// The contexts by the names of the Clusters.
pub struct Contexts {
    current: ClusterArgs,
    named: BTreeMap<String, String>,
    /// The clusters of contexts, once they are connected.
    connected: Mutex<BTreeMap<Option<String>, Slot>>,
}

/// Locked while a context is being connected.
type Slot = Arc<AsyncMutex<Option<Cluster>>>;

impl Contexts {
    /// Those of flags, such as `edge-1=edge`.
    ///
    /// # Errors
    /// If one is not `CLUSTER=CONTEXT`.
    pub fn parse(texts: &[String], current: &ClusterArgs) -> Result<Self, Failure> {
        let mut named = BTreeMap::new();
        for text in texts {
            let Some((name, context)) = text.split_once('=') else {
                return Err(Failure::unable(format!(
                    "--cluster-context {text:?} is not CLUSTER=CONTEXT"
                )));
            };
            named.insert(name.to_owned(), context.to_owned());
        }
        Ok(Self {
            current: current.clone(),
            named,
            connected: Mutex::default(),
        })
    }

    /// Whether a context is named.
    pub fn are_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// The flags for a Cluster. Without any context all Clusters are taken for the current one.
    pub fn of(&self, cluster: &str) -> Option<ClusterArgs> {
        let mut args = self.current.clone();
        match self.named.get(cluster) {
            Some(context) => args.context = Some(context.clone()),
            None if self.named.is_empty() => {}
            None => return None,
        }
        Some(args)
    }
    /// The cluster of the flags that [`Self::of`] returns. It is connected once: its client renews the credentials.
    ///
    /// A program for logins may wait for a person, and runs in a thread of its own. It may outlive the caller, but no second one is
    /// started for the same context before it has ended.
    ///
    /// # Errors
    /// If the context cannot be used. The next call tries again.
    pub async fn connect(&self, context: &ClusterArgs) -> Result<Cluster, Failure> {
        let mut slot = self.slot(context).lock_owned().await;
        if let Some(cluster) = &*slot {
            return Ok(cluster.clone());
        }
        let selected = context.select().await?;
        let connected = spawn_blocking(move || {
            let cluster = selected.connect()?;
            *slot = Some(cluster.clone());
            Ok(cluster)
        });
        let connected = connected.await;
        connected.map_err(|error| Failure::because("cannot create a client for the API server", &error))?
    }

    fn slot(&self, context: &ClusterArgs) -> Slot {
        let mut connected = lock(&self.connected);
        Arc::clone(connected.entry(context.context.clone()).or_default())
    }
}

#[cfg(test)]
impl Contexts {
    /// The context of each Cluster, which has its name, as it is connected.
    pub fn connected(clusters: impl IntoIterator<Item = (&'static str, Cluster)>) -> Self {
        let (mut named, mut connected) = (BTreeMap::new(), BTreeMap::new());
        for (name, cluster) in clusters {
            named.insert(name.to_owned(), name.to_owned());
            connected.insert(Some(name.to_owned()), Arc::new(AsyncMutex::new(Some(cluster))));
        }
        Self {
            current: ClusterArgs::default(),
            named,
            connected: Mutex::new(connected),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// The flags for a context whose program for logins is this shell script.
    fn context(folder: &Path, script: &str) -> ClusterArgs {
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config",
            "contexts": [{ "name": "edge", "context": { "cluster": "edge", "user": "edge" } }],
            "clusters": [{ "name": "edge", "cluster": { "server": "http://127.0.0.1:1" } }],
            "users": [{ "name": "edge", "user": { "exec": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "args": ["-c", script], "interactiveMode": "Never",
            } } }],
        });
        let path = folder.join("kubeconfig");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        ClusterArgs {
            kubeconfig: Some(path),
            context: Some("edge".to_owned()),
            ..ClusterArgs::default()
        }
    }

    /// A program for logins that counts its runs in a file.
    fn login(folder: &Path, before: &str) -> (String, impl Fn() -> usize) {
        let runs = folder.join("runs");
        let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}"#;
        let script = format!("echo run >> {}; {before}; echo '{credential}'", runs.display());
        (script, move || {
            fs::read_to_string(&runs).map_or(0, |text| text.lines().count())
        })
    }

    #[tokio::test]
    async fn a_context_is_connected_once_and_a_failure_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (script, runs) = login(folder.path(), "exit 1");
        let context = context(folder.path(), &script);
        let contexts = Contexts::parse(&["edge-1=edge".to_owned()], &context).unwrap();
        let failure = contexts.connect(&context).await.err().unwrap();
        assert!(
            failure
                .message
                .starts_with("cannot create a client for the API server"),
            "{}",
            failure.message
        );
        let (script, _) = login(folder.path(), "true");
        let context = self::context(folder.path(), &script);
        contexts.connect(&context).await.unwrap();
        let once = runs();
        contexts.connect(&context).await.unwrap();
        assert_eq!(runs(), once);
    }

    #[tokio::test]
    async fn a_login_blocks_nothing_else_and_goes_on_after_a_timeout() {
        let folder = tempfile::tempdir().unwrap();
        let confirmed = folder.path().join("confirmed");
        let wait = format!("mkfifo {0} && cat {0} > /dev/null", confirmed.display());
        let (script, runs) = login(folder.path(), &wait);
        let context = context(folder.path(), &script);
        let contexts = Contexts::parse(&["edge-1=edge".to_owned()], &context).unwrap();
        {
            let mut given_up = std::pin::pin!(contexts.connect(&context));
            // This thread goes on while the program waits.
            while !confirmed.exists() {
                assert!(futures::poll!(&mut given_up).is_pending());
                tokio::task::yield_now().await;
            }
        }
        let (connected, confirmed) = tokio::join!(contexts.connect(&context), async {
            spawn_blocking(move || fs::write(confirmed, "yes")).await.unwrap()
        });
        confirmed.unwrap();
        connected.unwrap();
        let login = runs();
        // Each connection runs the program more than once.
        let other = Contexts::parse(&[], &context).unwrap();
        other.connect(&context).await.unwrap();
        assert_eq!(runs(), 2 * login);
    }
}
