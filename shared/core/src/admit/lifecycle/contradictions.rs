//! Contradictions between fields, on the options as they apply to the clusters of a target.

use helmops_api::{
    BundleDeploymentOptions, BundleSpec, Lifecycle,
    lifecycle::{ActionPolicy, RollbackPolicy},
};
use helmops_model::validation::{FieldErrors, Path};

use super::{REASON, policies::ENABLED};

const NOT_REPLACED_BY_HELM: &str = "helm.force and correctDrift.force replace objects, and the API server merges them with \
                                    serverSideApply: enabled; remove one of them, or set lifecycle.install.force, lifecycle.upgrade.force and \
                                    lifecycle.rollback.force to false where the API server merges objects";

/// Two fields that contradict each other. The first one is reported for the HelmOp; for a target, the first one that it sets.
struct Contradiction {
    fields: [&'static str; 2],
    value: String,
    detail: &'static str,
}

/// Checks the HelmOp, and for each target what its own fields add to it.
pub fn check(errors: &mut FieldErrors, root: &Path<'_>, spec: &BundleSpec) {
    let of_spec = find(Merged {
        base: &spec.options,
        own: None,
    });
    for Contradiction {
        fields: [field, _],
        value,
        detail,
    } in &of_spec
    {
        add(errors, root, field, value, detail);
    }
    let path = root.field("targets");
    for (index, target) in spec.targets.iter().enumerate() {
        let own = &*target.options;
        let found = find(Merged {
            base: &spec.options,
            own: Some(own),
        });
        let path = path.index(index);
        for Contradiction {
            fields,
            value,
            detail,
        } in found
        {
            let is_known = of_spec.iter().any(|known| known.fields == fields);
            let own_field = fields.into_iter().find(|field| sets(own, field));
            if let (false, Some(field)) = (is_known, own_field) {
                add(errors, &path, field, &value, detail);
            }
        }
    }
}

fn add(errors: &mut FieldErrors, path: &Path<'_>, field: &str, value: &str, detail: &str) {
    let mut steps = field.split('.');
    match (steps.next(), steps.next(), steps.next()) {
        (Some(first), None, _) => errors.invalid(&path.field(first), REASON, value, detail),
        (Some(first), Some(second), None) => {
            errors.invalid(&path.field(first).field(second), REASON, value, detail);
        }
        (Some(first), Some(second), Some(third)) => {
            errors.invalid(
                &path.field(first).field(second).field(third),
                REASON,
                value,
                detail,
            );
        }
        (None, ..) => {}
    }
}

/// The options of a target: what it sets itself, and what it inherits, as `targeting` merges them.
#[derive(Clone, Copy)]
struct Merged<'a> {
    base: &'a BundleDeploymentOptions,
    own: Option<&'a BundleDeploymentOptions>,
}

impl<'a> Merged<'a> {
    fn both(self) -> impl Iterator<Item = &'a BundleDeploymentOptions> {
        self.own.into_iter().chain([self.base])
    }

    /// A part of the life cycle: that of the target, or else the inherited one.
    fn part<T>(self, part: impl Fn(&'a Lifecycle) -> Option<&'a T>) -> Option<&'a T> {
        self.both()
            .filter_map(|options| options.lifecycle.as_deref())
            .find_map(part)
    }

    fn is_atomic(self) -> bool {
        self.both()
            .filter_map(|options| options.helm.as_ref())
            .any(|helm| helm.atomic)
    }

    /// The option that makes all actions replace objects, if there is one.
    fn force(self) -> Option<&'static str> {
        let is_helm = self
            .both()
            .filter_map(|options| options.helm.as_ref())
            .any(|helm| helm.force);
        if is_helm {
            return Some("helm.force");
        }
        let mut corrections = self.both().filter_map(|options| options.correct_drift.as_ref());
        let is_correction = corrections.next().is_some_and(|drift| drift.force);
        is_correction.then_some("correctDrift.force")
    }

    fn keeps_resources(self) -> bool {
        self.both().any(|options| options.keep_resources)
    }

    fn corrects_drift(self) -> bool {
        let mut policies = self.both().filter_map(|options| options.correct_drift.as_ref());
        policies.next().is_some_and(|policy| policy.enabled)
    }

    fn on_delete(self) -> &'a str {
        self.part(|lifecycle| Some(&lifecycle.on_delete).filter(|value| !value.is_empty()))
            .map_or("", |value| value)
    }
}

