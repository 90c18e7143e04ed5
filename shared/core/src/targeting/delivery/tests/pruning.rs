//! What is deleted when a Bundle leaves a cluster.

use helmops_api::NamespacedName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::model::{End, Inputs, Server, access_name, fleets_owner, secret};
use crate::targeting::{
    RolloutStep,
    delivery::{Unseen, is_orphan_for_certain, may_be_of, release},
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
        // Created again.
        (None, Some("1"), false),
    ] {
        assert_eq!(
            is_orphan_for_certain(cached, current),
            is_certain,
            "{cached:?} {current:?}"
        );
    }
}

/// A watch that is behind another one leads to no deletion.
#[test]
fn a_list_is_compared_with_what_is_cached() {
    let group = |(name, version): (&str, &str)| ObjectMeta {
        namespace: Some("fleet".to_owned()),
        name: Some(name.to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    };
    let cached = [("dev", "1"), ("prod", "2")].map(group);
    for (listed, differs) in [
        (&[("dev", "1"), ("prod", "2")][..], None),
        (&[("dev", "1"), ("prod", "3")], Some("prod")),
        (&[("dev", "1")], Some("prod")),
        (&[("dev", "1"), ("new", "3"), ("prod", "2")], Some("new")),
    ] {
        let mut unseen = Unseen::new(&cached);
        let seen = listed.iter().try_for_each(|one| unseen.see(&group(*one)));
        let result = seen.and_then(|()| unseen.end());
        let differs = differs.map(|name| NamespacedName::new("fleet", name));
        assert_eq!(result.err(), differs, "{listed:?}");
    }
}
