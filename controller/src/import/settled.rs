//! Which Clusters need no import: a change of anything else than what an import depends on costs nothing.
//!
//! The Secret is not among the inputs. What an import in progress has read of it is out of date as soon as it changes, and then the result
//! of that import settles nothing.

use std::{collections::HashMap, sync::Mutex};

use helmops_api::{Cluster, cluster::ClusterStatus, labels};
use helmops_core::status;
use helmops_join::import::record::ImportRecord;
use helmops_process::lock;

use crate::work::ClusterKey;

/// What an import depends on, besides the Secret and the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    uid: Option<String>,
    generation: Option<i64>,
    imported: Option<String>,
    confirmed: Option<String>,
    namespace: String,
    /// Whether the agent reports.
    pub reports: bool,
}

impl Inputs {
    /// Of a Cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let metadata = &cluster.metadata;
        let annotation = |key| labels::annotation(metadata, key).map(str::to_owned);
        let status = &cluster.status;
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            imported: annotation(labels::IMPORTED),
            confirmed: annotation(labels::IMPORT_TO),
            namespace: status.namespace.clone(),
            reports: reports(status),
        }
    }
}

/// Whether the agent of a Cluster reports.
pub fn reports(status: &ClusterStatus) -> bool {
    !status::last_seen(status).is_empty() && !status::is_silent(status)
}

impl Inputs {
    /// The same, with what the import itself has written.
    #[must_use]
    pub fn with_record(self, record: &ImportRecord) -> Self {
        Self {
            imported: Some(record.to_text()),
            ..self
        }
    }
}

/// How far the import of a Cluster is.
#[derive(Debug)]
enum Progress {
    /// It is in progress, and its Secret has not changed since.
    Running,
    /// It is done, or waits for a change.
    Settled(Inputs),
}

/// The Clusters whose import is done, or waits for a change. It has at most one entry for each Cluster.
#[derive(Debug, Default)]
pub struct Settled(Mutex<HashMap<ClusterKey, Progress>>);

impl Settled {
    /// Whether nothing has changed since.
    pub fn is_settled(&self, key: &ClusterKey, inputs: &Inputs) -> bool {
        matches!(lock(&self.0).get(key), Some(Progress::Settled(known)) if known == inputs)
    }

    /// An import begins: it has not read the Secret yet.
    pub fn begin(&self, key: &ClusterKey) {
        lock(&self.0).insert(key.clone(), Progress::Running);
    }

    /// Whether nothing was forgotten since the import has started.
    pub fn is_current(&self, key: &ClusterKey) -> bool {
        matches!(lock(&self.0).get(key), Some(Progress::Running))
    }

    /// Nothing is due until these inputs change, unless something was forgotten since the import has started.
    pub fn settle(&self, key: &ClusterKey, inputs: Inputs) {
        if let Some(progress @ Progress::Running) = lock(&self.0).get_mut(key) {
            *progress = Progress::Settled(inputs);
        }
    }

    /// The Secret has changed, or the Cluster is gone or is not imported any more.
    pub fn forget(&self, key: &ClusterKey) {
        lock(&self.0).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use helmops_kube::key;
    use serde_json::{Value, json};

    use super::*;

    fn inputs(over: Value) -> Inputs {
        let mut object = json!({
            "metadata": { "namespace": "a", "name": "b", "uid": "u", "generation": 1 },
            "status": { "namespace": "cluster-a", "agent": { "lastSeen": "2026-01-01T00:00:00Z" } },
        });
        json_patch_merge(&mut object, over);
        let cluster: Cluster = serde_json::from_str(&object.to_string()).unwrap();
        Inputs::of(&cluster)
    }

    fn json_patch_merge(object: &mut Value, over: Value) {
        match over {
            Value::Object(over) => {
                for (key, value) in over {
                    json_patch_merge(&mut object[key], value);
                }
            }
            value => *object = value,
        }
    }

    #[test]
    fn only_what_an_import_depends_on_unsettles_a_cluster() {
        let settled = Settled::default();
        let key: ClusterKey = key("a", "b");
        assert!(!settled.is_settled(&key, &inputs(json!({}))));
        settled.begin(&key);
        assert!(!settled.is_settled(&key, &inputs(json!({}))));
        settled.settle(&key, inputs(json!({})));
        for same in [
            json!({}),
            json!({ "status": { "agent": { "lastSeen": "2026-01-02T00:00:00Z" } } }),
            json!({ "status": { "readyHelmOps": 3 } }),
            json!({ "metadata": { "labels": { "a": "b" } } }),
        ] {
            assert!(settled.is_settled(&key, &inputs(same.clone())), "{same}");
        }
        let silent = json!([{ "type": "Ready", "status": "Unknown", "reason": "AgentSilent" }]);
        for other in [
            json!({ "metadata": { "uid": "v" } }),
            json!({ "metadata": { "generation": 2 } }),
            json!({ "metadata": { "annotations": { labels::IMPORT_TO: "w" } } }),
            json!({ "metadata": { "annotations": { labels::IMPORTED: "{}" } } }),
            json!({ "status": { "namespace": "cluster-b" } }),
            json!({ "status": { "conditions": silent } }),
            json!({ "status": { "agent": { "lastSeen": "" } } }),
        ] {
            assert!(!settled.is_settled(&key, &inputs(other.clone())), "{other}");
        }
        settled.forget(&key);
        assert!(!settled.is_settled(&key, &inputs(json!({}))));
    }

    #[test]
    fn an_import_of_a_secret_that_has_changed_since_settles_nothing() {
        let settled = Settled::default();
        let key: ClusterKey = key("a", "b");
        settled.begin(&key);
        assert!(settled.is_current(&key));
        settled.forget(&key);
        assert!(!settled.is_current(&key));
        settled.settle(&key, inputs(json!({})));
        assert!(!settled.is_settled(&key, &inputs(json!({}))));
        settled.begin(&key);
        settled.settle(&key, inputs(json!({})));
        assert!(settled.is_settled(&key, &inputs(json!({}))));
    }
}
