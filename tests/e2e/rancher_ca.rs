//! The CA certificates of Rancher.

use anyhow::ensure;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::harness::SOON;
use crate::harness::own::Fixture;

/// The certificates in Secret `tls-ca` are trusted and set in every Bundle, and a change of the Secret applies.
#[tokio::test]
async fn ca_certificates_of_rancher_are_trusted() {
    let fixture = Fixture::start(None).await.unwrap();
    let server = ChartServer::https(fixture.charts.folder()).await.unwrap();
    let helm = json!({ "helm": { "repo": server.url(), "chart": "alpine" } });
    fixture.apply("web", &helm).await;
    fixture.until("web", "Accepted", "CertificateError").await;
    let namespace = ["create", "namespace", "cattle-system"];
    fixture.kubectl.run(&namespace).await.unwrap().ok().unwrap();
    let secret = |data: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls-ca", "namespace": "cattle-system" },
            "stringData": data,
        })
        .to_string()
    };
    let apply = async |secret: String| fixture.kubectl.apply(&secret).await.unwrap().ok().unwrap();
    apply(secret(json!({ "cacerts.pem": server.ca() }))).await;
    fixture.until_version("web", "0.2.0").await;
    let ca_bundle = async || {
        let bundle = fixture.kubectl.get("bundle/web").await.unwrap().unwrap();
        bundle["spec"]["helmOpOptions"]["helmOpCABundle"].clone()
    };
    assert!(ca_bundle().await.as_str().unwrap().len() > 100);
    let delete = ["delete", "secret", "tls-ca", "--namespace", "cattle-system"];
    fixture.kubectl.run(&delete).await.unwrap().ok().unwrap();
    eventually("the Bundle without the certificates", SOON, async || {
        ensure!(ca_bundle().await.is_null(), "it still has them");
        Ok(())
    })
    .await
    .unwrap();
    apply(secret(json!({ "other": "x" }))).await;
    let message = fixture.until("web", "Accepted", "InvalidSecret").await;
    assert!(
        message.contains("no field cacerts.pem found in secret tls-ca"),
        "{message}"
    );
}
