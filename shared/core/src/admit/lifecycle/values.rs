//! References to values.

use go_formats::strvals::{self, Kind};
use helmops_api::lifecycle::{Lifecycle, ValuesReference};
use helmops_model::validation::{ErrorType, FieldErrors, Path, names};

use serde_json::Map;

use super::{REASON, one_of};
use crate::admit::options::check_name;

/// Checks the references of a block.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, lifecycle: &Lifecycle) {
    one_of(
        errors,
        &path.field("valuesFromPolicy"),
        &lifecycle.values_from_policy,
        &["Immediate", "NextRelease"],
    );
    let path = path.field("valuesFrom");
    for (index, reference) in lifecycle.values_from.iter().enumerate() {
        check_reference(errors, &path.index(index), reference);
    }
}

fn check_reference(errors: &mut FieldErrors, path: &Path<'_>, reference: &ValuesReference) {
    if !matches!(&*reference.kind, "ConfigMap" | "Secret") {
        let detail = "supported values: ConfigMap, Secret";
        errors.add(
            &path.field("kind"),
            REASON,
            ErrorType::NotSupported,
            &reference.kind,
            detail,
        );
    }
    let name = path.field("name");
    if reference.name.is_empty() {
        errors.required(
            &name,
            REASON,
            "name the ConfigMap or Secret on the target cluster",
        );
    } else {
        check_name(errors, &name, &reference.name, names::subdomain);
    }
    check_name(
        errors,
        &path.field("namespace"),
        &reference.namespace,
        names::namespace,
    );
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !reference.values_key.chars().all(is_key) {
        let detail = "a key of a ConfigMap or Secret has letters, digits, '-', '_' and '.' only";
        errors.invalid(&path.field("valuesKey"), REASON, &reference.values_key, detail);
    }
    let target = &reference.target_path;
    if let Some(problem) = target_path_problem(target) {
        errors.invalid(&path.field("targetPath"), REASON, target, problem);
    }
    if reference.literal && target.is_empty() {
        let detail = "has no effect without targetPath; set targetPath, or remove it";
        errors.invalid(&path.field("literal"), REASON, "true", detail);
    }
}

/// What is wrong with the path of a value. The characters are those that Flux allows; in brackets is the index of a list.
fn target_path_problem(path: &str) -> Option<String> {
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '\\' | '/' | '[' | ']');
    if path.is_empty() {
        return None;
    }
    if !path.chars().all(is_allowed) {
        return Some("names of values have letters, digits, '_', '-' and '/', separated by '.'; write a dot in a name as \\.".to_owned());
    }
    let mut values = Map::new();
    let set = strvals::set(&mut values, path, "x", Kind::Verbatim);
    match set {
        Err(error) => Some(format!(
            "{error}; write a path such as image.tag or ports[0].name"
        )),
        Ok(()) if values.is_empty() || path.split('.').any(str::is_empty) || path.contains("[]") => {
            Some("it starts and ends with the name of a value, such as image.tag or ports[0].name".to_owned())
        }
        Ok(()) => None,
    }
}
