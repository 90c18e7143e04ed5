//! Size limits of a life cycle.

use helmops_api::{
    lifecycle::{
        CommonMetadata, Dependency, DriftPolicy, KustomizeChanges, Lifecycle, ObjectSelector, PostRenderer,
        TestPolicy, ValuesReference, WaitPolicy,
    },
    limits,
};
use helmops_model::validation::{FieldErrors, Path};

use super::{duration, entries, length, list};

/// Checks counts and lengths of a life cycle.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, lifecycle: &Lifecycle) {
    for (field, policy) in [("install", &lifecycle.install), ("upgrade", &lifecycle.upgrade)] {
        let Some(policy) = policy else { continue };
        let path = path.field(field);
        duration(
            errors,
            &path.field("retryInterval"),
            policy.retry_interval.as_deref(),
        );
        duration(errors, &path.field("timeout"), policy.timeout.as_deref());
    }
    if let Some(rollback) = &lifecycle.rollback {
        let path = path.field("rollback");
        duration(errors, &path.field("timeout"), rollback.timeout.as_deref());
    }
    if let Some(test) = &lifecycle.test {
        check_test(errors, &path.field("test"), test);
    }
    if let Some(uninstall) = &lifecycle.uninstall {
        let path = path.field("uninstall");
        duration(errors, &path.field("timeout"), uninstall.timeout.as_deref());
    }
    if let Some(wait) = &lifecycle.wait {
        check_wait(errors, &path.field("wait"), wait);
    }
    let dependencies = path.field("dependsOn");
    if list(errors, &dependencies, &lifecycle.depends_on, limits::SHORT_LIST) {
        for (index, dependency) in lifecycle.depends_on.iter().enumerate() {
            check_dependency(errors, &dependencies.index(index), dependency);
        }
    }
    if let Some(drift) = &lifecycle.drift {
        check_drift(errors, &path.field("drift"), drift);
    }
    length(
        errors,
        &path.field("storageNamespace"),
        &lifecycle.storage_namespace,
        limits::LABEL,
    );
    check_values(errors, &path.field("valuesFrom"), &lifecycle.values_from);
    check_post_renderers(errors, &path.field("postRenderers"), &lifecycle.post_renderers);
    if let Some(CommonMetadata {
        labels, annotations, ..
    }) = &lifecycle.common_metadata
    {
        let path = path.field("commonMetadata");
        for (field, map) in [("labels", labels), ("annotations", annotations)] {
            entries(errors, &path.field(field), map.len(), limits::SHORT_LIST);
        }
    }
}

fn check_dependency(errors: &mut FieldErrors, path: &Path<'_>, dependency: &Dependency) {
    for (field, text, max) in [
        ("name", &dependency.name, limits::NAME),
        ("apiVersion", &dependency.api_version, limits::NAME),
        ("kind", &dependency.kind, limits::NAME),
        ("ready", &dependency.ready, limits::EXPRESSION),
    ] {
        length(errors, &path.field(field), text, max);
    }
}

fn check_values(errors: &mut FieldErrors, path: &Path<'_>, references: &[ValuesReference]) {
    if !list(errors, path, references, limits::SHORT_LIST) {
        return;
    }
    for (index, reference) in references.iter().enumerate() {
        let path = path.index(index);
        length(errors, &path.field("name"), &reference.name, limits::NAME);
        length(
            errors,
            &path.field("valuesKey"),
            &reference.values_key,
            limits::NAME,
        );
        length(
            errors,
            &path.field("targetPath"),
            &reference.target_path,
            limits::TARGET_PATH,
        );
    }
}

fn check_post_renderers(errors: &mut FieldErrors, path: &Path<'_>, renderers: &[PostRenderer]) {
    if !list(errors, path, renderers, limits::POST_RENDERERS) {
        return;
    }
    for (index, renderer) in renderers.iter().enumerate() {
        if let Some(changes) = &renderer.kustomize {
            let path = path.index(index);
            check_kustomize(errors, &path.field("kustomize"), changes);
        }
    }
}

fn check_kustomize(errors: &mut FieldErrors, path: &Path<'_>, changes: &KustomizeChanges) {
    let patches = path.field("patches");
    if list(errors, &patches, &changes.patches, limits::SHORT_LIST) {
        for (index, patch) in changes.patches.iter().enumerate() {
            let path = patches.index(index);
            length(errors, &path.field("patch"), &patch.patch, limits::PATCH);
            if let Some(target) = &patch.target {
                check_selector(errors, &path.field("target"), target);
            }
        }
    }
    let images = path.field("images");
    if list(errors, &images, &changes.images, limits::SHORT_LIST) {
        for (index, image) in changes.images.iter().enumerate() {
            let path = images.index(index);
            for (field, text, max) in [
                ("name", &image.name, limits::URL),
                ("newName", &image.new_name, limits::URL),
                ("newTag", &image.new_tag, limits::NAME),
                ("digest", &image.digest, limits::NAME),
            ] {
                length(errors, &path.field(field), text, max);
            }
        }
    }
}

fn check_test(errors: &mut FieldErrors, path: &Path<'_>, test: &TestPolicy) {
    duration(errors, &path.field("timeout"), test.timeout.as_deref());
    let path = path.field("filters");
    if list(errors, &path, &test.filters, limits::SHORT_LIST) {
        for (index, filter) in test.filters.iter().enumerate() {
            length(
                errors,
                &path.index(index).field("name"),
                &filter.name,
                limits::NAME,
            );
        }
    }
}

fn check_wait(errors: &mut FieldErrors, path: &Path<'_>, wait: &WaitPolicy) {
    duration(errors, &path.field("timeout"), wait.timeout.as_deref());
    let path = path.field("expressions");
    if !list(errors, &path, &wait.expressions, limits::EXPRESSIONS) {
        return;
    }
    for (index, of) in wait.expressions.iter().enumerate() {
        let path = path.index(index);
        length(errors, &path.field("apiVersion"), &of.api_version, limits::NAME);
        length(errors, &path.field("kind"), &of.kind, limits::NAME);
        for (field, text) in [
            ("failed", &of.failed),
            ("inProgress", &of.in_progress),
            ("current", &of.current),
        ] {
            length(errors, &path.field(field), text, limits::EXPRESSION);
        }
    }
}

fn check_drift(errors: &mut FieldErrors, path: &Path<'_>, drift: &DriftPolicy) {
    let path = path.field("ignore");
    if !list(errors, &path, &drift.ignore, limits::SHORT_LIST) {
        return;
    }
    for (index, ignore) in drift.ignore.iter().enumerate() {
        let path = path.index(index);
        let pointers = path.field("paths");
        if list(errors, &pointers, &ignore.paths, limits::SHORT_LIST) {
            for (index, pointer) in ignore.paths.iter().enumerate() {
                length(errors, &pointers.index(index), pointer, limits::PATH);
            }
        }
        if let Some(target) = &ignore.target {
            check_selector(errors, &path.field("target"), target);
        }
    }
}

fn check_selector(errors: &mut FieldErrors, path: &Path<'_>, target: &ObjectSelector) {
    for (field, text, max) in [
        ("group", &target.group, limits::NAME),
        ("version", &target.version, limits::NAME),
        ("kind", &target.kind, limits::NAME),
        ("name", &target.name, limits::NAME),
        ("namespace", &target.namespace, limits::NAME),
        ("labelSelector", &target.label_selector, limits::SELECTOR_TEXT),
        (
            "annotationSelector",
            &target.annotation_selector,
            limits::SELECTOR_TEXT,
        ),
    ] {
        length(errors, &path.field(field), text, max);
    }
}
