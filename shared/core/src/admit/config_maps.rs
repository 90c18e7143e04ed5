//! Manifests in ConfigMaps: `spec.chartSource.configMaps`.

use std::collections::BTreeSet;

use helmops_api::{HelmOpSpec, notifications::LocalReference};
use helmops_model::{
    chart::{
        config_maps::ConfigMapFiles,
        request::{PackedRequest, PackedSource},
    },
    reason::Reason,
    validation::{FieldErrors, Path, names},
};

use super::{options, packed};

/// Checks the ConfigMaps, in the field `chartSource`.
pub fn check(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    all: &[LocalReference],
    has_manifests: bool,
) -> PackedRequest {
    if !has_manifests {
        let detail = "keys of ConfigMaps are files without folders, which no chart can consist of; add manifests: {} to deploy them as manifests";
        errors.required(&path.field("manifests"), Reason::HelmRequired, detail);
    }
    let list = path.field("configMaps");
    let mut seen = BTreeSet::new();
    for (index, reference) in all.iter().enumerate() {
        let entry = list.index(index);
        let (path, name) = (entry.field("name"), &*reference.name);
        if name.is_empty() {
            errors.required(
                &path,
                Reason::InvalidName,
                "name the ConfigMap, or remove the entry",
            );
        }
        options::check_name(errors, &path, name, names::subdomain);
        if !seen.insert(name) {
            let detail = "is in the list twice; remove one of both";
            errors.invalid(&path, Reason::InvalidName, name, detail);
        }
    }
    let files = ConfigMapFiles {
        names: all.iter().map(|reference| reference.name.clone()).collect(),
    };
    PackedRequest {
        repo: files.identity(),
        secret: String::new(),
        source: PackedSource::ConfigMaps(files),
    }
}

/// What is valid but questionable.
pub fn warnings(spec: &HelmOpSpec) -> impl Iterator<Item = String> {
    let useless = packed::is_polled(spec).then(|| {
        "spec.pollingInterval: has no effect, because each change of the ConfigMaps is released when it is made; remove it".to_owned()
    });
    useless.into_iter()
}
