//! `dependsOn` and `lifecycle.dependsOn`: the Bundles that must be in an accepted state on the cluster first, and the objects that must be
//! ready.

mod objects;

use std::collections::{BTreeMap, BTreeSet};

use helmops_api::{BundleDeployment, NamespacedName, labels, lifecycle::Dependency, target::BundleRef};
use helmops_model::{
    deployment_state::DeploymentState,
    expression::Expression,
    selector::{InvalidSelector, Selector},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use thiserror::Error;

pub use self::objects::{ObjectDependency, objects};
use crate::names::name_of;

/// Why a BundleDeployment waits for others.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unmet {
    /// Nothing on the cluster matches an entry.
    #[error(
        "dependent bundle(s) are not ready: dependsOn[{index}] matches no bundle on this cluster ({entry}); \
         check its name and selector, or deploy it to this cluster"
    )]
    NoMatch {
        /// The index of the entry.
        index: usize,
        /// The entry.
        entry: String,
    },
    /// Some are not in an accepted state.
    #[error(
        "waiting for dependent bundle(s) to reach an accepted state: {}",
        joined(pending)
    )]
    NotReady {
        /// They, sorted by name.
        pending: Vec<PendingDependency>,
    },
    /// They wait for each other.
    #[error(
        "dependent bundle(s) are not ready: each waits for the next one: {}; remove one of these dependencies (dependsOn)",
        path.join(" -> ")
    )]
    Cycle {
        /// The names of their BundleDeployments, from the one that waits to itself.
        path: Vec<String>,
    },
    /// A selector is invalid.
    #[error(transparent)]
    InvalidSelector(#[from] InvalidSelector),
    /// An expression is not true.
    #[error("lifecycle.dependsOn[{index}]: {name} is not ready: {cause}")]
    NotTrue {
        /// The index of the entry.
        index: usize,
        /// The name of the Bundle or object.
        name: String,
        /// The expression, or why it cannot be evaluated.
        cause: String,
    },
}

/// A BundleDeployment that is in no accepted state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingDependency {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: DeploymentState,
    /// The states that are accepted.
    pub accepted: Vec<String>,
}

/// As in the message of Fleet's agent.
fn joined(pending: &[PendingDependency]) -> String {
    let texts: Vec<_> = pending
        .iter()
        .map(|one| {
            let (name, state) = (&one.name, one.state.as_str());
            format!("{name} (state: {state}, accepted: {})", one.accepted.join(", "))
        })
        .collect();
    texts.join("; ")
}

impl Unmet {
    /// Whether it is a wait, which ends by itself when others become ready. Otherwise it may never end, which is an error: as in Fleet.
    pub const fn is_wait(&self) -> bool {
        match self {
            Self::NotReady { .. } | Self::NotTrue { .. } => true,
            Self::NoMatch { .. } | Self::Cycle { .. } | Self::InvalidSelector(_) => false,
        }
    }
}

/// Whether a BundleDeployment depends on others.
pub fn has_any(deployment: &BundleDeployment) -> bool {
    !deployment.spec.depends_on.is_empty() || bundles(deployment).next().is_some()
}

/// Checks the dependencies of a BundleDeployment on others. `all` are the BundleDeployments of the cluster.
///
/// # Errors
/// If one of them does not exist or is not in an accepted state.
pub fn check(deployment: &BundleDeployment, all: &[&BundleDeployment]) -> Result<(), Unmet> {
    let checked = check_others(deployment, all);
    checked.map_err(|unmet| cycle(deployment, all).map_or(unmet, |path| Unmet::Cycle { path }))
}

fn check_others(deployment: &BundleDeployment, all: &[&BundleDeployment]) -> Result<(), Unmet> {
    let mut pending = Vec::new();
    for (index, entry) in deployment.spec.depends_on.iter().enumerate() {
        let Some(found) = selected(deployment, (index, entry), all.iter().copied())? else {
            continue;
        };
        if found.is_empty() {
            return Err(Unmet::NoMatch {
                index,
                entry: described(entry),
            });
        }
        let accepted = accepted(entry);
        pending.extend(found.into_iter().filter_map(|other| {
            let state = DeploymentState::of(other);
            let is_accepted = accepted.contains(&state.as_str());
            (!is_accepted).then(|| PendingDependency {
                name: other.metadata.name.clone().unwrap_or_default(),
                state,
                accepted: accepted.iter().map(|&state| state.to_owned()).collect(),
            })
        }));
    }
    if pending.is_empty() {
        return check_own(deployment, all);
    }
    pending.sort();
    pending.dedup();
    Err(Unmet::NotReady { pending })
}

