//! Merges the options of a target into those of a Bundle.
//!
//! | options | rule |
//! |---|---|
//! | `defaultNamespace`, `namespace`, `serviceAccount` | the target's if set; `-` clears |
//! | `kustomize.dir`, `helm.repo`, `chart`, `version`, `releaseName` | the target's if set |
//! | `helm.timeoutSeconds` | the target's if positive; a negative one clears |
//! | `helm.values` | deep merge; lists are replaced |
//! | `helm.templateValues` | merged by name |
//! | `helm.valuesFrom`, `diff.comparePatches`, `downstreamResources`, `lifecycle.dependsOn` | the target's entry replaces the one for the same object, or is appended |
//! | `yaml.overlays` | the target's are appended |
//! | `helm.force`, `atomic`, `takeOwnership`, `disablePreProcess`, `waitForJobs`, `disableDNS`, `keepResources` | true if either is true |
//! | `forceSyncGeneration` | the target's if positive |
//! | `correctDrift`, each other field of `lifecycle` | the target's if set |
//! | fields that helmops does not know, also in `helm`, `diff`, `yaml` and `kustomize` | the target's if set |
//! | all others | the Bundle's; the target's have no effect, as in Fleet |

use std::collections::{BTreeMap, HashSet};

use go_formats::strvals;
use helmops_api::{
    BundleDeploymentOptions, HelmOptions, Lifecycle,
    diff::{ComparePatch, DiffOptions},
    free_form::FreeForm,
    helm::{KeySelector, ValuesFrom},
    options::{DownstreamResource, KustomizeOptions, YamlOptions},
};
use serde_json::Value;

/// Merges the options of a target into those of a Bundle.
pub fn merge(base: &BundleDeploymentOptions, own: &BundleDeploymentOptions) -> BundleDeploymentOptions {
    let mut merged = combine(base, own);
    for (merged, own) in [
        (&mut merged.default_namespace, &own.default_namespace),
        (&mut merged.namespace, &own.namespace),
        (&mut merged.service_account, &own.service_account),
    ] {
        if own == "-" {
            merged.clear();
        }
    }
    merged
}

/// Merges the options of two targets. A `-` is kept, so that it still clears the field of the Bundle.
pub fn combine(base: &BundleDeploymentOptions, own: &BundleDeploymentOptions) -> BundleDeploymentOptions {
    let mut merged = base.clone();
    text(&mut merged.default_namespace, &own.default_namespace);
    text(&mut merged.namespace, &own.namespace);
    text(&mut merged.service_account, &own.service_account);
    if let Some(own) = &own.helm {
        helm(merged.helm.get_or_insert_default(), own);
    }
    if let Some(KustomizeOptions { dir, unknown }) = &own.kustomize {
        let merged = merged.kustomize.get_or_insert_default();
        text(&mut merged.dir, dir);
        merged.unknown.add(unknown);
    }
    if let Some(DiffOptions {
        compare_patches,
        unknown,
    }) = &own.diff
    {
        let merged = merged.diff.get_or_insert_default();
        by_key(&mut merged.compare_patches, compare_patches, |patch| {
            Some(patch_key(patch))
        });
        merged.unknown.add(unknown);
    }
    if let Some(YamlOptions { overlays, unknown }) = &own.yaml {
        let merged = merged.yaml.get_or_insert_default();
        merged.overlays.extend_from_slice(overlays);
        merged.unknown.add(unknown);
    }
    if own.force_sync_generation > 0 {
        merged.force_sync_generation = own.force_sync_generation;
    }
    merged.keep_resources |= own.keep_resources;
    if own.correct_drift.is_some() {
        merged.correct_drift.clone_from(&own.correct_drift);
    }
    if let Some(own) = &own.lifecycle {
        lifecycle(merged.lifecycle.get_or_insert_default(), own);
    }
    by_key(
        &mut merged.downstream_resources,
        &own.downstream_resources,
        |resource| Some(resource_key(resource)),
    );
    merged.unknown.add(&own.unknown);
    merged
}

