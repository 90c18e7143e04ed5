//! Deleted or damaged Secrets and CA bundles are repaired immediately.

use std::time::{Duration, Instant};

use anyhow::ensure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helmops_bed::helmops::{self, Part};
use helmops_bed::private_ca::PrivateCa;
use helmops_bed::service_account::may;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use super::bed::{Bed, CONFIGURATIONS, SECRET, certificates};
use crate::harness::SOON;

/// With these, the settle time is ten seconds.
const FLAGS: [(&str, &str); 2] = [("HELMOPS_TLS_VALIDITY", "2m"), ("HELMOPS_TLS_CA_VALIDITY", "10m")];

fn data(values: &[(&str, &str)]) -> Value {
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value))));
    json!({ "data": values.collect::<serde_json::Map<_, _>>() })
}

#[tokio::test]
async fn a_deleted_secret_is_filled_when_it_is_applied_again_and_no_request_fails() {
    let mut bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.add("two").await.unwrap();
    bed.until_ready("two").await.unwrap();
    bed.until_admits().await.unwrap();
    let before = bed.until_injected().await.unwrap();
    bed.run(&["delete", SECRET]).await.unwrap();
    eventually("what to apply in the log", Duration::from_secs(20), async || {
        let log = bed.replicas["one"].running.process.log();
        ensure!(
            log.contains(
                "Secret helmops-system/helmops-webhook-tls does not exist; create it without data: apply manifests/base/rbac.yaml"
            ),
            "{log}"
        );
        bed.admits().await
    })
    .await
    .unwrap();
    helmops::apply(&bed.cluster.kubectl(), &[Part::Base])
        .await
        .unwrap();
    let deleted = Instant::now();
    let mut both_are_trusted = false;
    // Longer than it takes until all replicas serve the new certificate and the previous CA is removed.
    while deleted.elapsed() < Duration::from_secs(26) {
        bed.admits().await.unwrap();
        let bundle = bed.bundle(CONFIGURATIONS[1]).await.unwrap();
        both_are_trusted |= certificates(&bundle) == 2 && bundle.contains(&before["ca.crt"]);
    }
    assert!(both_are_trusted, "the previous CA is trusted for some time");
    let after = bed.until_injected().await.unwrap();
    assert!(after["ca.crt"] != before["ca.crt"] && after["tls.crt"] != before["tls.crt"]);
    eventually(
        "the removal of the previous CA",
        Duration::from_secs(20),
        async || {
            let bundle = bed.bundle(CONFIGURATIONS[1]).await?;
            ensure!(!bundle.contains(&before["ca.crt"]), "the CA bundle contains it");
            Ok(())
        },
    )
    .await
    .unwrap();
    bed.admits().await.unwrap();
}

