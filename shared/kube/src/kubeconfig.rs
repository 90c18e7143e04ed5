//! The configuration of a client from a kubeconfig.

use kube::{
    Config,
    config::{ExecAuthCluster, Kubeconfig, KubeconfigError},
};
use thiserror::Error;

use crate::{
    connect::ConnectError,
    proxy::{InvalidProxy, proxy_for},
};

/// Why a kubeconfig gives no configuration.
#[derive(Debug, Error)]
pub enum UnusableKubeconfig {
    /// It refers to something that does not exist, such as a context, or that cannot be read.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// Its proxy cannot be used, or that of the environment.
    #[error(transparent)]
    Proxy(#[from] InvalidProxy),
}

/// The configuration of a context; by default, of the current one. The proxy is that of the kubeconfig or of the environment.
///
/// # Errors
/// If there is no such context or no usable cluster in it, or if the proxy cannot be used.
pub fn config_of(kubeconfig: Kubeconfig, context: Option<&str>) -> Result<Config, UnusableKubeconfig> {
    config_in(kubeconfig, context, |name| std::env::var(name).ok())
}

/// The configuration without a file: of the kubeconfig in `$KUBECONFIG` or `~/.kube/config`, or of the pod without one, which has no proxy.
///
/// # Errors
/// If there is neither a kubeconfig nor a ServiceAccount, or if the proxy cannot be used.
pub async fn inferred() -> Result<Config, ConnectError> {
    let read = Kubeconfig::read().map_err(UnusableKubeconfig::from);
    match read.and_then(|kubeconfig| config_of(kubeconfig, None)) {
        Ok(mut config) => {
            config.apply_debug_overrides();
            Ok(config)
        }
        Err(UnusableKubeconfig::Proxy(error)) => Err(ConnectError::Proxy(error)),
        #[expect(
            clippy::disallowed_methods,
            reason = "without a kubeconfig it reads the ServiceAccount"
        )]
        Err(UnusableKubeconfig::Kubeconfig(_)) => Config::infer().await.map_err(ConnectError::NotConfigured),
    }
}