/// Checks `lifecycle.dependsOn`, except for objects.
fn check_own(deployment: &BundleDeployment, all: &[&BundleDeployment]) -> Result<(), Unmet> {
    for (index, entry) in bundles(deployment) {
        let found = all.iter().find(|other| is_of(entry, deployment, other));
        let name = match &*entry.namespace {
            "" => entry.name.clone(),
            namespace => format!("{namespace}/{}", entry.name),
        };
        let Some(dependency) = found else {
            return Err(Unmet::NotTrue {
                index,
                name,
                cause: "it is not on this cluster; check its name, or deploy it to this cluster".to_owned(),
            });
        };
        if let Some(cause) = not_ready(entry, deployment, dependency) {
            return Err(Unmet::NotTrue { index, name, cause });
        }
    }
    Ok(())
}

/// Why a dependency is not ready.
fn not_ready(
    entry: &Dependency,
    deployment: &BundleDeployment,
    dependency: &BundleDeployment,
) -> Option<String> {
    if entry.ready.is_empty() {
        let state = DeploymentState::of(dependency);
        return (state != DeploymentState::Ready).then(|| format!("its state is {}", state.as_str()));
    }
    not_true(&entry.ready, deployment, dependency)
}

/// How many BundleDeployments are looked at for a cycle: each is compared with all others, as often as something waits.
const MAX_CYCLE: usize = 64;

/// The shortest way from a BundleDeployment that waits over others that wait back to itself.
fn cycle(deployment: &BundleDeployment, all: &[&BundleDeployment]) -> Option<Vec<String>> {
    let own = name_of(deployment);
    let mut paths = vec![vec![deployment]];
    let mut seen = BTreeSet::new();
    for next in 0..MAX_CYCLE {
        let path = paths.get(next)?.clone();
        for awaited in awaited(path.last()?, all) {
            let name = name_of(awaited);
            let longer = path.iter().copied().chain([awaited]);
            if name == own {
                return Some(longer.map(|one| name_of(one).to_owned()).collect());
            }
            if seen.insert(name) {
                paths.push(longer.collect());
            }
        }
    }
    None
}

/// Those that a BundleDeployment waits for.
fn awaited<'d>(deployment: &BundleDeployment, all: &[&'d BundleDeployment]) -> Vec<&'d BundleDeployment> {
    let mut awaited = Vec::new();
    for entry in deployment.spec.depends_on.iter().enumerate() {
        let found = selected(deployment, entry, all.iter().copied());
        let accepted = accepted(entry.1);
        let is_awaited = |other: &&BundleDeployment| !accepted.contains(&DeploymentState::of(other).as_str());
        awaited.extend(
            found
                .ok()
                .flatten()
                .unwrap_or_default()
                .into_iter()
                .filter(is_awaited),
        );
    }
    for (_, entry) in bundles(deployment) {
        let named = all
            .iter()
            .copied()
            .filter(|other| is_of(entry, deployment, other));
        awaited.extend(named.filter(|other| not_ready(entry, deployment, other).is_some()));
    }
    awaited
}

/// Why an expression is not true.
fn not_true(ready: &str, deployment: &BundleDeployment, dependency: &BundleDeployment) -> Option<String> {
    let expression = match Expression::parse(ready) {
        Ok(expression) => expression,
        Err(error) => return Some(error.to_string()),
    };
    // Their types have no field that is no JSON.
    let value = |object: &BundleDeployment| serde_json::to_value(object).unwrap_or_default();
    let (own, other) = (value(deployment), value(dependency));
    match expression.evaluate(&[("self", &own), ("dep", &other)]) {
        Ok(true) => None,
        Ok(false) => Some(format!("{ready:?} is not true")),
        Err(error) => Some(error.to_string()),
    }
}

