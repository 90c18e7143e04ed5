//! The `Chart.yaml` of files without one.

use helmops_content::ContentId;
use serde_json::Value;

/// How much of a commit is in a version. Only a longer one is in it at all.
const COMMIT: usize = 12;

/// It has the name of the BundleDeployment, and the commit or the ID of the files as build metadata.
///
/// Source: `addChartYAML` in Fleet's `internal/helmdeployer/render/helm.go`.
pub fn text(deployment: &str, commit: &str, id: &ContentId) -> String {
    let build = match commit.get(..COMMIT) {
        Some(start) if commit.len() > COMMIT => format!("git-{start}"),
        _ => id.to_string(),
    };
    // JSON is YAML, in which a name of digits stays a text.
    let name = Value::from(deployment);
    format!("apiVersion: v2\nname: {name}\nversion: v0.0.0+{build}\n")
}
