//! The `caBundle` of both webhook configurations, and nothing else of them.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::{Stream, StreamExt};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::api::{FIELD_MANAGER, Failure, bounded};
use super::sight::{Configuration, Hook, Kind};

/// The webhooks of this project. Others in the same configuration are somebody else's.
const HOOKS: [&str; 2] = [
    "mutate.helmops.fleet.cattle.io",
    "validate.helmops.fleet.cattle.io",
];

/// The annotations by which cert-manager is asked to inject.
const INJECTORS: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// The way to the configurations.
pub(crate) struct Injector {
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    pub(crate) name: String,
}

/// A kind of webhook configurations.
trait Webhooks: Resource<DynamicType = ()> {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl Webhooks for MutatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

impl Webhooks for ValidatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

impl Injector {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        Self {
            mutating: Api::all(client.clone()),
            validating: Api::all(client),
            name: name.to_owned(),
        }
    }

    /// What becomes of the configuration of this kind, from now on.
    pub(crate) fn watch(
        &self,
        kind: Kind,
    ) -> futures::stream::BoxStream<'static, watcher::Result<Option<Configuration>>> {
        match kind {
            Kind::Mutating => watch(&self.mutating, &self.name).boxed(),
            Kind::Validating => watch(&self.validating, &self.name).boxed(),
        }
    }

    /// Gives the bundle to each webhook of the configuration as it was seen.
    pub(crate) async fn apply(
        &self,
        kind: Kind,
        seen: &Configuration,
        bundle: &str,
    ) -> Result<Configuration, Failure> {
        match kind {
            Kind::Mutating => apply(&self.mutating, &self.name, seen, bundle).await,
            Kind::Validating => apply(&self.validating, &self.name, seen, bundle).await,
        }
    }
}

fn watch<K>(
    api: &Api<K>,
    name: &str,
) -> impl Stream<Item = watcher::Result<Option<Configuration>>> + Send + use<K>
where
    K: Webhooks + Clone + fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let objects = watcher::watch_object(api.clone(), name).default_backoff();
    objects.map(|object| object.map(|object| object.as_ref().map(read)))
}

fn read<K: Webhooks>(object: &K) -> Configuration {
    let ours = object
        .webhooks()
        .into_iter()
        .filter(|(name, _)| HOOKS.contains(name));
    let hook = |(name, client): (&str, &WebhookClientConfig)| Hook {
        name: name.to_owned(),
        bundle: client
            .ca_bundle
            .as_ref()
            .map(|bundle| bundle.0.clone())
            .unwrap_or_default(),
    };
    let annotations = object.annotations();
    let injector = INJECTORS
        .iter()
        .find(|annotation| annotations.contains_key(**annotation));
    Configuration {
        uid: object.uid(),
        resource_version: object.resource_version(),
        hooks: ours.map(hook).collect(),
        injector: injector.map(|annotation| (*annotation).to_owned()),
    }
}

async fn apply<K>(
    api: &Api<K>,
    name: &str,
    seen: &Configuration,
    bundle: &str,
) -> Result<Configuration, Failure>
where
    K: Webhooks + Clone + fmt::Debug + serde::de::DeserializeOwned,
{
    let (version, kind) = (K::api_version(&()), K::kind(&()));
    let wanted = wanted(&version, &kind, name, seen, bundle);
    // Whoever has written the field before gives it up: two owners of it would keep each other from changing it.
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = bounded(api.patch(name, &params, &Patch::Apply(wanted))).await?;
    Ok(read(&applied))
}

/// The fields that are to be this project's. With the version, a request that was long on its way changes nothing that has
/// changed since; with that and the UID, none makes a configuration that is not there.
fn wanted(version: &str, kind: &str, name: &str, seen: &Configuration, bundle: &str) -> Value {
    let bundle = STANDARD.encode(bundle);
    let hook = |hook: &Hook| json!({ "name": hook.name, "clientConfig": { "caBundle": bundle } });
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": { "name": name, "uid": seen.uid, "resourceVersion": seen.resource_version },
        "webhooks": seen.hooks.iter().map(hook).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(over: &Value) -> Configuration {
        let hook = |name: &str, bundle: &str| {
            json!({
                "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": "https://localhost/validate", "caBundle": STANDARD.encode(bundle) },
            })
        };
        let mut object = json!({
            "metadata": { "name": "helmops", "uid": "u", "resourceVersion": "7", "annotations": {} },
            "webhooks": [hook("validate.helmops.fleet.cattle.io", "old"), hook("other.example.com", "theirs")],
        });
        if let (Some(object), Some(over)) = (object.pointer_mut("/metadata/annotations"), over.as_object()) {
            *object = Value::Object(over.clone());
        }
        read(&serde_json::from_value::<ValidatingWebhookConfiguration>(object).unwrap())
    }

    #[test]
    fn only_our_own_webhooks_are_seen_and_written_and_only_their_bundle() {
        let seen = configuration(&json!({}));
        assert!(seen.is_ours() && seen.holds("old") && !seen.holds("new"));
        let wanted = wanted("admissionregistration.k8s.io/v1", "K", "helmops", &seen, "new");
        assert_eq!(
            wanted,
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "K",
                "metadata": { "name": "helmops", "uid": "u", "resourceVersion": "7" },
                "webhooks": [
                    { "name": "validate.helmops.fleet.cattle.io", "clientConfig": { "caBundle": STANDARD.encode("new") } },
                ],
            })
        );
    }

    #[test]
    fn what_cert_manager_injects_into_is_left_to_it() {
        let seen = configuration(&json!({ "cert-manager.io/inject-ca-from": "a/b" }));
        assert!(!seen.is_ours());
        assert_eq!(seen.injector.as_deref(), Some("cert-manager.io/inject-ca-from"));
    }
}