/// What an entry names: with it, the BundleDeployments that may depend on another one are found without looking at all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DependencyKey {
    /// A Bundle.
    Bundle(NamespacedName),
    /// Labels of any BundleDeployment.
    Labels,
}

/// The keys of the entries of a BundleDeployment.
pub fn keys(deployment: &BundleDeployment) -> BTreeSet<DependencyKey> {
    let own_namespace = label(deployment, labels::BUNDLE_NAMESPACE).unwrap_or_default();
    let bundle = |namespace: &str, name: &str| DependencyKey::Bundle(NamespacedName::new(namespace, name));
    let entries = deployment.spec.depends_on.iter().map(|entry| match &*entry.name {
        "" => DependencyKey::Labels,
        name => bundle(own_namespace, name),
    });
    let own = bundles(deployment).map(|(_, entry)| {
        let [_, _, namespace, name] = entry.key(own_namespace);
        bundle(namespace, name)
    });
    entries.chain(own).collect()
}

/// The keys of all entries that may match a BundleDeployment.
pub fn keys_of_dependents(deployment: &BundleDeployment) -> [DependencyKey; 2] {
    let [namespace, name] =
        [labels::BUNDLE_NAMESPACE, labels::BUNDLE_NAME].map(|key| label(deployment, key).unwrap_or_default());
    let bundle = NamespacedName::new(namespace, name);
    [DependencyKey::Bundle(bundle), DependencyKey::Labels]
}

fn label<'d>(deployment: &'d BundleDeployment, key: &str) -> Option<&'d str> {
    let labels = deployment.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}

fn own(deployment: &BundleDeployment) -> &[Dependency] {
    let lifecycle = deployment.spec.lifecycle.as_ref();
    lifecycle
        .map(|lifecycle| &*lifecycle.depends_on)
        .unwrap_or_default()
}

/// The entries of `lifecycle.dependsOn` that are HelmOps or Bundles, with their indexes.
fn bundles(deployment: &BundleDeployment) -> impl Iterator<Item = (usize, &Dependency)> {
    let entries = own(deployment).iter().enumerate();
    entries.filter(|(_, entry)| !entry.is_object())
}

/// Whether an entry that is a HelmOp or Bundle names that of another BundleDeployment. By default, it is in the namespace of the Bundle of
/// this one.
fn is_of(entry: &Dependency, deployment: &BundleDeployment, other: &BundleDeployment) -> bool {
    let own_namespace = label(deployment, labels::BUNDLE_NAMESPACE).unwrap_or_default();
    let [namespace, name] =
        [labels::BUNDLE_NAMESPACE, labels::BUNDLE_NAME].map(|key| label(other, key).unwrap_or_default());
    entry.key(own_namespace) == ["", "", namespace, name]
}

/// Whether an expression of a BundleDeployment is about another one, so that every change of the other one concerns it.
pub fn evaluates(deployment: &BundleDeployment, other: &BundleDeployment) -> bool {
    let mut entries = bundles(deployment);
    entries.any(|(_, entry)| !entry.ready.is_empty() && is_of(entry, deployment, other))
}

/// Whether a BundleDeployment depends on another one, so that a change of the other one concerns it.
pub fn depends_on(deployment: &BundleDeployment, other: &BundleDeployment) -> bool {
    let is_own = bundles(deployment).any(|(_, entry)| is_of(entry, deployment, other));
    let mut entries = deployment.spec.depends_on.iter().enumerate();
    // An invalid selector is reported when the deployment itself changes.
    let is_selected =
        |entry| matches!(selected(deployment, entry, [other]), Ok(Some(found)) if !found.is_empty());
    is_own || entries.any(is_selected)
}

/// The BundleDeployments that one depends on, of all those of the cluster, without itself.
pub fn names(deployment: &BundleDeployment, all: &[&BundleDeployment]) -> BTreeSet<String> {
    let entries = deployment.spec.depends_on.iter().enumerate();
    // An invalid one is reported before anything is deployed.
    let found = entries.filter_map(|entry| selected(deployment, entry, all.iter().copied()).ok()?);
    let is_named =
        |other: &&BundleDeployment| bundles(deployment).any(|(_, entry)| is_of(entry, deployment, other));
    let found = found.flatten().chain(all.iter().copied().filter(is_named));
    let mut names: BTreeSet<String> = found.filter_map(|other| other.metadata.name.clone()).collect();
    names.remove(name_of(deployment));
    names
}

