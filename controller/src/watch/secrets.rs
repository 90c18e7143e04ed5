//! Secrets that HelmOps name: a password that is mended is tried at once.
//!
//! Only metadata are watched, and nothing is kept: a Secret is read when it is used.

use std::future::ready;

use futures::{Stream, StreamExt, stream};
use helmops_shared::{
    api::{Guarded, HelmOp},
    runtime::cluster::KnownPolicies,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, reflector::Store, watcher},
};

use super::{
    Key, matching,
    scope::{paged, shielded},
};

/// Helm keeps its releases in Secrets: there are many of them, and no HelmOp names one.
const NOT_RELEASES: &str = "type!=helm.sh/release.v1";

/// HelmOps whose Secret has changed.
pub fn watch(
    api: Api<PartialObjectMeta<Secret>>,
    helmops: Store<Guarded<HelmOp>>,
    policies: KnownPolicies,
) -> impl Stream<Item = Key> + Send {
    let config = paged(watcher::Config::default().fields(NOT_RELEASES));
    let mut is_first = true;
    shielded::<Secret, _>(watcher(api, config).default_backoff())
        .filter_map(move |event| ready(changed(event, &mut is_first)))
        .flat_map(move |secret| stream::iter(named_by(&helmops, &policies, &secret)))
}

/// The Secret that an event is about. Those of the first list have not changed; after that a list is what is left of
/// changes that were missed.
fn changed(
    event: watcher::Event<PartialObjectMeta<Secret>>,
    is_first: &mut bool,
) -> Option<PartialObjectMeta<Secret>> {
    match event {
        watcher::Event::Apply(secret) | watcher::Event::Delete(secret) => Some(secret),
        watcher::Event::InitApply(secret) => (!*is_first).then_some(secret),
        watcher::Event::Init => None,
        watcher::Event::InitDone => {
            *is_first = false;
            None
        }
    }
}

/// Those that name it themselves, and those that a Policy names it for.
fn named_by(
    helmops: &Store<Guarded<HelmOp>>,
    policies: &KnownPolicies,
    secret: &PartialObjectMeta<Secret>,
) -> Vec<Key> {
    let (namespace, name) = (secret.namespace(), secret.name_any());
    let policies = namespace.as_deref().and_then(|namespace| policies.of(namespace));
    matching(helmops, |object| match object {
        Guarded::Good(helmop) if helmop.metadata.namespace == namespace => match &policies {
            Some(policies) => policies.complete(helmop).spec.helm_secret_name == name,
            None => helmop.spec.helm_secret_name == name,
        },
        Guarded::Good(_) | Guarded::Odd { .. } => false,
    })
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::Policy;
    use kube::{core::ObjectMeta, runtime::reflector};
    use serde_json::json;

    use super::*;

    fn secret(namespace: &str, name: &str) -> PartialObjectMeta<Secret> {
        PartialObjectMeta {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..PartialObjectMeta::default()
        }
    }

    #[test]
    fn a_secret_concerns_those_who_name_it() {
        let (store, mut writer) = reflector::store();
        for (namespace, name, secret) in [
            ("a", "web", "access"),
            ("a", "db", "other"),
            ("b", "web", "access"),
        ] {
            let object = json!({
                "metadata": { "namespace": namespace, "name": name },
                "spec": { "helmSecretName": secret }
            });
            let helmop: Guarded<HelmOp> = serde_json::from_str(&object.to_string()).unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(helmop));
        }
        let policies = KnownPolicies::default();
        let named = |namespace, name| named_by(&store, &policies, &secret(namespace, name)).len();
        assert_eq!(
            [named("a", "access"), named("b", "access"), named("c", "access")],
            [1, 1, 0]
        );
        assert_eq!(
            named_by(&store, &policies, &secret("a", "access")),
            [super::super::key("a", "web")]
        );
    }

    #[test]
    fn a_secret_that_a_policy_names_concerns_those_who_name_none() {
        let (store, mut writer) = reflector::store();
        let helmop = json!({ "metadata": { "namespace": "a", "name": "web" }, "spec": {} });
        let helmop: Guarded<HelmOp> = serde_json::from_str(&helmop.to_string()).unwrap();
        writer.apply_watcher_event(&watcher::Event::Apply(helmop));
        let policy = json!({
            "metadata": { "namespace": "a", "name": "p" },
            "helmOp": { "defaultHelmSecretName": "shared" }
        });
        let policy: Guarded<Policy> = serde_json::from_str(&policy.to_string()).unwrap();
        let policies: KnownPolicies = [policy].into_iter().collect();
        assert_eq!(named_by(&store, &policies, &secret("a", "shared")).len(), 1);
        assert_eq!(named_by(&store, &policies, &secret("a", "other")), []);
    }

    #[test]
    fn the_first_list_is_no_change() {
        let mut is_first = true;
        let mut see = |event| changed(event, &mut is_first).is_some();
        assert!(!see(watcher::Event::Init));
        assert!(!see(watcher::Event::InitApply(secret("a", "b"))));
        assert!(!see(watcher::Event::InitDone));
        assert!(see(watcher::Event::Apply(secret("a", "b"))));
        assert!(see(watcher::Event::Delete(secret("a", "b"))));
        assert!(
            see(watcher::Event::InitApply(secret("a", "b"))),
            "a change may have been missed"
        );
    }
}
