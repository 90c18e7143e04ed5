//! The watch of the Secrets that AlertProviders and Receivers name: a corrected token is used immediately.
//!
//! Only metadata is watched, and nothing is stored: a Secret is read when it is used.

use futures::{Stream, StreamExt, stream};
use helmops_api::{AlertProvider, Decoded, Receiver};
use helmops_kube::{NOT_RELEASES, uncached_changes};
use kube::{Api, ResourceExt, runtime::watcher};
use tokio::sync::oneshot;

use super::{SecretMetadata, Stores};
use crate::work::Work;

/// The objects that name a changed Secret. `synced` is signalled when the first list is complete: later changes are observed.
pub fn of_secrets(
    api: Api<SecretMetadata>,
    synced: oneshot::Sender<()>,
    stores: Stores,
) -> impl Stream<Item = Work> + Send {
    let config = watcher::Config::default().fields(NOT_RELEASES);
    uncached_changes(api, config, synced).flat_map(move |secret| stream::iter(naming(&stores, &secret)))
}

fn naming(stores: &Stores, secret: &SecretMetadata) -> Vec<Work> {
    let (namespace, name) = (secret.namespace(), secret.name_any());
    let providers = stores.providers.matching(|object: &Decoded<AlertProvider>| {
        object.valid().is_some_and(|provider| {
            let spec = &provider.spec;
            let secrets = [&spec.secret_ref, &spec.cert_secret_ref, &spec.proxy_secret_ref];
            provider.metadata.namespace == namespace
                && secrets.into_iter().flatten().any(|secret| secret.name == name)
        })
    });
    let receivers = stores.receivers.matching(|object: &Decoded<Receiver>| {
        object.valid().is_some_and(|receiver| {
            receiver.metadata.namespace == namespace && receiver.spec.secret_ref.name == name
        })
    });
    let namespace = namespace.unwrap_or_default();
    let alerts: Vec<_> = providers
        .iter()
        .flat_map(|provider| stores.alerts_of(&namespace, &provider.name))
        .collect();
    let providers = providers.into_iter().map(Work::Provider);
    providers
        .chain(alerts.into_iter().map(Work::Alert))
        .chain(receivers.into_iter().map(Work::Receiver))
        .collect()
}

#[cfg(test)]
mod tests {
    use helmops_runtime::store_budget::StoreBudget;
    use kube::core::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;

    fn secret(namespace: &str, name: &str) -> SecretMetadata {
        SecretMetadata::from(ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn a_secret_affects_the_objects_that_name_it() {
        let provider = |name: &str, spec: Value| -> Decoded<AlertProvider> {
            let object = json!({ "metadata": { "namespace": "a", "name": name }, "spec": spec });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let receiver = json!({ "metadata": { "namespace": "a", "name": "harbor" }, "spec": { "secretRef": { "name": "token" } } });
        let budget = StoreBudget::new("notifier", 1 << 20);
        let stores = Stores {
            providers: [
                provider("one", json!({ "secretRef": { "name": "token" } })),
                provider("two", json!({ "certSecretRef": { "name": "ca" } })),
                provider("three", json!({ "proxySecretRef": { "name": "proxy" } })),
            ]
            .into_iter()
            .collect(),
            receivers: [serde_json::from_str::<Decoded<Receiver>>(&receiver.to_string()).unwrap()]
                .into_iter()
                .collect(),
            ..Stores::new(budget)
        };
        let names = |namespace: &str, name: &str| {
            let works = naming(&stores, &secret(namespace, name)).into_iter();
            let name = |work| match work {
                Work::Alert(key) => key.name,
                Work::Provider(key) => key.name,
                Work::Receiver(key) => key.name,
            };
            works.map(name).collect::<Vec<_>>()
        };
        assert_eq!(names("a", "token"), ["one", "harbor"]);
        assert_eq!(names("a", "ca"), ["two"]);
        assert_eq!(names("a", "proxy"), ["three"]);
        assert_eq!(names("b", "token"), [""; 0]);
    }
}
