//! The Secret with the kubeconfig: which one a Cluster may name, and what it holds.

use helmops_api::{Cluster, NamespacedName};
use helmops_join::{
    access::ManagementServer,
    import::kubeconfig::{self, KubeconfigError, TargetAccess},
};
use helmops_model::validation::names;
use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::{error::ImportError, settings::ImportSettings};

/// The key with the kubeconfig, as in Fleet and in Cluster API.
const KUBECONFIG: &str = "value";
/// The key with the address of the management cluster, as in Fleet.
const API_SERVER_URL: &str = "apiServerURL";
/// The key with the CA of the management cluster, as in Fleet.
const API_SERVER_CA: &str = "apiServerCA";

/// What a Secret holds.
pub struct Source {
    /// Access to the cluster that is imported.
    pub access: TargetAccess,
    /// Where its agent reaches the management cluster.
    pub server: ManagementServer,
}

/// The Secret that a Cluster names.
///
/// # Errors
/// If the name is invalid, or the namespace is one that it must not name.
pub fn secret_of(cluster: &Cluster, settings: &ImportSettings) -> Result<NamespacedName, ImportError> {
    let own = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let (name, namespace) = (
        &*cluster.spec.kube_config_secret,
        &*cluster.spec.kube_config_secret_namespace,
    );
    if let Err(why) = names::subdomain(name) {
        let quoted = bounded_text::excerpt(name, 64);
        return Err(ImportError::Secret(format!(
            "spec.kubeConfigSecret {quoted:?} is {why}"
        )));
    }
    let namespace = if namespace.is_empty() { own } else { namespace };
    if namespace != own
        && !settings
            .secret_namespaces
            .iter()
            .any(|allowed| allowed == namespace)
    {
        let quoted = bounded_text::excerpt(namespace, 64);
        return Err(ImportError::Secret(format!(
            "spec.kubeConfigSecretNamespace {quoted:?} is neither the namespace of the Cluster nor one of those that the controller's flag \
             --import-secret-namespaces names; move the Secret, or remove the field"
        )));
    }
    Ok(NamespacedName::new(namespace, name))
}

/// Whether a Cluster names this Secret.
pub fn names_secret(cluster: &Cluster, namespace: &str, name: &str) -> bool {
    let named = &*cluster.spec.kube_config_secret_namespace;
    let own = cluster.metadata.namespace.as_deref().unwrap_or_default();
    cluster.spec.kube_config_secret == name && namespace == if named.is_empty() { own } else { named }
}

