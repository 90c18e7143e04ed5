//! Makes sure that a BundleDeployment was deleted, before its release is uninstalled.
//!
//! A namespace that was deleted and created again by mistake is empty for a while, a restored management cluster may lack the latest
//! objects, and a wrong kubeconfig leads to another cluster. In none of these cases anything may be uninstalled.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_api::{BundleDeployment, MetadataOnly};
use helmops_process::lock;
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;
use thiserror::Error;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::remembered::{Identity, Match, Remembered};

/// The ConfigMap of the agent's namespace in which the agent remembers the management cluster.
pub const STATE: &str = "helmops-agent";
/// A ConfigMap that Kubernetes creates in every namespace. A namespace that is created again has another one.
const ROOT_CA: &str = "kube-root-ca.crt";
/// How long a BundleDeployment has to be absent if the namespace itself cannot be read. When it is deleted, its objects are deleted one
/// kind after the other, within seconds.
const CONFIRMATION: Duration = Duration::from_secs(30);

/// The namespace of the BundleDeployments, and what is remembered of it.
#[derive(Clone)]
pub struct NamespaceGuard {
    upstream: Client,
    /// The namespace of the BundleDeployments.
    namespace: String,
    downstream: Client,
    agent_namespace: String,
    seen: Arc<Mutex<Seen>>,
    /// The version that was written last. It is locked while the ConfigMap is written: of two writes, the later one has the higher version.
    written: Arc<AsyncMutex<Option<u64>>>,
}

/// What this process has seen.
#[derive(Debug, Default)]
struct Seen {
    /// The highest resource version of a BundleDeployment.
    version: Option<u64>,
    /// The BundleDeployments whose absence is to be confirmed, and since when.
    absent: HashMap<String, Instant>,
}

/// Whether a BundleDeployment was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The BundleDeployment exists.
    No,
    /// It does not exist. That is to be confirmed after this time.
    NotYet(Duration),
    /// The BundleDeployment was deleted.
    Yes,
}

/// Why it is not certain that a BundleDeployment was deleted.
#[derive(Debug, Error)]
pub enum GuardError {
    /// An API server could not be called.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The namespace is not the one that the releases were made for.
    #[error(
        "namespace {namespace} of the management cluster was created again, or this is another management cluster: nothing is \
         uninstalled. If that is intended, delete ConfigMap {agent_namespace}/{STATE} on this cluster"
    )]
    OtherNamespace {
        namespace: String,
        agent_namespace: String,
    },
    /// No namespace is remembered: none of the releases here belongs to a BundleDeployment that exists.
    #[error(
        "none of the releases of this agent belongs to a BundleDeployment in namespace {namespace} of the management cluster, which may \
         be the wrong one: nothing is uninstalled. If that is intended, create ConfigMap {agent_namespace}/{STATE} on this cluster with \
         the UID of that namespace: data.deploymentNamespace=namespace/UID"
    )]
    NotRemembered {
        namespace: String,
        agent_namespace: String,
    },
    /// The management cluster shows an older state than before.
    #[error(
        "the management cluster was restored from a backup ({restored}), so BundleDeployments may be missing without having been deleted: \
         nothing is uninstalled. When all of them are there that should be, delete ConfigMap {agent_namespace}/{STATE} on this cluster"
    )]
    Restored {
        /// The sign of the restoration, for the message.
        restored: String,
        agent_namespace: String,
    },
    /// The namespace is being deleted, or cannot be read.
    #[error(
        "namespace {namespace} of the management cluster is being deleted or not readable: nothing is uninstalled"
    )]
    NoNamespace { namespace: String },
}

/// Why removals are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The management cluster was restored.
    Restored,
    /// The namespace is another one.
    OtherNamespace,
    /// No namespace is remembered.
    NotRemembered,
    /// The namespace is being deleted, or cannot be read.
    NoNamespace,
}

impl Refusal {
    pub const ALL: [Self; 4] = [
        Self::Restored,
        Self::OtherNamespace,
        Self::NotRemembered,
        Self::NoNamespace,
    ];

    /// A name for metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::OtherNamespace => "other_namespace",
            Self::NotRemembered => "not_remembered",
            Self::NoNamespace => "no_namespace",
        }
    }
}

