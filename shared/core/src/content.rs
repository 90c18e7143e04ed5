//! Which Contents are deleted: those that nothing refers to any more.
//!
//! ```text
//! Contents (metadata) ─┐
//! BundleDeployments ───┼─► plan: unused since? ─► candidates ─► proof: everything is read again ─► deletion
//! Bundles ─────────────┘
//! ```
//!
//! Only Contents with the label of this controller count: those of Fleet are Fleet's. A reference is more than the current deployment: what is
//! staged, what a rollout goes back to, and what a HelmOp wants while something else stays deployed.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use helmops_api::{Bundle, ResolvedChart, labels};
use helmops_content::{ContentId, deployment_content};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};

use crate::{bundle::withheld_charts, targeting::chart_record::recorded_in};

/// A Content object that this controller uses: the head of some content, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredContent {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Option<String>,
    /// Its version: it changes when the content is used again.
    pub resource_version: Option<String>,
    /// When it was written, or used again.
    pub used_at: Option<Timestamp>,
    /// The bytes that are stored in it.
    pub bytes: u64,
    /// Whether another client has written it: it is never deleted.
    pub is_shared: bool,
    /// The names of the parts that the content has besides its head; on the head.
    pub parts: Vec<String>,
}

impl StoredContent {
    /// What the metadata of an object show. `None` if this controller does not use it.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let role = labels::of(metadata, labels::CONTENT)?;
        let name = metadata.name.clone()?;
        ContentId::of_object(&name)?;
        let used = labels::annotation(metadata, labels::CONTENT_USED_AT).and_then(|time| time.parse().ok());
        let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
        let bytes = labels::annotation(metadata, labels::CONTENT_BYTES).and_then(|bytes| bytes.parse().ok());
        Some(Self {
            name,
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            used_at: used.max(created),
            bytes: bytes.unwrap_or_default(),
            is_shared: role == labels::CONTENT_SHARED,
            parts: labels::annotation(metadata, labels::CONTENT_PARTS)
                .map(|names| names.split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
        })
    }

    /// Whether it is the head of its content.
    pub fn is_head(&self) -> bool {
        self.name.parse::<ContentId>().is_ok()
    }

    /// The ID of its content.
    pub fn id(&self) -> Option<ContentId> {
        ContentId::of_object(&self.name)
    }
}

/// The contents that a Bundle refers to.
pub fn references(bundle: &Bundle) -> BTreeSet<ContentId> {
    let completed = bundle
        .status
        .as_deref()
        .and_then(|status| status.completed.as_deref());
    let completed =
        completed.and_then(|completed| serde_json::from_str::<Vec<ResolvedChart>>(&completed.resolved).ok());
    let charts = [recorded_in(bundle), withheld_charts(bundle), completed];
    let charts = charts.into_iter().flatten().flatten();
    charts.filter_map(|chart| chart.content.parse().ok()).collect()
}

/// The contents that a BundleDeployment refers to by its deployment IDs: the current and the staged one.
#[expect(single_use_lifetimes, reason = "a lifetime in `impl Trait` must be named")]
pub fn of_deployment<'i>(ids: impl IntoIterator<Item = &'i str>) -> impl Iterator<Item = ContentId> {
    ids.into_iter().filter_map(deployment_content)
}

/// Since when contents are not referred to, as far as this process has seen it. A restart begins again, which only delays a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unused(BTreeMap<ContentId, Timestamp>);

/// What is to be deleted, once it is proved that nothing refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The objects of each content, the head first: without it the content is not complete, so no part is missed.
    pub due: BTreeMap<ContentId, Vec<StoredContent>>,
    /// The time until another one is due.
    pub next: Option<Duration>,
}

impl Unused {
    /// Something refers to some content after all, or has used it again: its time begins again.
    pub fn forget(&mut self, id: &ContentId) {
        self.0.remove(id);
    }

