//! The values of a HelmRelease: `values`, and `valuesFrom`, which means the same in a HelmOp.
//!
//! Its ConfigMaps and Secrets are where Flux reads them, on the cluster. So nothing of their content is in the HelmOp.

use helmops_api::lifecycle::ValuesReference;

use crate::create::{
    draft::Draft,
    note::Note,
    objects::{fields::Fields, values},
};

/// The key of an entry that names none.
const DEFAULT_KEY: &str = "values.yaml";

/// Converts `values` and `valuesFrom`. The release has its namespace already.
pub fn convert(spec: &mut Fields<'_>, namespace: &str, draft: &mut Draft) {
    let inline = values::mapping(spec, "values", draft);
    values::set(spec, "values", inline.unwrap_or_default(), draft);
    let entries = spec.list("valuesFrom");
    if entries.is_empty() {
        return;
    }
    let options = &mut draft.helmop.spec.bundle.options;
    let release_namespace = &options.default_namespace;
    draft.notes.push(spec.note("valuesFrom", values::ON_CLUSTERS));
    if namespace.is_empty() && !spec.document().text("/spec/targetNamespace").is_empty() {
        let text = format!(
            "a HelmOp reads its objects in the namespace of the release, {release_namespace:?}, Flux in that of the HelmRelease, which is not known: \
             set lifecycle.valuesFrom.namespace, or convert what kustomize build or flux build kustomization prints"
        );
        draft.notes.push(spec.note("valuesFrom", text));
    }
    let is_elsewhere = !namespace.is_empty() && namespace != release_namespace;
    let namespace = if is_elsewhere { namespace } else { "" };
    let lifecycle = options.lifecycle.get_or_insert_default();
    for entry in entries {
        lifecycle
            .values_from
            .push(reference(entry, namespace, &mut draft.notes));
    }
}

fn reference(mut entry: Fields<'_>, namespace: &str, notes: &mut Vec<Note>) -> ValuesReference {
    let mut text = |name| entry.text(name).unwrap_or_default();
    let mut reference = ValuesReference {
        kind: text("kind"),
        name: text("name"),
        namespace: namespace.to_owned(),
        values_key: text("valuesKey"),
        target_path: text("targetPath"),
        ..ValuesReference::default()
    };
    if reference.values_key == DEFAULT_KEY {
        reference.values_key.clear();
    }
    // Flux ignores it without a path.
    let is_literal = entry.flag("literal") == Some(true);
    reference.literal = is_literal && !reference.target_path.is_empty();
    reference.optional = entry.flag("optional") == Some(true);
    entry.finish(notes);
    reference
}
