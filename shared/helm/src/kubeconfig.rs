//! The kubeconfig for Helm: the connection of the agent's own client.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Config,
    config::{Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext},
};

/// The name of the only cluster, user and context.
const NAME: &str = "helmops";
/// Characters in a line of PEM.
const PEM_LINE: usize = 64;

/// A kubeconfig with the connection and the credentials of a client, as JSON, which is YAML too. A token in a file stays in its file,
/// because it is renewed.
///
/// # Errors
/// If it cannot be encoded, which does not happen.
pub fn kubeconfig(config: &Config) -> Result<Vec<u8>, serde_json::Error> {
    let file = config.root_cert_file.as_ref();
    let cluster = Cluster {
        server: Some(config.cluster_url.to_string()),
        insecure_skip_tls_verify: config.accept_invalid_certs.then_some(true),
        certificate_authority: file.map(|path| path.display().to_string()),
        certificate_authority_data: match (file, &config.root_cert) {
            (None, Some(certificates)) => Some(STANDARD.encode(pem(certificates))),
            _ => None,
        },
        proxy_url: config.proxy_url.as_ref().map(ToString::to_string),
        tls_server_name: config.tls_server_name.clone(),
        disable_compression: None,
        extensions: None,
        other: BTreeMap::new(),
    };
    let context = Context {
        cluster: NAME.to_owned(),
        user: Some(NAME.to_owned()),
        namespace: None,
        extensions: None,
        ..Context::default()
    };
    let kubeconfig = Kubeconfig {
        kind: Some("Config".to_owned()),
        api_version: Some("v1".to_owned()),
        current_context: Some(NAME.to_owned()),
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(config.auth_info.clone()),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        }],
        ..Kubeconfig::default()
    };
    serde_json::to_vec(&kubeconfig)
}

fn pem(certificates: &[Vec<u8>]) -> String {
    let mut pem = String::new();
    for certificate in certificates {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let base64 = STANDARD.encode(certificate);
        for line in base64.as_bytes().chunks(PEM_LINE) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(change: impl Fn(&mut Config)) -> Value {
        let mut config = Config::new("https://10.0.0.1:6443/".parse().unwrap());
        change(&mut config);
        serde_json::from_slice(&kubeconfig(&config).unwrap()).unwrap()
    }

    #[test]
    fn a_pod_uses_the_files_of_its_service_account() {
        let kubeconfig = of(|config| {
            config.root_cert_file = Some("/sa/ca.crt".into());
            config.root_cert = Some(vec![vec![1]]);
            config.auth_info.token_file = Some("/sa/token".to_owned());
        });
        let cluster = json!({ "server": "https://10.0.0.1:6443/", "certificate-authority": "/sa/ca.crt" });
        assert_eq!(kubeconfig["clusters"][0]["cluster"], cluster);
        assert_eq!(
            kubeconfig["users"][0]["user"],
            json!({ "tokenFile": "/sa/token" })
        );
        assert_eq!(kubeconfig["current-context"], kubeconfig["contexts"][0]["name"]);
        assert_eq!(
            kubeconfig["contexts"][0]["context"]["user"],
            kubeconfig["users"][0]["name"]
        );
    }

    #[test]
    fn certificates_are_written_as_pem() {
        let kubeconfig = of(|config| config.root_cert = Some(vec![vec![7; 60], vec![8]]));
        let data = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]
            .as_str()
            .unwrap();
        let pem = String::from_utf8(STANDARD.decode(data).unwrap()).unwrap();
        let lines: Vec<_> = pem.lines().collect();
        assert_eq!(lines.len(), 7, "{pem}");
        assert_eq!(lines[1].len(), 64);
        assert_eq!((lines[4], lines[5]), ("-----BEGIN CERTIFICATE-----", "CA=="));
    }
}
