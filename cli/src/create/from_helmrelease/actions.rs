//! How Helm installs, upgrades and rolls back.

use helmops_api::lifecycle::{ActionPolicy, RollbackPolicy};

use crate::create::{
    draft::Draft,
    note::{Gap, Loss, Note},
    objects::fields::Fields,
};

const ENABLED: &str = "enabled";
const DISABLED: &str = "disabled";
const AUTO: &str = "auto";
const ROLLBACK: &str = "rollback";

/// Converts the fields of `install` and `upgrade` that are about Helm.
pub fn deployment<'d>(
    (install, of_install): (&mut Fields<'d>, &mut ActionPolicy),
    (upgrade, of_upgrade): (&mut Fields<'d>, &mut ActionPolicy),
    draft: &mut Draft,
) {
    if install.flag("createNamespace") == Some(false) {
        draft.helmop.spec.bundle.options.create_namespace = Some(false);
    }
    let notes = &mut draft.notes;
    let server_side = |is_enabled| if is_enabled { ENABLED } else { DISABLED }.to_owned();
    of_install.server_side_apply = install
        .flag("serverSideApply")
        .map(server_side)
        .unwrap_or_default();
    // An uninstalled name is always used again.
    install.drop("replace");
    of_upgrade.server_side_apply = upgrade.text("serverSideApply").unwrap_or_default();
    of_upgrade.force = forced(upgrade, &of_upgrade.server_side_apply, notes);
    of_upgrade.cleanup_on_fail = upgrade.flag("cleanupOnFail").unwrap_or_default();
    for (fields, policy) in [(&mut *install, of_install), (&mut *upgrade, of_upgrade)] {
        policy.timeout = fields.text("timeout");
        policy.disable_wait = fields.flag("disableWait").unwrap_or_default();
        policy.disable_hooks = fields.flag("disableHooks").unwrap_or_default();
        policy.disable_schema_validation = fields.flag("disableSchemaValidation").filter(|flag| *flag);
        // It is always disabled: the API server validates more.
        fields.drop("disableOpenAPIValidation");
        if fields.flag("disableTakeOwnership") == Some(true) {
            policy.take_ownership = Some(false);
        }
    }
    if upgrade.flag("preserveValues") == Some(true) {
        let text =
            "values of the revision before are never kept; write all of them into values (helm get values)";
        notes.push(upgrade.refusal("preserveValues", Gap::Field(Loss::PreserveValues), text));
    }
    upgrade.lost(
        "chartNameChangeStrategy",
        "a chart with another name is always an upgrade of the release",
        notes,
    );
}

/// Converts `rollback`. `timeout` is that of the HelmRelease.
pub fn rollback(
    mut fields: Fields<'_>,
    upgrade: &ActionPolicy,
    timeout: Option<&str>,
    notes: &mut Vec<Note>,
) -> Option<RollbackPolicy> {
    let server_side_apply = fields.text("serverSideApply").unwrap_or_default();
    let mut policy = RollbackPolicy {
        timeout: fields.text("timeout"),
        disable_hooks: fields.flag("disableHooks").unwrap_or_default(),
        force: forced(&mut fields, &server_side_apply, notes),
        server_side_apply,
        cleanup_on_fail: fields.flag("cleanupOnFail").unwrap_or_default(),
        ..RollbackPolicy::default()
    };
    // What is restored was ready before, so that nothing is awaited; the other one has no effect in Flux.
    for name in ["disableWait", "disableWaitForJobs", "recreate"] {
        fields.drop(name);
    }
    fields.finish(notes);
    if upgrade.remediation == ROLLBACK {
        inherit_nothing(&mut policy, upgrade, timeout);
    }
    (policy != RollbackPolicy::default()).then_some(policy)
}

/// Writes the defaults of Flux where a HelmOp without the field rolls back as it upgrades.
fn inherit_nothing(policy: &mut RollbackPolicy, upgrade: &ActionPolicy, timeout: Option<&str>) {
    if policy.timeout.is_none() && upgrade.timeout.is_some() {
        policy.timeout = timeout.map(str::to_owned);
    }
    if policy.server_side_apply.is_empty() && !upgrade.server_side_apply.is_empty() {
        AUTO.clone_into(&mut policy.server_side_apply);
    }
    if policy.force.is_none() && upgrade.force == Some(true) {
        policy.force = Some(false);
    }
}

/// Whether objects are replaced. Flux ignores that with server-side apply.
fn forced(fields: &mut Fields<'_>, server_side: &str, notes: &mut Vec<Note>) -> Option<bool> {
    if fields.flag("force") != Some(true) {
        return None;
    }
    if server_side == DISABLED {
        return Some(true);
    }
    let text = "Flux replaces no objects with server-side apply, its default, so it is not set; with serverSideApply: disabled it is";
    notes.push(fields.note("force", text));
    None
}
