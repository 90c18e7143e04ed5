//! The `Chart.yaml` of a chart, with annotations that connect a release with its BundleDeployment. Helm stores them in each record.

use std::collections::BTreeMap;

use gotmpl::yaml::{self, Quota};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{marks, record::Attempt};

/// Maximum bytes of a `Chart.yaml`.
pub const MAX_BYTES: usize = 1 << 20;

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
    fn annotations(&self, chart_version: &str) -> BTreeMap<&'static str, String> {
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

/// Why a `Chart.yaml` cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChartMetadataError {
    /// It is larger than [`MAX_BYTES`].
    #[error("Chart.yaml has {0} bytes, more than the maximum of {MAX_BYTES}")]
    TooLarge(usize),
    /// It is not YAML.
    #[error("Chart.yaml is invalid: {0}")]
    Yaml(#[from] yaml::ReadError),
    /// It is a list, a text or empty.
    #[error("Chart.yaml has no fields")]
    NoFields,
    /// Its annotations are a list or a text.
    #[error("the field annotations of Chart.yaml is no mapping of texts")]
    Annotations,
    /// It would become too long.
    #[error("Chart.yaml is too long: {0}")]
    TooLong(#[from] yaml::TooLong),
}

/// Adds annotations to a `Chart.yaml`, in place of those with the same keys. All other fields stay; comments do not.
///
/// # Errors
/// If it is no `Chart.yaml`.
pub fn annotated(chart_yaml: &str, origin: &Origin) -> Result<String, ChartMetadataError> {
    if chart_yaml.len() > MAX_BYTES {
        return Err(ChartMetadataError::TooLarge(chart_yaml.len()));
    }
    let Value::Object(mut fields) = yaml::read_exact(chart_yaml, &mut Quota::default())? else {
        return Err(ChartMetadataError::NoFields);
    };
    let version = fields.get("version").and_then(Value::as_str);
    let version = version.unwrap_or_default().to_owned();
    let annotations = fields.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Map::new());
    }
    let Value::Object(annotations) = annotations else {
        return Err(ChartMetadataError::Annotations);
    };
    origin.write(annotations, &version);
    Ok(yaml::emit_exact(&Value::Object(fields))?)
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

    fn read(text: &str) -> Value {
        yaml::read_exact(text, &mut Quota::default()).unwrap()
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
    fn the_other_fields_stay_as_they_are() {
        let chart = "# mine\napiVersion: v2\nname: nginx\nversion: 1.2.3\nappVersion: \"1.10\"\nkubeVersion: \">=1.20-0\"\n\
            annotations:\n  artifacthub.io/changes: |\n    - one\n    - two\n  fleet.cattle.io/bundle-id: exported\n\
            dependencies:\n- {name: redis, version: ~1, repository: 'https://example.com', condition: redis.enabled}\n";
        let annotated = read(&annotated(chart, &origin()).unwrap());
        let mut expected = read(chart);
        for (key, value) in origin().annotations("1.2.3") {
            expected["annotations"][key] = value.into();
        }
        assert_eq!(annotated, expected);
        assert_eq!(
            annotated["annotations"]["artifacthub.io/changes"],
            "- one\n- two\n"
        );
        assert_eq!(annotated["appVersion"], "1.10");
    }

    #[test]
    fn what_is_no_chart_is_refused() {
        for (text, error) in [
            ("", "Chart.yaml has no fields"),
            ("- a", "Chart.yaml has no fields"),
            (
                "name: a\nannotations: [a]",
                "the field annotations of Chart.yaml is no mapping of texts",
            ),
        ] {
            assert_eq!(annotated(text, &origin()).unwrap_err().to_string(), error);
        }
        assert!(annotated("name: [", &origin()).is_err());
        let large = "#".repeat(MAX_BYTES + 1);
        assert_eq!(
            annotated(&large, &origin()),
            Err(ChartMetadataError::TooLarge(MAX_BYTES + 1))
        );
    }

    #[test]
    fn a_chart_brings_no_annotation_of_an_agent() {
        let chart = format!(
            "name: a\nannotations:\n  {}: x\n  {}: y\n  {}: 'true'\n  helmops.fleet.cattle.io/delete-namespace: 'true'\n",
            marks::ATTEMPT,
            marks::COMMIT,
            marks::KEEP_RESOURCES
        );
        let read = read(&annotated(&chart, &origin()).unwrap());
        assert_eq!(read["annotations"], json!(origin().annotations("")));
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
            let chart = format!("name: a\nversion: {own}\n");
            let read = read(&annotated(&chart, &origin).unwrap());
            assert_eq!(read["version"], own);
            let found = read["annotations"].get(marks::RESOLVED_VERSION);
            assert_eq!(found.and_then(Value::as_str), expected, "{resolved} {own}");
        }
    }
}
