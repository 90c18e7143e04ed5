//! The names of a HelmRelease, and its metadata.

use helmops_api::limits;
use ring::digest::{SHA256, digest};

use super::{lifecycle, post_render, rest, source, values};
use crate::create::{
    draft::Draft,
    objects::{
        Objects, Settings, Used,
        documents::Document,
        fields::Fields,
        metadata,
        namespace::{self, Wanted},
    },
};

/// What Flux keeps of a name that is too long for a release before its hash.
const KEPT: usize = 40;
const HASH: usize = 12;
/// Where the labels and annotations of Flux are.
const DOMAINS: [&str; 1] = ["fluxcd.io"];

/// The HelmOp of a HelmRelease.
pub fn draft(all: &Objects, document: &Document, used: &mut Used) -> Draft {
    let mut draft = metadata::draft(document);
    let mut fields = metadata::fields(document);
    requests(&mut fields, &mut draft);
    let own = document.text("/metadata/namespace");
    let mut spec = fields.mapping("spec");
    names(&fields, &mut spec, all.settings(), &mut draft);
    source::convert(all, &mut spec, own, &mut draft, used);
    values::convert(&mut spec, own, &mut draft);
    lifecycle::convert(all, &mut spec, &mut draft);
    post_render::convert(&mut spec, &mut draft);
    rest::convert(&mut spec, &mut draft);
    spec.finish(&mut draft.notes);
    fields.finish(&mut draft.notes);
    draft
}

/// Labels and annotations. Requests of Flux are noted.
fn requests(fields: &mut Fields<'_>, draft: &mut Draft) {
    let mut own = fields.mapping("metadata");
    let of_flux = metadata::convert(&mut own, &DOMAINS, draft);
    for request in ["requestedAt", "forceAt", "resetAt"] {
        let key = format!("reconcile.fluxcd.io/{request}");
        if of_flux.contains_key(&key) {
            let text =
                format!("the request {key} was for Flux; request the same with: kubectl helmop reconcile");
            draft.notes.push(own.note("annotations", text));
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
    let wanted = Wanted {
        namespace: of_flux,
        field: "metadata.name",
        build: "kustomize build or flux build kustomization",
        tool: "Flux",
    };
    let namespace = namespace::set(fields, &wanted, settings, draft);
    let options = &mut draft.helmop.spec.bundle.options;
    // Otherwise it is not the release of Flux.
    let is_of_flux = of_flux.is_none_or(|of_flux| of_flux == namespace);
    // With a namespace that kustomize sets, the records are there too.
    match storage.as_deref().or(own) {
        Some(records) if is_of_flux && records != namespace => {
            let lifecycle = options.lifecycle.get_or_insert_default();
            records.clone_into(&mut lifecycle.storage_namespace);
        }
        None if target.is_some() => {
            let text = "Flux keeps the records of the release in the namespace of the HelmRelease, which is not known: set \
                        lifecycle.storageNamespace to it, or the agent installs the release again and the old records stay; the namespace is in \
                        the output of kustomize build or flux build kustomization";
            draft.notes.push(spec.note("targetNamespace", text.to_owned()));
        }
        _ => {}
    }
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
