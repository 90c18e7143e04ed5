//! Each guarantee by itself.

use std::{borrow::Cow, collections::BTreeSet};

use helmops_api::NamespacedName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::model::{
    End, Inputs, Server, access_name, as_fleet_created, fleets_owner, is_labelled, secret, with_target,
};
use crate::targeting::{
    BlockClass, RolloutStep,
    copies::CopyRef,
    delivery::{Action, CopyWrite, ObjectVersion, Read},
    deployment,
    deployment::Observed,
};

const ALL: usize = usize::MAX;
const PROMOTE: RolloutStep = RolloutStep::Promote;
const STAGE: RolloutStep = RolloutStep::Stage;
const WEB: &str = "web";

/// What an action does, in short.
fn short(action: &Action) -> String {
    let name = |copy: &CopyRef| copy.name.name.clone();
    let copied = |write: &CopyWrite| write.copy.object.metadata().name.clone().unwrap();
    match action {
        Action::CreateCopy(write) => format!("create {}", copied(write)),
        Action::ApplyCopy(write) => format!("apply {}", copied(write)),
        Action::KeepCopy { metadata, .. } => format!("keep {}", metadata.name.as_ref().unwrap()),
        Action::SetOwners { copy, owners, .. } => format!("set {} owners of {}", owners.len(), name(copy)),
        Action::DeleteCopy { copy, .. } => format!("delete {}", name(copy)),
        Action::CreateDeployment(_) => "create deployment".to_owned(),
        Action::ReplaceDeployment(_) => "replace deployment".to_owned(),
    }
}

/// Reconciles without interruption, and returns what was done.
fn reconcile(server: &mut Server, inputs: &Inputs, name: &str, step: RolloutStep) -> Vec<String> {
    let before = server.log.len();
    assert_eq!(server.reconcile(inputs, name, step, ALL), End::Done);
    server.log[before..].iter().map(short).collect()
}

/// A server with a promoted deployment.
fn deployed(inputs: &Inputs) -> Server {
    let mut server = Server::default();
    for name in inputs.bundles.keys() {
        reconcile(&mut server, inputs, name, PROMOTE);
    }
    server
}

fn reads(server: &Server, inputs: &Inputs, name: &str, stale: &[CopyRef]) -> Vec<Read> {
    let existing = server.deployments.get(name);
    with_target(inputs, name, existing, |delivery, target| {
        let mut observed = server.cached();
        observed.stale = stale.iter().cloned().collect();
        delivery.reads(target, PROMOTE, &observed)
    })
}

#[test]
fn a_new_deployment_with_values_is_two_writes() {
    let inputs = Inputs::new(&[(WEB, 1, false, &[])]);
    let mut server = Server::default();
    assert_eq!(reads(&server, &inputs, WEB, &[]), []);
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(done, ["create web", "create deployment"]);
    assert_eq!(
        server.owners(WEB),
        [""; 0],
        "it gets an owner with its next write"
    );
}

#[test]
fn copies_exist_before_their_deployment_and_are_owned_after_it() {
    let inputs = Inputs::new(&[(WEB, 1, true, &["shared"])]);
    let mut server = Server::default();
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    let access = access_name(&inputs, WEB);
    let expected = [
        &*format!("create {access}"),
        "create shared",
        "create web",
        "create deployment",
        &*format!("apply {access}"),
        "apply shared",
    ];
    assert_eq!(done, expected);
    assert_eq!(server.owners(&access), [WEB]);
}

#[test]
fn copies_exist_before_the_deployment_is_changed_to_need_them() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &["shared"])]);
    let mut server = deployed(&inputs);
    inputs.set_bundle(WEB, 1, true, &["other"]);
    let access = access_name(&inputs, WEB);
    let staged = reconcile(&mut server, &inputs, WEB, STAGE);
    let create = format!("create {access}");
    assert_eq!(staged, [&*create, "create other", "replace deployment"]);
    let promoted = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(promoted, ["replace deployment", "delete shared"]);
}

#[test]
fn nothing_is_written_or_read_if_nothing_changed() {
    let inputs = Inputs::new(&[(WEB, 1, true, &["shared"]), ("db", 0, false, &["shared"])]);
    let mut server = deployed(&inputs);
    for name in [WEB, "db", WEB] {
        // A deployment that shares copies becomes an owner in its own reconciliation, so nothing is left for the other.
        assert_eq!(reads(&server, &inputs, name, &[]), [], "{name}");
        assert_eq!(reconcile(&mut server, &inputs, name, PROMOTE), [""; 0], "{name}");
    }
    assert_eq!(server.owners(WEB), [""; 0], "no write for an owner alone");
}