#[tokio::test]
async fn a_damaged_secret_is_repaired_and_no_request_fails() {
    let bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.until_admits().await.unwrap();
    let stranger = PrivateCa::new("stranger").unwrap();
    let foreign = stranger.issue(&["127.0.0.1"]).unwrap();
    let elsewhere = stranger.issue(&["elsewhere.example.com"]).unwrap();
    let damages = [
        (
            "empty",
            data(&[("tls.crt", ""), ("tls.key", ""), ("ca.crt", ""), ("ca.key", "")]),
        ),
        (
            "broken",
            data(&[("tls.crt", "-----BEGIN CERTIFICATE-----\nAAAA")]),
        ),
        ("key of another CA", data(&[("tls.key", &foreign.key)])),
        (
            "certificate of another CA",
            data(&[("tls.crt", &foreign.certificate), ("tls.key", &foreign.key)]),
        ),
        ("invalid CA", data(&[("ca.crt", "garbage")])),
        (
            "other names",
            data(&[
                ("tls.crt", &elsewhere.certificate),
                ("tls.key", &elsewhere.key),
                ("ca.crt", stranger.pem()),
                ("ca.key", ""),
            ]),
        ),
    ];
    for (case, damage) in &damages {
        // This Secret has a valid CA, so the served certificate is replaced, which takes a short time.
        let is_replaced = *case == "other names";
        let before = bed.until_injected().await.unwrap();
        bed.patch(SECRET, damage).await.unwrap();
        eventually(case, Duration::from_secs(20), async || {
            if !is_replaced {
                bed.admits().await.unwrap();
            }
            let secret = bed.secret().await?;
            let is_repaired = ["tls.crt", "tls.key", "ca.key"]
                .iter()
                .all(|key| secret[*key].contains("BEGIN"));
            ensure!(
                is_repaired && secret["tls.crt"] != before["tls.crt"],
                "it is not repaired"
            );
            ensure!(
                secret["tls.crt"] != foreign.certificate,
                "it has the certificate of another CA"
            );
            Ok(())
        })
        .await
        .unwrap();
        bed.until_injected().await.unwrap();
        if is_replaced {
            bed.until_admits().await.unwrap();
        }
        bed.admits().await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_ca_bundle_is_injected_again() {
    let bed = Bed::with_replica(&FLAGS).await.unwrap();
    let secret = bed.until_injected().await.unwrap();
    let stranger = STANDARD.encode(PrivateCa::new("stranger").unwrap().pem());
    for object in CONFIGURATIONS {
        for bundle in [
            Value::Null,
            json!(""),
            json!(STANDARD.encode("garbage")),
            json!(stranger),
        ] {
            let change =
                json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle }]);
            let patched = bed
                .run(&["patch", object, "--type=json", "-p", &change.to_string()])
                .await;
            let case = format!("{object}: {bundle}");
            if bundle != json!(STANDARD.encode("garbage")) {
                // An API server may reject a bundle that is not PEM.
                patched.unwrap();
            }
            let damaged = Instant::now();
            bed.until_injected().await.unwrap();
            bed.until_admits().await.unwrap();
            assert!(
                damaged.elapsed() < Duration::from_secs(10),
                "{case}: {:?}",
                damaged.elapsed()
            );
        }
    }
    assert_eq!(
        bed.secret().await.unwrap()["ca.crt"],
        secret["ca.crt"],
        "no certificate is issued"
    );
}

#[tokio::test]
async fn a_replica_without_permissions_keeps_serving_and_logs_it() {
    let bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.until_admits().await.unwrap();
    bed.run(&["delete", "rolebinding", "helmops-webhook"])
        .await
        .unwrap();
    bed.run(&["delete", "clusterrolebinding", "helmops-webhook"])
        .await
        .unwrap();
    eventually("the removal of the permissions", SOON, async || {
        for action in [
            "update secret/helmops-webhook-tls",
            "patch validatingwebhookconfiguration/helmops",
        ] {
            let may = may(&bed.kubectl, "helmops-webhook", action).await?;
            ensure!(!may, "it may still {action}");
        }
        Ok(())
    })
    .await
    .unwrap();
    bed.patch(SECRET, &json!({ "data": null })).await.unwrap();
    eventually("an error in the log", Duration::from_secs(20), async || {
        let log = bed.replicas["one"].running.process.log();
        ensure!(
            log.contains("failed to update the Secret (tls.crt contains no certificate")
                && log.contains("the permissions are in manifests/base/rbac.yaml"),
            "{log}"
        );
        Ok(())
    })
    .await
    .unwrap();
    bed.admits().await.unwrap();
    let failed = [("action", "issue_all"), ("result", "error")];
    let failed = bed
        .metric("one", "helmops_webhook_certificate_actions_total", &failed)
        .await
        .unwrap();
    assert!(failed > 0.5);
    helmops::apply(&bed.cluster.kubectl(), &[Part::Base])
        .await
        .unwrap();
    bed.until_injected().await.unwrap();
    bed.admits().await.unwrap();
}
