//! Injects `caBundle` into both webhook configurations, and changes nothing else in them.

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

use super::api::{CallError, FIELD_MANAGER, bounded};
use super::observed::{Configuration, ConfigurationKind, Webhook};

/// The webhooks of this project. Others in the same configuration have another owner.
const WEBHOOKS: [&str; 3] = [
    "mutate.helmops.fleet.cattle.io",
    "validate.helmops.fleet.cattle.io",
    "validate-others.helmops.fleet.cattle.io",
];

/// The annotations that request injection by cert-manager.
const INJECTORS: [&str; 3] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
];

/// Watches and patches the webhook configurations.
pub(crate) struct Injector {
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    pub(crate) name: String,
}

/// A kind of webhook configuration.
trait WebhookConfiguration: Resource<DynamicType = ()> {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl WebhookConfiguration for MutatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }
}

impl WebhookConfiguration for ValidatingWebhookConfiguration {
    fn webhooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
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

    pub(crate) fn watch(
        &self,
        kind: ConfigurationKind,
    ) -> futures::stream::BoxStream<'static, watcher::Result<Option<Configuration>>> {
        match kind {
            ConfigurationKind::Mutating => watch(&self.mutating, &self.name).boxed(),
            ConfigurationKind::Validating => watch(&self.validating, &self.name).boxed(),
        }
    }

    /// Injects the bundle into each webhook of the observed configuration.
    pub(crate) async fn apply(
        &self,
        kind: ConfigurationKind,
        observed: &Configuration,
        bundle: &str,
    ) -> Result<Configuration, CallError> {
        match kind {
            ConfigurationKind::Mutating => apply(&self.mutating, &self.name, observed, bundle).await,
            ConfigurationKind::Validating => apply(&self.validating, &self.name, observed, bundle).await,
        }
    }
}

fn watch<K>(
    api: &Api<K>,
    name: &str,
) -> impl Stream<Item = watcher::Result<Option<Configuration>>> + Send + use<K>
where
    K: WebhookConfiguration + Clone + fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let objects = watcher::watch_object(api.clone(), name).default_backoff();
    objects.map(|object| object.map(|object| object.as_ref().map(read)))
}

fn read<K: WebhookConfiguration>(object: &K) -> Configuration {
    let ours = object
        .webhooks()
        .into_iter()
        .filter(|(name, _)| WEBHOOKS.contains(name));
    let webhook = |(name, client): (&str, &WebhookClientConfig)| Webhook {
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
        webhooks: ours.map(webhook).collect(),
        injector: injector.map(|annotation| (*annotation).to_owned()),
    }
}

async fn apply<K>(
    api: &Api<K>,
    name: &str,
    observed: &Configuration,
    bundle: &str,
) -> Result<Configuration, CallError>
where
    K: WebhookConfiguration + Clone + fmt::Debug + serde::de::DeserializeOwned,
{
    let (version, kind) = (K::api_version(&()), K::kind(&()));
    let patch = apply_patch(&version, &kind, name, observed, bundle);
    // Forced: with two field managers of this field, neither could change it without a conflict.
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = bounded(api.patch(name, &params, &Patch::Apply(patch))).await?;
    Ok(read(&applied))
}

/// The fields that this project owns. With the resource version, a delayed request changes nothing that has changed since;
/// with the resource version and the UID, no request creates a configuration that does not exist.
fn apply_patch(version: &str, kind: &str, name: &str, observed: &Configuration, bundle: &str) -> Value {
    let bundle = STANDARD.encode(bundle);
    let webhook = |webhook: &Webhook| json!({ "name": webhook.name, "clientConfig": { "caBundle": bundle } });
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": { "name": name, "uid": observed.uid, "resourceVersion": observed.resource_version },
        "webhooks": observed.webhooks.iter().map(webhook).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(annotations: &Value) -> Configuration {
        let webhook = |name: &str, bundle: &str| {
            json!({
                "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": "https://localhost/validate", "caBundle": STANDARD.encode(bundle) },
            })
        };
        let mut object = json!({
            "metadata": { "name": "helmops", "uid": "u", "resourceVersion": "7", "annotations": {} },
            "webhooks": [webhook("validate.helmops.fleet.cattle.io", "old"), webhook("other.example.com", "theirs")],
        });
        if let (Some(object), Some(annotations)) = (
            object.pointer_mut("/metadata/annotations"),
            annotations.as_object(),
        ) {
            *object = Value::Object(annotations.clone());
        }
        read(&serde_json::from_value::<ValidatingWebhookConfiguration>(object).unwrap())
    }

    #[test]
    fn only_the_ca_bundle_of_our_webhooks_is_read_and_patched() {
        let observed = configuration(&json!({}));
        assert!(observed.is_ours() && observed.has_bundle("old") && !observed.has_bundle("new"));
        let patch = apply_patch(
            "admissionregistration.k8s.io/v1",
            "K",
            "helmops",
            &observed,
            "new",
        );
        assert_eq!(
            patch,
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
    fn a_configuration_with_a_cert_manager_annotation_is_not_ours() {
        let observed = configuration(&json!({ "cert-manager.io/inject-ca-from": "a/b" }));
        assert!(!observed.is_ours());
        assert_eq!(
            observed.injector.as_deref(),
            Some("cert-manager.io/inject-ca-from")
        );
    }
}