/// Whether options set a field themselves.
fn sets(options: &BundleDeploymentOptions, field: &str) -> bool {
    let helm = options.helm.as_ref();
    let lifecycle = options.lifecycle.as_deref();
    match field {
        "helm.atomic" => helm.is_some_and(|helm| helm.atomic),
        "helm.force" => helm.is_some_and(|helm| helm.force),
        "correctDrift.force" => options.correct_drift.as_ref().is_some_and(|drift| drift.force),
        "keepResources" => options.keep_resources,
        "correctDrift.enabled" => options.correct_drift.is_some(),
        "lifecycle.install" => lifecycle.is_some_and(|lifecycle| lifecycle.install.is_some()),
        "lifecycle.upgrade" => lifecycle.is_some_and(|lifecycle| lifecycle.upgrade.is_some()),
        "lifecycle.install.serverSideApply" => lifecycle.is_some_and(|lifecycle| lifecycle.install.is_some()),
        "lifecycle.upgrade.serverSideApply" => lifecycle.is_some_and(|lifecycle| lifecycle.upgrade.is_some()),
        "lifecycle.rollback.serverSideApply" => {
            lifecycle.is_some_and(|lifecycle| lifecycle.rollback.is_some())
        }
        "lifecycle.wait" => lifecycle.is_some_and(|lifecycle| lifecycle.wait.is_some()),
        "lifecycle.drift.mode" => lifecycle.is_some_and(|lifecycle| lifecycle.drift.is_some()),
        "lifecycle.onDelete" => lifecycle.is_some_and(|lifecycle| !lifecycle.on_delete.is_empty()),
        _ => false,
    }
}

fn find(merged: Merged<'_>) -> Vec<Contradiction> {
    let mut found = Vec::new();
    if merged.is_atomic() {
        for (is_set, field) in [
            (
                merged.part(|lifecycle| lifecycle.install.as_ref()).is_some(),
                "lifecycle.install",
            ),
            (
                merged.part(|lifecycle| lifecycle.upgrade.as_ref()).is_some(),
                "lifecycle.upgrade",
            ),
            (
                merged.part(|lifecycle| lifecycle.wait.as_ref()).is_some(),
                "lifecycle.wait",
            ),
        ] {
            if is_set {
                found.push(Contradiction {
                    fields: ["helm.atomic", field],
                    value: "true".to_owned(),
                    detail: "Helm itself waits and rolls back with helm.atomic, and lifecycle.install, upgrade and wait do it in another way; \
                             remove helm.atomic, and set lifecycle.upgrade.remediation: rollback",
                });
                // One of them is enough for the HelmOp; a target may add another one.
                if merged.own.is_none() {
                    break;
                }
            }
        }
    }
    if let Some(force) = merged.force() {
        found.extend(applied_by_server(merged, force));
    }
    if merged.keeps_resources() && merged.on_delete() == "Uninstall" {
        found.push(Contradiction {
            fields: ["lifecycle.onDelete", "keepResources"],
            value: "Uninstall".to_owned(),
            detail: "keepResources keeps the objects of a removed release; remove keepResources, or set lifecycle.onDelete: Keep",
        });
    }
    if let Some(mode) = merged
        .part(|lifecycle| lifecycle.drift.as_ref())
        .map(|drift| &*drift.mode)
        && matches!(mode, "warn" | "disabled")
        && merged.corrects_drift()
    {
        found.push(Contradiction {
            fields: ["lifecycle.drift.mode", "correctDrift.enabled"],
            value: mode.to_owned(),
            detail: "correctDrift.enabled corrects drift; remove correctDrift, or set lifecycle.drift.mode: enabled",
        });
    }
    found
}

/// The actions that `force` would make replace objects, and that are to merge them. A rollback has the `force` of upgrades.
fn applied_by_server(merged: Merged<'_>, force: &'static str) -> impl Iterator<Item = Contradiction> {
    let install = merged.part(|lifecycle| lifecycle.install.as_ref());
    let upgrade = merged.part(|lifecycle| lifecycle.upgrade.as_ref());
    let rollback = merged.part(|lifecycle| lifecycle.rollback.as_ref());
    let of_action = |policy: &ActionPolicy| (policy.server_side_apply == ENABLED, policy.force);
    let of_upgrade = upgrade.and_then(|policy| policy.force);
    let of_rollback =
        |policy: &RollbackPolicy| (policy.server_side_apply == ENABLED, policy.force.or(of_upgrade));
    let actions = [
        ("lifecycle.install.serverSideApply", install.map(of_action)),
        ("lifecycle.upgrade.serverSideApply", upgrade.map(of_action)),
        ("lifecycle.rollback.serverSideApply", rollback.map(of_rollback)),
    ];
    actions
        .into_iter()
        .filter(|(_, policy)| matches!(policy, Some((true, None))))
        .map(move |(field, _)| Contradiction {
            fields: [field, force],
            value: ENABLED.to_owned(),
            detail: NOT_REPLACED_BY_HELM,
        })
}
