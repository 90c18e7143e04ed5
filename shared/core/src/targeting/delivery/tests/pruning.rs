//! What is deleted when a Bundle leaves a cluster.

use super::model::{End, Inputs, Server, access_name, fleets_owner, secret};
use crate::targeting::{
    RolloutStep,
    delivery::{is_orphan_for_certain, may_be_of, release},
};

#[test]
fn unowned_values_are_deleted_after_their_deployment() {
    let inputs = Inputs::new(&[("web", 1, true, &["shared"]), ("db", 2, false, &[])]);
    let mut server = Server::default();
    for name in ["web", "db"] {
        assert_eq!(
            server.reconcile(&inputs, name, RolloutStep::Promote, usize::MAX),
            End::Done
        );
        server.prune_unowned(name);
    }
    assert_eq!(server.copies().len(), 4, "their deployments exist");
    server.deployments.remove("web");
    server.collect_garbage();
    assert_eq!(server.copies(), ["db", "web"]);
    server.prune_unowned("web");
    assert_eq!(server.copies(), ["db"]);
}

/// The process ends before a deployment is created, and the Bundle does not target the cluster any more.
#[test]
fn copies_of_a_deployment_that_was_never_created_are_deleted() {
    let inputs = Inputs::new(&[("web", 1, true, &[])]);
    let mut server = Server::default();
    assert_eq!(
        server.reconcile(&inputs, "web", RolloutStep::Promote, 2),
        End::Interrupted
    );
    assert_eq!(server.copies(), [&*access_name(&inputs, "web"), "web"]);
    server.prune_unowned("web");
    assert_eq!(server.copies(), [""; 0]);
}

#[test]
fn a_copy_that_got_an_owner_is_not_released() {
    let inputs = Inputs::new(&[("web", 1, false, &[])]);
    let mut server = Server::default();
    server.reconcile(&inputs, "web", RolloutStep::Promote, usize::MAX);
    let mut metadata = server.objects[&secret("web")].metadata().clone();
    assert!(release(&secret("web"), &metadata, None).is_some());
    metadata.owner_references = Some(vec![fleets_owner(&server.deployments["web"])]);
    assert_eq!(
        release(&secret("web"), &metadata, None),
        None,
        "Fleet's controller is active"
    );
    assert_eq!(release(&secret("web"), &metadata, Some("other")), None);
    metadata.owner_references = None;
    metadata.labels = None;
    assert_eq!(
        release(&secret("web"), &metadata, None),
        None,
        "it is not a copy any more"
    );
}

#[test]
fn a_deployment_belongs_to_the_bundle_that_its_labels_name() {
    let inputs = Inputs::new(&[("web", 1, false, &[])]);
    let mut server = Server::default();
    server.reconcile(&inputs, "web", RolloutStep::Promote, usize::MAX);
    let mut metadata = (*server.deployments["web"].metadata).clone();
    assert!(may_be_of("fleet", "web", &metadata));
    assert!(!may_be_of("other", "web", &metadata));
    metadata.labels = None;
    assert!(may_be_of("other", "web", &metadata), "its Bundle is unknown");
}

/// A deletion is hard to undo, so nothing is deleted because of a Cluster that has changed since it was cached.
#[test]
fn a_deployment_is_no_orphan_while_the_cached_cluster_is_stale() {
    for (cached, current, is_certain) in [
        (Some("1"), Some("1"), true),
        (Some("1"), Some("2"), false),
        // Deleted, whether the cache shows it or not.
        (Some("1"), None, true),
        (None, None, true),
        // Outside of the namespaces of the Bundle.
        (None, Some("1"), true),
    ] {
        assert_eq!(
            is_orphan_for_certain(cached, current),
            is_certain,
            "{cached:?} {current:?}"
        );
    }
}
