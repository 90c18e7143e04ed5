//! The annotations of a chart that connect a release with its BundleDeployment. Helm stores them in each record.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{marks, record::Attempt};

/// What a release records of its BundleDeployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The name of the BundleDeployment.
    pub bundle_deployment: String,
    /// The namespace of the agent.
    pub agent_namespace: String,
    /// The ServiceAccount of the options; empty for none.
    pub service_account: String,
    /// Whether objects stay when the release is removed.
    pub keep_resources: bool,
    /// The commit of the BundleDeployment; empty for none.
    pub commit: String,
    /// The resolved version of the chart: of its tag, or of its entry in the index. Empty for an archive.
    pub version: String,
    /// The attempt that writes the release.
    pub attempt: Option<Attempt>,
    /// The generation of the downstream resources; `None` if there are none.
    pub copies: Option<i64>,
    /// The request that forces the attempt; empty for none.
    pub forced_by: String,
}

impl Origin {
    /// Writes the annotations of a chart, in place of all that a chart, or the record of another agent, has with these prefixes. Its
    /// `Chart.yaml` has this version.
    pub fn write(&self, annotations: &mut Map<String, Value>, chart_version: &str) {
        annotations.retain(|key, _| !marks::PREFIXES.iter().any(|prefix| key.starts_with(prefix)));
        let own = self.annotations(chart_version).into_iter();
        annotations.extend(own.map(|(key, value)| (key.to_owned(), Value::String(value))));
    }

    /// The annotations of the chart, whose `Chart.yaml` has this version.
    pub fn annotations(&self, chart_version: &str) -> BTreeMap<&'static str, String> {
        let keep = if self.keep_resources { "true" } else { "false" };
        let mut annotations = BTreeMap::from([
            (marks::BUNDLE_ID, self.bundle_deployment.clone()),
            (marks::AGENT_NAMESPACE, self.agent_namespace.clone()),
            (marks::SERVICE_ACCOUNT, self.service_account.clone()),
            (marks::KEEP_RESOURCES, keep.to_owned()),
        ]);
        if !self.commit.is_empty() {
            annotations.insert(marks::COMMIT, self.commit.clone());
        }
        if !self.version.is_empty() && self.version != chart_version {
            annotations.insert(marks::RESOLVED_VERSION, self.version.clone());
        }
        if let Some(attempt) = &self.attempt {
            annotations.insert(marks::ATTEMPT, attempt.to_string());
        }
        if let Some(generation) = self.copies {
            annotations.insert(marks::COPIES, generation.to_string());
        }
        if !self.forced_by.is_empty() {
            annotations.insert(marks::FORCED_BY, self.forced_by.clone());
        }
        annotations
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::{AttemptAction, Cause};

    fn origin() -> Origin {
        Origin {
            bundle_deployment: "shop-web".to_owned(),
            agent_namespace: "cattle-fleet-system".to_owned(),
            ..Origin::default()
        }
    }

    #[test]
    fn annotations_are_those_of_fleet() {
        let expected = json!({
            "fleet.cattle.io/bundle-id": "shop-web",
            "fleet.cattle.io/agent-namespace": "cattle-fleet-system",
            "fleet.cattle.io/service-account": "",
            "fleet.cattle.io/keep-resources": "false",
        });
        assert_eq!(json!(origin().annotations("1.2.3")), expected);
        let more = Origin {
            keep_resources: true,
            commit: "4f2a".to_owned(),
            attempt: Some(Attempt {
                deployment_id: ":1".to_owned(),
                action: AttemptAction::Install,
                cause: Cause::Change,
                number: 1,
            }),
            ..origin()
        };
        let annotations = more.annotations("1.2.3");
        assert_eq!(annotations[marks::KEEP_RESOURCES], "true");
        assert_eq!(annotations[marks::COMMIT], "4f2a");
        assert_eq!(annotations[marks::ATTEMPT].parse(), Ok(more.attempt.unwrap()));
    }

    #[test]
    fn a_chart_brings_no_annotation_of_an_agent() {
        let chart = json!({
            marks::ATTEMPT: "x", marks::COMMIT: "y", marks::KEEP_RESOURCES: "true",
            "helmops.fleet.cattle.io/delete-namespace": "true", "artifacthub.io/license": "MIT",
        });
        let mut annotations = chart.as_object().unwrap().clone();
        origin().write(&mut annotations, "");
        assert_eq!(annotations.remove("artifacthub.io/license"), Some(json!("MIT")));
        assert_eq!(Value::from(annotations), json!(origin().annotations("")));
    }

    #[test]
    fn the_resolved_version_is_recorded_where_the_chart_has_another_one() {
        for (resolved, own, expected) in [
            ("1.2.3", "1.2.3", None),
            // An archive has no other version.
            ("", "1.2.3", None),
            ("1.2.3", "1.2.3-rc.4", Some("1.2.3")),
            ("v1.2.3", "1.2.3", Some("v1.2.3")),
        ] {
            let origin = Origin {
                version: resolved.to_owned(),
                ..origin()
            };
            let annotations = origin.annotations(own);
            let found = annotations.get(marks::RESOLVED_VERSION);
            assert_eq!(found.map(String::as_str), expected, "{resolved} {own}");
        }
    }
}