#[test]
fn the_plan_for_an_unchanged_deployment_borrows_its_spec() {
    let inputs = Inputs::new(&[(WEB, 1, true, &["shared"])]);
    let server = deployed(&inputs);
    let existing = server.deployments.get(WEB).unwrap();
    with_target(&inputs, WEB, Some(existing), |delivery, target| {
        let observed = Observed {
            is_intact: true,
            ..Observed::default()
        };
        let desired = deployment(delivery.bundle(), delivery.charts(), target, STAGE, observed).unwrap();
        assert!(matches!(desired.spec, Cow::Borrowed(_)), "cloned");
    });
}

#[test]
fn values_follow_an_existing_deployment_and_get_its_owner() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &[])]);
    let mut server = deployed(&inputs);
    inputs.set_bundle(WEB, 2, false, &[]);
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(done, ["replace deployment", "apply web"]);
    assert_eq!(server.owners(WEB), [WEB]);
    server.assert_values_of(&server.deployments[WEB]);
}

#[test]
fn staged_values_keep_those_of_the_current_deployment() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &[])]);
    let mut server = deployed(&inputs);
    inputs.set_bundle(WEB, 2, false, &[]);
    assert_eq!(
        reads(&server, &inputs, WEB, &[]),
        [],
        "promotion needs no current values"
    );
    reconcile(&mut server, &inputs, WEB, STAGE);
    let spec = &server.deployments[WEB].spec;
    assert!(!spec.waiting_for_values && spec.deployment_id != spec.staged_deployment_id);
    server.assert_values_of(&server.deployments[WEB]);
}

#[test]
fn a_deployment_waits_for_values_that_are_lost() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &[])]);
    let mut server = deployed(&inputs);
    server.remove(&secret(WEB));
    inputs.set_bundle(WEB, 2, false, &[]);
    let before = server.deployments[WEB].spec.clone();
    assert_eq!(
        reconcile(&mut server, &inputs, WEB, STAGE),
        ["replace deployment"]
    );
    let after = &server.deployments[WEB].spec;
    assert!(after.waiting_for_values && after.values_hash == before.values_hash);
    let promoted = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(promoted, ["replace deployment", "create web"]);
    assert!(!server.deployments[WEB].spec.waiting_for_values);
}

/// The cache of deployments may be stale: the Secret may have the only copy of the values of an existing deployment.
#[test]
fn a_secret_is_overwritten_for_a_new_deployment_only_after_confirmation() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &[])]);
    let mut server = deployed(&inputs);
    server.deployments.clear();
    inputs.set_bundle(WEB, 2, false, &[]);
    let deployment = Read::Deployment(NamespacedName::new("cluster-c1", WEB));
    assert_eq!(
        reads(&server, &inputs, WEB, &[]),
        std::slice::from_ref(&deployment)
    );
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(done, ["apply web", "create deployment"]);
    let stale = reads(&Server::default(), &inputs, WEB, &[secret(WEB)]);
    assert_eq!(stale, [deployment, Read::Object(secret(WEB))]);
}

#[test]
fn the_values_of_a_deleted_deployment_are_used_again() {
    let inputs = Inputs::new(&[(WEB, 1, false, &[])]);
    let mut server = deployed(&inputs);
    server.deployments.clear();
    assert_eq!(
        reconcile(&mut server, &inputs, WEB, PROMOTE),
        ["create deployment"]
    );
}

/// The garbage collector would delete a copy whose only owner does not exist any more.
#[test]
fn a_new_deployment_takes_copies_from_a_deleted_one() {
    let mut inputs = Inputs::new(&[(WEB, 1, true, &["shared"])]);
    let mut server = deployed(&inputs);
    inputs.set_bundle(WEB, 2, true, &["shared"]);
    reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(server.owners(WEB), [WEB]);
    server.deployments.clear();
    server.reconcile(&inputs, WEB, PROMOTE, 4);
    server.collect_garbage();
    server.assert_values_of(&server.deployments[WEB]);
    assert_eq!(server.copies().len(), 3);
}

#[test]
fn a_shared_resource_is_owned_by_all_deployments_that_reference_it() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &["shared"]), ("db", 0, false, &["shared"])]);
    let mut server = deployed(&inputs);
    assert_eq!(server.owners("shared"), ["db", WEB]);
    inputs.set_bundle("db", 0, false, &[]);
    let done = reconcile(&mut server, &inputs, "db", PROMOTE);
    assert_eq!(done, ["replace deployment", "set 1 owners of shared"]);
    assert_eq!(server.owners("shared"), [WEB]);
    inputs.set_bundle(WEB, 1, false, &[]);
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(done, ["replace deployment", "delete shared"]);
}

