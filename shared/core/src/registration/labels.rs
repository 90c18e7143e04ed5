//! The labels that a new Cluster gets of those that its agent has requested.

use std::collections::BTreeMap;

use bounded_text::cut;
use helmops_api::{ClusterRegistration, labels};
use helmops_model::validation::names;

use crate::policy::Policies;

/// Prefixes of labels by which Rancher, Fleet and helmops distinguish clusters. An agent that could set them would get what is meant for
/// another cluster, by its name for example.
const RESERVED: [&str; 3] = [
    "management.cattle.io/",
    "fleet.cattle.io/",
    "helmops.fleet.cattle.io/",
];
/// Longest key that a message quotes, in bytes.
const MAX_SHOWN: usize = 80;

/// A label that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedLabel {
    /// Its key, as it can be shown.
    pub key: String,
    /// Why, and what to do.
    pub why: String,
}

/// The labels that the Cluster gets, and those that are left out.
pub fn kept_labels(
    request: &ClusterRegistration,
    policies: &Policies,
) -> (BTreeMap<String, String>, Vec<DroppedLabel>) {
    let (mut kept, mut dropped) = (BTreeMap::new(), Vec::new());
    for (key, value) in &request.spec.cluster_labels {
        match check(key, value, policies) {
            Ok(()) => drop(kept.insert(key.clone(), value.clone())),
            Err(why) => dropped.push(DroppedLabel {
                key: cut(bounded_text::printable(key).into_owned(), MAX_SHOWN),
                why,
            }),
        }
    }
    (kept, dropped)
}

fn check(key: &str, value: &str, policies: &Policies) -> Result<(), String> {
    names::label_key(key).map_err(str::to_owned)?;
    names::label_value(value).map_err(|why| format!("its value is {why}"))?;
    // For people who look for the pod. It selects nothing.
    if key == labels::CREATED_BY_AGENT_POD {
        return Ok(());
    }
    if let Some(prefix) = RESERVED.iter().find(|prefix| key.starts_with(**prefix)) {
        return Err(format!("an agent may not set labels of {prefix}"));
    }
    policies.check_registration_label(key)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn kept(labels: Value, policy: Value) -> (Vec<String>, Vec<String>) {
        let request: ClusterRegistration =
            serde_json::from_value(json!({ "spec": { "clusterLabels": labels } })).unwrap();
        let policy = serde_json::from_value(policy).unwrap();
        let (kept, dropped) = kept_labels(&request, &Policies::of([&policy]));
        let dropped = dropped
            .into_iter()
            .map(|label| format!("{}: {}", label.key, label.why));
        (kept.into_keys().collect(), dropped.collect())
    }

    #[test]
    fn labels_of_controllers_and_those_that_no_policy_allows_are_left_out() {
        let labels = json!({
            "env": "prod",
            "fleet.cattle.io/created-by-agent-pod": "agent-1",
            "fleet.cattle.io/cluster": "other",
            "management.cattle.io/cluster-display-name": "other",
            "helmops.fleet.cattle.io/receives": "true",
            "example.com/zone": "eu",
            "not a key": "x",
            "value": "not a value!",
        });
        let (all, dropped) = kept(labels.clone(), json!({}));
        assert_eq!(
            all,
            ["env", "example.com/zone", "fleet.cattle.io/created-by-agent-pod"]
        );
        assert_eq!(dropped.len(), 5, "{dropped:?}");
        assert!(
            dropped
                .iter()
                .any(|one| one.starts_with("value: its value is not a label value"))
        );
        let (some, dropped) = kept(
            labels,
            json!({ "metadata": { "name": "p" }, "allowedRegistrationLabels": ["env"] }),
        );
        assert_eq!(some, ["env", "fleet.cattle.io/created-by-agent-pod"]);
        assert!(
            dropped.iter().any(|one| one.contains("Policy \"p\"")),
            "{dropped:?}"
        );
    }
}
