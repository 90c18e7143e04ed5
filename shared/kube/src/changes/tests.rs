use proptest::prelude::*;

use super::*;

/// An object has a version as its value.
type Value = u32;

fn name(text: &str) -> NamespacedName {
    let (namespace, name) = text.split_once('/').unwrap();
    NamespacedName::new(namespace, name)
}

fn item(text: &str, version: Value) -> Item<Value> {
    (name(text), Some(version))
}

fn apply(text: &str, version: Value) -> Event<Item<Value>> {
    Event::Apply(item(text, version))
}

fn delete(text: &str) -> Event<Item<Value>> {
    Event::Delete((name(text), None))
}

/// The changes as `name before>after`.
fn lines(changes: impl IntoIterator<Item = Change<Value>>) -> Vec<String> {
    let version = |version: Option<Value>| version.map_or_else(String::new, |version| version.to_string());
    let line = |change: Change<Value>| {
        let (before, after) = (version(change.before), version(change.after));
        format!("{} {before}>{after}", change.name)
    };
    changes.into_iter().map(line).collect()
}

/// Applies a complete list of a watch.
fn list(objects: &mut WatchedObjects<Value>, watch: usize, listed: &[(&str, Value)]) -> Vec<String> {
    objects.apply(watch, Event::Init);
    for (name, version) in listed {
        let changes = objects.apply(watch, Event::InitApply(item(name, *version)));
        assert!(changes.is_empty(), "the list is not complete");
    }
    lines(objects.apply(watch, Event::InitDone))
}

fn all(objects: &WatchedObjects<Value>) -> Vec<(String, Value)> {
    let all = objects.iter();
    all.map(|(name, version)| (name.to_string(), *version)).collect()
}

/// The objects of one watch of all namespaces, after its first list.
fn listed(objects: &[(&str, Value)]) -> WatchedObjects<Value> {
    let mut watched = WatchedObjects::new([None]);
    list(&mut watched, 0, objects);
    watched
}

#[test]
fn objects_are_readable_when_the_first_list_is_complete() {
    let mut objects = WatchedObjects::new([None]);
    objects.apply(0, Event::Init);
    objects.apply(0, Event::InitApply(item("a/x", 1)));
    assert!(!objects.is_synced() && objects.is_empty());
    assert_eq!(objects.get(&name("a/x")), None);
    assert_eq!(lines(objects.apply(0, Event::InitDone)), ["a/x >1"]);
    assert!(objects.is_synced());
    assert_eq!(objects.get(&name("a/x")), Some(&1));
}

#[test]
fn changes_have_the_values_before_and_after() {
    let mut objects = listed(&[("a/x", 1)]);
    assert_eq!(lines(objects.apply(0, apply("a/x", 2))), ["a/x 1>2"]);
    assert_eq!(lines(objects.apply(0, apply("a/y", 3))), ["a/y >3"]);
    assert_eq!(lines(objects.apply(0, delete("a/x"))), ["a/x 2>"]);
    assert_eq!(lines(objects.apply(0, delete("a/x"))), [""; 0], "it is not known");
    assert_eq!(all(&objects), [("a/y".to_owned(), 3)]);
}

#[test]
fn a_later_list_deletes_what_it_does_not_contain_when_it_is_complete() {
    let mut objects = listed(&[("a/x", 1), ("a/y", 1), ("a/z", 1)]);
    objects.apply(0, Event::Init);
    objects.apply(0, Event::InitApply(item("a/z", 1)));
    objects.apply(0, Event::InitApply(item("a/y", 2)));
    assert_eq!(all(&objects).len(), 3, "until the list is complete");
    assert_eq!(
        lines(objects.apply(0, Event::InitDone)),
        ["a/y 1>2", "a/z 1>1", "a/x 1>"]
    );
    assert_eq!(all(&objects).len(), 2);
}

#[test]
fn an_interrupted_list_is_discarded() {
    let mut objects = listed(&[("a/x", 1)]);
    objects.apply(0, Event::Init);
    objects.apply(0, Event::InitApply(item("a/y", 1)));
    assert_eq!(list(&mut objects, 0, &[("a/x", 1)]), ["a/x 1>1"]);
    assert_eq!(all(&objects), [("a/x".to_owned(), 1)]);
}

#[test]
fn a_list_of_one_namespace_replaces_only_that_namespace() {
    let mut objects = WatchedObjects::new(["a", "b"].map(|namespace| Some(namespace.to_owned())));
    assert_eq!(list(&mut objects, 0, &[("a/x", 1), ("a/y", 1)]), [""; 0]);
    assert!(!objects.is_synced());
    assert!(objects.apply(0, apply("a/z", 1)).is_empty());
    assert!(objects.apply(0, delete("a/x")).is_empty());
    assert_eq!(objects.get(&name("a/y")), None, "not readable either");
    assert_eq!(objects.in_namespace("a").count(), 0);
    assert_eq!(
        list(&mut objects, 1, &[("b/x", 1)]),
        ["a/y >1", "a/z >1", "b/x >1"]
    );
    assert_eq!(list(&mut objects, 0, &[("a/z", 1)]), ["a/z 1>1", "a/y 1>"]);
    assert_eq!(all(&objects), [("a/z".to_owned(), 1), ("b/x".to_owned(), 1)]);
    assert_eq!(objects.in_namespace("a").count(), 1);
}

