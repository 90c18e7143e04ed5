//! Which changes of objects are drift.

use helmops_api::lifecycle::{DriftIgnore, DriftPolicy};
use helmops_model::validation::{FieldErrors, Path};

use super::{REASON, one_of, selector};

pub fn check(errors: &mut FieldErrors, path: &Path<'_>, policy: &DriftPolicy) {
    one_of(
        errors,
        &path.field("mode"),
        &policy.mode,
        &["enabled", "warn", "disabled"],
    );
    let path = path.field("ignore");
    for (index, ignore) in policy.ignore.iter().enumerate() {
        check_ignore(errors, &path.index(index), ignore);
    }
}

fn check_ignore(errors: &mut FieldErrors, path: &Path<'_>, ignore: &DriftIgnore) {
    let paths = path.field("paths");
    if ignore.paths.is_empty() {
        let detail = "list the fields to ignore, such as /spec/replicas; \"\" stands for the whole object";
        errors.required(&paths, REASON, detail);
    }
    for (index, pointer) in ignore.paths.iter().enumerate() {
        if let Err(problem) = json_pointer(pointer) {
            errors.invalid(&paths.index(index), REASON, pointer, problem);
        }
    }
    if let Some(target) = &ignore.target {
        selector::check(errors, &path.field("target"), target);
    }
}

fn json_pointer(pointer: &str) -> Result<(), &'static str> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err("not a JSON pointer (RFC 6901): it starts with a slash, such as /spec/replicas");
    }
    let mut escapes = pointer.split('~').skip(1);
    if escapes.all(|rest| rest.starts_with(['0', '1'])) {
        Ok(())
    } else {
        Err("not a JSON pointer (RFC 6901): write ~0 for ~ and ~1 for / in the name of a field")
    }
}
