//! Proxies between `kubectl helmop` and the API server: those that kubectl uses.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helmops_bed::command;
use helmops_bed::forward_proxy::ForwardProxy;
use helmops_bed::test_bed::{TestBed, binary};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::beside_fleet::suite;

/// An address of this machine that is no loopback address: those have no proxy of the environment.
const HOST: &str = "0.0.0.0";

/// Writes a kubeconfig with that address and the CAs of the API server and the proxy.
fn kubeconfig(bed: &TestBed, folder: &Path, proxy: &ForwardProxy, proxy_url: Option<&str>) {
    let text = std::fs::read_to_string(&bed.kubeconfig).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    let authorities = format!("{}{}", bed.ca().unwrap(), proxy.ca());
    kubeconfig["clusters"][0]["cluster"] = json!({
        "server": bed.url.replace("127.0.0.1", HOST),
        "tls-server-name": "127.0.0.1",
        "certificate-authority-data": STANDARD.encode(authorities),
        "proxy-url": proxy_url.unwrap_or_default(),
    });
    std::fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();
}

#[tokio::test]
async fn the_api_server_is_reached_through_the_same_proxy_as_by_kubectl() {
    let suite = suite().await;
    let bed = &suite.bed;
    let proxy = ForwardProxy::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let plugin = binary("kubectl-helmop").unwrap();
    let [http, https, socks] = ["http", "https", "socks5"].map(|scheme| proxy.url(scheme));
    // Nothing listens there.
    let unused = "http://127.0.0.1:9";
    for (proxy_url, variables, is_proxied) in [
        (None, &[("HTTPS_PROXY", &*http)][..], true),
        (None, &[("https_proxy", &https)], true),
        (None, &[("HTTPS_PROXY", &socks)], true),
        (None, &[("HTTPS_PROXY", &http), ("NO_PROXY", "127.0.0.1")], true),
        (
            None,
            &[("HTTPS_PROXY", unused), ("NO_PROXY", "0.0.0.0/8,")],
            false,
        ),
        (Some(&*http), &[("HTTPS_PROXY", unused), ("NO_PROXY", "*,")], true),
    ] {
        kubeconfig(bed, folder.path(), &proxy, proxy_url);
        for arguments in [&["get", "namespace", "default"][..], &["helmop", "version"]] {
            let mut command = Command::new(bed.tools.kubectl());
            command
                .args(arguments)
                .env_clear()
                .env("PATH", plugin.parent().unwrap())
                .env("HOME", folder.path())
                .env("KUBECONFIG", folder.path().join("config"))
                .envs(variables.iter().copied());
            let output = command::run(command, "", Duration::from_mins(1)).await.unwrap();
            assert!(output.status.success(), "{proxy_url:?} {variables:?}: {output:?}");
            let tunnels = proxy.take_tunnels();
            let all_to_the_server = tunnels
                .iter()
                .all(|address| bed.url.ends_with(&address.replace(HOST, "")));
            assert!(
                tunnels.is_empty() != is_proxied && all_to_the_server,
                "{arguments:?} {proxy_url:?} {variables:?}: {tunnels:?}"
            );
        }
    }
}
