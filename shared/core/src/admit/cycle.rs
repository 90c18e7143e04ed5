//! HelmOps that wait for each other: none of them is ever deployed.

use std::collections::{BTreeSet, VecDeque};

use helmops_api::{HelmOp, NamespacedName};
use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path},
};

use super::waits_until_ready;

/// A HelmOp or Bundle that has to be ready before a HelmOp.
#[derive(Debug, PartialEq, Eq)]
pub struct Named<'h> {
    /// The path of its name.
    pub path: String,
    /// Its namespace.
    pub namespace: &'h str,
    /// Its name.
    pub name: &'h str,
    /// Whether the HelmOp waits for it on every cluster. An expression may be true before it is deployed, and the entry of a target replaces
    /// another one.
    pub is_certain: bool,
}

/// What has to be ready before a HelmOp in a namespace, by name.
pub fn named<'h>(helmop: &'h HelmOp, namespace: &'h str) -> impl Iterator<Item = Named<'h>> {
    let bundle = &helmop.spec.bundle;
    let of_fleet = bundle.depends_on.iter().enumerate();
    let of_fleet = of_fleet.filter(|(_, one)| !one.name.is_empty() && waits_until_ready(one));
    let of_fleet = of_fleet.map(move |(index, one)| Named {
        path: format!("spec.dependsOn[{index}].name"),
        namespace,
        name: &one.name,
        is_certain: true,
    });
    let mut of_targets = bundle
        .targets
        .iter()
        .filter_map(|target| target.options.lifecycle.as_ref());
    let is_replaced = of_targets.any(|lifecycle| !lifecycle.depends_on.is_empty());
    let lifecycle = bundle.options.lifecycle.iter();
    let own = lifecycle.flat_map(|lifecycle| lifecycle.depends_on.iter().enumerate());
    let own = own.filter(|(_, one)| !one.is_object());
    let own = own.map(move |(index, one)| {
        let [_, _, namespace, name] = one.key(namespace);
        Named {
            path: format!("spec.lifecycle.dependsOn[{index}].name"),
            namespace,
            name,
            is_certain: one.ready.is_empty() && !is_replaced,
        }
    });
    of_fleet.chain(own)
}

/// What a HelmOp waits for on every cluster.
pub fn certain(helmop: &HelmOp) -> impl Iterator<Item = Named<'_>> {
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    named(helmop, namespace).filter(|named| named.is_certain)
}

/// How many HelmOps are looked at.
const MAX_HELMOPS: usize = 64;

/// The search for a way from a HelmOp back to itself, without I/O: the caller reads the HelmOps that it names.
#[derive(Debug)]
pub struct CycleSearch {
    start: NamespacedName,
    ways: VecDeque<Way>,
    seen: BTreeSet<NamespacedName>,
}

/// A way from the first HelmOp to another one, over HelmOps that wait for the next one.
#[derive(Clone, Debug)]
pub struct Way {
    /// The last one, if it is a HelmOp: it may be a Bundle, or not exist.
    pub last: NamespacedName,
    /// Those between the first and the last one.
    between: Vec<NamespacedName>,
    /// Where the first one names the next one.
    path: String,
}

impl CycleSearch {
    /// A search from a HelmOp. One whose name is generated is none that another one waits for.
    pub fn of(helmop: &HelmOp) -> Self {
        let start = NamespacedName::of(&helmop.metadata);
        let mut search = Self {
            seen: BTreeSet::from([start.clone()]),
            ways: VecDeque::new(),
            start,
        };
        if helmop.metadata.name.is_some() {
            search.extend(helmop, None);
        }
        search
    }

    /// Whether nothing is to be looked at.
    pub fn is_over(&self) -> bool {
        self.ways.is_empty()
    }

    /// The next way, whose last HelmOp is to be looked at; `None` at the end.
    pub fn next_way(&mut self) -> Option<Way> {
        self.ways.pop_front()
    }

    /// Follows a way over its last HelmOp. Returns the error if that one waits for the first.
    pub fn follow(&mut self, way: &Way, helmop: &HelmOp) -> Option<FieldErrors> {
        let is_start =
            |one: Named<'_>| (one.namespace, one.name) == (&self.start.namespace, &self.start.name);
        if certain(helmop).any(is_start) {
            return Some(self.error(way));
        }
        self.extend(helmop, Some(way));
        None
    }

    fn extend(&mut self, helmop: &HelmOp, way: Option<&Way>) {
        for named in certain(helmop) {
            let last = NamespacedName::new(named.namespace, named.name);
            if self.seen.len() > MAX_HELMOPS || !self.seen.insert(last.clone()) {
                continue;
            }
            let between = way.iter().flat_map(|way| way.between.iter().chain([&way.last]));
            let between = between.cloned().collect();
            let path = way.map_or(named.path, |way| way.path.clone());
            self.ways.push_back(Way { last, between, path });
        }
    }

