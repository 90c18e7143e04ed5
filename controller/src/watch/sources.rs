//! Secrets and ConfigMaps that HelmOps and Bundles name: a password that is mended is tried at once, and passed on to the
//! clusters.
//!
//! Only metadata are watched, and nothing is kept: a Secret is read when it is used.

use std::{fmt, future::ready};

use futures::{Stream, StreamExt, stream};
use helmops_shared::{
    api::{Bundle, BundleDeploymentOptions, Decoded, HelmOp, MetadataOnly},
    runtime::kube_client::PolicyCache,
    targeting::copies::{self, Kind, Source},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{WatchStreamExt, reflector::Store, watcher},
};
use tokio::sync::oneshot;

use super::{
    matching,
    scope::{log_errors, paged},
};
use crate::work::{BundleKey, HelmOpKey, Work};

/// Helm keeps its releases in Secrets: there are many of them, and no HelmOp names one.
const NOT_RELEASES: &str = "type!=helm.sh/release.v1";

/// HelmOps whose Secret has changed, and Bundles that pass it on to clusters, where that is done here. `begins` is told when
/// changes are seen from then on.
pub fn of_secrets(
    api: Api<MetadataOnly<Secret>>,
    begins: oneshot::Sender<()>,
    helmops: Store<Decoded<HelmOp>>,
    policies: PolicyCache,
    bundles: Option<Store<Decoded<Bundle>>>,
) -> impl Stream<Item = Work> + Send {
    let config = watcher::Config::default().fields(NOT_RELEASES);
    changes(api, config, begins).flat_map(move |secret| {
        let named = named_by(&helmops, &policies, &secret).into_iter();
        let passed_on = bundles
            .as_ref()
            .map(|bundles| passed_on_by(bundles, Kind::Secret, &secret));
        let passed_on = passed_on.into_iter().flatten();
        let concerned = named.map(Work::HelmOp).chain(passed_on.map(Work::Bundle));
        stream::iter(concerned.collect::<Vec<_>>())
    })
}

/// Bundles that pass a ConfigMap on to clusters which has changed.
pub fn of_maps(
    api: Api<MetadataOnly<ConfigMap>>,
    begins: oneshot::Sender<()>,
    bundles: Store<Decoded<Bundle>>,
) -> impl Stream<Item = BundleKey> + Send {
    let changes = changes(api, watcher::Config::default(), begins);
    changes.flat_map(move |map| stream::iter(passed_on_by(&bundles, Kind::ConfigMap, &map)))
}

fn changes<K>(
    api: Api<MetadataOnly<K>>,
    config: watcher::Config,
    begins: oneshot::Sender<()>,
) -> impl Stream<Item = MetadataOnly<K>> + Send
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let mut is_first = true;
    let mut begins = Some(begins);
    let events = watcher(api, paged(config)).inspect(move |event| {
        // Where they may not be looked at, nobody waits for them.
        if matches!(event, Ok(watcher::Event::InitDone) | Err(_))
            && let Some(begins) = begins.take()
        {
            // Nobody may be waiting any more.
            let _ = begins.send(());
        }
    });
    log_errors::<K, _>(events.default_backoff()).filter_map(move |event| ready(changed(event, &mut is_first)))
}

/// The object that an event is about. Those of the first list have not changed; after that a list is what is left of
/// changes that were missed.
fn changed<K>(event: watcher::Event<MetadataOnly<K>>, is_first: &mut bool) -> Option<MetadataOnly<K>> {
    match event {
        watcher::Event::Apply(object) | watcher::Event::Delete(object) => Some(object),
        watcher::Event::InitApply(object) => (!*is_first).then_some(object),
        watcher::Event::Init => None,
        watcher::Event::InitDone => {
            *is_first = false;
            None
        }
    }
}

/// Those that name it themselves, and those that a Policy names it for.
fn named_by(
    helmops: &Store<Decoded<HelmOp>>,
    policies: &PolicyCache,
    secret: &MetadataOnly<Secret>,
) -> Vec<HelmOpKey> {
    let (namespace, name) = (secret.namespace(), secret.name_any());
    let policies = namespace.as_deref().and_then(|namespace| policies.of(namespace));
    matching(helmops, |object| match object {
        Decoded::Valid(helmop) if helmop.metadata.namespace == namespace => {
            let named = &*helmop.spec.helm_secret_name;
            name == policies
                .as_ref()
                .map_or(named, |policies| policies.helm_secret(named))
        }
        Decoded::Valid(_) | Decoded::Invalid { .. } => false,
    })
}

