use helmops_notify::push::path_digest;
use kube::runtime::watcher::Event;
use serde_json::json;

use super::*;
use crate::testing::{FakeApi, object};

const TOKEN: &str = "0123456789abcdef";

fn entry(namespace: &str, name: &str, token: &str) -> (NamespacedName, String, Entry) {
    let entry = Entry {
        namespace: namespace.into(),
        name: name.into(),
        r#type: "generic".into(),
        token: token.into(),
        ..Entry::default()
    };
    let digest = path_digest(token.as_bytes(), namespace, name);
    (NamespacedName::new(namespace, name), digest, entry)
}

fn set(entries: &mut Entries, namespace: &str, name: &str, token: &str) -> Result<(), PublishError> {
    let (name, digest, entry) = entry(namespace, name, token);
    entries.set(&name, &digest, &entry)
}

/// As many as are accepted.
fn fill(entries: &mut Entries, namespace: &str) -> usize {
    let token = "x".repeat(1_000);
    let mut names = (0..).map(|name: usize| name.to_string());
    names
        .position(|name| set(entries, namespace, &name, &token).is_err())
        .unwrap()
}

fn has(entries: &Entries, namespace: &str, name: &str, token: &str) -> bool {
    let (_, digest, _) = entry(namespace, name, token);
    entries.data.contains_key(&digest)
}

#[test]
fn a_new_token_replaces_the_path_and_other_receivers_stay() {
    let mut entries = Entries::default();
    entries.set_google_keys(b"keys");
    set(&mut entries, "default", "a", TOKEN).unwrap();
    set(&mut entries, "default", "b", TOKEN).unwrap();
    set(&mut entries, "default", "a", "another token of a").unwrap();
    assert_eq!(entries.data.len(), 3);
    assert!(!has(&entries, "default", "a", TOKEN) && has(&entries, "default", "b", TOKEN));
    let data = entries.data.clone();
    set(&mut entries, "default", "a", "another token of a").unwrap();
    assert_eq!(entries.data, data);
    // Of those that were read, one does not exist any more.
    let mut read = Entries::of(Some(&data), |receiver| receiver.name == "a");
    assert_eq!(read.data.len(), 2);
    read.remove(&NamespacedName::new("default", "a"));
    assert_eq!(read.data.keys().collect::<Vec<_>>(), [GOOGLE_KEYS]);
    assert_eq!((read.total, read.bytes_of("default")), (0, 0));
}

#[test]
fn a_namespace_that_uses_its_share_leaves_the_others_theirs() {
    let mut entries = Entries::default();
    let of_one = fill(&mut entries, "evil");
    assert!(of_one >= 50 && entries.total <= MAX_NAMESPACE_BYTES, "{of_one}");
    set(&mut entries, "good", "web", TOKEN).unwrap();
    // Many namespaces together.
    for number in 0..100 {
        fill(&mut entries, &format!("evil-{number}"));
    }
    assert!(entries.total <= MAX_ENTRIES_BYTES);
    set(&mut entries, "good", "db", TOKEN).unwrap();
    set(&mut entries, "new", "web", TOKEN).unwrap();
}

#[test]
fn a_token_can_be_rotated_however_much_others_have() {
    let mut entries = Entries::default();
    set(&mut entries, "good", "web", TOKEN).unwrap();
    for number in 0..100 {
        fill(&mut entries, &format!("evil-{number}"));
    }
    set(&mut entries, "good", "web", "fedcba9876543210").unwrap();
    assert!(!has(&entries, "good", "web", TOKEN) && has(&entries, "good", "web", "fedcba9876543210"));
}

#[test]
fn a_receiver_whose_new_entry_has_no_room_is_removed() {
    let mut entries = Entries::default();
    set(&mut entries, "evil", "web", TOKEN).unwrap();
    fill(&mut entries, "evil");
    let error = set(&mut entries, "evil", "web", &"y".repeat(3_000)).unwrap_err();
    assert!(error.to_string().contains("900 KiB"), "{error}");
    assert!(
        !has(&entries, "evil", "web", TOKEN),
        "the old token is not valid any more"
    );
    set(&mut entries, "evil", "web", TOKEN).unwrap();
}

/// The Receivers of the cache, and what is published of them.
struct Rig {
    api: FakeApi,
    published: Arc<Published>,
    receivers: ObjectCache<Decoded<Receiver>>,
}

impl Rig {
    fn start() -> Self {
        let api = FakeApi::default();
        api.secret("system", SECRET, &json!(null));
        let receivers = ObjectCache::new();
        receivers.apply(0, Event::InitDone);
        let published = Published::new(api.client(), "system".to_owned(), receivers.clone());
        Self {
            api,
            published: Arc::new(published),
            receivers,
        }
    }

    async fn set(&self, name: &str, token: &str) -> Result<(), PublishError> {
        let json = json!({ "metadata": { "name": name, "namespace": "a" }, "spec": {} });
        let (key, digest, entry) = entry("a", name, token);
        self.receivers.wrote(key.clone(), Arc::new(object(&json)));
        self.published.set(&object(&json), &key, &digest, entry).await
    }

    fn number(&self) -> usize {
        let secret = self.api.read_secret("system", SECRET);
        secret["data"].as_object().map_or(0, serde_json::Map::len)
    }

    fn writes(&self) -> usize {
        self.api.count("PUT", "secrets/helmops-receivers")
    }
}

