//! The CA certificates of Rancher, which are trusted for every repository without CA certificates of its own.
//!
//! Rancher stores them in two Secrets in its own namespace. They are watched because every Bundle contains them.

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use helmops_process::exit::with_causes;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};
use thiserror::Error;

use super::Scope;
use crate::resolve::CaCertificate;

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
    secret: &'static str,
    key: &'static str,
}

/// The cache of both Secrets.
#[derive(Clone)]
pub struct RancherCa {
    stores: [Store<Secret>; 2],
}

/// The CA certificates of both Secrets, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaBundle(Vec<u8>);

impl RancherCa {
    /// An empty cache, and its write halves.
    pub fn new() -> (Self, [Writer<Secret>; 2]) {
        let (first, first_writer) = reflector::store();
        let (second, second_writer) = reflector::store();
        (
            Self {
                stores: [first, second],
            },
            [first_writer, second_writer],
        )
    }

    /// Waits until both watches have completed their first list.
    pub async fn wait_until_ready(&self) {
        for store in &self.stores {
            // It fails only if the watch has ended already.
            let _ = store.wait_until_ready().await;
        }
    }

    /// The certificates of both Secrets, concatenated.
    ///
    /// # Errors
    /// If a Secret exists without its key.
    pub fn bundle(&self) -> Result<CaBundle, MissingKey> {
        let mut bundle = Vec::new();
        for (store, (secret, key)) in self.stores.iter().zip(SECRETS) {
            let Some(found) = store.get(&ObjectRef::new(secret).within(NAMESPACE)) else {
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
pub fn watch(client: &Client, scope: &Scope, writers: [Writer<Secret>; 2]) -> BoxStream<'static, ()> {
    if !scope.includes(NAMESPACE) {
        for mut writer in writers {
            writer.apply_watcher_event(&watcher::Event::Init);
            writer.apply_watcher_event(&watcher::Event::InitDone);
        }
        return stream::pending().boxed();
    }
    let api = Api::<Secret>::namespaced(client.clone(), NAMESPACE);
    let watches = writers.into_iter().zip(SECRETS).map(move |(writer, (name, _))| {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        watcher(api.clone(), config)
            .default_backoff()
            .reflect(writer)
            .touched_objects()
            .filter_map(|change| async {
                match change {
                    Ok(secret) => {
                        tracing::info!(secret = secret.name_any(), "loaded Rancher's CA bundle");
                        Some(())
                    }
                    Err(error) => {
                        tracing::warn!(
                            error = with_causes(&error),
                            "watch of Rancher's CA Secrets failed; restarting"
                        );
                        None
                    }
                }
            })
            .boxed()
    });
    stream::select_all(watches).boxed()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn rancher_ca(secrets: &[(&str, &str, &str)]) -> RancherCa {
        let (ca, mut writers) = RancherCa::new();
        for (name, key, pem) in secrets {
            let mut secret = Secret::default();
            secret.metadata.name = Some((*name).to_owned());
            secret.metadata.namespace = Some(NAMESPACE.to_owned());
            secret.data = Some([((*key).to_owned(), ByteString(pem.as_bytes().to_vec()))].into());
            let index = usize::from(*name == SECRETS[1].0);
            writers[index].apply_watcher_event(&watcher::Event::Apply(secret));
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
}