/// Reads the content of the Secret.
///
/// # Errors
/// If it cannot be used.
pub fn source_of(
    secret: &Secret,
    name: &NamespacedName,
    settings: &ImportSettings,
) -> Result<Source, ImportError> {
    let text = |key: &str| match secret.data.as_ref().and_then(|data| data.get(key)) {
        None => Ok(String::new()),
        Some(ByteString(bytes)) => String::from_utf8(bytes.clone())
            .map(|text| text.trim().to_owned())
            .map_err(|_| ImportError::Secret(format!("key {key} of Secret {name} is not UTF-8"))),
    };
    let kubeconfig = text(KUBECONFIG)?;
    if kubeconfig.is_empty() {
        let message = format!("Secret {name} has no key {KUBECONFIG} with a kubeconfig");
        return Err(ImportError::Secret(message));
    }
    let failed = |error: KubeconfigError| ImportError::Kubeconfig {
        secret: name.to_string(),
        error,
    };
    let access = kubeconfig::read(&kubeconfig).map_err(failed)?;
    let mut server = settings.server.clone();
    let (url, authorities) = (text(API_SERVER_URL)?, text(API_SERVER_CA)?);
    if !url.is_empty() {
        let field = format!("key {API_SERVER_URL} of Secret {name}:");
        let url = kubeconfig::https(&url, &field).map_err(ImportError::Secret)?;
        server = ManagementServer {
            server: url.as_str().trim_end_matches('/').to_owned(),
            ..server
        };
    }
    if !authorities.is_empty() {
        if !authorities.contains("-----BEGIN CERTIFICATE-----") {
            let message = format!("key {API_SERVER_CA} of Secret {name} has no certificate in PEM format");
            return Err(ImportError::Secret(message));
        }
        server.authorities = authorities;
    }
    if server.server.is_empty() {
        return Err(ImportError::Unconfigured(name.to_string()));
    }
    Ok(Source { access, server })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(spec: &Value) -> Cluster {
        let object = json!({ "metadata": { "namespace": "team", "name": "edge" }, "spec": spec });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn a_cluster_names_secrets_of_its_own_namespace_or_of_those_of_the_flag() {
        let settings = ImportSettings {
            secret_namespaces: vec!["capi".to_owned()],
            ..ImportSettings::default()
        };
        for (spec, expected) in [
            (
                json!({ "kubeConfigSecret": "edge-kubeconfig" }),
                Some("team/edge-kubeconfig"),
            ),
            (
                json!({ "kubeConfigSecret": "a", "kubeConfigSecretNamespace": "team" }),
                Some("team/a"),
            ),
            (
                json!({ "kubeConfigSecret": "a", "kubeConfigSecretNamespace": "capi" }),
                Some("capi/a"),
            ),
            (
                json!({ "kubeConfigSecret": "a", "kubeConfigSecretNamespace": "kube-system" }),
                None,
            ),
            (json!({ "kubeConfigSecret": "a/../b" }), None),
            (json!({ "kubeConfigSecret": "a?b" }), None),
            (json!({ "kubeConfigSecret": ".." }), None),
        ] {
            let found = secret_of(&cluster(&spec), &settings)
                .ok()
                .map(|name| name.to_string());
            assert_eq!(found.as_deref(), expected, "{spec}");
        }
        let named = cluster(&json!({ "kubeConfigSecret": "a" }));
        assert!(names_secret(&named, "team", "a") && !names_secret(&named, "other", "a"));
    }

    #[test]
    fn the_secret_has_the_keys_of_fleet() {
        let kubeconfig = "{current-context: c, contexts: [{name: c, context: {cluster: a, user: b}}], \
                          clusters: [{name: a, cluster: {server: 'https://10.0.0.1'}}], users: [{name: b, user: {token: t}}]}";
        let read = |data: &[(&str, &str)], url: &str| {
            let data = data
                .iter()
                .map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec())));
            let secret = Secret {
                data: Some(data.collect()),
                ..Secret::default()
            };
            let mut settings = ImportSettings::default();
            settings.server.server = url.to_owned();
            let source = source_of(&secret, &NamespacedName::new("team", "edge"), &settings);
            source
                .map(|source| source.server)
                .map_err(|error| error.to_string())
        };
        let ca = "-----BEGIN CERTIFICATE-----";
        let own = read(
            &[
                ("value", kubeconfig),
                ("apiServerURL", "https://m\n"),
                ("apiServerCA", ca),
            ],
            "https://flag",
        );
        let own = own.unwrap();
        assert_eq!((&*own.server, &*own.authorities), ("https://m", ca));
        assert_eq!(
            read(&[("value", kubeconfig)], "https://flag").unwrap().server,
            "https://flag"
        );
        for (data, expected) in [
            (&[][..], "Secret team/edge has no key value"),
            (
                &[("value", kubeconfig)][..],
                "--api-server-url, or the key apiServerURL of Secret team/edge",
            ),
            (
                &[("value", kubeconfig), ("apiServerURL", "http://m")][..],
                "key apiServerURL of Secret team/edge",
            ),
            (
                &[("value", kubeconfig), ("apiServerCA", "x")][..],
                "key apiServerCA of Secret team/edge",
            ),
            (
                &[("value", "a")][..],
                "key value of Secret team/edge: it has no current-context",
            ),
        ] {
            let error = read(data, "").unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