/// Whether a BundleDeployment may still depend on the one of a Bundle that does not exist any more: its labels are not known.
pub fn may_depend_on(deployment: &BundleDeployment, bundle: NamespacedName) -> bool {
    let keys = keys(deployment);
    keys.contains(&DependencyKey::Labels) || keys.contains(&DependencyKey::Bundle(bundle))
}

/// Those of some BundleDeployments that an entry selects; `None` for an empty entry.
fn selected<'d>(
    deployment: &BundleDeployment,
    (index, entry): (usize, &BundleRef),
    all: impl IntoIterator<Item = &'d BundleDeployment>,
) -> Result<Option<Vec<&'d BundleDeployment>>, InvalidSelector> {
    let Some(selector) = selector(deployment, entry) else {
        return Ok(None);
    };
    let selector = Selector::new(&format!("spec.dependsOn[{index}].selector"), &selector)?;
    let is_selected = |other: &&BundleDeployment| selector.matches(other.metadata.labels.as_ref());
    Ok(Some(all.into_iter().filter(is_selected).collect()))
}

/// The labels that an entry requires; `None` for an empty entry. A name means the Bundle of that name in the namespace of the Bundle
/// of this deployment.
fn selector(deployment: &BundleDeployment, entry: &BundleRef) -> Option<LabelSelector> {
    if entry.name.is_empty() && entry.selector.is_none() {
        return None;
    }
    let mut selector = entry.selector.clone().unwrap_or_default();
    if !entry.name.is_empty() {
        let namespace = label(deployment, labels::BUNDLE_NAMESPACE).unwrap_or_default();
        let required: &mut BTreeMap<_, _> = selector.match_labels.get_or_insert_default();
        required.insert(labels::BUNDLE_NAME.to_owned(), entry.name.clone());
        required.insert(labels::BUNDLE_NAMESPACE.to_owned(), namespace.to_owned());
    }
    Some(selector)
}

/// The states in which a dependency does not delay.
fn accepted(entry: &BundleRef) -> Vec<&str> {
    if entry.accepted_states.is_empty() {
        return vec![DeploymentState::Ready.as_str()];
    }
    entry.accepted_states.iter().map(String::as_str).collect()
}