impl GuardError {
    /// Why a removal is refused; `None` if that is not known, because an API server could not be called.
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Call(_) => None,
            Self::OtherNamespace { .. } => Some(Refusal::OtherNamespace),
            Self::NotRemembered { .. } => Some(Refusal::NotRemembered),
            Self::Restored { .. } => Some(Refusal::Restored),
            Self::NoNamespace { .. } => Some(Refusal::NoNamespace),
        }
    }
}

impl NamespaceGuard {
    /// A guard for the BundleDeployments of a namespace.
    pub fn new(upstream: Client, namespace: &str, downstream: Client, agent_namespace: &str) -> Self {
        Self {
            upstream,
            namespace: namespace.to_owned(),
            downstream,
            agent_namespace: agent_namespace.to_owned(),
            seen: Arc::default(),
            written: Arc::default(),
        }
    }

    /// Takes note of a BundleDeployment that exists, and of its version.
    pub fn saw(&self, metadata: &ObjectMeta) {
        let version = metadata
            .resource_version
            .as_deref()
            .and_then(|version| version.parse().ok());
        let mut seen = lock(&self.seen);
        seen.version = seen.version.max(version);
        if let Some(name) = &metadata.name {
            seen.absent.remove(name);
        }
    }

    /// Whether a BundleDeployment was deleted.
    ///
    /// # Errors
    /// If that is not certain.
    pub async fn is_deleted(&self, name: &str) -> Result<Deleted, GuardError> {
        let api = Api::<BundleDeployment>::namespaced(self.upstream.clone(), &self.namespace);
        let found = bounded(api.get_metadata_opt(name)).await;
        let object = format!("BundleDeployment {}/{name}", self.namespace);
        if found.map_err(CallError::of("read", object))?.is_some() {
            lock(&self.seen).absent.remove(name);
            return Ok(Deleted::No);
        }
        let Some(known) = self.recorded().await? else {
            return Err(self.not_remembered());
        };
        let versions = self.versions(&known).await?;
        let current = self.identity().await?;
        let matched = known.compare(&current);
        match matched {
            Match::Unknown => return Err(self.not_remembered()),
            Match::Other => {
                return Err(GuardError::OtherNamespace {
                    namespace: self.namespace.clone(),
                    agent_namespace: self.agent_namespace.clone(),
                });
            }
            Match::Same | Match::Similar => {}
        }
        self.check_restored(&known, versions).await?;
        if matched == Match::Same {
            return Ok(Deleted::Yes);
        }
        Ok(confirmed(&mut lock(&self.seen).absent, name, Instant::now()))
    }

    /// The versions of the management cluster. The present one is read last: whatever is written meanwhile has a higher one.
    async fn versions(&self, known: &Remembered) -> Result<Versions, CallError> {
        let highest = lock(&self.seen).version.max(known.version);
        let present = self.present().await?;
        Ok(Versions { highest, present })
    }

    /// A restored management cluster shows an older version. It is remembered, since the versions soon are higher again.
    async fn check_restored(&self, known: &Remembered, versions: Versions) -> Result<(), GuardError> {
        let restored = match (&known.restored, versions.restored()) {
            (Some(restored), _) => restored.clone(),
            (None, None) => return Ok(()),
            (None, Some(restored)) => {
                let noted = Remembered {
                    restored: Some(restored.clone()),
                    ..known.clone()
                };
                self.record(&noted, true).await?;
                restored
            }
        };
        Err(GuardError::Restored {
            restored,
            agent_namespace: self.agent_namespace.clone(),
        })
    }

    /// Remembers the namespace, unless one is remembered already: a BundleDeployment in it has a release here, or there are no
    /// releases yet. What is known of the same namespace is kept up to date.
    ///
    /// # Errors
    /// If it cannot be read or remembered.
    pub async fn remember(&self) -> Result<(), GuardError> {
        let recorded = self.recorded().await?;
        let known = recorded.clone().unwrap_or_default();
        let versions = self.versions(&known).await?;
        let current = self.identity().await?;
        match known.compare(&current) {
            Match::Other => return Ok(()),
            Match::Unknown => {
                // A person has deleted it: what was seen before counts no longer.
                lock(&self.seen).version = None;
                *self.written.lock().await = None;
            }
            // The error is that of the next removal.
            Match::Same | Match::Similar => match self.check_restored(&known, versions).await {
                Err(GuardError::Restored { .. }) => return Ok(()),
                checked => checked?,
            },
        }
        let known = known.with(&current, versions.present);
        if is_news(recorded.as_ref(), &known) {
            self.record(&known, recorded.is_some()).await?;
        }
        Ok(())
    }

