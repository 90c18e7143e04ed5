//! Where the chart of a deployment comes from.

use helmops_api::{BundleDeployment, labels};
use helmops_core::targeting::chart_record::{has_manifests, resolved_chart};
use helmops_release::marks;

/// Where a chart comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartOrigin {
    /// A repository, a registry or a URL, which the options name.
    Repository,
    /// The files of a Bundle, in Contents of the management cluster.
    Content,
    /// The files of a Bundle, in a registry that a Secret beside the BundleDeployment names.
    Storage,
}

impl ChartOrigin {
    /// Where the chart of a deployment comes from, by the rule of Fleet's agent.
    pub const fn of(deployment: &BundleDeployment) -> Self {
        let spec = &deployment.spec;
        if spec.oci_contents {
            Self::Storage
        } else if spec.helm_chart_options.is_some() {
            Self::Repository
        } else {
            Self::Content
        }
    }

    /// Whether it is made of the files of a Bundle.
    pub const fn is_content(self) -> bool {
        matches!(self, Self::Content | Self::Storage)
    }
}

/// Whether a deployment is made of the files of a Bundle, such as those of a GitRepo. The chart of a HelmOp may be in a Content too: it has a
/// record of what was resolved, and is deployed as if the agent had downloaded it, unless the record is that of manifests.
pub fn has_files_of_bundle(deployment: &BundleDeployment) -> bool {
    ChartOrigin::of(deployment).is_content()
        && resolved_chart(deployment).is_none_or(|record| has_manifests(&record))
}

/// The folder of a kustomization in the chart of a deployment, or among the files of its Bundle. In a Content, the chart is in a folder itself.
pub fn kustomize_folder(deployment: &BundleDeployment) -> &str {
    let options = &deployment.spec.options;
    let dir = options.kustomize.as_ref().map_or("", |kustomize| &*kustomize.dir);
    if !ChartOrigin::of(deployment).is_content() || has_files_of_bundle(deployment) {
        return dir;
    }
    let chart = options.helm.as_ref().map_or("", |helm| &*helm.chart);
    let in_chart = dir.strip_prefix(chart).and_then(|dir| dir.strip_prefix('/'));
    in_chart.unwrap_or(dir)
}

/// The commit of the files of a deployment, from its label; empty for none. The chart of its release has it as an annotation of the same name.
pub fn commit(deployment: &BundleDeployment) -> &str {
    labels::of(&deployment.metadata, marks::COMMIT).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_chart_of_a_helmop_is_deployed_the_same_wherever_it_is() {
        let deployment = |record: Option<Value>, chart_options: Option<Value>, dir: &str| {
            let annotations = record.map(|record| json!({ labels::RESOLVED: record.to_string() }));
            let object = json!({
                "metadata": { "annotations": annotations },
                "spec": {
                    "deploymentID": "s-1:2", "helmChartOptions": chart_options,
                    "options": { "helm": { "chart": "web", "version": "1.0.0" }, "kustomize": { "dir": dir } },
                },
            });
            serde_json::from_str::<BundleDeployment>(&object.to_string()).unwrap()
        };
        let manifests = || Some(json!({ "repo": "", "chart": "", "version": "1.0.0", "digest": "" }));
        let record = || Some(json!({ "repo": "", "chart": "web", "version": "1.0.0", "digest": "" }));
        for (record, options, dir, has_files, folder) in [
            (None, Some(json!({})), "web/dev", false, "web/dev"),
            (None, None, "web/dev", true, "web/dev"),
            (record(), None, "web/dev", false, "dev"),
            (record(), None, "", false, ""),
            (manifests(), None, "web/dev", true, "web/dev"),
        ] {
            let deployment = deployment(record, options, dir);
            assert_eq!(has_files_of_bundle(&deployment), has_files);
            assert_eq!(kustomize_folder(&deployment), folder);
        }
    }
}
