//! The Policies that HelmOps are held to, and what a change of them sets going.

use std::{future::ready, sync::Arc};

use futures::{Stream, StreamExt, stream};
use helmops_shared::{
    api::{Guarded, HelmOp},
    policy::Policies,
    runtime::cluster::{Change, KnownPolicies, is_absent},
};
use kube::{
    Client, ResourceExt,
    runtime::{reflector::Store, watcher},
};

use super::{Key, Scope, matching};
use crate::error::ReconcileError;

/// The Policies of a HelmOp's namespace.
///
/// # Errors
/// While it is unknown which there are: nothing is done that one of them might forbid.
pub fn of(known: &KnownPolicies, helmop: &HelmOp) -> Result<Arc<Policies>, ReconcileError> {
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    known.of(namespace).ok_or(ReconcileError::UnknownPolicies)
}

/// Watches Policies, and tells of each HelmOp that a change concerns.
pub fn watch(
    client: &Client,
    scope: &Scope,
    known: &KnownPolicies,
    helmops: Store<Guarded<HelmOp>>,
) -> impl Stream<Item = Key> + Send + use<> {
    let changes = if scope.is_cluster() {
        known.watch(client).boxed()
    } else {
        let events = scope.watch(client, &watcher::Config::default());
        known
            .follow(events.filter(|event| ready(!is_passing(event))))
            .boxed()
    };
    changes.flat_map(move |change| stream::iter(concerned(&helmops, &change)))
}

/// Whether the watch of one namespace failed, which says nothing of the others and is begun anew.
fn is_passing<T>(event: &watcher::Result<T>) -> bool {
    let Err(error) = event else {
        return false;
    };
    let is_passing = !is_absent(error);
    if is_passing {
        tracing::warn!(%error, "the watch of Policies failed and is begun anew");
    }
    is_passing
}

fn concerned(helmops: &Store<Guarded<HelmOp>>, change: &Change) -> Vec<Key> {
    matching(helmops, |helmop| match change {
        Change::All => true,
        Change::Namespace(name) => helmop.namespace().as_ref() == Some(name),
    })
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher::Event};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_concerns_the_helmops_of_its_namespace() {
        let (helmops, mut writer) = reflector::store();
        for (namespace, name) in [("a", "one"), ("a", "two"), ("b", "one")] {
            let helmop = json!({ "metadata": { "namespace": namespace, "name": name } });
            let helmop: Guarded<HelmOp> = serde_json::from_str(&helmop.to_string()).unwrap();
            writer.apply_watcher_event(&Event::Apply(helmop));
        }
        for (change, expected) in [
            (Change::All, vec!["a/one", "a/two", "b/one"]),
            (Change::Namespace("a".to_owned()), vec!["a/one", "a/two"]),
            (Change::Namespace("c".to_owned()), vec![]),
        ] {
            let mut found: Vec<_> = concerned(&helmops, &change)
                .into_iter()
                .map(|helmop| format!("{}/{}", helmop.namespace.unwrap(), helmop.name))
                .collect();
            found.sort();
            assert_eq!(found, expected, "{change:?}");
        }
    }

    #[test]
    fn while_policies_are_unknown_nothing_is_done() {
        let known = KnownPolicies::default();
        let error = of(&known, &HelmOp::default()).unwrap_err();
        assert!(error.is_passing() && error.pace().is_none(), "{error}");
    }
}