    /// Remembers the version of a BundleDeployment that is about to get a release: a restored management cluster may lack it.
    ///
    /// # Errors
    /// If it cannot be remembered.
    pub async fn remember_version(&self) -> Result<(), GuardError> {
        let seen = lock(&self.seen).version;
        // Of many releases that are installed together, the first one remembers the version of all.
        if seen.is_some() && *self.written.lock().await >= seen {
            return Ok(());
        }
        let Some(known) = self.recorded().await? else {
            return Ok(());
        };
        let highest = seen.max(known.version);
        if known.version < highest && known.restored.is_none() {
            let known = Remembered {
                version: highest,
                ..known
            };
            self.record(&known, true).await?;
        }
        Ok(())
    }

    /// The present version of the management cluster.
    async fn present(&self) -> Result<Option<u64>, CallError> {
        let api = Api::<BundleDeployment>::namespaced(self.upstream.clone(), &self.namespace);
        let listed = bounded(api.list_metadata(&ListParams::default().limit(1))).await;
        let object = format!("the BundleDeployments of namespace {}", self.namespace);
        let listed = listed.map_err(CallError::of("list", object))?;
        Ok(listed
            .metadata
            .resource_version
            .and_then(|version| version.parse().ok()))
    }

    /// The identity of the namespace. With the permissions of Fleet's agent, the namespace itself cannot be read.
    async fn identity(&self) -> Result<Identity, GuardError> {
        let no_namespace = || GuardError::NoNamespace {
            namespace: self.namespace.clone(),
        };
        let namespaces = Api::<MetadataOnly<Namespace>>::all(self.upstream.clone());
        let namespace = match bounded(namespaces.get_opt(&self.namespace)).await {
            Ok(found) => Some(identity_of("namespace", found).ok_or_else(no_namespace)?),
            Err(error) if error.is_forbidden() => None,
            Err(error) => {
                return Err(
                    CallError::of("read", format_args!("Namespace {}", self.namespace))(error).into(),
                );
            }
        };
        let config_maps = Api::<MetadataOnly<ConfigMap>>::namespaced(self.upstream.clone(), &self.namespace);
        let found = bounded(config_maps.get_opt(ROOT_CA)).await;
        let object = format!("ConfigMap {}/{ROOT_CA}", self.namespace);
        let root_ca = identity_of("configmap", found.map_err(CallError::of("read", object))?);
        if namespace.is_none() && root_ca.is_none() {
            return Err(no_namespace());
        }
        Ok(Identity { namespace, root_ca })
    }

    async fn recorded(&self) -> Result<Option<Remembered>, CallError> {
        let found = bounded(self.state().get_opt(STATE)).await;
        let found = found.map_err(CallError::of("read", self.state_name()))?;
        Ok(found.map(|state| Remembered::of(&state.data.unwrap_or_default())))
    }

    /// Writes what is known, to a ConfigMap that probably exists if it `is_recorded`. Nothing is deleted: another task may have recorded
    /// more.
    async fn record(&self, known: &Remembered, is_recorded: bool) -> Result<(), CallError> {
        let mut written = self.written.lock().await;
        let version = known.version.max(*written);
        let known = Remembered {
            version,
            ..known.clone()
        };
        let patch = Patch::Merge(json!({ "data": known.data() }));
        let patch = async || bounded(self.state().patch(STATE, &PatchParams::default(), &patch)).await;
        let result = if is_recorded {
            patch().await
        } else {
            let mut state = ConfigMap::default();
            state.metadata.name = Some(STATE.to_owned());
            state.data = Some(known.data());
            match bounded(self.state().create(&PostParams::default(), &state)).await {
                Err(error) if error.exists_already() => patch().await,
                created => created,
            }
        };
        result.map_err(CallError::of("write", self.state_name()))?;
        *written = version;
        Ok(())
    }

