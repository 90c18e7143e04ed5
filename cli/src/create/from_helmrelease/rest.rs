//! All other fields of a HelmRelease.

use super::fields::{Fields, of_both};
use crate::create::{
    draft::Draft,
    note::{Gap, Loss, Note},
};

const HOOKS: &str = "hooks always run; remove them from the chart";

/// How Helm deploys: fields of `install` and `upgrade`.
pub fn deployment<'d>(install: &mut Fields<'d>, upgrade: &mut Fields<'d>, draft: &mut Draft) {
    let options = &mut draft.helmop.spec.bundle.options;
    if install.flag("createNamespace") == Some(false) {
        options.create_namespace = Some(false);
    }
    let helm = options.helm.get_or_insert_default();
    helm.force = forced(upgrade, &mut draft.notes);
    let notes = &mut draft.notes;
    if install.flag("serverSideApply") == Some(false) {
        let text = "a new release is installed with server-side apply";
        notes.push(install.note("serverSideApply", text));
    }
    let field = "disableSchemaValidation";
    let skipped = [install.flag(field), upgrade.flag(field)].map(|flag| flag == Some(true));
    let text = "helm.skipSchemaValidation counts for installations and upgrades alike; it is not set, so values that the schema of the chart does not allow fail";
    helm.skip_schema_validation = of_both(skipped, [&*install, &*upgrade], field, text, notes);
    for fields in [&mut *install, &mut *upgrade] {
        // It is always disabled: the API server validates more.
        fields.drop("disableOpenAPIValidation");
        disabled_hooks(fields, notes);
        if fields.flag("disableTakeOwnership") == Some(true) {
            let text = "an upgrade takes over objects that belong to another release; helm.takeOwnership is needed to take over the release of Flux, and can be removed then";
            notes.push(fields.note("disableTakeOwnership", text));
        }
    }
    // An uninstalled name is always used again.
    install.drop("replace");
    if upgrade.flag("cleanupOnFail") == Some(true) {
        let text = "new objects of a failed upgrade stay until the next attempt, or until the rollback of lifecycle.upgrade.remediation";
        notes.push(upgrade.note("cleanupOnFail", text));
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

/// Whether objects are replaced. Flux ignores that with server-side apply.
fn forced(upgrade: &mut Fields<'_>, notes: &mut Vec<Note>) -> bool {
    let method = upgrade.text("serverSideApply").unwrap_or_default();
    let is_forced = upgrade.flag("force") == Some(true);
    match (&*method, is_forced) {
        ("disabled", true) => {
            let text = "helm.force replaces objects in installations too";
            notes.push(upgrade.note("force", text));
            true
        }
        (_, true) => {
            let text = "Flux replaces no objects with server-side apply, its default, so helm.force is not set; set it for a release with client-side apply";
            notes.push(upgrade.note("force", text));
            false
        }
        ("enabled" | "disabled", false) => {
            let text = "an upgrade applies objects as the revision before: with server-side apply, unless its record says otherwise";
            notes.push(upgrade.note("serverSideApply", text));
            false
        }
        (_, false) => false,
    }
}

fn disabled_hooks(fields: &mut Fields<'_>, notes: &mut Vec<Note>) {
    if fields.flag("disableHooks") == Some(true) {
        notes.push(fields.refusal("disableHooks", Gap::Field(Loss::DisableHooks), HOOKS));
    }
}

/// Converts fields of the spec that are about neither chart, values nor life cycle.
pub fn convert(spec: &mut Fields<'_>, draft: &mut Draft) {
    account(spec, draft);
    let notes = &mut draft.notes;
    spec.drop("persistentClient");
    spec.refused(
        "kubeConfig",
        Loss::KubeConfig,
        "create a Cluster for it and install an agent there (kubectl helmop cluster join), and select it with --cluster or --target-selector",
        notes,
    );
    let mut strategy = spec.mapping("waitStrategy");
    if strategy.text("name").is_some_and(|name| name != "poller") {
        notes.push(strategy.note(
            "name",
            "objects are always observed with the rules of kstatus and of Fleet",
        ));
    }
    strategy.finish(notes);
    rollback(spec.mapping("rollback"), notes);
}

fn account(spec: &mut Fields<'_>, draft: &mut Draft) {
    if let Some(account) = spec.text("serviceAccountName") {
        let text = format!(
            "ServiceAccount {account:?} has to be in the namespace of the agent on each cluster, in Flux it is in that of the HelmRelease"
        );
        draft.notes.push(spec.note("serviceAccountName", text));
        draft.helmop.spec.bundle.options.service_account = account;
    }
}

fn rollback(mut fields: Fields<'_>, notes: &mut Vec<Note>) {
    disabled_hooks(&mut fields, notes);
    fields.lost(
        "timeout",
        "the timeout of a rollback is that of the hooks, helm.timeoutSeconds",
        notes,
    );
    for name in ["disableWait", "disableWaitForJobs", "recreate"] {
        fields.drop(name);
    }
    for name in ["cleanupOnFail", "force", "serverSideApply"] {
        fields.lost(
            name,
            "a rollback has no options of its own: it applies objects as an upgrade does",
            notes,
        );
    }
    fields.finish(notes);
}