/// Bundles that name it as their access Secret, or among their downstream resources.
fn passed_on_by<K>(bundles: &Store<Decoded<Bundle>>, kind: Kind, object: &MetadataOnly<K>) -> Vec<BundleKey> {
    let namespace = object.metadata.namespace.as_deref();
    let source = Source {
        kind,
        name: object.metadata.name.clone().unwrap_or_default(),
    };
    matching(bundles, |bundle| {
        bundle.meta().namespace.as_deref() == namespace
            && bundle.good().is_some_and(|bundle| passes_on(bundle, &source))
    })
}

fn passes_on(bundle: &Bundle, source: &Source) -> bool {
    let spec = &bundle.spec;
    let is_access = spec
        .helm_op_options
        .as_ref()
        .is_some_and(|options| options.secret_name == source.name);
    let is_listed = |options: &BundleDeploymentOptions| {
        copies::downstream(options).is_ok_and(|sources| sources.contains(source))
    };
    (source.kind == Kind::Secret && is_access)
        || is_listed(&spec.options)
        || spec.targets.iter().any(|target| is_listed(&target.options))
}

#[cfg(test)]
mod tests {
    use helmops_shared::api::Policy;
    use kube::{core::ObjectMeta, runtime::reflector};
    use serde_json::json;

    use super::*;

    fn secret(namespace: &str, name: &str) -> MetadataOnly<Secret> {
        MetadataOnly::from(ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        })
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
            let helmop: Decoded<HelmOp> = serde_json::from_str(&object.to_string()).unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(helmop));
        }
        let policies = PolicyCache::default();
        let named = |namespace, name| named_by(&store, &policies, &secret(namespace, name)).len();
        assert_eq!(
            [named("a", "access"), named("b", "access"), named("c", "access")],
            [1, 1, 0]
        );
        assert_eq!(
            named_by(&store, &policies, &secret("a", "access")),
            [crate::work::key("a", "web")]
        );
    }

    #[test]
    fn a_secret_that_a_policy_names_concerns_those_who_name_none() {
        let (store, mut writer) = reflector::store();
        let helmop = json!({ "metadata": { "namespace": "a", "name": "web" }, "spec": {} });
        let helmop: Decoded<HelmOp> = serde_json::from_str(&helmop.to_string()).unwrap();
        writer.apply_watcher_event(&watcher::Event::Apply(helmop));
        let policy = json!({
            "metadata": { "namespace": "a", "name": "p" },
            "helmOp": { "defaultHelmSecretName": "shared" }
        });
        let policy: Decoded<Policy> = serde_json::from_str(&policy.to_string()).unwrap();
        let policies: PolicyCache = [policy].into_iter().collect();
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

    #[test]
    fn what_is_passed_on_concerns_who_does() {
        let (store, mut writer) = reflector::store();
        let of_target =
            json!({ "targets": [{ "downstreamResources": [{ "kind": "configmap", "name": "access" }] }] });
        for (namespace, name, spec) in [
            (
                "a",
                "access",
                json!({ "helmOpOptions": { "helmOpSecretName": "access" } }),
            ),
            (
                "a",
                "downstream",
                json!({ "downstreamResources": [{ "kind": "Secret", "name": "access" }] }),
            ),
            ("a", "target", of_target),
            (
                "b",
                "access",
                json!({ "helmOpOptions": { "helmOpSecretName": "access" } }),
            ),
        ] {
            let object = json!({ "metadata": { "namespace": namespace, "name": name }, "spec": spec });
            let bundle: Decoded<Bundle> = serde_json::from_str(&object.to_string()).unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(bundle));
        }
        let names = |kind| {
            let mut names: Vec<_> = passed_on_by(&store, kind, &secret("a", "access"))
                .into_iter()
                .map(|bundle| bundle.name)
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(Kind::Secret), ["access", "downstream"]);
        assert_eq!(names(Kind::ConfigMap), ["target"]);
    }
}