    fn not_remembered(&self) -> GuardError {
        GuardError::NotRemembered {
            namespace: self.namespace.clone(),
            agent_namespace: self.agent_namespace.clone(),
        }
    }

    fn state(&self) -> Api<ConfigMap> {
        Api::namespaced(self.downstream.clone(), &self.agent_namespace)
    }

    fn state_name(&self) -> String {
        format!("ConfigMap {}/{STATE}", self.agent_namespace)
    }
}

/// Versions of the management cluster. Those of all its objects are from one sequence.
#[derive(Clone, Copy, Debug)]
struct Versions {
    /// The highest one that was seen before.
    highest: Option<u64>,
    present: Option<u64>,
}

impl Versions {
    /// What shows that it was restored from a backup.
    fn restored(self) -> Option<String> {
        let (present, highest) = self.present.zip(self.highest)?;
        (present < highest).then(|| format!("resource version {present} after {highest}"))
    }
}

/// The identity of an object that is not being deleted.
fn identity_of<K>(kind: &str, found: Option<MetadataOnly<K>>) -> Option<String> {
    let ObjectMeta {
        uid,
        deletion_timestamp,
        ..
    } = (*found?.metadata).clone();
    let uid = uid.filter(|_| deletion_timestamp.is_none())?;
    Some(format!("{kind}/{uid}"))
}

/// Whether it is worth a write: the version changes all the time, and is remembered with each new release.
fn is_news(recorded: Option<&Remembered>, known: &Remembered) -> bool {
    recorded.is_none_or(|recorded| recorded.identity != known.identity || recorded.version.is_none())
}