/// As `Config::from_custom_kubeconfig` of kube, but for the proxy: with `HTTPS_PROXY`, kube fails for a `NO_PROXY` that it cannot read.
fn config_in(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Config, UnusableKubeconfig> {
    let name = context.or(kubeconfig.current_context.as_deref());
    let name = name.ok_or(KubeconfigError::CurrentContextNotSet)?;
    let mut contexts = kubeconfig.contexts.into_iter();
    let context = contexts
        .find(|context| context.name == name)
        .and_then(|named| named.context);
    let context = context.ok_or_else(|| KubeconfigError::LoadContext(name.to_owned()))?;
    let mut clusters = kubeconfig.clusters.into_iter();
    let cluster = clusters
        .find(|cluster| cluster.name == context.cluster)
        .and_then(|named| named.cluster);
    let cluster = cluster.ok_or(KubeconfigError::LoadClusterOfContext(context.cluster))?;
    // A user that does not exist is none, as in kubectl.
    let mut users = kubeconfig.auth_infos.into_iter();
    let user = users
        .find(|user| Some(&user.name) == context.user.as_ref())
        .and_then(|named| named.auth_info);

    let server = cluster
        .server
        .as_ref()
        .ok_or(KubeconfigError::MissingClusterUrl)?;
    let mut config = Config::new(server.parse().map_err(KubeconfigError::ParseClusterUrl)?);
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    if let Some(namespace) = context.namespace {
        config.default_namespace = namespace;
    }
    config.auth_info = user.unwrap_or_default();
    // What a plugin for logins learns about the cluster: its CA is read, whether it is data or a file.
    let known = ExecAuthCluster::try_from(&cluster)?;
    let authority = known.certificate_authority_data.as_deref().map(certificates);
    config.root_cert = authority.transpose()?;
    if let Some(plugin) = &mut config.auth_info.exec
        && plugin.provide_cluster_info
    {
        plugin.cluster = Some(known);
    }
    config.proxy_url = proxy_for(&config.cluster_url, cluster.proxy_url.as_deref(), environment)?;
    Ok(config)
}

fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, KubeconfigError> {
    let blocks = pem::parse_many(text).map_err(KubeconfigError::ParseCertificates)?;
    let certificates = blocks.into_iter().filter(|block| block.tag() == "CERTIFICATE");
    Ok(certificates.map(pem::Pem::into_contents).collect())
}

#[cfg(test)]
mod tests {
    use kube::config::KubeConfigOptions;

    use super::*;

    /// A CA that is not valid as a certificate, which does not matter here.
    const CA: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFRSUQKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

    fn kubeconfig(cluster: &str) -> Kubeconfig {
        let text = "
apiVersion: v1
kind: Config
current-context: first
contexts:
- { name: first, context: { cluster: first, user: plugin, namespace: apps } }
- { name: second, context: { cluster: second, user: token } }
- { name: userless, context: { cluster: second, user: gone } }
- { name: gone, context: { cluster: gone } }
- { name: nowhere, context: { cluster: nowhere } }
clusters:
- { name: first, cluster: { server: 'https://10.1.2.3:6443', CLUSTER } }
- { name: second, cluster: { server: 'https://10.1.2.4', insecure-skip-tls-verify: true, disable-compression: true } }
- { name: nowhere, cluster: {} }
users:
- { name: token, user: { token: secret, as: someone } }
- { name: plugin, user: { exec: { apiVersion: client.authentication.k8s.io/v1, command: login, provideClusterInfo: true } } }
";
        Kubeconfig::from_yaml(&text.replace("CLUSTER", cluster)).unwrap()
    }

    /// kube reads the variables of the test too, so the proxies are not compared.
    #[tokio::test]
    async fn all_but_the_proxy_is_read_as_by_kube() {
        for cluster in [
            format!("certificate-authority-data: {CA}, tls-server-name: api"),
            "certificate-authority-data: '%'".to_owned(),
            "certificate-authority: /does/not/exist".to_owned(),
            "certificate-authority-data: LS0tLS1CRUdJTiBYLS0tLS0=".to_owned(),
            String::new(),
        ] {
            for context in ["first", "second", "userless", "gone", "nowhere", "unknown"] {
                let context = Some(context.to_owned());
                let options = KubeConfigOptions {
                    context: context.clone(),
                    ..KubeConfigOptions::default()
                };
                #[expect(clippy::disallowed_methods, reason = "it is what this one is compared with")]
                let theirs = Config::from_custom_kubeconfig(kubeconfig(&cluster), &options).await;
                let theirs = theirs.map_err(|error| error.to_string());
                let ours = config_in(kubeconfig(&cluster), context.as_deref(), |_| None);
                let ours = ours.map_err(|error| error.to_string());
                let shown = |config: Result<Config, String>| {
                    let without_proxy = |mut config: Config| {
                        config.proxy_url = None;
                        config
                    };
                    format!("{:?}", config.map(without_proxy))
                };
                assert_eq!(shown(ours), shown(theirs), "{context:?} {cluster}");
            }
        }
    }

    #[test]
    fn the_proxy_is_that_of_the_cluster_or_of_the_environment() {
        let variables = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://proxy:3128".to_owned()),
            "NO_PROXY" => Some("10.1.2.4,".to_owned()),
            _ => None,
        };
        for (cluster, context, expected) in [
            ("", "first", Some("http://proxy:3128/")),
            ("", "second", None),
            ("proxy-url: http://own:80", "first", Some("http://own:80/")),
        ] {
            let config = config_in(kubeconfig(cluster), Some(context), variables).unwrap();
            let proxy = config.proxy_url.map(|url| url.to_string());
            assert_eq!(proxy.as_deref(), expected, "{cluster} {context}");
        }
    }
}