    /// Finds what nothing has referred to for `grace`, and what was neither written nor used again within that time.
    pub fn plan(
        &mut self,
        stored: Vec<StoredContent>,
        referenced: &BTreeSet<ContentId>,
        now: Timestamp,
        grace: Duration,
    ) -> Candidates {
        let mut contents = BTreeMap::<_, Vec<_>>::new();
        for object in stored {
            let id = object
                .id()
                .filter(|id| !object.is_shared && !referenced.contains(id));
            if let Some(id) = id {
                contents.entry(id).or_default().push(object);
            }
        }
        self.0.retain(|id, _| contents.contains_key(id));
        let mut candidates = Candidates::default();
        for (id, mut objects) in contents {
            let seen = *self.0.entry(id.clone()).or_insert(now);
            let used = objects.iter().filter_map(|object| object.used_at).max();
            let since = used.map_or(seen, |used| used.max(seen));
            let unused_for = Duration::try_from(now.duration_since(since)).unwrap_or_default();
            let wait = grace.checked_sub(unused_for).filter(|wait| !wait.is_zero());
            if let Some(wait) = wait {
                candidates.next = candidates.next.into_iter().chain([wait]).min();
            } else {
                objects.sort_by_key(|object| !object.is_head());
                candidates.due.insert(id, objects);
            }
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const GRACE: Duration = Duration::from_secs(100);

    fn id(digit: char) -> ContentId {
        format!("s-{}", String::from(digit).repeat(61)).parse().unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn head(digit: char, used_at: i64) -> StoredContent {
        StoredContent {
            name: id(digit).to_string(),
            used_at: Some(at(used_at)),
            ..StoredContent::default()
        }
    }

    fn part(digit: char, used_at: i64) -> StoredContent {
        let name = id(digit).part("0123456789abcdef");
        StoredContent {
            name,
            ..head(digit, used_at)
        }
    }

    fn due(candidates: &Candidates) -> Vec<ContentId> {
        candidates.due.keys().cloned().collect()
    }

    #[test]
    fn content_is_deleted_only_after_nothing_has_referred_to_it_for_a_while() {
        let mut unused = Unused::default();
        let stored = vec![head('a', 0), head('b', 0)];
        let referenced = BTreeSet::from([id('a')]);
        let none = BTreeSet::new();
        for (now, referenced, expected, next) in [
            (1_000, &referenced, vec![], Some(100)),
            (1_099, &referenced, vec![], Some(1)),
            (1_100, &none, vec![id('b')], Some(100)),
            // Something refers to it again, so the time begins again.
            (1_150, &referenced, vec![id('b')], None),
            (1_200, &none, vec![id('b')], Some(100)),
            (1_300, &none, vec![id('a'), id('b')], None),
        ] {
            let found = unused.plan(stored.clone(), referenced, at(now), GRACE);
            assert_eq!(due(&found), expected, "{now}");
            assert_eq!(found.next, next.map(Duration::from_secs), "{now}");
        }
    }

    #[test]
    fn content_that_was_just_written_or_used_again_stays() {
        let mut unused = Unused::default();
        let referenced = BTreeSet::new();
        unused.plan(vec![part('a', 0), head('a', 0)], &referenced, at(0), GRACE);
        let again = unused.plan(vec![part('a', 150), head('a', 0)], &referenced, at(200), GRACE);
        assert_eq!((due(&again), again.next), (vec![], Some(Duration::from_secs(50))));
        let later = unused.plan(vec![part('a', 150), head('a', 0)], &referenced, at(250), GRACE);
        let objects: Vec<_> = later.due[&id('a')].iter().map(StoredContent::is_head).collect();
        assert_eq!(objects, [true, false], "the head first");
    }

    #[test]
    fn content_of_another_client_stays() {
        let shared = StoredContent {
            is_shared: true,
            ..head('a', 0)
        };
        let mut unused = Unused::default();
        for now in [1_000, 2_000] {
            let found = unused.plan(
                vec![shared.clone(), head('b', 0)],
                &BTreeSet::new(),
                at(now),
                GRACE,
            );
            assert!(!found.due.contains_key(&id('a')), "{now}");
        }
    }

    #[test]
    fn parts_that_a_crash_has_left_are_found() {
        let mut unused = Unused::default();
        for (now, expected) in [(1_000, vec![]), (1_100, vec![id('a')])] {
            let found = unused.plan(vec![part('a', 0)], &BTreeSet::new(), at(now), GRACE);
            assert_eq!(due(&found), expected);
        }
    }

    #[test]
    fn only_objects_of_this_controller_count() {
        let of = |metadata: Value| {
            let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
            StoredContent::of(&metadata)
        };
        let name = id('a').to_string();
        let annotations =
            json!({ labels::CONTENT_BYTES: "12", labels::CONTENT_USED_AT: "2026-01-02T00:00:00Z" });
        let own = of(json!({
            "name": name, "labels": { labels::CONTENT: "head" }, "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u", "resourceVersion": "1",
        }));
        let own = own.unwrap();
        assert_eq!((own.is_head(), own.is_shared, own.bytes), (true, false, 12));
        assert_eq!(own.id(), Some(id('a')));
        assert_eq!(own.used_at, Some("2026-01-02T00:00:00Z".parse().unwrap()));
        for foreign in [
            json!({ "name": name, "finalizers": ["fleet.cattle.io/content"] }),
            json!({ "name": "other", "labels": { labels::CONTENT: "head" } }),
        ] {
            assert_eq!(of(foreign), None);
        }
    }

    #[test]
    fn whatever_a_rollout_may_need_is_a_reference() {
        let records = |digit| json!([{ "chart": "web", "version": "1.0.0", "content": id(digit).as_str() }, { "chart": "db" }]);
        let withheld = json!({ "withheld": { "id": "x", "resolved": records('b') } });
        let object = json!({
            "metadata": { "annotations": {
                labels::RESOLVED: records('a').to_string(), labels::FAILED_ROLLOUTS: withheld.to_string(),
            } },
            "status": { "completed": { "id": "y", "spec": "{}", "resolved": records('c').to_string() } },
        });
        let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(references(&bundle), BTreeSet::from([id('a'), id('b'), id('c')]));
        let ids = [format!("{}:x", id('d')), ":y".to_owned(), String::new()];
        let found: Vec<_> = of_deployment(ids.iter().map(String::as_str)).collect();
        assert_eq!(found, [id('d')]);
    }
}
