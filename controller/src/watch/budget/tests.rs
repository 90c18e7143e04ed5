use std::future::pending;

use helmops_shared::api::{BundleDeployment, HelmOp};
use serde_json::json;
use watcher::Event;

use super::{super::Deployments, *};
use crate::work::key;

const KIB: usize = 1 << 10;

/// A HelmOp whose values have so many bytes.
fn helmop(namespace: &str, name: &str, bytes: usize) -> Decoded<HelmOp> {
    let object = json!({
        "metadata": { "namespace": namespace, "name": name, "uid": name, "resourceVersion": bytes.to_string() },
        "spec": { "helm": { "values": { "text": "x".repeat(bytes) } } },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A BundleDeployment of a tenant on a cluster. Its options and its status have so many bytes.
fn deployment(bundle: &str, cluster: &str, written: usize, reported: usize) -> Decoded<BundleDeployment> {
    let labels = json!({
        labels::BUNDLE_NAMESPACE: bundle, labels::BUNDLE_NAME: "web", labels::HELM_NAME: "web",
        labels::CLUSTER_NAMESPACE: "fleet-default", labels::CLUSTER: cluster, labels::SHARD: "s",
        "other": "x",
    });
    let object = json!({
        "metadata": { "namespace": cluster, "name": format!("web-{bundle}"), "labels": labels },
        "spec": { "options": { "helm": { "values": { "text": "x".repeat(written) } } } },
        "status": { "release": "x".repeat(reported) },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A watch with a budget of so many bytes.
fn watch<K: Resource<DynamicType = ()> + Weight + Clone>(bytes: usize) -> Charges<K> {
    Charges::new(Shares::new(bytes))
}

/// What is stored of an object.
fn stored<K: Resource<DynamicType = ()> + Weight + Clone>(
    watch: &mut Charges<K>,
    object: Decoded<K>,
) -> Decoded<K> {
    match watch.see(Event::Apply(object)) {
        Event::Apply(object) => object,
        _ => panic!("another event"),
    }
}

fn has_room<K: Resource<DynamicType = ()> + Weight + Clone>(
    watch: &mut Charges<K>,
    object: Decoded<K>,
) -> bool {
    stored(watch, object).good().is_some()
}

fn list(watch: &mut Charges<HelmOp>, objects: Vec<Decoded<HelmOp>>) {
    watch.see(Event::Init);
    for object in objects {
        watch.see(Event::InitApply(object));
    }
    watch.see(Event::InitDone);
}

fn error<K>(object: &Decoded<K>) -> &str {
    match object {
        Decoded::Valid(_) => panic!("it is stored"),
        Decoded::Invalid { error, .. } => error,
    }
}

#[test]
fn a_namespace_has_its_share_and_others_have_theirs() {
    let mut watch = watch(400 * KIB);
    assert!(has_room(&mut watch, helmop("many", "a", 130 * KIB)));
    assert!(has_room(&mut watch, helmop("many", "b", 130 * KIB)));
    let refused = stored(&mut watch, helmop("many", "c", 130 * KIB));
    assert!(error(&refused).contains("namespace many") && error(&refused).contains("--memory-limit"));
    assert!(has_room(&mut watch, helmop("few", "a", 20 * KIB)));
    assert!(
        has_room(&mut watch, helmop("many", "b", 20 * KIB)),
        "it is smaller"
    );
    assert!(has_room(&mut watch, helmop("many", "c", 80 * KIB)));
    watch.see(Event::Delete(helmop("many", "a", 0)));
    assert!(has_room(&mut watch, helmop("many", "d", 130 * KIB)));
}

#[test]
fn kinds_share_the_memory_of_a_namespace() {
    let mut one = watch::<HelmOp>(400 * KIB);
    let mut other = Charges::<HelmOp>::new(one.budget.clone());
    assert!(has_room(&mut one, helmop("a", "a", 200 * KIB)));
    assert!(!has_room(&mut other, helmop("a", "b", 200 * KIB)));
    one.see(Event::Delete(helmop("a", "a", 0)));
    assert!(has_room(&mut other, helmop("a", "b", 200 * KIB)));
}

#[test]
fn a_list_takes_no_second_memory_for_what_is_known() {
    let mut watch = watch(400 * KIB);
    let before = stored(&mut watch, helmop("a", "a", 200 * KIB));
    watch.see(Event::Init);
    let Event::InitApply(Decoded::Valid(again)) = watch.see(Event::InitApply(helmop("a", "a", 200 * KIB)))
    else {
        panic!("it is refused")
    };
    assert!(std::ptr::eq(before.good().unwrap(), &raw const *again));
}

#[test]
fn what_a_list_does_not_show_any_more_is_not_charged() {
    let mut watch = watch(400 * KIB);
    list(
        &mut watch,
        vec![helmop("a", "a", 200 * KIB), helmop("a", "b", 10 * KIB)],
    );
    watch.see(Event::Init);
    watch.see(Event::InitApply(helmop("a", "b", 10 * KIB)));
    // The list fails and begins again.
    list(&mut watch, vec![helmop("a", "b", 10 * KIB)]);
    assert!(has_room(&mut watch, helmop("a", "c", 200 * KIB)));
    list(&mut watch, Vec::new());
    assert!(
        watch.stored.is_empty()
            && watch.budget.has_room(&charges(
                "a",
                "a",
                Bytes {
                    written: 300 * KIB,
                    reported: 0
                }
            ))
    );
}

#[test]
fn deployments_are_charged_to_the_namespace_of_their_bundle() {
    let mut watch = watch(400 * KIB);
    assert!(has_room(
        &mut watch,
        deployment("greedy", "cluster", 280 * KIB, 0)
    ));
    let more = deployment("greedy", "other-cluster", 250 * KIB, 0);
    assert!(
        !has_room(&mut watch, more),
        "a tenant has one share for all clusters"
    );
    let honest = deployment("honest", "cluster", 60 * KIB, 0);
    assert!(has_room(&mut watch, honest), "the cluster is not full");
}

#[test]
fn what_a_cluster_reports_is_charged_to_the_cluster() {
    let mut watch = watch(400 * KIB);
    assert!(has_room(&mut watch, deployment("a", "hostile", 0, 250 * KIB)));
    let refused = stored(&mut watch, deployment("b", "hostile", 0, 250 * KIB));
    assert!(
        error(&refused).contains("namespace hostile"),
        "{}",
        error(&refused)
    );
    assert!(has_room(&mut watch, deployment("a", "good", 40 * KIB, 0)));
}

#[test]
fn a_refused_object_keeps_its_owner_and_little_more() {
    let mut watch = watch(KIB);
    let refused = stored(&mut watch, deployment("tenant", "cluster", 10 * KIB, 0));
    let kept: Vec<_> = refused
        .meta()
        .labels
        .iter()
        .flatten()
        .map(|(label, _)| &**label)
        .collect();
    let mut expected = LABELS.to_vec();
    expected.retain(|label| *label != labels::CREATED_BY);
    expected.sort_unstable();
    assert_eq!(kept, expected);
    assert_eq!(refused.meta().name.as_deref(), Some("web-tenant"));
}

#[tokio::test]
async fn a_refused_deployment_is_still_one_of_its_bundle() {
    let refused = stored(&mut watch(KIB), deployment("tenant", "cluster", 10 * KIB, 0));
    let deployments = Deployments::new();
    let events = stream::iter([Ok(Event::Apply(refused))]);
    let concerned: Vec<_> = deployments.follow(events).collect().await;
    assert_eq!(deployments.of_bundle(&key("tenant", "web")).len(), 1);
    assert_eq!(concerned[0].cluster, Some(key("fleet-default", "cluster")));
}

#[test]
fn an_object_that_does_not_decode_is_stored_without_its_text() {
    let object = json!({
        "metadata": { "name": "a", "annotations": { "a": "x".repeat(KIB) }, "finalizers": vec!["f"; 1000] },
        "spec": "y".repeat(100 * KIB),
    });
    let object: Decoded<HelmOp> = serde_json::from_str(&object.to_string()).unwrap();
    let stored = stored(&mut watch(KIB), object);
    let metadata = serde_json::to_string(stored.meta()).unwrap();
    assert!(
        metadata.len() < 100 && error(&stored).len() < 2 * KIB,
        "{metadata}"
    );
}

#[test]
fn what_has_room_is_read_again_while_it_is_the_same() {
    let mut watch = watch(400 * KIB);
    assert!(has_room(&mut watch, helmop("a", "large", 200 * KIB)));
    assert!(!has_room(&mut watch, helmop("a", "b", 200 * KIB)));
    assert!(watch.fitting().is_empty());
    assert!(
        watch.see_again(helmop("a", "b", 200 * KIB)).is_none(),
        "there is no room yet"
    );
    watch.see(Event::Delete(helmop("a", "large", 0)));
    assert_eq!(watch.fitting(), [NamespacedName::new("a", "b")]);
    assert!(
        watch.see_again(helmop("a", "b", 10 * KIB)).is_none(),
        "the watch shows the change"
    );
    watch.see(Event::Init);
    watch.see(Event::InitApply(helmop("a", "c", 10 * KIB)));
    assert!(watch.fitting().is_empty() && watch.see_again(helmop("a", "c", 10 * KIB)).is_none());
    watch.see(Event::InitApply(helmop("a", "large", 200 * KIB)));
    watch.see(Event::InitApply(helmop("a", "b", 200 * KIB)));
    watch.see(Event::InitDone);
    watch.see(Event::Delete(helmop("a", "large", 0)));
    assert!(watch.see_again(helmop("a", "b", 200 * KIB)).is_some());
    assert!(watch.fitting().is_empty() && watch.refused.is_empty());
    watch.see(Event::Delete(helmop("a", "b", 0)));
    assert!(
        watch.see_again(helmop("a", "b", 200 * KIB)).is_none(),
        "it is gone"
    );
}

#[test]
fn a_namespace_with_many_refused_objects_holds_up_no_other() {
    let mut watch = watch(400 * KIB);
    assert!(has_room(&mut watch, helmop("a", "large", 290 * KIB)));
    for at in 0..100 {
        assert!(!has_room(&mut watch, helmop("a", &at.to_string(), 20 * KIB)));
    }
    assert!(!has_room(&mut watch, helmop("b", "one", 90 * KIB)));
    watch.see(Event::Delete(helmop("a", "large", 0)));
    let fitting = watch.fitting();
    assert_eq!(fitting.len(), RETRIES + 1);
    assert!(fitting.iter().any(|object| object.namespace == "b"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_comes_back_by_itself_when_there_is_room() {
    let shown = [
        Event::Apply(helmop("a", "a", 200 * KIB)),
        Event::Apply(helmop("a", "b", 200 * KIB)),
        Event::Delete(helmop("a", "a", 200 * KIB)),
    ];
    let events = stream::iter(shown.map(Ok)).chain(stream::once(pending()));
    let read = |name: NamespacedName| ready(Some(helmop(&name.namespace, &name.name, 200 * KIB)));
    let seen = charged(events, StoreBudget::new(800 * KIB), read);
    let seen = seen.take(4).try_collect::<Vec<_>>();
    let seen = tokio::time::timeout(2 * RETRY, seen).await.unwrap().unwrap();
    let shown: Vec<_> = seen
        .iter()
        .map(|event| match event {
            Event::Apply(object) => (object.meta().name.as_deref().unwrap(), object.good().is_some()),
            _ => ("", false),
        })
        .collect();
    assert_eq!(shown, [("a", true), ("b", false), ("", false), ("b", true)]);
}
