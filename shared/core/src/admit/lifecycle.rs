//! The life cycle of releases: `spec.lifecycle` and that of each target.
//!
//! Each block is checked by itself (`policies`, `expressions`, `dependencies`, `drift`, `values`, `post_render`). What contradicts the options of Helm or another part is checked on
//! the merged options of each target (`contradictions`), because a target inherits what it does not set.

mod contradictions;
mod dependencies;
mod drift;
mod expressions;
mod policies;
mod post_render;
mod selector;
mod values;

use helmops_api::{BundleDeploymentOptions, HelmOp, HelmOpSpec};
use helmops_model::{
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, names},
};

use self::expressions::Expressions;
use super::options::check_name;

const REASON: Reason = Reason::InvalidLifecycle;

/// Checks the life cycle of a HelmOp and of its targets.
pub fn check(errors: &mut FieldErrors, root: &Path<'_>, helmop: &HelmOp) {
    let spec = &helmop.spec.bundle;
    let mut checks = Checks {
        helmop,
        expressions: Expressions::default(),
    };
    checks.run(errors, root, &spec.options);
    let path = root.field("targets");
    for (index, target) in spec.targets.iter().enumerate() {
        checks.run(errors, &path.index(index), &target.options);
    }
    checks.expressions.check_total(errors, &root.field("lifecycle"));
    contradictions::check(errors, root, spec);
}

/// What the checks of all blocks share.
struct Checks<'h> {
    helmop: &'h HelmOp,
    expressions: Expressions<'h>,
}

impl<'h> Checks<'h> {
    fn run(&mut self, errors: &mut FieldErrors, path: &Path<'_>, options: &'h BundleDeploymentOptions) {
        let Some(lifecycle) = &options.lifecycle else {
            return;
        };
        let path = path.field("lifecycle");
        policies::check(errors, &path, lifecycle);
        if let Some(wait) = &lifecycle.wait {
            let path = path.field("wait");
            self.expressions
                .check_wait(errors, &path.field("expressions"), wait);
        }
        let dependencies = path.field("dependsOn");
        dependencies::check(
            errors,
            &dependencies,
            self.helmop,
            lifecycle,
            &mut self.expressions,
        );
        if let Some(policy) = &lifecycle.drift {
            drift::check(errors, &path.field("drift"), policy);
        }
        values::check(errors, &path, lifecycle);
        post_render::check(errors, &path, lifecycle);
        check_name(
            errors,
            &path.field("storageNamespace"),
            &lifecycle.storage_namespace,
            names::namespace,
        );
        one_of(
            errors,
            &path.field("onDelete"),
            &lifecycle.on_delete,
            &["Uninstall", "Keep"],
        );
    }
}

/// Checks a field with a closed list of values; it may be empty.
fn one_of(errors: &mut FieldErrors, path: &Path<'_>, value: &str, supported: &[&str]) {
    if !value.is_empty() && !supported.contains(&value) {
        let detail = format!("supported values: {}", supported.join(", "));
        errors.add(path, REASON, ErrorType::NotSupported, value, detail);
    }
}

/// Settings that are valid but have no effect.
pub fn warnings(spec: &HelmOpSpec) -> impl Iterator<Item = String> {
    let own = ("spec".to_owned(), &spec.bundle.options);
    let targets = spec.bundle.targets.iter().enumerate();
    let targets = targets.map(|(index, target)| (format!("spec.targets[{index}]"), &*target.options));
    std::iter::once(own).chain(targets).flat_map(|(path, options)| {
        let lifecycle = options.lifecycle.as_deref();
        lifecycle
            .map(|lifecycle| policies::warnings(&format!("{path}.lifecycle"), lifecycle))
            .unwrap_or_default()
    })
}

#[cfg(test)]
mod tests;
