//! What a HelmRelease changes in the objects of its chart: `postRenderers` and `commonMetadata`.

use go_formats::yaml;
use helmops_api::lifecycle::{
    CommonMetadata, KustomizeChanges, KustomizeImage, KustomizePatch, ObjectSelector, PostRenderer,
};
use serde_json::Value;

use crate::create::{draft::Draft, note::Note, objects::fields::Fields};

/// Converts them.
pub fn convert(spec: &mut Fields<'_>, draft: &mut Draft) {
    let lifecycle = draft.helmop.spec.bundle.options.lifecycle.get_or_insert_default();
    let notes = &mut draft.notes;
    for mut renderer in spec.list("postRenderers") {
        let mut kustomize = renderer.mapping("kustomize");
        let changes = KustomizeChanges {
            patches: patches(&mut kustomize, notes),
            images: images(&mut kustomize, notes),
            ..KustomizeChanges::default()
        };
        kustomize.finish(notes);
        renderer.finish(notes);
        // Without any it changes nothing.
        if changes != KustomizeChanges::default() {
            lifecycle.post_renderers.push(PostRenderer {
                kustomize: Some(changes),
                ..PostRenderer::default()
            });
        }
    }
    lifecycle.post_render_strategy = spec.text("postRenderStrategy").unwrap_or_default();
    let mut fields = spec.mapping("commonMetadata");
    let metadata = CommonMetadata {
        labels: fields.entries("labels"),
        annotations: fields.entries("annotations"),
        ..CommonMetadata::default()
    };
    fields.finish(notes);
    if metadata != CommonMetadata::default() {
        lifecycle.common_metadata = Some(metadata);
    }
}

/// All patches, in the order in which Kustomize applies those of the three fields.
fn patches(kustomize: &mut Fields<'_>, notes: &mut Vec<Note>) -> Vec<KustomizePatch> {
    let mut patches = Vec::new();
    for mut object in kustomize.list("patchesStrategicMerge") {
        patches.extend(object.take_all().map(|object| KustomizePatch {
            patch: printed(&object),
            ..KustomizePatch::default()
        }));
        object.finish(notes);
    }
    for mut entry in kustomize.list("patches") {
        patches.push(KustomizePatch {
            patch: entry.text("patch").unwrap_or_default(),
            target: target(&mut entry, notes),
            ..KustomizePatch::default()
        });
        entry.finish(notes);
    }
    for mut entry in kustomize.list("patchesJson6902") {
        let operations = entry.take("patch").unwrap_or_default();
        patches.push(KustomizePatch {
            patch: printed(&operations),
            target: target(&mut entry, notes),
            ..KustomizePatch::default()
        });
        entry.finish(notes);
    }
    patches
}

fn printed(patch: &Value) -> String {
    yaml::emit_exact(patch).unwrap_or_else(|_| patch.to_string())
}

fn target(patch: &mut Fields<'_>, notes: &mut Vec<Note>) -> Option<ObjectSelector> {
    let is_set = patch.has("target");
    let mut target = patch.mapping("target");
    let selector = selector(&mut target);
    target.finish(notes);
    is_set.then_some(selector)
}

/// What an object fulfils.
pub fn selector(target: &mut Fields<'_>) -> ObjectSelector {
    let mut text = |name| target.text(name).unwrap_or_default();
    ObjectSelector {
        group: text("group"),
        version: text("version"),
        kind: text("kind"),
        name: text("name"),
        namespace: text("namespace"),
        label_selector: text("labelSelector"),
        annotation_selector: text("annotationSelector"),
        ..ObjectSelector::default()
    }
}

fn images(kustomize: &mut Fields<'_>, notes: &mut Vec<Note>) -> Vec<KustomizeImage> {
    let mut images = Vec::new();
    for mut entry in kustomize.list("images") {
        let mut text = |name| entry.text(name).unwrap_or_default();
        images.push(KustomizeImage {
            name: text("name"),
            new_name: text("newName"),
            new_tag: text("newTag"),
            digest: text("digest"),
            ..KustomizeImage::default()
        });
        entry.finish(notes);
    }
    images
}
