//! The names of an Application, its metadata, and the cluster that it deploys to.

use serde_json::Value;

use super::{drift, source, sync};
use crate::create::{
    draft::Draft,
    note::{self, Gap, Loss},
    objects::{
        Objects, Settings, Used,
        documents::Document,
        fields::Fields,
        metadata,
        namespace::{self, Wanted},
    },
};

/// Where the labels and annotations of Argo CD are.
const DOMAINS: [&str; 1] = ["argoproj.io"];
/// Without it, objects stay when the Application is deleted.
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// How Argo CD calls its own cluster.
const OWN_NAME: &str = "in-cluster";
const OWN_SERVER: &str = "https://kubernetes.default.svc";

/// What to do about annotations of Argo CD, by the start of their names. Others are about its own work.
const ANNOTATIONS: [(&str, &str); 4] = [
    (
        "argocd.argoproj.io/sync-wave",
        "HelmOps have no order: name those that have to be ready first in lifecycle.dependsOn",
    ),
    (
        "argocd.argoproj.io/hook",
        "a HelmOp is no hook: name those that have to be ready first in lifecycle.dependsOn",
    ),
    (
        "notifications.argoproj.io/subscribe",
        "write an Alert in place of the subscription",
    ),
    (
        "argocd-image-updater.argoproj.io/",
        "images are not updated: a new version of the chart is followed with --poll",
    ),
];

/// The HelmOp of an Application.
pub fn draft(objects: &Objects, document: &Document, used: &mut Used) -> Draft {
    let mut draft = metadata::draft(document);
    let mut fields = metadata::fields(document);
    let mut own = fields.mapping("metadata");
    annotations(&mut own, &mut draft);
    finalizers(&mut own, &mut draft);
    let mut spec = fields.mapping("spec");
    names(&fields, &mut spec, objects.settings(), &mut draft);
    let is_automated = sync::convert(&mut spec, &mut draft);
    source::convert(objects, &mut spec, is_automated, &mut draft, used);
    drift::convert(&mut spec, &mut draft);
    rest(&mut spec, &mut draft);
    spec.finish(&mut draft.notes);
    let text = "the operation was for Argo CD; request a deployment with: kubectl helmop reconcile";
    fields.lost("operation", text, &mut draft.notes);
    fields.finish(&mut draft.notes);
    draft
}

fn annotations(own: &mut Fields<'_>, draft: &mut Draft) {
    let of_argo = metadata::convert(own, &DOMAINS, draft);
    for (start, text) in ANNOTATIONS {
        let found = of_argo.iter().find(|(key, _)| key.starts_with(start));
        // Those of the first wave are the usual ones.
        if let Some((key, value)) = found
            && value != "0"
        {
            let text = format!("{key}: {text}");
            draft.notes.push(own.note("annotations", text));
        }
    }
    if of_argo
        .get("argocd.argoproj.io/skip-reconcile")
        .and_then(Value::as_str)
        == Some("true")
    {
        draft.notes.push(own.note("annotations", note::SUSPENDED));
        let options = &mut draft.helmop.spec.bundle.options;
        options.lifecycle.get_or_insert_default().suspend = Some(true);
    }
}

/// What happens with the objects at the end. The first finalizer of Argo CD counts.
fn finalizers(own: &mut Fields<'_>, draft: &mut Draft) {
    let finalizers = own.texts("finalizers");
    let mut propagations = finalizers
        .iter()
        .filter_map(|finalizer| finalizer.strip_prefix(FINALIZER));
    match propagations.find(|propagation| matches!(*propagation, "" | "/foreground" | "/background")) {
        // The default of a HelmOp.
        Some("/background") => return,
        Some(_) => return sync::delete_in_foreground(draft),
        None => {}
    }
    let text = format!(
        "without the finalizer {FINALIZER} Argo CD keeps the objects when the Application is deleted, so lifecycle.onDelete is Keep"
    );
    draft.notes.push(own.note("finalizers", text));
    sync::keep(draft);
}

/// Where the release is. Its name is set with the source.
fn names(fields: &Fields<'_>, spec: &mut Fields<'_>, settings: &Settings, draft: &mut Draft) {
    let mut destination = spec.mapping("destination");
    let own = destination.text("namespace");
    let wanted = Wanted {
        namespace: own.as_deref(),
        field: "spec.destination.namespace",
        build: "kustomize build",
        tool: "Argo CD",
    };
    namespace::set(fields, &wanted, settings, draft);
    for (field, own) in [("name", OWN_NAME), ("server", OWN_SERVER)] {
        let Some(cluster) = destination.text(field) else {
            continue;
        };
        if cluster.trim_end_matches('/') == own || settings.clusters == [&*cluster] {
            continue;
        }
        let text = format!(
            "the cluster {cluster:?} is selected by flags: with --cluster and the name of its Cluster, or with --target-selector"
        );
        let gap = Gap::Field(Loss::Destination);
        draft.notes.push(destination.refusal(field, gap, text));
    }
    destination.finish(&mut draft.notes);
    let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
    fields
        .document()
        .text("/metadata/name")
        .clone_into(&mut helm.release_name);
    // The objects belong to no release yet.
    helm.take_ownership = true;
}

/// Fields that are about neither chart, values nor life cycle.
fn rest(spec: &mut Fields<'_>, draft: &mut Draft) {
    if spec.text("project").is_some_and(|project| project != "default") {
        let text = "a Policy in the namespace of the HelmOp restricts repositories, charts and accounts, as the AppProject does";
        draft.notes.push(spec.note("project", text));
    }
    spec.lost(
        "info",
        "a HelmOp has no notes for readers; write them into annotations",
        &mut draft.notes,
    );
    if let Some(history) = spec.number("revisionHistoryLimit") {
        if history == 0 {
            let text = "0 keeps no revision in Argo CD; here it is not set, which keeps 5";
            draft.notes.push(spec.note("revisionHistoryLimit", text));
        }
        let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
        helm.max_history = history;
    }
}
