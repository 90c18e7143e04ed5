//! The records of resolved charts: on a Bundle those of all its charts, and on a BundleDeployment that of the chart that its agent
//! deploys, so that the agent can verify the digest, and knows that a version such as `1.2` is no range.
//!
//! The record of a deployment names its chart and version. One that belongs to other options is ignored: Fleet's own controller
//! changes the options and leaves the annotation as it is.

use helm_index::is_complete_version;
use helmops_api::{Bundle, BundleDeployment, BundleDeploymentOptions, ResolvedChart, labels};
use helmops_content::ContentId;
use helmops_model::chart::{
    delivery::content_folder,
    request::OnDigestChange,
    source::{ChartSource, is_oci},
    url,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The records of the charts of a Bundle.
#[derive(Clone, Debug, Default)]
pub struct ChartRecords(Vec<ResolvedChart>);

impl ChartRecords {
    /// Those in the annotation of a Bundle; none if it is missing or invalid. What is no ID of a Content delivers no chart.
    pub fn of(bundle: &Bundle) -> Self {
        let mut records = recorded_in(bundle).unwrap_or_default();
        for record in records.iter_mut().filter(|record| !has_content(record)) {
            record.content.clear();
        }
        Self(records)
    }

    /// Whether they have one of the chart in these options, see [`is_resolved`].
    pub(super) fn has(&self, options: &BundleDeploymentOptions) -> bool {
        Chart::of(options).is_some_and(|chart| self.0.iter().any(|record| chart.is_of(record)))
    }

    /// The content that the ID of deployments with these options begins with: the ID of the Content with the chart, if there is one; or, so
    /// that another digest is released, the digest of the chart if it is followed; and otherwise empty.
    pub(super) fn contents(&self, options: impl FnOnce() -> Option<BundleDeploymentOptions>) -> String {
        let has_contents = |record: &&ResolvedChart| {
            !record.content.is_empty() || record.on_digest_change == OnDigestChange::Follow.as_str()
        };
        let records: Vec<_> = self.0.iter().filter(has_contents).collect();
        // The options are not computed without need: that may take long.
        let options = if records.is_empty() { None } else { options() };
        let chart = options.as_ref().and_then(Chart::of);
        let record = chart.and_then(|chart| records.into_iter().find(|record| chart.is_of(record)));
        match record {
            Some(record) if !record.content.is_empty() => record.content.clone(),
            // A colon ends the content.
            Some(record) => record.digest.replace(':', "-"),
            None => String::new(),
        }
    }

    /// The options as agents get them. With the chart in a Content they name its folder there, as Fleet's agents need it, and no repository:
    /// no agent fetches anything. Manifests are in no folder there, as those of a GitRepo.
    pub(super) fn delivered(&self, mut options: BundleDeploymentOptions) -> BundleDeploymentOptions {
        let folder = Chart::of(&options).and_then(|chart| {
            let mut records = self.0.iter().filter(|record| chart.is_of(record));
            let record = records.find(|record| !record.content.is_empty())?;
            Some(folder(record).to_owned())
        });
        let Some((helm, folder)) = options.helm.as_mut().zip(folder) else {
            return options;
        };
        if let Some(kustomize) = &mut options.kustomize
            && !kustomize.dir.is_empty()
            && !folder.is_empty()
        {
            kustomize.dir = format!("{folder}/{}", in_chart(&kustomize.dir));
        }
        helm.repo.clear();
        helm.chart = folder;
        options
    }

    /// The annotation of a deployment with these options: the record of the Bundle, or the previous one of the deployment as long as the
    /// rollout has not reached it, so that it does not have the desired ID. `None` if its agent needs none: its digest is not known, and its
    /// version cannot be mistaken for a range.
    pub(super) fn annotation(
        &self,
        options: &BundleDeploymentOptions,
        existing: Option<&BundleDeployment>,
        is_reached: bool,
    ) -> Option<String> {
        let chart = Chart::of(options)?;
        if let Some(record) = self.of_content(&chart) {
            return serde_json::to_string(&record).ok();
        }
        let kept = existing.and_then(|existing| record_of(&existing.metadata));
        let kept = kept.filter(|record| chart.is_of(record));
        let of_bundle = if is_reached || kept.is_none() {
            &*self.0
        } else {
            &[]
        };
        let mut all = of_bundle.iter().filter(|record| chart.is_of(record));
        let is_needed =
            |record: &&ResolvedChart| !record.digest.is_empty() || !is_complete_version(&record.version);
        let record = match all.find(is_needed) {
            // The request is no part of what is deployed: when it changes, the deployment need not be written.
            Some(record) => ResolvedChart {
                constraint: String::new(),
                semver_filter: String::new(),
                on_digest_change: String::new(),
                changed_digest: String::new(),
                content: String::new(),
                ..record.clone()
            },
            None => kept?,
        };
        // A record contains only strings, which always serialize.
        serde_json::to_string(&record).ok()
    }

    /// The record of a deployment whose options were [delivered](Self::delivered) with content: it says only that they are those of a HelmOp. The
    /// agent reads `valuesFiles` from its chart, while those of other Bundles with files were merged before.
    fn of_content(&self, chart: &Chart<'_>) -> Option<ResolvedChart> {
        let is_of_folder = |record: &&ResolvedChart| {
            !record.content.is_empty() && record.version == chart.version && folder(record) == chart.name
        };
        let is_delivered = chart.repo.is_empty() && self.0.iter().any(|record| is_of_folder(&record));
        is_delivered.then(|| ResolvedChart {
            chart: chart.name.to_owned(),
            version: chart.version.to_owned(),
            ..ResolvedChart::default()
        })
    }
}

/// The folder of the files of a record in their content; empty for manifests.
fn folder(record: &ResolvedChart) -> &str {
    if record.manifests {
        return "";
    }
    content_folder(ChartSource::of(&record.repo, &record.chart))
}

/// Whether the record of a deployment is of manifests: they are in no folder of their content, while each chart is.
pub fn has_manifests(record: &ResolvedChart) -> bool {
    record.repo.is_empty() && record.chart.is_empty()
}

/// Whether the chart of a record is in a Content.
pub fn has_content(record: &ResolvedChart) -> bool {
    record.content.parse::<ContentId>().is_ok()
}

/// The records in the annotation of a Bundle; `None` if it is missing or invalid.
pub fn recorded_in(bundle: &Bundle) -> Option<Vec<ResolvedChart>> {
    let text = labels::annotation(&bundle.metadata, labels::RESOLVED)?;
    serde_json::from_str(text).ok()
}

/// Whether the version in the options of a Bundle is one that was resolved. It may have fewer than three numbers, such as `1.2`: only
/// the record distinguishes it from a range then.
pub fn is_resolved(bundle: &Bundle, options: &BundleDeploymentOptions) -> bool {
    ChartRecords::of(bundle).has(options)
}

/// What was resolved for the chart of a deployment; `None` if that is not known, as on a deployment that Fleet's controller has
/// written. The digest, if it is known, is that of the archive for a repository, and of the manifest for a registry.
pub fn resolved_chart(deployment: &BundleDeployment) -> Option<ResolvedChart> {
    let chart = Chart::of(&deployment.spec.options)?;
    record_of(&deployment.metadata).filter(|record| chart.is_of(record))
}

/// The digest that the chart of a deployment must have; `None` if it is not known.
pub fn expected_digest(deployment: &BundleDeployment) -> Option<String> {
    let digest = resolved_chart(deployment)?.digest;
    Some(digest).filter(|digest| !digest.is_empty())
}

/// The folder of a kustomization relative to that of the chart: Fleet's agents need it below `.chart/` and a digest of the chart's source.
fn in_chart(dir: &str) -> &str {
    let of_source = dir.strip_prefix(".chart/").and_then(|rest| rest.split_once('/'));
    of_source.map_or(dir, |(_, dir)| dir)
}

fn record_of(metadata: &ObjectMeta) -> Option<ResolvedChart> {
    let text = metadata.annotations.as_ref()?.get(labels::RESOLVED)?;
    serde_json::from_str(text).ok()
}

/// The chart of a deployment, as a record names it.
struct Chart<'o> {
    repo: String,
    name: &'o str,
    version: &'o str,
}

