//! The CA certificates of Rancher, which are trusted for every repository without CA certificates of its own.
//!
//! Rancher stores them in two Secrets in its own namespace. They are watched because every Bundle contains them.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use helmops_api::NamespacedName;
use helmops_fetch::CaCertificate;
use helmops_kube::{Change, ObjectCache};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, runtime::watcher};
use thiserror::Error;

use super::Scope;

/// Rancher's own namespace.
const NAMESPACE: &str = "cattle-system";

/// The Secrets and the key in each, in the order in which Fleet concatenates them.
const SECRETS: [(&str, &str); 2] = [
    ("tls-ca", "cacerts.pem"),
    ("tls-ca-additional", "ca-additional.pem"),
];

/// A Secret of Rancher without its key.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "could not get Rancher CA bundle: no field {key} found in secret {secret} of namespace {NAMESPACE}; add it, or delete the Secret if Rancher's certificate needs no authority of its own"
)]
pub struct MissingKey {
    /// The name of the Secret.
    pub secret: &'static str,
    pub key: &'static str,
}

/// The cache of both Secrets.
#[derive(Clone, Default)]
pub struct RancherCa {
    caches: [ObjectCache<Secret>; 2],
}

/// The CA certificates of both Secrets, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaBundle(Vec<u8>);

impl RancherCa {
    /// Waits until both watches have completed their first list.
    pub async fn wait_until_synced(&self) {
        for cache in &self.caches {
            cache.wait_until_synced().await;
        }
    }

    /// The certificates of both Secrets, concatenated.
    ///
    /// # Errors
    /// If a Secret exists without its key.
    pub fn bundle(&self) -> Result<CaBundle, MissingKey> {
        let mut bundle = Vec::new();
        for (cache, (secret, key)) in self.caches.iter().zip(SECRETS) {
            let Some(found) = cache.value(&NamespacedName::new(NAMESPACE, secret)) else {
                continue;
            };
            let pem = found.data.as_ref().and_then(|data| data.get(key));
            bundle.extend_from_slice(&pem.ok_or(MissingKey { secret, key })?.0);
        }
        Ok(CaBundle(bundle))
    }
}

impl CaBundle {
    /// The certificates for a TLS connection.
    pub fn ca_certificates(&self) -> Vec<CaCertificate> {
        let certificates = (
            self.0.clone(),
            "the CA bundle of Rancher (Secrets tls-ca and tls-ca-additional)",
        );
        if self.0.is_empty() {
            Vec::new()
        } else {
            vec![certificates]
        }
    }

    /// The certificates for a Bundle, in base64.
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

/// Watches both Secrets, and returns an item for each change. If their namespace is outside of the scope, there are none.
pub fn watch(client: &Client, scope: &Scope, ca: &RancherCa) -> BoxStream<'static, ()> {
    if !scope.includes(NAMESPACE) {
        for cache in &ca.caches {
            cache.mark_absent();
        }
        return stream::pending().boxed();
    }
    let api = Api::<Secret>::namespaced(client.clone(), NAMESPACE);
    let watches = ca.caches.iter().zip(SECRETS).map(|(cache, (name, _))| {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = helmops_kube::watch(api.clone(), config);
        let changes = cache.follow(vec![(None, events)], |secret| Some(Arc::new(secret)));
        changes
            .flat_map(|changes| stream::iter(changes.into_iter().filter(is_changed)))
            .map(|change| tracing::info!(secret = change.name.name, "loaded Rancher's CA bundle"))
            .boxed()
    });
    stream::select_all(watches).boxed()
}

fn is_changed(change: &Change<Arc<Secret>>) -> bool {
    let [before, after] = [&change.before, &change.after].map(|secret| Some(&secret.as_ref()?.data));
    before != after
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn rancher_ca(secrets: &[(&str, &str, &str)]) -> RancherCa {
        let mut ca = RancherCa::default();
        for (name, key, pem) in secrets {
            let mut secret = Secret::default();
            secret.metadata.name = Some((*name).to_owned());
            secret.metadata.namespace = Some(NAMESPACE.to_owned());
            secret.data = Some([((*key).to_owned(), ByteString(pem.as_bytes().to_vec()))].into());
            let index = usize::from(*name == SECRETS[1].0);
            ca.caches[index] = [secret].into_iter().collect();
        }
        ca
    }

    #[test]
    fn the_bundle_concatenates_both_secrets() {
        assert_eq!(rancher_ca(&[]).bundle(), Ok(CaBundle::default()));
        assert!(rancher_ca(&[]).bundle().unwrap().ca_certificates().is_empty());
        assert_eq!(rancher_ca(&[]).bundle().unwrap().base64(), "");
        let both = rancher_ca(&[
            ("tls-ca-additional", "ca-additional.pem", "B"),
            ("tls-ca", "cacerts.pem", "A"),
        ]);
        assert_eq!(both.bundle(), Ok(CaBundle(b"AB".to_vec())));
        assert_eq!(both.bundle().unwrap().base64(), "QUI=");
        let error = rancher_ca(&[("tls-ca", "other", "A")])
            .bundle()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no field cacerts.pem found in secret tls-ca"),
            "{error}"
        );
    }

    #[test]
    fn only_a_change_of_the_data_is_a_change() {
        let secret = |version: &str, pem: &str| {
            let mut secret = Secret::default();
            secret.metadata.resource_version = Some(version.to_owned());
            secret.data = Some([("cacerts.pem".to_owned(), ByteString(pem.as_bytes().to_vec()))].into());
            Some(Arc::new(secret))
        };
        let is_changed = |before, after| {
            is_changed(&Change {
                name: NamespacedName::new(NAMESPACE, "tls-ca"),
                before,
                after,
            })
        };
        assert!(!is_changed(secret("1", "A"), secret("2", "A")));
        assert!(is_changed(secret("1", "A"), secret("2", "B")));
        assert!(is_changed(None, secret("1", "A")) && is_changed(secret("1", "A"), None));
    }
}