fn helm(merged: &mut HelmOptions, own: &HelmOptions) {
    match own.timeout_seconds {
        0 => {}
        seconds => merged.timeout_seconds = seconds.max(0),
    }
    if let Some(own) = &own.values {
        merged.values = Some(match &merged.values {
            Some(base) => merged_values(base, own),
            None => own.clone(),
        });
    }
    for (key, value) in &own.template_values {
        merged.template_values.insert(key.clone(), value.clone());
    }
    by_key(&mut merged.values_from, &own.values_from, source_key);
    text(&mut merged.repo, &own.repo);
    text(&mut merged.chart, &own.chart);
    text(&mut merged.version, &own.version);
    text(&mut merged.release_name, &own.release_name);
    merged.force |= own.force;
    merged.atomic |= own.atomic;
    merged.take_ownership |= own.take_ownership;
    merged.disable_pre_process |= own.disable_pre_process;
    merged.wait_for_jobs |= own.wait_for_jobs;
    merged.disable_dns |= own.disable_dns;
    merged.unknown.add(&own.unknown);
}

fn lifecycle(merged: &mut Lifecycle, own: &Lifecycle) {
    part(&mut merged.install, own.install.as_ref());
    part(&mut merged.upgrade, own.upgrade.as_ref());
    part(&mut merged.rollback, own.rollback.as_ref());
    part(&mut merged.test, own.test.as_ref());
    part(&mut merged.uninstall, own.uninstall.as_ref());
    part(&mut merged.wait, own.wait.as_ref());
    part(&mut merged.drift, own.drift.as_ref());
    part(&mut merged.suspend, own.suspend.as_ref());
    part(&mut merged.requests, own.requests.as_ref());
    part(&mut merged.common_metadata, own.common_metadata.as_ref());
    text(&mut merged.on_delete, &own.on_delete);
    text(&mut merged.storage_namespace, &own.storage_namespace);
    text(&mut merged.values_from_policy, &own.values_from_policy);
    text(&mut merged.post_render_strategy, &own.post_render_strategy);
    merged.ignore_missing_values_files |= own.ignore_missing_values_files;
    list(&mut merged.post_renderers, &own.post_renderers);
    list(&mut merged.values_from, &own.values_from);
    by_key(&mut merged.depends_on, &own.depends_on, |dependency| {
        Some(dependency.key("").join("|"))
    });
    merged.unknown.add(&own.unknown);
}

fn part<T: Clone>(merged: &mut Option<T>, own: Option<&T>) {
    if let Some(own) = own {
        *merged = Some(own.clone());
    }
}

fn list<T: Clone>(merged: &mut Vec<T>, own: &[T]) {
    if !own.is_empty() {
        *merged = own.to_vec();
    }
}

fn text(merged: &mut String, own: &String) {
    if !own.is_empty() {
        merged.clone_from(own);
    }
}

fn merged_values(base: &FreeForm, own: &FreeForm) -> FreeForm {
    match (base.to_value(), own.to_value()) {
        (Ok(Value::Object(mut base)), Ok(Value::Object(own))) => {
            strvals::merge(&mut base, own);
            FreeForm::from(&Value::Object(base))
        }
        (Ok(base), Ok(Value::Null)) => FreeForm::from(&base),
        (Ok(_), Ok(own)) => FreeForm::from(&own),
        // Values that nest too deeply are kept, and rejected when the values of a cluster are computed.
        (Err(_), _) => base.clone(),
        (_, Err(_)) => own.clone(),
    }
}

/// Merges lists by a key; items without a key never replace another item.
fn by_key<T: Clone>(merged: &mut Vec<T>, own: &[T], key: impl Fn(&T) -> Option<String>) {
    // If two items of the Bundle have the same key, the later one is replaced.
    let mut positions: BTreeMap<String, usize> = merged
        .iter()
        .enumerate()
        .filter_map(|(index, one)| Some((key(one)?, index)))
        .collect();
    let mut merged_keys = HashSet::new();
    for one in own {
        if let Some(key) = key(one) {
            let position = positions.remove(&key);
            // If two items of the target have the same key, the first one is used.
            if !merged_keys.insert(key) {
                continue;
            }
            if let Some(existing) = position.and_then(|index| merged.get_mut(index)) {
                *existing = one.clone();
                continue;
            }
        }
        merged.push(one.clone());
    }
}

fn patch_key(patch: &ComparePatch) -> String {
    [&*patch.api_version, &patch.kind, &patch.namespace, &patch.name].join("|")
}

fn resource_key(resource: &DownstreamResource) -> String {
    format!("{}|{}", resource.kind.to_lowercase(), resource.name)
}

fn source_key(source: &ValuesFrom) -> Option<String> {
    let key = |kind: &str, one: &KeySelector| [kind, &one.namespace, &one.name, &one.key].join("|");
    match (&source.config_map_key_ref, &source.secret_key_ref) {
        (Some(config_map), _) => Some(key("configmap", config_map)),
        (None, Some(secret)) => Some(key("secret", secret)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
