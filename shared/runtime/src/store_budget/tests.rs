use std::future::pending;

use helmops_api::{BundleDeployment, HelmOp, labels};
use serde_json::json;

use super::*;

const KIB: usize = 1 << 10;

/// A HelmOp with this number of bytes in its values.
fn helmop(namespace: &str, name: &str, bytes: usize) -> Decoded<HelmOp> {
    let object = json!({
        "metadata": { "namespace": namespace, "name": name, "uid": name, "resourceVersion": bytes.to_string() },
        "spec": { "helm": { "values": { "text": "x".repeat(bytes) } } },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A BundleDeployment of a tenant on a cluster, with this number of bytes in its options and in its status.
fn deployment(tenant: &str, cluster: &str, written: usize, reported: usize) -> Decoded<BundleDeployment> {
    let labels = json!({
        labels::BUNDLE_NAMESPACE: tenant, labels::BUNDLE_NAME: "web", labels::HELM_NAME: "web",
        labels::CLUSTER_NAMESPACE: "fleet-default", labels::CLUSTER: cluster, labels::SHARD: "s",
        "other": "x",
    });
    let object = json!({
        "metadata": { "namespace": cluster, "name": format!("web-{tenant}"), "labels": labels },
        "spec": { "options": { "helm": { "values": { "text": "x".repeat(written) } } } },
        "status": { "release": "x".repeat(reported) },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// A watch with a budget of this number of bytes.
fn watch<T: Stored>(bytes: usize) -> Charges<T> {
    Charges::new(StoreBudget::new("controller", bytes))
}

/// The object as it is stored.
fn stored<T: Stored>(watch: &mut Charges<T>, object: T) -> T {
    match watch.observe(Event::Apply(object)) {
        Event::Apply(object) => object,
        _ => panic!("another event"),
    }
}

fn fits<K>(watch: &mut Charges<Decoded<K>>, object: Decoded<K>) -> bool
where
    K: Resource<DynamicType = ()> + Weight + Clone,
{
    stored(watch, object).valid().is_some()
}

fn list(watch: &mut Charges<Decoded<HelmOp>>, objects: Vec<Decoded<HelmOp>>) {
    watch.observe(Event::Init);
    for object in objects {
        watch.observe(Event::InitApply(object));
    }
    watch.observe(Event::InitDone);
}

fn error<K>(object: &Decoded<K>) -> &str {
    match object {
        Decoded::Valid(_) => panic!("it is stored"),
        Decoded::Invalid { error, .. } => error,
    }
}

#[test]
fn a_namespace_cannot_exceed_its_share_and_leaves_memory_to_others() {
    let mut watch = watch(400 * KIB);
    assert!(fits(&mut watch, helmop("many", "a", 130 * KIB)));
    assert!(fits(&mut watch, helmop("many", "b", 130 * KIB)));
    let refused = stored(&mut watch, helmop("many", "c", 130 * KIB));
    let Decoded::Invalid {
        error: Unusable::NotStored(why),
        ..
    } = &refused
    else {
        panic!("it may be valid: {refused:?}")
    };
    assert!(
        why.contains("objects of namespace many use more than their share") && why.contains("--memory-limit"),
        "{why}"
    );
    assert!(fits(&mut watch, helmop("few", "a", 20 * KIB)));
    assert!(fits(&mut watch, helmop("many", "b", 20 * KIB)), "it is smaller");
    assert!(fits(&mut watch, helmop("many", "c", 80 * KIB)));
    watch.observe(Event::Delete(helmop("many", "a", 0)));
    assert!(fits(&mut watch, helmop("many", "d", 130 * KIB)));
}

#[test]
fn kinds_share_the_memory_of_a_namespace() {
    let mut one = watch(400 * KIB);
    let mut other = Charges::new(one.budget.clone());
    assert!(fits(&mut one, helmop("a", "a", 200 * KIB)));
    assert!(!fits(&mut other, helmop("a", "b", 200 * KIB)));
    one.observe(Event::Delete(helmop("a", "a", 0)));
    assert!(fits(&mut other, helmop("a", "b", 200 * KIB)));
}

#[test]
fn a_list_of_known_objects_takes_no_additional_memory() {
    let mut watch = watch(400 * KIB);
    let before = stored(&mut watch, helmop("a", "a", 200 * KIB));
    watch.observe(Event::Init);
    let Event::InitApply(Decoded::Valid(again)) =
        watch.observe(Event::InitApply(helmop("a", "a", 200 * KIB)))
    else {
        panic!("it is refused")
    };
    assert!(std::ptr::eq(before.valid().unwrap(), &raw const *again));
}

#[test]
fn objects_missing_in_a_list_are_released() {
    let mut watch = watch(400 * KIB);
    list(
        &mut watch,
        vec![helmop("a", "a", 200 * KIB), helmop("a", "b", 10 * KIB)],
    );
    watch.observe(Event::Init);
    watch.observe(Event::InitApply(helmop("a", "b", 10 * KIB)));
    // The list fails and starts over.
    list(&mut watch, vec![helmop("a", "b", 10 * KIB)]);
    assert!(fits(&mut watch, helmop("a", "c", 200 * KIB)));
    list(&mut watch, Vec::new());
    assert!(
        watch.stored.is_empty()
            && watch.budget.bytes.has_capacity(&[Charge {
                key: "a",
                bytes: 300 * KIB
            }])
    );
}

#[test]
fn deployments_are_charged_to_the_namespace_of_their_bundle() {
    let mut watch = watch(400 * KIB);
    assert!(fits(&mut watch, deployment("greedy", "cluster", 280 * KIB, 0)));
    let more = deployment("greedy", "other-cluster", 250 * KIB, 0);
    assert!(!fits(&mut watch, more), "a tenant has one share for all clusters");
    let honest = deployment("honest", "cluster", 60 * KIB, 0);
    assert!(fits(&mut watch, honest), "the cluster is not full");
}

#[test]
fn what_a_cluster_reports_is_charged_to_the_cluster() {
    let mut watch = watch(400 * KIB);
    assert!(fits(&mut watch, deployment("a", "hostile", 0, 250 * KIB)));
    let refused = stored(&mut watch, deployment("b", "hostile", 0, 250 * KIB));
    assert!(
        error(&refused).contains("namespace hostile"),
        "{}",
        error(&refused)
    );
    assert!(fits(&mut watch, deployment("a", "good", 40 * KIB, 0)));
}

#[test]
fn a_refused_object_keeps_its_name_and_its_owner() {
    let mut watch = watch(KIB);
    let refused = stored(&mut watch, deployment("tenant", "cluster", 10 * KIB, 0));
    assert_eq!(refused.meta().name.as_deref(), Some("web-tenant"));
    assert_eq!(
        labels::of(refused.meta(), labels::BUNDLE_NAMESPACE),
        Some("tenant")
    );
    assert_eq!(labels::of(refused.meta(), "other"), None);
}

#[test]
fn an_object_that_does_not_decode_is_stored_without_its_content() {
    let object = json!({
        "metadata": { "name": "a", "annotations": { "a": "x".repeat(KIB) }, "finalizers": vec!["f"; 1000] },
        "spec": "y".repeat(100 * KIB),
    });
    let mut object: Decoded<HelmOp> = serde_json::from_str(&object.to_string()).unwrap();
    shorten(&mut object);
    let stored = stored(&mut watch(4 * KIB), object.clone());
    let metadata = serde_json::to_string(stored.meta()).unwrap();
    assert!(
        metadata.len() < 100 && error(&stored).len() < 2 * KIB,
        "{metadata}"
    );
    assert!(error(&stored).ends_with("fix or delete it"), "{}", error(&stored));
    let refused = self::stored(&mut watch(KIB), object);
    assert!(error(&refused).contains("--memory-limit"), "it takes memory too");
}

#[test]
fn a_refused_object_that_fits_is_read_again_if_it_is_unchanged() {
    let mut watch = watch(400 * KIB);
    assert!(fits(&mut watch, helmop("a", "large", 200 * KIB)));
    assert!(!fits(&mut watch, helmop("a", "b", 200 * KIB)));
    assert!(watch.fitting().is_empty());
    assert!(
        watch.observe_again(helmop("a", "b", 200 * KIB)).is_none(),
        "it does not fit yet"
    );
    watch.observe(Event::Delete(helmop("a", "large", 0)));
    assert_eq!(watch.fitting(), [NamespacedName::new("a", "b")]);
    assert!(
        watch.observe_again(helmop("a", "b", 10 * KIB)).is_none(),
        "the watch reports the change"
    );
    watch.observe(Event::Init);
    watch.observe(Event::InitApply(helmop("a", "c", 10 * KIB)));
    assert!(watch.fitting().is_empty() && watch.observe_again(helmop("a", "c", 10 * KIB)).is_none());
    watch.observe(Event::InitApply(helmop("a", "large", 200 * KIB)));
    watch.observe(Event::InitApply(helmop("a", "b", 200 * KIB)));
    watch.observe(Event::InitDone);
    watch.observe(Event::Delete(helmop("a", "large", 0)));
    assert!(watch.observe_again(helmop("a", "b", 200 * KIB)).is_some());
    assert!(watch.fitting().is_empty() && watch.refused.is_empty());
    watch.observe(Event::Delete(helmop("a", "b", 0)));
    assert!(
        watch.observe_again(helmop("a", "b", 200 * KIB)).is_none(),
        "it is deleted"
    );
}

#[test]
fn a_namespace_with_many_refused_objects_delays_no_other() {
    let mut watch = watch(400 * KIB);
    assert!(fits(&mut watch, helmop("a", "large", 290 * KIB)));
    for at in 0..100 {
        assert!(!fits(&mut watch, helmop("a", &at.to_string(), 20 * KIB)));
    }
    assert!(!fits(&mut watch, helmop("b", "one", 90 * KIB)));
    watch.observe(Event::Delete(helmop("a", "large", 0)));
    let fitting = watch.fitting();
    assert_eq!(fitting.len(), RETRIES + 1);
    assert!(fitting.iter().any(|object| object.namespace == "b"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_object_is_stored_when_memory_is_released() {
    let watched = [
        Event::Apply(helmop("a", "a", 200 * KIB)),
        Event::Apply(helmop("a", "b", 200 * KIB)),
        Event::Delete(helmop("a", "a", 200 * KIB)),
    ];
    let events = stream::iter(watched.map(Ok)).chain(stream::once(pending()));
    let read = |name: NamespacedName| ready(Some(helmop(&name.namespace, &name.name, 200 * KIB)));
    let events = charged(events, StoreBudget::new("controller", 400 * KIB), read);
    let events = events.take(4).try_collect::<Vec<_>>();
    let events = tokio::time::timeout(2 * RETRY, events).await.unwrap().unwrap();
    let stored: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Apply(object) => (object.meta().name.as_deref().unwrap(), object.valid().is_some()),
            _ => ("", false),
        })
        .collect();
    assert_eq!(stored, [("a", true), ("b", false), ("", false), ("b", true)]);
}
