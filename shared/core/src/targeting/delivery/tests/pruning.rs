//! What is deleted when a Bundle leaves a cluster.

use helmops_api::{Cluster, Decoded, NamespacedName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::model::{End, Inputs, Server, access_name, fleets_owner, secret};
use crate::targeting::{
    RolloutStep,
    delivery::{Decisive, Unseen, is_orphan_for_certain, may_be_of, release},
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

fn metadata(name: &str, generation: i64) -> ObjectMeta {
    ObjectMeta {
        namespace: Some("fleet".to_owned()),
        name: Some(name.to_owned()),
        generation: Some(generation),
        ..ObjectMeta::default()
    }
}

/// A deletion is hard to undo, so nothing is deleted because of a Cluster that has changed since it was cached.
#[test]
fn a_deployment_is_no_orphan_while_the_cached_cluster_is_stale() {
    let (one, two) = (metadata("dev", 1), metadata("dev", 2));
    let (one, two) = (Some(Decisive::of(&one)), Some(Decisive::of(&two)));
    for (cached, current, is_certain) in [
        (&one, &one, true),
        (&one, &two, false),
        // Deleted, whether the cache shows it or not.
        (&one, &None, true),
        (&None, &None, true),
        // Created again.
        (&None, &one, false),
    ] {
        assert_eq!(
            is_orphan_for_certain(cached.as_ref(), current.as_ref()),
            is_certain,
            "{cached:?} {current:?}"
        );
    }
}

/// With thousands of clusters there is always a newer version of one of them.
#[test]
fn only_what_decides_about_targets_is_compared() {
    let cluster = |change: &Value| {
        let mut cluster = json!({
            "metadata": {
                "namespace": "fleet", "name": "dev", "uid": "1", "generation": 1, "resourceVersion": "7", "labels": { "env": "dev" }
            },
            "status": { "namespace": "cluster-dev", "agent": { "lastSeen": "2026-01-01T00:00:00Z" } }
        });
        json_patch::merge(&mut cluster, change);
        serde_json::from_str::<Decoded<Cluster>>(&cluster.to_string()).unwrap()
    };
    let cached = cluster(&json!({}));
    for (change, differs) in [
        (
            json!({
                "metadata": { "resourceVersion": "8", "annotations": { "x": "y" } },
                "status": { "agent": { "lastSeen": "2026-01-01T00:15:00Z" } }
            }),
            false,
        ),
        (json!({ "metadata": { "uid": "2" } }), true),
        (json!({ "metadata": { "generation": 2 } }), true),
        (json!({ "metadata": { "labels": { "env": "prod" } } }), true),
        (
            json!({ "metadata": { "annotations": { labels::CLUSTER: "other" } } }),
            true,
        ),
        (
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            true,
        ),
        (json!({ "status": { "namespace": "other" } }), true),
        (json!({ "status": { "scheduled": true } }), true),
        (json!({ "status": { "namespace": 1 } }), true),
    ] {
        let current = cluster(&change);
        let is_same = Decisive::of_cluster(&cached) == Decisive::of_cluster(&current);
        assert_eq!(!is_same, differs, "{change}");
    }
}

/// A watch that is behind another one leads to no deletion.
#[test]
fn a_list_is_compared_with_what_is_cached() {
    let cached = [metadata("dev", 1), metadata("prod", 2)];
    for (listed, differs) in [
        (&[("dev", 1), ("prod", 2)][..], None),
        (&[("dev", 1), ("prod", 3)], Some("prod")),
        (&[("dev", 1)], Some("prod")),
        (&[("dev", 1), ("new", 3), ("prod", 2)], Some("new")),
    ] {
        let mut unseen = Unseen::new(
            cached
                .iter()
                .map(|one| (NamespacedName::of(one), Decisive::of(one))),
        );
        let seen = listed.iter().try_for_each(|(of, generation)| {
            let one = metadata(of, *generation);
            unseen.see(NamespacedName::of(&one), &Decisive::of(&one))
        });
        let result = seen.and_then(|()| unseen.end());
        let differs = differs.map(|name| NamespacedName::new("fleet", name));
        assert_eq!(result.err(), differs, "{listed:?}");
    }
}
