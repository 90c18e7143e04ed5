//! The watch of Policies, and the objects that a change of a Policy affects.

use futures::{Stream, StreamExt, stream};
use helmops_api::Decoded;
use helmops_kube::{ObjectCache, watch_results};
use helmops_policies::PolicyChange;
use kube::{
    Client, Resource,
    runtime::{reflector::ObjectRef, watcher},
};

use super::{Scope, Stores};
use crate::work::Work;

/// Watches Policies. Returns the HelmOps that a change affects, and the Bundles if the bundle loop is enabled.
pub fn watch(client: &Client, scope: &Scope, stores: &Stores) -> impl Stream<Item = Work> + Send + use<> {
    let policies = &stores.policies;
    let changes = if scope.is_cluster_wide() {
        policies.watch(client).boxed()
    } else {
        let watches = scope.watches(client, |api| watch_results(api, watcher::Config::default()));
        policies.follow(watches).boxed()
    };
    let helmops = stores.helmops.clone();
    let bundles = stores.delivery.is_some().then(|| stores.bundles.clone());
    changes.flat_map(move |change| {
        let bundles = bundles
            .as_ref()
            .map(|bundles| affected(bundles, &change))
            .unwrap_or_default();
        let helmops = affected(&helmops, &change).into_iter().map(Work::HelmOp);
        stream::iter(
            helmops
                .chain(bundles.into_iter().map(Work::Bundle))
                .collect::<Vec<_>>(),
        )
    })
}

fn affected<K>(objects: &ObjectCache<Decoded<K>>, change: &PolicyChange) -> Vec<ObjectRef<Decoded<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    objects.matching(|object| match change {
        PolicyChange::All => true,
        PolicyChange::Namespace(name) => object.meta().namespace.as_ref() == Some(name),
    })
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_affects_the_helmops_in_its_namespace() {
        let helmop = |(namespace, name)| -> Decoded<HelmOp> {
            let helmop = json!({ "metadata": { "namespace": namespace, "name": name } });
            serde_json::from_str(&helmop.to_string()).unwrap()
        };
        let helmops = [("a", "one"), ("a", "two"), ("b", "one")];
        let helmops: ObjectCache<_> = helmops.into_iter().map(helmop).collect();
        for (change, expected) in [
            (PolicyChange::All, vec!["a/one", "a/two", "b/one"]),
            (PolicyChange::Namespace("a".to_owned()), vec!["a/one", "a/two"]),
            (PolicyChange::Namespace("c".to_owned()), vec![]),
        ] {
            let mut found: Vec<_> = affected(&helmops, &change)
                .into_iter()
                .map(|helmop| format!("{}/{}", helmop.namespace.unwrap(), helmop.name))
                .collect();
            found.sort();
            assert_eq!(found, expected, "{change:?}");
        }
    }
}