/// Whether a BundleDeployment is absent for long enough.
fn confirmed(absent: &mut HashMap<String, Instant>, name: &str, now: Instant) -> Deleted {
    let since = *absent.entry(name.to_owned()).or_insert(now);
    let left = CONFIRMATION.saturating_sub(now - since);
    if !left.is_zero() {
        return Deleted::NotYet(left);
    }
    absent.remove(name);
    Deleted::Yes
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            OnceLock,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::Value;
    use tower::service_fn;

    use super::*;

    const UID: &str = "namespace/1";

    /// What the API servers of the tests do.
    #[derive(Default)]
    struct Cluster {
        /// The resource version of a list.
        present: u64,
        /// A version that is written, and seen, while the list is on its way.
        meanwhile: Option<u64>,
        /// The data of the ConfigMap.
        data: Mutex<Value>,
        /// How often it was read.
        reads: AtomicUsize,
        guard: OnceLock<NamespaceGuard>,
    }

    impl Cluster {
        fn respond(&self, method: &Method, path: &str, body: &[u8]) -> Option<Value> {
            if path.ends_with("/bundledeployments") {
                if let (Some(version), Some(guard)) = (self.meanwhile, self.guard.get()) {
                    guard.saw(&metadata("other", version));
                }
                let metadata = json!({ "resourceVersion": self.present.to_string() });
                return Some(json!({ "metadata": metadata, "items": [] }));
            }
            if path.ends_with("/namespaces/cluster-a") {
                return Some(json!({ "metadata": { "name": "cluster-a", "uid": "1" } }));
            }
            let is_state = path.contains(&format!("/configmaps/{STATE}"));
            if method == Method::GET && is_state {
                self.reads.fetch_add(1, Ordering::Relaxed);
            }
            if method == Method::PATCH && is_state {
                let change: Value = serde_json::from_slice(body).unwrap();
                for (key, value) in change["data"].as_object().unwrap() {
                    lock(&self.data)[key] = value.clone();
                }
            }
            is_state.then(|| json!({ "metadata": { "name": STATE }, "data": *lock(&self.data) }))
        }
    }

    fn metadata(name: &str, version: u64) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        }
    }

    fn guard(cluster: Cluster) -> (NamespaceGuard, Arc<Cluster>) {
        let cluster = Arc::new(cluster);
        let server = Arc::clone(&cluster);
        let service = service_fn(move |request: Request<Body>| {
            let cluster = Arc::clone(&server);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let (status, found) = if parts.method == Method::POST {
                    (
                        409,
                        json!({ "kind": "Status", "code": 409, "reason": "AlreadyExists" }),
                    )
                } else if let Some(found) = cluster.respond(&parts.method, parts.uri.path(), &body) {
                    (200, found)
                } else {
                    (
                        404,
                        json!({ "kind": "Status", "code": 404, "reason": "NotFound" }),
                    )
                };
                let response = Response::builder().status(status);
                Ok::<_, Infallible>(response.body(Body::from(found.to_string().into_bytes())).unwrap())
            }
        });
        let client = helmops_kube::client_of(service, "cluster-a");
        let guard = NamespaceGuard::new(client.clone(), "cluster-a", client, "helmops");
        let _ = cluster.guard.set(guard.clone());
        (guard, cluster)
    }

    fn remembered(version: &str) -> Mutex<Value> {
        Mutex::new(json!({ "deploymentNamespace": UID, "resourceVersion": version }))
    }

    #[tokio::test]
    async fn what_is_written_during_a_check_shows_no_restored_backup() {
        let (guard, cluster) = guard(Cluster {
            present: 100,
            meanwhile: Some(101),
            data: remembered("90"),
            ..Cluster::default()
        });
        guard.saw(&metadata("web", 95));
        assert_eq!(guard.is_deleted("gone").await.unwrap(), Deleted::Yes);
        guard.remember().await.unwrap();
        // The next list shows less than what was seen by now.
        let error = guard.is_deleted("gone").await.unwrap_err();
        assert!(matches!(error, GuardError::Restored { .. }), "{error}");
        let restored = lock(&cluster.data)["restored"].clone();
        assert_eq!(restored, "resource version 100 after 101");
    }

    #[tokio::test]
    async fn the_version_of_many_new_releases_is_remembered_once() {
        let (guard, cluster) = guard(Cluster {
            data: remembered("90"),
            ..Cluster::default()
        });
        for (version, reads) in [(95, 1), (95, 1), (94, 1), (96, 2), (96, 2)] {
            guard.saw(&metadata("web", version));
            guard.remember_version().await.unwrap();
            assert_eq!(cluster.reads.load(Ordering::Relaxed), reads, "{version}");
        }
        assert_eq!(lock(&cluster.data)["resourceVersion"], "96");
    }

    #[tokio::test]
    async fn a_restored_backup_is_remembered_whatever_else_is_recorded() {
        let (guard, cluster) = guard(Cluster {
            present: 80,
            data: remembered("90"),
            ..Cluster::default()
        });
        let earlier = guard.recorded().await.unwrap().unwrap();
        guard.is_deleted("gone").await.unwrap_err();
        // An installation has read the ConfigMap before that.
        guard.record(&earlier, true).await.unwrap();
        assert_eq!(lock(&cluster.data)["restored"], "resource version 80 after 90");
        // Nor does a write lower the version.
        let (low, high) = (
            earlier.clone(),
            Remembered {
                version: Some(99),
                ..earlier
            },
        );
        guard.record(&high, true).await.unwrap();
        guard.record(&low, true).await.unwrap();
        assert_eq!(lock(&cluster.data)["resourceVersion"], "99");
    }

    #[tokio::test]
    async fn an_absence_before_the_object_existed_again_confirms_nothing() {
        let (guard, _) = guard(Cluster::default());
        confirmed(&mut lock(&guard.seen).absent, "web", Instant::now());
        guard.saw(&metadata("web", 1));
        assert!(lock(&guard.seen).absent.is_empty());
    }

    #[test]
    fn an_absence_is_confirmed_after_a_while() {
        let (mut absent, start) = (HashMap::new(), Instant::now());
        let mut at = |seconds| confirmed(&mut absent, "web", start + Duration::from_secs(seconds));
        assert_eq!(at(0), Deleted::NotYet(CONFIRMATION));
        assert_eq!(at(20), Deleted::NotYet(Duration::from_secs(10)));
        assert_eq!(at(30), Deleted::Yes);
        assert_eq!(at(31), Deleted::NotYet(CONFIRMATION));
    }
}
