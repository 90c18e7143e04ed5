//! Changes of rendered objects.

use helmops_api::lifecycle::{
    CommonMetadata, KustomizeChanges, KustomizeImage, KustomizePatch, Lifecycle, PostRenderer,
};
use helmops_model::{
    patch::Patch,
    reason::Reason,
    validation::{FieldErrors, Path, selector as label_selector},
};

use super::{REASON, one_of, selector};

/// Checks the post-renderers of a block. What depends on the objects of the chart is an error of the release.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, lifecycle: &Lifecycle) {
    one_of(
        errors,
        &path.field("postRenderStrategy"),
        &lifecycle.post_render_strategy,
        &["nohooks", "combined", "separate"],
    );
    if let Some(metadata) = &lifecycle.common_metadata {
        let path = path.field("commonMetadata");
        let (labels, annotations) = (path.field("labels"), path.field("annotations"));
        label_selector::check_labels(errors, &labels, Reason::InvalidLabel, &metadata.labels);
        label_selector::check_keys(errors, &annotations, Reason::InvalidLabel, &metadata.annotations);
        check_meaning(errors, &labels, &annotations, metadata);
    }
    let path = path.field("postRenderers");
    for (index, renderer) in lifecycle.post_renderers.iter().enumerate() {
        check_renderer(errors, &path.index(index), renderer);
    }
}

/// What would make something else of objects: records of Helm, and hooks, which Helm has found before.
fn check_meaning(
    errors: &mut FieldErrors,
    labels: &Path<'_>,
    annotations: &Path<'_>,
    metadata: &CommonMetadata,
) {
    if metadata.labels.get("owner").is_some_and(|owner| owner == "helm") {
        let detail = "makes a record of a Helm release of each Secret; use another label";
        errors.invalid(labels, REASON, "owner: helm", detail);
    }
    if let Some(key) = metadata
        .annotations
        .keys()
        .find(|key| key.starts_with("helm.sh/hook"))
    {
        let detail = "makes no hooks, since Helm has found them before; use a patch in postRenderers";
        errors.invalid(annotations, REASON, key, detail);
    }
}

fn check_renderer(errors: &mut FieldErrors, path: &Path<'_>, renderer: &PostRenderer) {
    let path = path.field("kustomize");
    let changes = renderer.kustomize.as_ref();
    let Some(changes) = changes.filter(|changes| !changes.patches.is_empty() || !changes.images.is_empty())
    else {
        errors.required(&path, REASON, "list patches or images, or remove the entry");
        return;
    };
    check_kustomize(errors, &path, changes);
}

fn check_kustomize(errors: &mut FieldErrors, path: &Path<'_>, changes: &KustomizeChanges) {
    let patches = path.field("patches");
    for (index, patch) in changes.patches.iter().enumerate() {
        check_patch(errors, &patches.index(index), patch);
    }
    let images = path.field("images");
    for (index, image) in changes.images.iter().enumerate() {
        check_image(errors, &images.index(index), image);
    }
}

fn check_patch(errors: &mut FieldErrors, path: &Path<'_>, entry: &KustomizePatch) {
    if let Some(target) = &entry.target {
        let path = path.field("target");
        selector::check(errors, &path, target);
        for (field, pattern) in [
            ("group", &target.group),
            ("version", &target.version),
            ("kind", &target.kind),
        ] {
            selector::check_pattern(errors, &path.field(field), field, pattern);
        }
    }
    let text = path.field("patch");
    match (Patch::parse(&entry.patch), &entry.target) {
        (Err(error), _) => errors.invalid(&text, REASON, &entry.patch, error.to_string()),
        (Ok(Patch::Json(_)), None) => {
            let detail = "select the objects of the JSON Patch: a list of operations names none";
            errors.required(&path.field("target"), REASON, detail);
        }
        (Ok(Patch::StrategicMerge(patches)), Some(_)) if patches.len() > 1 => {
            let detail = "has several documents, and target is for one; write each as an entry of its own";
            errors.invalid(&text, REASON, &entry.patch, detail);
        }
        (Ok(_), _) => {}
    }
}

fn check_image(errors: &mut FieldErrors, path: &Path<'_>, image: &KustomizeImage) {
    let name = path.field("name");
    // A port is before a slash.
    let last = image.name.rsplit('/').next().unwrap_or_default();
    if image.name.is_empty() {
        errors.required(
            &name,
            REASON,
            "name the image as the chart does, without tag and digest",
        );
    } else if last.contains([':', '@']) {
        let detail = "is compared with the image without tag and digest; remove them";
        errors.invalid(&name, REASON, &image.name, detail);
    }
    if image.new_name.is_empty() && image.new_tag.is_empty() && image.digest.is_empty() {
        errors.required(
            &path.field("newName"),
            REASON,
            "set newName, newTag or digest, or remove the entry",
        );
    }
    let is_digest = image
        .digest
        .split_once(':')
        .is_some_and(|(algorithm, hash)| !algorithm.is_empty() && !hash.is_empty());
    if !image.digest.is_empty() && !is_digest {
        let detail = "write the algorithm and the hash, such as sha256:5f70bf18…";
        errors.invalid(&path.field("digest"), REASON, &image.digest, detail);
    }
}