#[test]
fn a_copy_follows_its_source_and_is_repaired() {
    let mut inputs = Inputs::new(&[(WEB, 1, true, &["shared"])]);
    let mut server = deployed(&inputs);
    let access = access_name(&inputs, WEB);
    server.edit(&secret(&access));
    server.edit(&secret("shared"));
    server.edit(&secret(WEB));
    let apply = format!("apply {access}");
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(done, [&*apply, "apply shared", "apply web"]);
    inputs.set_source("shared", "Opaque", 2);
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(
        done,
        [&*apply, "apply shared", "replace deployment"],
        "the agent copies again"
    );
    inputs.set_source("shared", "example.com/keys", 2);
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    let expected = [&*apply, "delete shared", "create shared", "replace deployment"];
    assert_eq!(done, expected, "the type is immutable");
    server.remove(&secret(WEB));
    assert_eq!(reconcile(&mut server, &inputs, WEB, PROMOTE), ["create web"]);
}

/// The content is the same, so its agent need not deploy again.
#[test]
fn a_change_of_metadata_writes_no_downstream_copy() {
    let mut inputs = Inputs::new(&[(WEB, 0, false, &["shared"])]);
    let mut server = deployed(&inputs);
    inputs.set_source("other", "Opaque", 9);
    assert_eq!(reconcile(&mut server, &inputs, WEB, PROMOTE), ["keep shared"]);
    assert_eq!(reads(&server, &inputs, WEB, &[]), []);
    assert_eq!(reconcile(&mut server, &inputs, WEB, PROMOTE), [""; 0]);
}

#[test]
fn an_object_of_another_client_blocks_the_cluster() {
    let inputs = Inputs::new(&[(WEB, 1, true, &["shared"])]);
    for name in [WEB, "shared"] {
        let mut server = Server::default();
        let foreign = server.add_foreign(name, None, "Opaque", 7);
        let before = server.objects[&foreign].clone();
        let End::Blocked(blocked) = server.reconcile(&inputs, WEB, PROMOTE, ALL) else {
            panic!("{name} is overwritten");
        };
        assert_eq!(blocked.class, BlockClass::NameConflict);
        let expected = format!("has a Secret {name} that helmops does not manage");
        assert!(blocked.message.contains(&expected), "{}", blocked.message);
        assert_eq!(
            (&server.objects[&foreign], server.deployments.len()),
            (&before, 0)
        );
        let plan = server.plan(&inputs, WEB, PROMOTE, &BTreeSet::from([foreign]));
        assert_eq!(plan, Err(blocked), "no action at all");
    }
}

#[test]
fn copies_that_fleet_created_are_adopted() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &["shared"])]);
    let mut server = deployed(&inputs);
    server.deployments.get_mut(WEB).unwrap().metadata.annotations = None;
    let owner = fleets_owner(&server.deployments[WEB]);
    for object in server.objects.values_mut() {
        as_fleet_created(object);
    }
    server.remove(&secret("shared"));
    server.add_foreign("shared", Some(owner), "Opaque", 1);
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(done, ["keep shared", "replace deployment", "apply web"]);
    assert!(
        !is_labelled(&server.objects[&secret("shared")]),
        "its agent would deploy again"
    );
    assert_eq!(server.deployments[WEB].spec.downstream_resources_generation, 1);
    assert_eq!(reads(&server, &inputs, WEB, &[]), []);
    // Another deployment becomes an owner of it, and nothing else changes.
    inputs.set_bundle("db", 0, false, &["shared"]);
    reconcile(&mut server, &inputs, "db", PROMOTE);
    assert!(!is_labelled(&server.objects[&secret("shared")]));
    assert_eq!(server.owners("shared"), [WEB, "db"]);
}

#[test]
fn a_cluster_with_an_unavailable_source_is_blocked() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &["missing"])]);
    let server = Server::default();
    let blocked = |inputs: &Inputs, server: &Server| {
        with_target(inputs, WEB, None, |delivery, target| {
            let blocked = delivery.blocked(target, &server.cached());
            let target = target.clone().or_blocked(blocked.clone());
            let state = server.cached();
            assert_eq!(delivery.reads(&target, PROMOTE, &state), []);
            let actions = delivery.plan(&target, PROMOTE, &state).unwrap().actions;
            assert_eq!(actions.is_empty(), blocked.is_some());
            blocked
        })
    };
    let missing = blocked(&inputs, &server).unwrap();
    assert_eq!(
        (missing.class, &*missing.message),
        (BlockClass::UntilChange, "Secret missing does not exist")
    );
    inputs.set_bundle(WEB, 1, false, &[WEB]);
    inputs.sources.insert(WEB, ("Opaque", 1));
    let same_name = blocked(&inputs, &server).unwrap();
    assert!(
        same_name.message.contains("has the name of the Bundle"),
        "{same_name}"
    );
    inputs.set_bundle(WEB, 1, false, &[]);
    assert_eq!(blocked(&inputs, &server), None);
    let other = deployed(&inputs);
    let conflict = blocked(&inputs, &other).unwrap();
    assert_eq!(conflict.class, BlockClass::NameConflict);
    assert!(
        conflict.message.contains("already has BundleDeployment web"),
        "{conflict}"
    );
}