/// One after the other, they would be as many writes of the whole Secret.
#[tokio::test(start_paused = true)]
async fn changes_of_a_second_are_one_write() {
    let rig = Rig::start();
    let start = Instant::now();
    rig.set("first", TOKEN).await.unwrap();
    assert_eq!((start.elapsed(), rig.writes()), (Duration::ZERO, 1));
    let names: Vec<_> = (0..100).map(|name: usize| name.to_string()).collect();
    let all = futures::future::join_all(names.iter().map(|name| rig.set(name, TOKEN))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!((start.elapsed(), rig.writes()), (INTERVAL, 2));
    assert_eq!(rig.number(), 101);
    // What is as desired is not written.
    rig.set("first", TOKEN).await.unwrap();
    assert_eq!((start.elapsed(), rig.writes()), (INTERVAL, 2));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_aborted_loses_no_change_of_another() {
    let rig = Rig::start();
    rig.set("first", TOKEN).await.unwrap();
    let mut aborted = Box::pin(rig.set("aborted", TOKEN));
    let mut other = Box::pin(rig.set("other", TOKEN));
    // The first one has taken both, and waits to write them.
    assert!(futures::poll!(&mut aborted).is_pending() && futures::poll!(&mut other).is_pending());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(futures::poll!(&mut aborted).is_pending());
    drop(aborted);
    other.await.unwrap();
    let (_, digest, _) = entry("a", "other", TOKEN);
    assert!(rig.api.read_secret("system", SECRET)["data"][digest].is_string());
}

/// The pause between two writes concerns those alone that have something to write.
#[tokio::test(start_paused = true)]
async fn what_is_published_can_be_read_during_the_pause() {
    let rig = Rig::start();
    rig.published.reading(&NamespacedName::new("a", "first"));
    rig.set("first", TOKEN).await.unwrap();
    let mut pausing = Box::pin(rig.set("second", TOKEN));
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(futures::poll!(&mut pausing).is_pending());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(futures::poll!(&mut pausing).is_pending());
    let start = Instant::now();
    let (name, digest, _) = entry("a", "first", TOKEN);
    let first = object(&json!({ "metadata": { "name": "first", "namespace": "a" }, "spec": {} }));
    let current = rig.published.current(&first, &name, Duration::from_mins(1));
    let current = tokio::time::timeout(INTERVAL, current).await.unwrap();
    assert_eq!(
        (current.unwrap(), start.elapsed()),
        (Some(digest), Duration::ZERO)
    );
    pausing.await.unwrap();
    assert!(start.elapsed() > Duration::ZERO);
}

/// It may have the token of before.
#[tokio::test(start_paused = true)]
async fn a_change_whose_task_was_aborted_is_not_made() {
    let rig = Rig::start();
    rig.set("first", TOKEN).await.unwrap();
    let mut pausing = Box::pin(rig.set("second", TOKEN));
    assert!(futures::poll!(&mut pausing).is_pending());
    let mut aborted = Box::pin(rig.set("aborted", TOKEN));
    assert!(futures::poll!(&mut aborted).is_pending());
    drop(aborted);
    pausing.await.unwrap();
    assert_eq!(rig.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn keys_of_google_are_known_without_a_wait() {
    let rig = Rig::start();
    assert!(!rig.published.has_google_keys());
    rig.published.set_google_keys(b"keys").await.unwrap();
    assert!(rig.published.has_google_keys());
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_is_not_created_and_the_error_says_what_to_apply() {
    let rig = Rig::start();
    rig.api.remove_secret("system", SECRET);
    let (one, two) = tokio::join!(rig.set("one", TOKEN), rig.set("two", TOKEN));
    for error in [one, two].map(Result::unwrap_err) {
        assert!(error.is_of_user());
        let text = error.to_string();
        assert!(
            text.contains("Secret system/helmops-receivers does not exist")
                && text.contains("manifests/notifications"),
            "{text}"
        );
    }
    assert_eq!(rig.api.read_secret("system", SECRET), json!(null));
    rig.api.secret("system", SECRET, &json!(null));
    rig.set("one", TOKEN).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_published_is_current_until_something_changes() {
    let rig = Rig::start();
    let (name, digest, _) = entry("a", "one", TOKEN);
    let of = |generation: i64| -> Receiver {
        object(
            &json!({ "metadata": { "name": "one", "namespace": "a", "generation": generation }, "spec": {} }),
        )
    };
    rig.receivers.wrote(
        name.clone(),
        Arc::new(object(
            &json!({ "metadata": { "name": "one", "namespace": "a" }, "spec": {} }),
        )),
    );
    let age = Duration::from_mins(10);
    let current = async |generation: i64| {
        let current = rig.published.current(&of(generation), &name, age).await;
        current.unwrap()
    };
    let publish = async || {
        rig.published.reading(&name);
        let (_, digest, entry) = entry("a", "one", TOKEN);
        rig.published.set(&of(1), &name, &digest, entry).await.unwrap();
    };
    assert_eq!(current(1).await, None, "nothing is published");
    publish().await;
    assert_eq!(current(1).await.as_ref(), Some(&digest));
    assert_eq!(current(2).await, None, "another spec");
    // The Secret changes, also while it is read.
    rig.published.forget(&name);
    assert_eq!(current(1).await, None);
    rig.published.reading(&name);
    rig.published.forget(&name);
    let (_, _, same) = entry("a", "one", TOKEN);
    rig.published.set(&of(1), &name, &digest, same).await.unwrap();
    assert_eq!(current(1).await, None);
    // Someone else removes the entry.
    publish().await;
    rig.api.secret("system", SECRET, &json!(null));
    tokio::time::advance(FRESH).await;
    assert_eq!(current(1).await, None);
    publish().await;
    tokio::time::advance(age).await;
    assert_eq!(current(1).await, None, "after some time it is compared again");
}
