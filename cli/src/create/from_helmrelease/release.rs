//! The names of a HelmRelease, and its metadata.

use std::collections::BTreeMap;

use helmops_api::limits;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::{
    Document, Fields, FromHelmRelease, Settings, Used, documents::is_of_user, lifecycle, post_render, rest,
    source, values,
};
use crate::create::draft::{Draft, Origin};

/// What Flux keeps of a name that is too long for a release before its hash.
const KEPT: usize = 40;
const HASH: usize = 12;
/// That of kubectl, for an object without one.
const DEFAULT_NAMESPACE: &str = "default";

/// The HelmOp of a HelmRelease.
pub fn draft(all: &FromHelmRelease, document: &Document, used: &mut Used) -> Draft {
    let mut draft = Draft::named(document.text("/metadata/name"));
    draft.origin = Some(Origin {
        title: document.title(),
        position: document.position("metadata.name"),
    });
    let mut fields = Fields::of(document);
    for name in ["apiVersion", "kind", "status"] {
        fields.drop(name);
    }
    metadata(&mut fields, &mut draft);
    let own = document.text("/metadata/namespace");
    let mut spec = fields.mapping("spec");
    names(&fields, &mut spec, &all.settings, &mut draft);
    source::convert(all, &mut spec, own, &mut draft, used);
    values::convert(&mut spec, own, &mut draft);
    lifecycle::convert(all, &mut spec, &mut draft);
    post_render::convert(&mut spec, &mut draft);
    rest::convert(&mut spec, &mut draft);
    spec.finish(&mut draft.notes);
    fields.finish(&mut draft.notes);
    draft
}

/// Labels and annotations, without those of Flux and of kubectl.
fn metadata(fields: &mut Fields<'_>, draft: &mut Draft) {
    let mut metadata = fields.mapping("metadata");
    let own: &mut ObjectMeta = &mut draft.helmop.metadata;
    for (name, into) in [("labels", &mut own.labels), ("annotations", &mut own.annotations)] {
        let Some(Value::Object(entries)) = metadata.take(name) else {
            continue;
        };
        let kept: BTreeMap<_, _> = entries
            .iter()
            .filter(|(key, _)| is_of_user(key))
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        if !kept.is_empty() {
            *into = Some(kept);
        }
        for request in ["requestedAt", "forceAt", "resetAt"] {
            let key = format!("reconcile.fluxcd.io/{request}");
            if entries.contains_key(&key) {
                let text = format!(
                    "the request {key} was for Flux; request the same with: kubectl helmop reconcile"
                );
                draft.notes.push(metadata.note("annotations", text));
            }
        }
    }
}

/// Where the release is, and under which name.
fn names(fields: &Fields<'_>, spec: &mut Fields<'_>, settings: &Settings, draft: &mut Draft) {
    let document = fields.document();
    let name = document.text("/metadata/name");
    let own = Some(document.text("/metadata/namespace")).filter(|own| !own.is_empty());
    let target = spec.text("targetNamespace");
    let storage = spec.text("storageNamespace");
    let release = spec.text("releaseName").unwrap_or_else(|| match &target {
        Some(target) => format!("{target}-{name}"),
        None => name.to_owned(),
    });
    let of_flux = target.as_deref().or(own);
    let namespace = settings.target_namespace.as_deref().or(of_flux);
    match (namespace, of_flux) {
        (None, _) => {
            let text = format!(
                "no namespace, so that of the release is {DEFAULT_NAMESPACE:?}: set --target-namespace, or convert what kustomize build or \
                 flux build kustomization prints"
            );
            draft.notes.push(fields.note("metadata.name", text));
        }
        (Some(flag), Some(of_flux)) if flag != of_flux => {
            let text = format!(
                "--target-namespace replaces namespace {of_flux:?}, so the release of Flux there is not taken over"
            );
            draft.notes.push(fields.note("metadata.namespace", text));
        }
        _ => {}
    }
    let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
    let records = storage.as_deref().or(own);
    // With a namespace that kustomize sets, the records are there too.
    let is_elsewhere = match records {
        Some(records) => of_flux != Some(records),
        None => target.is_some(),
    };
    if is_elsewhere {
        let field = if storage.is_some() {
            "storageNamespace"
        } else {
            "targetNamespace"
        };
        let place = records.map_or_else(
            || "the namespace of the HelmRelease".to_owned(),
            |records| format!("namespace {records:?}"),
        );
        let (namespace_of_records, release) = (records.unwrap_or("NAMESPACE"), shortened(&release));
        let text = format!(
            "Flux keeps the records of the release in {place}, helmops in that of the release, {namespace:?}: the agent installs the release \
             there, and takes its objects over; then delete the old records (kubectl delete secret -n {namespace_of_records} -l owner=helm,name={release})"
        );
        draft.notes.push(spec.note(field, text));
    }
    let options = &mut draft.helmop.spec.bundle.options;
    namespace.clone_into(&mut options.default_namespace);
    let helm = options.helm.get_or_insert_default();
    helm.release_name = shortened(&release);
    // The release of Flux belongs to no agent yet.
    helm.take_ownership = true;
}

/// The name of a release, as Flux shortens it.
fn shortened(name: &str) -> String {
    if name.len() <= limits::RELEASE_NAME {
        return name.to_owned();
    }
    let hash = bounded_text::hex(digest(&SHA256, name.as_bytes()).as_ref());
    let kept = name.get(..KEPT).unwrap_or(name);
    format!("{kept}-{}", hash.get(..HASH).unwrap_or(&hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_releases_are_shortened_as_in_flux() {
        assert_eq!(shortened("shop-web"), "shop-web");
        let long = shortened(&"a".repeat(60));
        assert_eq!(long.len(), limits::RELEASE_NAME);
        assert!(long.starts_with(&format!("{}-", "a".repeat(KEPT))));
    }
}