/// The values of one Bundle and a downstream resource of another have the same name.
#[test]
fn copies_for_different_purposes_do_not_overwrite_each_other() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &[])]);
    let mut server = deployed(&inputs);
    inputs.set_bundle("db", 0, false, &[WEB]);
    inputs.sources.insert(WEB, ("Opaque", 1));
    let End::Blocked(blocked) = server.reconcile(&inputs, "db", PROMOTE, ALL) else {
        panic!("the values are overwritten");
    };
    assert!(
        blocked.message.contains("already has a Secret web for Bundles"),
        "{blocked}"
    );
}

#[test]
fn a_deployment_that_is_being_deleted_is_left_alone() {
    let mut inputs = Inputs::new(&[(WEB, 1, true, &["shared"])]);
    let mut server = deployed(&inputs);
    let terminating = json_time();
    server
        .deployments
        .get_mut(WEB)
        .unwrap()
        .metadata
        .deletion_timestamp = terminating;
    inputs.set_bundle(WEB, 2, false, &[]);
    assert_eq!(reads(&server, &inputs, WEB, &[]), []);
    assert_eq!(reconcile(&mut server, &inputs, WEB, PROMOTE), [""; 0]);
}

fn json_time() -> Option<Time> {
    serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap()
}

#[test]
fn copies_that_are_needed_no_longer_are_released_with_their_version() {
    let mut inputs = Inputs::new(&[(WEB, 1, true, &[])]);
    let mut server = deployed(&inputs);
    let access = access_name(&inputs, WEB);
    let version = ObjectVersion::of(server.objects[&secret(&access)].metadata());
    inputs.set_bundle(WEB, 0, false, &[]);
    let plan = server.plan(&inputs, WEB, PROMOTE, &BTreeSet::new()).unwrap();
    let shorts: Vec<_> = plan.actions.iter().map(short).collect();
    let delete = format!("delete {access}");
    assert_eq!(shorts, ["replace deployment", &*delete, "delete web"]);
    let expected = Action::DeleteCopy {
        copy: secret(&access),
        version,
    };
    assert_eq!(plan.actions[1], expected);
    // Until the rollout promotes the change, the current deployment needs its values.
    let staged = server.plan(&inputs, WEB, STAGE, &BTreeSet::new()).unwrap();
    assert!(
        !staged
            .actions
            .iter()
            .map(short)
            .any(|action| action == "delete web")
    );
}

/// Annotations and finalizers of other clients stay. Labels do not, as with Fleet's controller: they are those of the Bundle, by which
/// `dependsOn` selects. A label of unknown origin may be one that was removed from the Bundle.
#[test]
fn annotations_and_finalizers_of_other_clients_are_kept_and_labels_are_those_of_the_bundle() {
    let mut inputs = Inputs::new(&[(WEB, 1, false, &["shared"])]);
    let mut server = deployed(&inputs);
    let metadata = &mut server.deployments.get_mut(WEB).unwrap().metadata;
    let text = |text: &str| text.to_owned();
    metadata
        .annotations
        .get_or_insert_default()
        .insert(text("mine"), text("a"));
    metadata
        .finalizers
        .get_or_insert_default()
        .push(text("example.com/mine"));
    assert_eq!(reconcile(&mut server, &inputs, WEB, PROMOTE), [""; 0]);
    let own = metadata_of(&mut server).labels.clone().unwrap();
    for labels in [None, Some([(text("mine"), text("a"))].into())] {
        metadata_of(&mut server).labels = labels;
        assert_eq!(
            reconcile(&mut server, &inputs, WEB, PROMOTE),
            ["replace deployment"]
        );
        assert_eq!(metadata_of(&mut server).labels.as_ref(), Some(&own));
    }
    inputs.set_bundle(WEB, 1, false, &[]);
    let done = reconcile(&mut server, &inputs, WEB, PROMOTE);
    assert_eq!(done, ["replace deployment", "delete shared"]);
    let metadata = metadata_of(&mut server);
    assert_eq!(metadata.annotations, Some([(text("mine"), text("a"))].into()));
    assert_eq!(metadata.finalizers.as_ref().unwrap().len(), 2);
    assert_eq!(metadata.labels.as_ref(), Some(&own));
}

fn metadata_of(server: &mut Server) -> &mut ObjectMeta {
    &mut server.deployments.get_mut(WEB).unwrap().metadata
}