impl<'o> Chart<'o> {
    /// `None` without a chart, and for an archive, which has no record.
    fn of(options: &'o BundleDeploymentOptions) -> Option<Self> {
        let helm = options.helm.as_ref()?;
        let (repo, name) = match ChartSource::of(&helm.repo, &helm.chart) {
            ChartSource::Archive { .. } => return None,
            ChartSource::Oci { repo } => (url::identity(repo), ""),
            ChartSource::Repository { repo, chart } => (url::identity(repo), chart),
            // As the record has it.
            ChartSource::Packed { repo, path } => (repo.to_owned(), path),
        };
        Some(Self {
            repo,
            name,
            version: &helm.version,
        })
    }

    /// Whether a record is of this chart. The scheme of a registry is in lower case in options, and as written in records.
    fn is_of(&self, record: &ResolvedChart) -> bool {
        let is_same_repo = match (self.repo.get(6..), record.repo.get(6..)) {
            (Some(one), Some(other)) if is_oci(&self.repo) && is_oci(&record.repo) => one == other,
            _ => self.repo == record.repo,
        };
        is_same_repo && (self.name, self.version) == (&*record.chart, &*record.version)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn options(repo: &str, chart: &str, version: &str) -> BundleDeploymentOptions {
        let options = json!({ "helm": { "repo": repo, "chart": chart, "version": version } });
        serde_json::from_str(&options.to_string()).unwrap()
    }

    fn record(repo: &str, chart: &str, version: &str, digest: &str) -> Value {
        json!({ "repo": repo, "chart": chart, "constraint": "1.x", "version": version, "digest": digest, "url": "u" })
    }

    fn records(all: &[Value]) -> ChartRecords {
        let text = Value::from(all).to_string();
        let object = json!({ "metadata": { "name": "web", "annotations": { labels::RESOLVED: text } } });
        let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
        ChartRecords::of(&bundle)
    }

    fn deployed(options: BundleDeploymentOptions, annotation: Option<String>) -> BundleDeployment {
        let mut deployment = BundleDeployment::default();
        deployment.spec.options = options.into();
        deployment.metadata.annotations = annotation.map(|text| [(labels::RESOLVED.to_owned(), text)].into());
        deployment
    }

    #[test]
    fn a_deployment_has_the_digest_of_its_own_chart_and_version() {
        let all = records(&[
            record("https://h/charts", "web", "1.0.0", "a"),
            record("https://h/charts", "web", "2.0.0", "b"),
            record("https://h/charts", "db", "1.0.0", "c"),
            record("OCI://h/charts/web", "", "1.0.0", "sha256:d"),
            record("https://h/unknown", "web", "1.0.0", ""),
            record("https://h/charts", "web", "1.2", "e"),
        ]);
        for (options, digest) in [
            (options("https://h/charts", "web", "1.0.0"), Some("a")),
            (options("https://u:geheim@h/charts", "web", "2.0.0"), Some("b")),
            (options("https://h/charts", "db", "1.0.0"), Some("c")),
            (options("oci://h/charts/web", "", "1.0.0"), Some("sha256:d")),
            (options("https://h/charts", "web", "1.2"), Some("e")),
            (options("https://h/charts", "web", "3.0.0"), None),
            (options("https://other/charts", "web", "1.0.0"), None),
            (options("https://h/unknown", "web", "1.0.0"), None),
            (options("", "https://h/web-1.0.0.tgz", ""), None),
            (BundleDeploymentOptions::default(), None),
        ] {
            let annotation = all.annotation(&options, None, true);
            assert!(
                !annotation.as_ref().is_some_and(|text| text.contains("1.x")),
                "{annotation:?}"
            );
            let found = expected_digest(&deployed(options.clone(), annotation));
            assert_eq!(found.as_deref(), digest, "{options:?}");
        }
    }

    #[test]
    fn a_deployment_that_the_rollout_has_not_reached_keeps_its_digest() {
        let before = records(&[record("https://h", "web", "1.0.0", "a")]);
        let after = records(&[record("https://h", "web", "2.0.0", "b")]);
        let old = options("https://h", "web", "1.0.0");
        let existing = deployed(old.clone(), before.annotation(&old, None, true));
        let kept = after.annotation(&old, Some(&existing), true);
        assert!(kept.is_some());
        assert_eq!(kept, before.annotation(&old, None, true));
        let promoted = options("https://h", "web", "2.0.0");
        let new = deployed(
            promoted.clone(),
            after.annotation(&promoted, Some(&existing), true),
        );
        assert_eq!(expected_digest(&new).as_deref(), Some("b"));
        let unknown = records(&[]).annotation(&promoted, Some(&existing), true);
        assert_eq!(unknown, None, "it is of another version");
    }

    #[test]
    fn a_version_that_looks_like_a_range_is_recorded_for_agents() {
        for (version, digest, is_recorded) in [
            ("1.2", "", true),
            ("1.2", "a", true),
            ("1.2.3", "a", true),
            // It needs no record.
            ("v1.2.3", "", false),
        ] {
            let own = options("https://h", "web", version);
            let annotation =
                records(&[record("https://h", "web", version, digest)]).annotation(&own, None, true);
            let deployment = deployed(own, annotation);
            assert_eq!(
                resolved_chart(&deployment).is_some(),
                is_recorded,
                "{version} {digest:?}"
            );
        }
    }

    #[test]
    fn a_version_is_resolved_if_the_bundle_records_it_for_its_chart() {
        let text = Value::from(vec![record("https://h", "web", "1.2", "")]).to_string();
        for (annotation, options, expected) in [
            (&*text, options("https://h", "web", "1.2"), true),
            (&text, options("https://h", "web", "1.x"), false),
            (&text, options("https://h", "db", "1.2"), false),
            (&text, options("https://other", "web", "1.2"), false),
            (&text, BundleDeploymentOptions::default(), false),
            ("", options("https://h", "web", "1.2"), false),
        ] {
            let object = json!({ "metadata": { "annotations": { labels::RESOLVED: annotation } } });
            let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
            assert_eq!(is_resolved(&bundle, &options), expected, "{options:?}");
        }
    }

    #[test]
    fn options_of_a_chart_in_a_content_name_its_folder_and_no_repository() {
        let id = |digit: &str| format!("s-{}", digit.repeat(61));
        let with_content = |mut record: Value, content: String| {
            record["content"] = json!(content);
            record
        };
        let all = records(&[
            with_content(record("https://h", "web", "1.0.0", "a"), id("1")),
            with_content(record("oci://h/charts/db", "", "1.0.0", "sha256:b"), id("2")),
            record("https://h", "direct", "1.0.0", "c"),
        ]);
        for (repo, chart, folder, contents) in [
            ("https://h", "web", "web", id("1")),
            ("oci://h/charts/db", "", "db", id("2")),
            ("https://h", "direct", "direct", String::new()),
        ] {
            let mut before = options(repo, chart, "1.0.0");
            before.kustomize = serde_json::from_str(r#"{"dir":"overlays/prod"}"#).unwrap();
            assert_eq!(all.contents(|| Some(before.clone())), contents);
            let after = all.delivered(before.clone());
            if contents.is_empty() {
                assert_eq!(after, before);
                continue;
            }
            let helm = after.helm.as_ref().unwrap();
            assert_eq!((&*helm.repo, &*helm.chart, &*helm.version), ("", folder, "1.0.0"));
            let dir = &after.kustomize.as_ref().unwrap().dir;
            assert_eq!(*dir, format!("{folder}/overlays/prod"));
            let deployment = deployed(after.clone(), all.annotation(&after, None, true));
            let record = resolved_chart(&deployment).expect("the agent reads valuesFiles of a HelmOp only");
            assert_eq!((&*record.chart, &*record.digest), (folder, ""));
            let later = records(&[]).annotation(&after, Some(&deployment), false);
            assert!(later.is_some(), "the rollout has not reached it");
        }
        assert_eq!(in_chart(".chart/0123/overlays/prod"), "overlays/prod");
    }

    #[test]
    fn manifests_are_in_no_folder_of_their_content() {
        let of_git = |manifests: bool| {
            let mut record = record("git+https://h/n.git", "deploy/web", "0.0.0+1", "a");
            record["content"] = json!(format!("s-{}", "1".repeat(61)));
            record["manifests"] = json!(manifests);
            record
        };
        for (is_manifests, chart, dir) in [(true, "", "prod"), (false, "web", "web/prod")] {
            let all = records(&[of_git(is_manifests)]);
            let mut before = options("git+https://h/n.git", "deploy/web", "0.0.0+1");
            before.kustomize = serde_json::from_str(r#"{"dir":"prod"}"#).unwrap();
            let after = all.delivered(before);
            let helm = after.helm.as_ref().unwrap();
            assert_eq!(
                (&*helm.repo, &*helm.chart, &*helm.version),
                ("", chart, "0.0.0+1")
            );
            assert_eq!(after.kustomize.as_ref().unwrap().dir, dir);
            let deployment = deployed(after.clone(), all.annotation(&after, None, true));
            let record = resolved_chart(&deployment).unwrap();
            assert_eq!(has_manifests(&record), is_manifests);
            let later = records(&[]).annotation(&after, Some(&deployment), false);
            assert!(later.is_some(), "the rollout has not reached it");
        }
    }

    #[test]
    fn a_record_of_other_options_is_ignored() {
        let of_before = records(&[record("https://h", "web", "1.0.0", "a")]);
        let annotation = of_before.annotation(&options("https://h", "web", "1.0.0"), None, true);
        // Fleet's controller has changed the version.
        let changed = deployed(options("https://h", "web", "2.0.0"), annotation);
        assert_eq!(expected_digest(&changed), None);
        for invalid in ["", "[]", "null", "x"] {
            let annotation = Some(invalid.to_owned());
            let deployment = deployed(options("https://h", "web", "1.0.0"), annotation);
            assert_eq!(expected_digest(&deployment), None, "{invalid}");
        }
    }
}
