//! Identifies what is rolled out.

use helmops_api::{Bundle, BundleDeploymentOptions, Lifecycle};
use helmops_model::chart::{digest::sha256_hex, request::OnDigestChange};

use crate::targeting::chart_record::recorded_in;

/// Length of an ID: people compare and type it.
const LENGTH: usize = 16;

/// Identifies what a Bundle rolls out: everything that decides what clusters get, and which ones, as the ID of a deployment does. How and
/// when they get it is no part of it, so that a soak or an approval stays valid when the strategy or a dependency changes, the rollout is
/// paused, or the certificates or the Secret change with which a chart is fetched.
///
/// The targets are a part of it as they are: which of them matches a cluster first decides what it gets.
///
/// Values that are rendered from a Cluster are not a part of it, only their templates.
pub fn rollout_id(bundle: &Bundle) -> String {
    let mut spec = bundle.spec.clone();
    spec.paused = false;
    spec.rollout_strategy = None;
    // What a cluster waits for, and how its agent fetches the chart.
    spec.depends_on.clear();
    spec.helm_op_options = None;
    keep_deployed(&mut spec.options);
    for target in &mut spec.targets {
        keep_deployed(&mut target.options);
    }
    // A version that is followed may have other files. Files that are delivered in another way make another deployment.
    let digests: Vec<_> = recorded_in(bundle)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|chart| {
            let is_followed = chart.on_digest_change == OnDigestChange::Follow.as_str();
            let has_content = !chart.content.is_empty();
            let identity = if has_content { chart.content } else { chart.digest };
            (is_followed || has_content).then_some(identity)
        })
        .collect();
    // Strings and maps with string keys always serialize.
    let mut id = sha256_hex(&serde_json::to_vec(&(spec, digests)).unwrap_or_default());
    id.truncate(LENGTH);
    id
}

/// Keeps what the ID of a deployment depends on.
fn keep_deployed(options: &mut BundleDeploymentOptions) {
    options.diff = None;
    options.correct_drift = None;
    options.lifecycle = options.lifecycle.take().and_then(|lifecycle| {
        let deployed = Lifecycle {
            storage_namespace: lifecycle.storage_namespace.clone(),
            ..lifecycle.deployed_part(true).unwrap_or_default()
        };
        (deployed != Lifecycle::default()).then(|| Box::new(deployed))
    });
}

#[cfg(test)]
mod tests {
    use helmops_api::labels;
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn id(over: Value) -> String {
        let mut object = json!({
            "metadata": { "name": "web" },
            "spec": { "helm": { "chart": "web", "version": "1.0.0", "values": { "a": 1 } }, "targets": [{ "name": "a" }] },
        });
        json_patch::merge(&mut object, &over);
        rollout_id(&serde_json::from_str(&object.to_string()).unwrap())
    }

    fn resolved(digest: &str, on_digest_change: &str) -> String {
        let chart = json!({ "chart": "web", "version": "1.0.0", "digest": digest, "onDigestChange": on_digest_change });
        let record = json!([chart]).to_string();
        id(json!({ "metadata": { "annotations": { labels::RESOLVED: record } } }))
    }

    #[test]
    fn what_is_rolled_out_has_an_id() {
        let known = id(json!({}));
        assert_eq!(known.len(), LENGTH);
        for same in [
            json!({ "spec": { "paused": true } }),
            json!({ "spec": { "rolloutStrategy": { "soak": "1h" } } }),
            json!({ "spec": { "correctDrift": { "enabled": true } } }),
            json!({ "spec": { "dependsOn": [{ "name": "db" }] } }),
            json!({ "spec": { "helmOpOptions": { "helmOpCABundle": "Yw==", "helmOpSecretName": "b" } } }),
            json!({ "spec": { "lifecycle": { "suspend": true, "requests": { "force": "1" } } } }),
            json!({ "metadata": { "labels": { "a": "b" } } }),
        ] {
            assert_eq!(id(same.clone()), known, "{same}");
        }
        for other in [
            json!({ "spec": { "helm": { "version": "1.0.1" } } }),
            json!({ "spec": { "helm": { "values": { "a": 2 } } } }),
            json!({ "spec": { "namespace": "b" } }),
            json!({ "spec": { "targets": [{ "name": "a", "clusterName": "b" }] } }),
            json!({ "spec": { "lifecycle": { "storageNamespace": "b" } } }),
        ] {
            assert_ne!(id(other.clone()), known, "{other}");
        }
        assert_ne!(resolved("sha256:a", "Follow"), resolved("sha256:b", "Follow"));
        assert_eq!(resolved("sha256:a", ""), resolved("sha256:b", ""));
    }
}
