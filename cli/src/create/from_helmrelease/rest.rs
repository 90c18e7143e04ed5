//! All other fields of a HelmRelease.

use crate::create::{draft::Draft, note::Loss, objects::fields::Fields};

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
