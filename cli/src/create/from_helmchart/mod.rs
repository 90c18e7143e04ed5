//! HelmCharts of k3s and RKE2, as HelmOps.
//!
//! ```text
//! HelmChart ─► `source` (repository, chart, version, credentials) ─┐
//!              `values`, with those of its HelmChartConfig         ├─► Draft
//!              `lifecycle`, here the names                        ─┘
//! ```
//!
//! k3s runs `helm upgrade --install` in a Job. What is only about that Job means nothing to a HelmOp.

mod lifecycle;
mod source;
mod values;

use super::{
    draft::Draft,
    note,
    objects::{
        Conversion, Extent, Objects, Referent, Used, content,
        documents::Document,
        fields::Fields,
        metadata,
        namespace::{self, Wanted},
    },
};

const GROUP: &str = "helm.cattle.io";
const CONFIG: &str = "HelmChartConfig";
/// Where the labels and annotations of k3s are.
const DOMAINS: [&str; 4] = [GROUP, "helmcharts.cattle.io", "rio.cattle.io", "k3s.cattle.io"];
/// k3s leaves a HelmChart with this annotation alone.
const UNMANAGED: &str = "helmcharts.helm.cattle.io/unmanaged";

/// How a HelmChart becomes a HelmOp.
pub const CONVERSION: Conversion = Conversion {
    kind: "HelmChart",
    marks: &[GROUP, "HelmChart"],
    none: (
        "there is no HelmChart of helm.cattle.io with a chart",
        "print one with: kubectl get helmchart NAME -n kube-system -o yaml; a HelmChartConfig alone is about a component of k3s or RKE2",
    ),
    is_own: is_chart,
    extent,
    is_referent,
    refused: |_| None,
    unused,
    content,
    notes: |_| Vec::new(),
    draft,
};

fn is_chart(document: &Document) -> bool {
    document.group() == GROUP && document.text("/kind") == "HelmChart"
}

fn is_config(document: &Document) -> bool {
    document.group() == GROUP && document.text("/kind") == CONFIG
}

fn is_referent(document: &Document) -> bool {
    is_config(document)
        || (document.group().is_empty() && matches!(document.text("/kind"), "ConfigMap" | "Secret"))
}

/// k3s finds a chart by its URL, or by its repository and name.
fn extent(document: &Document) -> Extent {
    let is_found = document.text("/spec/chart").contains("://") || document.has("/spec/repo");
    match document.has("/spec/chart") {
        _ if document.has("/spec/chartContent") => Extent::Whole,
        true if is_found => Extent::Whole,
        true => Extent::Partial,
        false => Extent::Patch,
    }
}

fn unused(document: &Document) -> Option<&'static str> {
    is_config(document).then_some(
        "its HelmChart is not in the files: add it (kubectl get helmchart -o yaml), or leave both to k3s if it is a component of k3s or RKE2",
    )
}

/// The HelmOp of a HelmChart.
fn draft(objects: &Objects, document: &Document, used: &mut Used) -> Draft {
    let mut draft = metadata::draft(document);
    let mut fields = metadata::fields(document);
    unmanaged(&mut fields, &mut draft);
    let mut spec = fields.mapping("spec");
    let mut config = config(objects, &fields, &mut draft, used);
    names(&fields, &mut spec, objects, &mut draft);
    source::convert(objects, &mut spec, &mut draft, used);
    values::convert(&mut spec, config.as_mut(), &mut draft);
    lifecycle::convert(&mut spec, config.as_mut(), &mut draft);
    // They are about the Job.
    for name in ["jobImage", "podSecurityContext", "securityContext"] {
        spec.drop(name);
    }
    if let Some(config) = config {
        config.finish(&mut draft.notes);
    }
    spec.finish(&mut draft.notes);
    fields.finish(&mut draft.notes);
    draft
}

/// Labels and annotations. A HelmChart that k3s leaves alone is suspended.
fn unmanaged(fields: &mut Fields<'_>, draft: &mut Draft) {
    let mut own = fields.mapping("metadata");
    let of_k3s = metadata::convert(&mut own, &DOMAINS, draft);
    if of_k3s.contains_key(UNMANAGED) {
        draft.notes.push(own.note("annotations", note::SUSPENDED));
        let options = &mut draft.helmop.spec.bundle.options;
        options.lifecycle.get_or_insert_default().suspend = Some(true);
    }
}

/// The spec of the HelmChartConfig of the same name. Its settings override those of the HelmChart.
fn config<'d>(
    objects: &'d Objects,
    fields: &Fields<'_>,
    draft: &mut Draft,
    used: &mut Used,
) -> Option<Fields<'d>> {
    let document = fields.document();
    let text = |pointer| document.text(pointer);
    let id = (text("/metadata/namespace"), text("/metadata/name"));
    let Referent::Found(index, config) = objects.find(fields, (GROUP, CONFIG), id, &mut draft.notes) else {
        return None;
    };
    used.add(index);
    Some(Fields::of(config).mapping("spec"))
}

/// Where the release is, and under which name.
fn names(fields: &Fields<'_>, spec: &mut Fields<'_>, objects: &Objects, draft: &mut Draft) {
    let document = fields.document();
    let own = Some(document.text("/metadata/namespace")).filter(|own| !own.is_empty());
    let target = spec.text("targetNamespace");
    let wanted = Wanted {
        namespace: target.as_deref().or(own),
        field: "metadata.name",
        build: "kustomize build",
        tool: "k3s",
    };
    let namespace = namespace::set(fields, &wanted, objects.settings(), draft);
    let name = document.text("/metadata/name");
    let options = &mut draft.helmop.spec.bundle.options;
    if spec.flag("createNamespace") == Some(false) {
        options.create_namespace = Some(false);
    }
    let helm = options.helm.get_or_insert_default();
    name.clone_into(&mut helm.release_name);
    // The release of k3s belongs to no agent yet.
    helm.take_ownership = true;
    spec.drop("takeOwnership");
    if spec.text("driver").is_some_and(|driver| driver == "configmap") {
        let text = format!(
            "k3s keeps the records of the release in ConfigMaps, helmops in Secrets: the agent installs the release, and takes its objects over; \
             then delete the old records (kubectl delete configmap -n {namespace} -l owner=helm,name={name})"
        );
        draft.notes.push(spec.note("driver", text));
    }
}

#[cfg(test)]
mod tests;
