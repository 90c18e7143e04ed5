//! `dependsOn`: HelmOps and Bundles, also of other namespaces, and objects of the cluster.

use helmops_api::{
    HelmOp,
    lifecycle::{Dependency, Lifecycle},
};
use helmops_model::validation::{FieldErrors, Path, names};

use super::{
    REASON,
    expressions::{Expressions, Variables, check_api_version, check_kind},
};
use crate::admit::options::check_name;

/// Checks the dependencies of a HelmOp in a block.
pub fn check<'h>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    helmop: &HelmOp,
    lifecycle: &'h Lifecycle,
    expressions: &mut Expressions<'h>,
) {
    let own = Own::of(helmop);
    for (index, dependency) in lifecycle.depends_on.iter().enumerate() {
        let path = path.index(index);
        let earlier = lifecycle.depends_on.get(..index).unwrap_or_default();
        check_identity(errors, &path, dependency, earlier, &own);
        let variables = if dependency.is_object() {
            Variables::OfObject
        } else {
            Variables::DepAndSelf
        };
        if !dependency.ready.is_empty() {
            expressions.check(errors, &path.field("ready"), &dependency.ready, variables);
        }
    }
}

/// The name of the HelmOp itself.
struct Own<'h> {
    namespace: &'h str,
    name: &'h str,
}

impl<'h> Own<'h> {
    fn of(helmop: &'h HelmOp) -> Self {
        Self {
            namespace: helmop.metadata.namespace.as_deref().unwrap_or_default(),
            name: helmop.metadata.name.as_deref().unwrap_or_default(),
        }
    }

    /// What an entry names. That of an object has no namespace by default: it is that of the release, which each target may set.
    fn key<'k>(&'k self, dependency: &'k Dependency) -> [&'k str; 4] {
        let namespace = if dependency.is_object() {
            ""
        } else {
            self.namespace
        };
        dependency.key(namespace)
    }
}

fn check_identity(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    dependency: &Dependency,
    earlier: &[Dependency],
    own: &Own<'_>,
) {
    let is_object = dependency.is_object();
    if is_object {
        check_api_version(errors, &path.field("apiVersion"), &dependency.api_version);
        check_kind(errors, &path.field("kind"), &dependency.kind);
    }
    check_name(
        errors,
        &path.field("namespace"),
        &dependency.namespace,
        names::namespace,
    );
    let (path, name, key) = (path.field("name"), &*dependency.name, own.key(dependency));
    if name.is_empty() {
        let detail = if is_object {
            "name the object that has to be ready first"
        } else {
            "name the HelmOp or Bundle that has to be ready first; for an object, set apiVersion and kind too"
        };
        errors.required(&path, REASON, detail);
    } else if key == ["", "", own.namespace, own.name] {
        let detail = "the HelmOp depends on itself, so it would never be deployed; remove the entry";
        errors.invalid(&path, REASON, name, detail);
    } else if earlier.iter().any(|other| own.key(other) == key) {
        let detail = if is_object {
            "an earlier entry is about the same object; combine them in one entry"
        } else {
            "an earlier entry has the same name; combine them in one entry"
        };
        errors.invalid(&path, REASON, name, detail);
    } else {
        let rule = if is_object {
            names::path_segment
        } else {
            names::subdomain
        };
        check_name(errors, &path, name, rule);
    }
}
