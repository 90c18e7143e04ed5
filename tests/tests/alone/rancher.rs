//! The authorities of Rancher.

use anyhow::ensure;
use helmops_tests::chart_server::ChartServer;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

use crate::bed::{Alone, SOON};

/// What Rancher trusts is trusted, every Bundle carries it, and a change is seen.
#[tokio::test]
async fn the_authorities_of_rancher() {
    let alone = Alone::start(None).await.unwrap();
    let server = ChartServer::https(alone.charts.folder()).await.unwrap();
    let helm = json!({ "helm": { "repo": server.url(), "chart": "alpine" } });
    alone.apply("web", &helm).await;
    alone.until("web", "Accepted", "CertificateError").await;
    let namespace = ["create", "namespace", "cattle-system"];
    alone.kubectl.run(&namespace).await.unwrap().ok().unwrap();
    let secret = |data: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls-ca", "namespace": "cattle-system" },
            "stringData": data,
        })
        .to_string()
    };
    let apply = async |secret: String| alone.kubectl.apply(&secret).await.unwrap().ok().unwrap();
    apply(secret(json!({ "cacerts.pem": server.ca() }))).await;
    alone.until_version("web", "0.2.0").await;
    let carried = async || {
        let bundle = alone.kubectl.get("bundle/web").await.unwrap().unwrap();
        bundle["spec"]["helmOpOptions"]["helmOpCABundle"].clone()
    };
    assert!(carried().await.as_str().unwrap().len() > 100);
    let delete = ["delete", "secret", "tls-ca", "--namespace", "cattle-system"];
    alone.kubectl.run(&delete).await.unwrap().ok().unwrap();
    eventually("the Bundle without them", SOON, async || {
        ensure!(carried().await.is_null(), "it still carries them");
        Ok(())
    })
    .await
    .unwrap();
    apply(secret(json!({ "other": "x" }))).await;
    let message = alone.until("web", "Accepted", "InvalidSecret").await;
    assert!(
        message.contains("no field cacerts.pem found in secret tls-ca"),
        "{message}"
    );
}