fn described(entry: &BundleRef) -> String {
    if entry.name.is_empty() {
        "selector".to_owned()
    } else {
        format!("name {}", entry.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(name: &str, spec: &Value, status: &Value) -> BundleDeployment {
        let labels = json!({
            "fleet.cattle.io/bundle-name": name, "fleet.cattle.io/bundle-namespace": "fleet", "app": name,
        });
        let object =
            json!({ "metadata": { "name": name, "labels": labels }, "spec": spec, "status": status });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    fn ready(name: &str) -> BundleDeployment {
        let spec = json!({ "deploymentID": ":a", "stagedDeploymentID": ":a" });
        let status = json!({ "appliedDeploymentID": ":a", "ready": true, "nonModified": true });
        deployment(name, &spec, &status)
    }

    fn waiting(name: &str) -> BundleDeployment {
        let spec = json!({ "deploymentID": ":a", "stagedDeploymentID": ":a" });
        deployment(name, &spec, &json!({}))
    }

    fn web(depends_on: &Value) -> BundleDeployment {
        deployment("web", &json!({ "dependsOn": depends_on }), &json!({}))
    }

    fn unmet(depends_on: &Value) -> Option<String> {
        let all = [ready("crds"), waiting("db"), waiting("cache")];
        let unmet = check(&web(depends_on), &all.iter().collect::<Vec<_>>()).err();
        unmet.map(|unmet| unmet.to_string())
    }

    #[test]
    fn every_dependency_must_exist_in_an_accepted_state() {
        let not_ready = |pending: &str| {
            Some(format!(
                "waiting for dependent bundle(s) to reach an accepted state: {pending}"
            ))
        };
        let [db, cache] = ["db", "cache"].map(|name| format!("{name} (state: WaitApplied, accepted: Ready)"));
        let both = format!("{cache}; {db}");
        for (depends_on, expected) in [
            (json!([]), None),
            (json!([{}]), None),
            (json!([{ "name": "crds" }]), None),
            (json!([{ "name": "db" }]), not_ready(&db)),
            (
                json!([{ "name": "db" }, { "name": "crds" }, { "name": "cache" }]),
                not_ready(&both),
            ),
            (
                json!([{ "name": "db", "acceptedStates": ["Ready", "WaitApplied"] }]),
                None,
            ),
            (
                json!([{ "name": "crds", "acceptedStates": ["WaitApplied"] }]),
                not_ready("crds (state: Ready, accepted: WaitApplied)"),
            ),
            (
                json!([{ "selector": { "matchLabels": { "app": "db" } } }]),
                not_ready(&db),
            ),
            (
                json!([{ "selector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] } }]),
                not_ready(&both),
            ),
        ] {
            assert_eq!(unmet(&depends_on), expected, "{depends_on}");
        }
    }

    #[test]
    fn only_what_becomes_ready_by_itself_is_a_wait() {
        let check = |depends_on: &Value| {
            let all = [waiting("db")];
            check(&web(depends_on), &all.iter().collect::<Vec<_>>())
                .unwrap_err()
                .is_wait()
        };
        assert!(check(&json!([{ "name": "db" }])));
        assert!(!check(&json!([{ "name": "queue" }])));
        let invalid = json!({ "matchExpressions": [{ "key": "app", "operator": "Above" }] });
        assert!(!check(&json!([{ "selector": invalid }])));
        let object = Unmet::NotTrue {
            index: 0,
            name: "db".to_owned(),
            cause: "its state is WaitApplied".to_owned(),
        };
        assert!(object.is_wait());
    }

    #[test]
    fn those_that_wait_for_each_other_are_named() {
        let on = |name: &str, spec: &Value| {
            let mut spec = spec.clone();
            spec["deploymentID"] = json!(":a");
            spec["stagedDeploymentID"] = json!(":a");
            deployment(name, &spec, &json!({}))
        };
        let fleets = |other: &str| json!({ "dependsOn": [{ "name": other }] });
        let own = |other: &str| json!({ "lifecycle": { "dependsOn": [{ "name": other }] } });
        let of = |all: &[BundleDeployment]| {
            let all: Vec<_> = all.iter().collect();
            check(all[0], &all).unwrap_err().to_string()
        };
        let cycle = |path: &str| {
            format!(
                "dependent bundle(s) are not ready: each waits for the next one: {path}; remove one of these dependencies (dependsOn)"
            )
        };
        for (all, expected) in [
            (
                vec![on("a", &fleets("b")), on("b", &own("c")), on("c", &fleets("a"))],
                cycle("a -> b -> c -> a"),
            ),
            (
                vec![on("a", &json!({ "dependsOn": [{ "selector": {} }] }))],
                cycle("a -> a"),
            ),
            // What it waits for is in a cycle, and it is not.
            (
                vec![
                    on("a", &fleets("b")),
                    on("b", &fleets("c")),
                    on("c", &fleets("b")),
                ],
                "waiting for dependent bundle(s) to reach an accepted state: b (state: WaitApplied, accepted: Ready)".to_owned(),
            ),
            // One of them does not wait.
            (
                vec![
                    on("a", &own("b")),
                    on(
                        "b",
                        &json!({ "dependsOn": [{ "name": "a", "acceptedStates": ["WaitApplied"] }] }),
                    ),
                ],
                "lifecycle.dependsOn[0]: b is not ready: its state is WaitApplied".to_owned(),
            ),
            (
                vec![on("a", &own("b")), on("b", &own("c")), ready("c")],
                "lifecycle.dependsOn[0]: b is not ready: its state is WaitApplied".to_owned(),
            ),
        ] {
            assert_eq!(of(&all), expected);
        }
    }

    #[test]
    fn a_dependency_that_does_not_exist_is_named() {
        let message = unmet(&json!([{ "name": "crds" }, { "name": "queue" }])).unwrap();
        assert!(
            message.contains("dependsOn[1] matches no bundle on this cluster (name queue)"),
            "{message}"
        );
    }

    #[test]
    fn a_change_concerns_those_that_depend_on_it() {
        let web = web(&json!([{ "name": "db" }]));
        assert!(depends_on(&web, &waiting("db")));
        assert!(!depends_on(&web, &waiting("crds")));
    }

    /// Whatever depends on another one is found by its keys.
    #[test]
    fn the_keys_of_dependents_include_those_of_each_that_depends_on_it() {
        for (dependent, is_found) in [
            (web(&json!([{ "name": "db" }])), true),
            (with_own(&json!([{ "name": "db" }])), true),
            (
                web(&json!([{ "selector": { "matchLabels": { "app": "db" } } }])),
                true,
            ),
            (
                web(&json!([{ "name": "db", "selector": { "matchLabels": { "app": "db" } } }])),
                true,
            ),
            (web(&json!([{ "name": "crds" }])), false),
            (web(&json!([])), false),
        ] {
            let keys = keys(&dependent);
            let found = keys_of_dependents(&waiting("db"))
                .iter()
                .any(|key| keys.contains(key));
            assert_eq!(found, is_found, "{keys:?}");
            assert_eq!(depends_on(&dependent, &waiting("db")), is_found, "{keys:?}");
        }
    }

    fn with_own(depends_on: &Value) -> BundleDeployment {
        let spec = json!({ "lifecycle": { "dependsOn": depends_on } });
        deployment("web", &spec, &json!({}))
    }

    #[test]
    fn expressions_decide_whether_a_dependency_is_ready() {
        let all = [ready("crds"), waiting("db")];
        let unmet = |depends_on: &Value| {
            let unmet = check(&with_own(depends_on), &all.iter().collect::<Vec<_>>()).err();
            unmet.map(|unmet| unmet.to_string())
        };
        for (depends_on, expected) in [
            (json!([{ "name": "crds" }]), None),
            (
                json!([{ "name": "db" }]),
                Some("lifecycle.dependsOn[0]: db is not ready: its state is WaitApplied"),
            ),
            (
                json!([{ "name": "crds" }, { "name": "queue" }]),
                Some("lifecycle.dependsOn[1]: queue is not ready: it is not on this"),
            ),
            (json!([{ "name": "crds", "ready": "dep.status.ready" }]), None),
            (
                json!([{ "name": "crds", "ready": "dep.spec.deploymentID == self.metadata.name" }]),
                Some("is not true"),
            ),
            // Not ready yet, rather than an error: the field may be set later.
            (
                json!([{ "name": "db", "ready": "dep.status.ready" }]),
                Some("lifecycle.dependsOn[0]: db is not ready: "),
            ),
            (
                json!([{ "name": "db", "ready": "1 +" }]),
                Some("lifecycle.dependsOn[0]: db is not ready: "),
            ),
        ] {
            let found = unmet(&depends_on);
            match expected {
                None => assert_eq!(found, None, "{depends_on}"),
                Some(expected) => assert!(
                    found.as_ref().is_some_and(|found| found.contains(expected)),
                    "{found:?}"
                ),
            }
        }
    }

    #[test]
    fn every_change_of_what_an_expression_is_about_matters() {
        let plain = with_own(&json!([{ "name": "db" }]));
        let expression = with_own(&json!([{ "name": "db", "ready": "dep.status.ready" }]));
        assert!(depends_on(&plain, &waiting("db")) && depends_on(&expression, &waiting("db")));
        assert!(!depends_on(&plain, &waiting("crds")));
        assert!(evaluates(&expression, &waiting("db")));
        assert!(!evaluates(&plain, &waiting("db")) && !evaluates(&expression, &waiting("crds")));
    }

    /// The same as [`depends_on`] says of each of them.
    #[test]
    fn all_that_one_depends_on_are_named() {
        let all = [
            ready("crds"),
            waiting("db"),
            of_namespace("data", waiting("cache")),
        ];
        for (spec, expected) in [
            (json!({}), &[][..]),
            (
                json!({ "dependsOn": [{ "name": "db" }, {}, { "name": "cache" }] }),
                &["db"],
            ),
            (
                json!({ "dependsOn": [{ "selector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] } }] }),
                &["cache", "crds", "db"],
            ),
            (
                json!({ "dependsOn": [{ "selector": { "matchExpressions": [{ "key": "app", "operator": "?" }] } }] }),
                &[],
            ),
            (
                json!({ "lifecycle": { "dependsOn": [{ "name": "cache", "namespace": "data" }, { "name": "crds" }] } }),
                &["cache", "crds"],
            ),
            (
                json!({ "lifecycle": { "dependsOn": [{ "name": "db", "apiVersion": "v1", "kind": "Secret" }] } }),
                &[],
            ),
        ] {
            let web = deployment("web", &spec, &json!({}));
            let all: Vec<_> = all.iter().chain([&web]).collect();
            let names: Vec<_> = names(&web, &all).into_iter().collect();
            assert_eq!(names, expected, "{spec}");
            let others = all.iter().filter(|other| name_of(other) != "web");
            for other in others {
                let is_named = names.iter().any(|name| name == name_of(other));
                assert_eq!(depends_on(&web, other), is_named, "{spec}");
            }
        }
    }

    fn of_namespace(namespace: &str, mut deployment: BundleDeployment) -> BundleDeployment {
        let labels = deployment.metadata.labels.as_mut().unwrap();
        labels.insert(labels::BUNDLE_NAMESPACE.to_owned(), namespace.to_owned());
        deployment
    }

    #[test]
    fn a_dependency_is_in_the_namespace_that_its_entry_names() {
        let all = [
            ready("db"),
            of_namespace("data", waiting("db")),
            of_namespace("data", ready("cache")),
        ];
        let not_ready =
            |name: &str, cause: &str| Some(format!("lifecycle.dependsOn[0]: {name} is not ready: {cause}"));
        let absent = "it is not on this cluster; check its name, or deploy it to this cluster";
        for (entry, expected, concerned) in [
            (json!({ "name": "db" }), None, [true, false, false]),
            (
                json!({ "name": "db", "namespace": "fleet" }),
                None,
                [true, false, false],
            ),
            (
                json!({ "name": "db", "namespace": "data" }),
                not_ready("data/db", "its state is WaitApplied"),
                [false, true, false],
            ),
            (
                json!({ "name": "cache", "namespace": "data", "ready": "dep.status.ready" }),
                None,
                [false, false, true],
            ),
            (json!({ "name": "cache" }), not_ready("cache", absent), [false; 3]),
            (
                json!({ "name": "db", "namespace": "other" }),
                not_ready("other/db", absent),
                [false; 3],
            ),
            // An object, which is no BundleDeployment.
            (
                json!({ "name": "db", "apiVersion": "v1", "kind": "Secret" }),
                None,
                [false; 3],
            ),
        ] {
            let web = with_own(&json!([entry]));
            let unmet = check(&web, &all.iter().collect::<Vec<_>>()).err();
            assert_eq!(unmet.map(|unmet| unmet.to_string()), expected, "{entry}");
            assert_eq!(
                all.each_ref().map(|other| depends_on(&web, other)),
                concerned,
                "{entry}"
            );
            let of_keys = |other: &BundleDeployment| {
                let keys = keys(&web);
                keys_of_dependents(other).iter().any(|key| keys.contains(key))
            };
            assert_eq!(all.each_ref().map(of_keys), concerned, "{entry}");
        }
    }

    #[test]
    fn a_dependency_that_was_dropped_is_none_any_more() {
        let of = |spec: &Value, bundle: &str| {
            let bundle = NamespacedName::new("fleet", bundle);
            may_depend_on(&deployment("web", spec, &json!({})), bundle)
        };
        let own = |entry: Value| json!({ "lifecycle": { "dependsOn": [entry] } });
        for (spec, expected) in [
            (json!({ "dependsOn": [{ "name": "db" }] }), true),
            (json!({ "dependsOn": [{ "name": "cache" }] }), false),
            (json!({}), false),
            // Which labels it had is not known.
            (
                json!({ "dependsOn": [{ "selector": { "matchLabels": { "app": "db" } } }] }),
                true,
            ),
            (own(json!({ "name": "db" })), true),
            (own(json!({ "name": "db", "namespace": "other" })), false),
            (
                own(json!({ "apiVersion": "v1", "kind": "Secret", "name": "db" })),
                false,
            ),
        ] {
            assert_eq!(of(&spec, "db"), expected, "{spec}");
        }
    }
}
