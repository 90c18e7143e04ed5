//! The source of an Application: the repository, name and version of its chart.

use helmops_model::chart::source::is_oci;

use super::{git, login, values};
use crate::create::{
    draft::Draft,
    note::{Gap, Loss},
    objects::{Objects, Used, fields::Fields},
};

/// How often Argo CD looks for a newer version.
const INTERVAL: &str = "3m";
const REPOSITORY: &str = "the URL of the repository with the chart; add it, or set --repo; in a patch of kustomize another file has it: convert what kustomize \
                          build prints";

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A chart of a repository or registry.
    Chart,
    /// Values for another source.
    Values,
    /// A folder in Git or in an artifact, which may be a chart.
    Folder,
    /// Something else than a chart.
    Other,
}

/// Converts the source of the chart, with its values.
pub fn convert(
    objects: &Objects,
    spec: &mut Fields<'_>,
    is_automated: bool,
    draft: &mut Draft,
    used: &mut Used,
) {
    if spec.take("sourceHydrator").is_some() {
        let text = "objects that are rendered into Git are no chart: publish the chart of drySource, and set --repo, --version and --chart";
        draft
            .notes
            .push(spec.refusal("sourceHydrator", Gap::Unpublished, text));
        spec.drop("source");
        return;
    }
    let all = sources(spec);
    let (mut charts, mut values_of, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for source in all {
        match kind(&source) {
            Kind::Chart => charts.push(source),
            Kind::Values => values_of.push(source),
            kind => others.push((kind, source)),
        }
    }
    let references = values::references(values_of, draft);
    if charts.len() > 1 {
        let text = "a HelmOp has one chart: write an Application for each of them, and convert these";
        draft.notes.push(spec.refusal("sources", Gap::Source, text));
        return;
    }
    if let Some(mut source) = charts.pop() {
        for (_, other) in others {
            let text = "this source is not deployed: publish its objects as a chart for another HelmOp, or leave them to an Application of their own";
            let gap = Gap::Field(Loss::Sources);
            draft.notes.push(other.refusal("", gap, text));
        }
        chart(&mut source, is_automated, draft);
        let url = source.text("repoURL");
        if url.is_none() {
            source.required("repoURL", Gap::Chart, REPOSITORY, &mut draft.notes);
        }
        let url = url.unwrap_or_default();
        login::convert(objects, &url, &source, draft, used);
        values::convert(objects, &mut source, &references, draft, used);
        source.finish(&mut draft.notes);
        return;
    }
    let is_one = others.len() == 1;
    match others.pop() {
        Some((Kind::Folder, mut source)) if is_one => {
            folder(objects, &mut source, is_automated, draft, used);
            values::convert(objects, &mut source, &references, draft, used);
            source.finish(&mut draft.notes);
        }
        Some((_, source)) => {
            let text = "only Helm charts become HelmOps: leave the manifests, kustomizations and plugins of this Application to Argo CD, or publish them as a chart";
            draft.notes.push(source.refusal("", Gap::Source, text));
        }
        None => {
            let text = "an Application has a source; set --repo, --chart and --version";
            draft.notes.push(spec.refusal("source", Gap::Unpublished, text));
        }
    }
}

/// Argo CD ignores `source` if there are `sources`.
fn sources<'d>(spec: &mut Fields<'d>) -> Vec<Fields<'d>> {
    let several = spec.list("sources");
    if !several.is_empty() {
        spec.drop("source");
        return several;
    }
    let has_one = spec.has("source");
    let one = spec.mapping("source");
    has_one.then_some(one).into_iter().collect()
}

fn kind(source: &Fields<'_>) -> Kind {
    let is_other = ["kustomize", "directory", "plugin"]
        .iter()
        .any(|field| source.has(field));
    // The path in an artifact that is a chart is its root.
    let is_artifact =
        is_oci(source.peek("repoURL")) && matches!(source.peek("path").trim_end_matches('/'), "" | ".");
    // One of another type is refused later.
    let has_chart = source.has("chart") && !source.is_empty_text("chart");
    if has_chart || is_artifact && !is_other {
        Kind::Chart
    } else if is_other {
        Kind::Other
    } else if source.has("ref") && !source.has("path") {
        Kind::Values
    } else {
        Kind::Folder
    }
}

/// A chart of a repository or registry.
fn chart(source: &mut Fields<'_>, is_automated: bool, draft: &mut Draft) {
    let url = source.peek("repoURL").trim_end_matches('/').to_owned();
    let chart = source.text("chart").unwrap_or_default();
    let version = source.text("targetRevision").unwrap_or_default();
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    if version != "*" {
        helm.version = version;
    }
    if is_oci(&url) {
        let is_named = chart.is_empty() || url.rsplit('/').next() == Some(&*chart);
        if is_named {
            helm.repo = url;
        } else {
            helm.repo = format!("{url}/{chart}");
            let text = "Argo CD ignores chart after oci://, and older versions append it, as is done here; set --repo if the URL names the chart already";
            draft.notes.push(source.note("chart", text));
        }
    } else if url.contains("://") || url.is_empty() {
        helm.repo = url;
        helm.chart = chart;
    } else {
        // Without a scheme it is a registry.
        helm.repo = format!("oci://{url}/{chart}");
    }
    for field in ["name", "ref", "path"] {
        source.drop(field);
    }
    if is_automated {
        let note = source.note("targetRevision", "set --poll");
        draft.interval = Some((INTERVAL.to_owned(), note));
    }
}

/// A folder in Git or in an artifact, which may be a chart. Flags can name where it is published.
fn folder(
    objects: &Objects,
    source: &mut Fields<'_>,
    is_automated: bool,
    draft: &mut Draft,
    used: &mut Used,
) {
    let path = source.text("path").unwrap_or_default();
    let url = source.text("repoURL").unwrap_or_default();
    if is_oci(&url) {
        let base = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
        if base != "." {
            base.clone_into(&mut helm.chart);
        }
        let text = format!(
            "a folder of an artifact is not converted: write a HelmOp with {path:?} in spec.chartSource.oci, and manifests: {{}} unless it is a \
             chart; or publish the chart (helm package, helm push), and set --repo, --version, and --chart if its name is not {base:?}"
        );
        draft.notes.push(source.refusal("path", Gap::Unpublished, text));
    } else if url.is_empty() {
        source.required("repoURL", Gap::Unpublished, REPOSITORY, &mut draft.notes);
    } else {
        let mut chart = git::convert(source, &url, &path, draft);
        login::of_git(objects, (source, &url), &mut chart, used);
        draft.git = Some(chart);
        if is_automated {
            let note = source.note("targetRevision", "set --poll");
            draft.interval = Some((INTERVAL.to_owned(), note));
        }
    }
    for field in ["targetRevision", "tagPrefix", "name", "ref"] {
        source.drop(field);
    }
}