#[test]
fn ignored_objects_are_unknown() {
    let mut objects = listed(&[("a/x", 1)]);
    assert_eq!(
        lines(objects.apply(0, Event::Apply((name("a/x"), None)))),
        ["a/x 1>"]
    );
    assert_eq!(objects.apply(0, Event::Apply((name("a/x"), None))), []);
    objects.apply(0, Event::InitApply((name("a/x"), None)));
    assert_eq!(objects.apply(0, Event::InitDone), []);
}

#[test]
fn what_was_just_written_is_not_replaced_by_an_older_version() {
    let mut objects = WatchedObjects::new([None]).ignoring_older(|value, known| value < known);
    list(&mut objects, 0, &[("a/x", 1), ("a/y", 1)]);
    assert_eq!(lines(objects.insert(name("a/x"), 3)), ["a/x 1>3"]);
    assert_eq!(objects.apply(0, apply("a/x", 2)), []);
    assert_eq!(
        list(&mut objects, 0, &[("a/x", 2), ("a/y", 2)]),
        ["a/x 3>3", "a/y 1>2"]
    );
    assert_eq!(lines(objects.apply(0, apply("a/x", 4))), ["a/x 3>4"]);
    assert_eq!(lines(objects.remove(name("a/x"))), ["a/x 4>"]);
}

#[test]
fn only_a_version_of_the_same_object_can_be_older() {
    let version = |uid: &str, number: &str| {
        ObservedVersion::of(&ObjectMeta {
            uid: Some(uid.to_owned()),
            resource_version: Some(number.to_owned()),
            ..ObjectMeta::default()
        })
    };
    let known = version("u", "10");
    assert!(version("u", "9").is_older(&known));
    for other in [
        version("u", "10"),
        version("u", "11"),
        version("other", "9"),
        version("u", "opaque"),
    ] {
        assert!(!other.is_older(&known), "{other:?}");
    }
}

/// What a watch has listed, in the simplest way: the content of its last complete list with all later changes.
#[derive(Default)]
struct ModelledWatch {
    list: BTreeMap<NamespacedName, Value>,
    objects: Option<BTreeMap<NamespacedName, Value>>,
}

impl ModelledWatch {
    fn apply(&mut self, event: Event<Item<Value>>) {
        match event {
            Event::Init => self.list.clear(),
            Event::InitApply((name, value)) => self.list.extend(value.map(|value| (name, value))),
            Event::InitDone => self.objects = Some(std::mem::take(&mut self.list)),
            Event::Apply((name, value)) => {
                let objects = self.objects.get_or_insert_default();
                objects.remove(&name);
                objects.extend(value.map(|value| (name, value)));
            }
            Event::Delete((name, _)) => {
                self.objects.get_or_insert_default().remove(&name);
            }
        }
    }
}

const NAMESPACES: [&str; 3] = ["a", "b", "c"];

/// An event of one of the watches.
fn any_event() -> impl Strategy<Value = (usize, Event<Item<Value>>)> {
    let item = (0..4_u32, proptest::option::weighted(0.9, 0..3_u32));
    (0..NAMESPACES.len(), 0..9_u32, item).prop_map(|(watch, kind, (number, value))| {
        let item = (NamespacedName::new(NAMESPACES[watch], number.to_string()), value);
        let event = match kind {
            0 => Event::Init,
            1 => Event::InitDone,
            2..=4 => Event::InitApply(item),
            5..=6 => Event::Apply(item),
            _ => Event::Delete(item),
        };
        (watch, event)
    })
}

proptest! {
    /// Whatever the events: the objects are those of a simple model, and the changes add up to them.
    #[test]
    fn the_changes_add_up_to_the_objects(events in proptest::collection::vec(any_event(), 0..80)) {
        let mut objects = WatchedObjects::new(NAMESPACES.map(|namespace| Some(namespace.to_owned())));
        let mut model: [ModelledWatch; NAMESPACES.len()] = Default::default();
        let mut is_listed = [false; NAMESPACES.len()];
        let mut folded = BTreeMap::new();
        for (watch, event) in events {
            is_listed[watch] |= matches!(event, Event::InitDone);
            model[watch].apply(event.clone());
            for Change { name, before, after } in objects.apply(watch, event) {
                prop_assert!(before.is_some() || after.is_some());
                prop_assert_eq!(folded.remove(&name), before);
                folded.extend(after.map(|after| (name, after)));
            }
            let mut expected = BTreeMap::new();
            if is_listed == [true; NAMESPACES.len()] {
                let modelled = model.iter().filter_map(|watch| watch.objects.clone());
                expected.extend(modelled.flatten());
            }
            prop_assert_eq!(&folded, &expected);
            let all: BTreeMap<_, _> = objects.iter().map(|(name, value)| (name.clone(), *value)).collect();
            prop_assert_eq!(&all, &expected);
            prop_assert_eq!(objects.len(), expected.len());
        }
    }
}