    fn error(&self, way: &Way) -> FieldErrors {
        let all = [&self.start].into_iter().chain(&way.between);
        let all = all.chain([&way.last, &self.start]);
        let names = all.map(|name| {
            if name.namespace == self.start.namespace {
                name.name.clone()
            } else {
                name.to_string()
            }
        });
        let names: Vec<_> = names.collect();
        let detail = format!(
            "these HelmOps wait for each other, so none of them would ever be deployed: {}; remove one of the dependencies",
            names.join(" -> ")
        );
        let mut errors = FieldErrors::default();
        let next = way.between.first().unwrap_or(&way.last);
        errors.invalid(
            &Path::root(&way.path),
            Reason::InvalidDependency,
            &next.name,
            detail,
        );
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn helmop(name: &str, spec: &Value) -> HelmOp {
        let (namespace, name) = name.split_once('/').unwrap_or(("team", name));
        let object = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    /// The error of the first HelmOp, and how many others were looked at.
    fn search(all: &[(&str, Value)]) -> (Option<String>, usize) {
        let all: Vec<_> = all.iter().map(|(name, spec)| helmop(name, spec)).collect();
        let (mut search, mut looks) = (CycleSearch::of(&all[0]), 0);
        while let Some(way) = search.next_way() {
            looks += 1;
            let found = all
                .iter()
                .find(|one| NamespacedName::of(&one.metadata) == way.last);
            if let Some(errors) = found.and_then(|found| search.follow(&way, found)) {
                let error = errors.reported()[0].to_string();
                assert_eq!(errors.reason(), Some(Reason::InvalidDependency));
                return (Some(error), looks);
            }
        }
        (None, looks)
    }

    fn own(name: &str) -> Value {
        json!({ "lifecycle": { "dependsOn": [{ "name": name }] } })
    }

    fn fleets(name: &str) -> Value {
        json!({ "dependsOn": [{ "name": name }] })
    }

    #[test]
    fn a_way_back_is_named() {
        let error = |field: &str, value: &str, path: &str| {
            format!(
                "spec.{field}.name: Invalid value: {value:?}: these HelmOps wait for each other, so none of them would ever be deployed: \
                 {path}; remove one of the dependencies"
            )
        };
        let of_namespace = |namespace: &str, name: &str| json!({ "lifecycle": { "dependsOn": [{ "name": name, "namespace": namespace }] } });
        for (all, expected) in [
            (
                vec![("a", own("b")), ("b", fleets("a"))],
                error("lifecycle.dependsOn[0]", "b", "a -> b -> a"),
            ),
            (
                vec![
                    (
                        "a",
                        json!({ "dependsOn": [{ "selector": {} }, { "name": "x" }, { "name": "b" }] }),
                    ),
                    ("b", own("c")),
                    ("c", fleets("a")),
                ],
                error("dependsOn[2]", "b", "a -> b -> c -> a"),
            ),
            (
                vec![
                    ("a", of_namespace("data", "db")),
                    ("data/db", of_namespace("team", "a")),
                ],
                error("lifecycle.dependsOn[0]", "db", "a -> data/db -> a"),
            ),
        ] {
            assert_eq!(search(&all).0, Some(expected));
        }
    }

    #[test]
    fn what_may_be_deployed_is_no_cycle() {
        let expression = json!({ "lifecycle": { "dependsOn": [{ "name": "a", "ready": "true" }] } });
        let object =
            json!({ "lifecycle": { "dependsOn": [{ "name": "a", "apiVersion": "v1", "kind": "Secret" }] } });
        let waiting = json!({ "dependsOn": [{ "name": "a", "acceptedStates": ["Ready", "WaitApplied"] }] });
        let mut replaced = own("a");
        replaced["targets"] = json!([{ "lifecycle": { "dependsOn": [{ "name": "a", "ready": "true" }] } }]);
        for other in [
            json!({}),
            expression,
            object,
            waiting,
            replaced,
            own("b"),
            own("c"),
            own("x/a"),
        ] {
            let all = [("a", own("b")), ("b", other.clone()), ("other/b", own("a"))];
            assert_eq!(search(&all).0, None, "{other}");
        }
        // A cycle of others, and one that is not stored.
        let all = [("a", own("b")), ("b", own("c")), ("c", own("b"))];
        assert_eq!(search(&all), (None, 2));
        assert_eq!(search(&[("a", own("b"))]), (None, 1));
        assert_eq!(search(&[("a", json!({}))]), (None, 0));
    }

    #[test]
    fn the_search_is_bounded() {
        let names: Vec<_> = (0..200)
            .map(|number| json!({ "name": number.to_string() }))
            .collect();
        let all = [("a", json!({ "dependsOn": names }))];
        assert_eq!(search(&all), (None, MAX_HELMOPS));
    }
}
