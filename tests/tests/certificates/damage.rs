//! What somebody wipes or spoils is mended at once.

use std::time::{Duration, Instant};

use anyhow::ensure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helmops_tests::private_ca::PrivateCa;
use helmops_tests::service_account::may;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};

use crate::bed::{Bed, CONFIGURATIONS, SECRET, SOON, certificates};

/// The settle time of this is ten seconds.
const FLAGS: [(&str, &str); 2] = [("HELMOPS_TLS_VALIDITY", "2m"), ("HELMOPS_TLS_CA_VALIDITY", "10m")];

fn data(values: &[(&str, &str)]) -> Value {
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value))));
    json!({ "data": values.collect::<serde_json::Map<_, _>>() })
}

#[tokio::test]
async fn a_secret_that_is_deleted_is_made_anew_and_no_request_fails() {
    let mut bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.add("two").await.unwrap();
    bed.until_ready("two").await.unwrap();
    bed.until_admits().await.unwrap();
    let before = bed.until_injected().await.unwrap();
    bed.run(&["delete", SECRET]).await.unwrap();
    let deleted = Instant::now();
    let mut both_are_trusted = false;
    // Longer than it takes until all serve the new certificate, and the CA before goes.
    while deleted.elapsed() < Duration::from_secs(26) {
        bed.admits().await.unwrap();
        let bundle = bed.bundle(CONFIGURATIONS[1]).await.unwrap();
        both_are_trusted |= certificates(&bundle) == 2 && bundle.contains(&before["ca.crt"]);
    }
    assert!(both_are_trusted, "the CA before stays for a while");
    let after = bed.until_injected().await.unwrap();
    assert!(after["ca.crt"] != before["ca.crt"] && after["tls.crt"] != before["tls.crt"]);
    eventually("the CA before to go", Duration::from_secs(20), async || {
        let bundle = bed.bundle(CONFIGURATIONS[1]).await?;
        ensure!(!bundle.contains(&before["ca.crt"]), "it is there");
        Ok(())
    })
    .await
    .unwrap();
    bed.admits().await.unwrap();
}

#[tokio::test]
async fn a_secret_that_is_spoiled_is_mended_and_no_request_fails() {
    let bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.until_admits().await.unwrap();
    let stranger = PrivateCa::new("stranger").unwrap();
    let foreign = stranger.issue(&["127.0.0.1"]).unwrap();
    let elsewhere = stranger.issue(&["elsewhere.example.com"]).unwrap();
    let damages = [
        (
            "emptied",
            data(&[("tls.crt", ""), ("tls.key", ""), ("ca.crt", ""), ("ca.key", "")]),
        ),
        (
            "broken",
            data(&[("tls.crt", "-----BEGIN CERTIFICATE-----\nAAAA")]),
        ),
        ("another's key", data(&[("tls.key", &foreign.key)])),
        (
            "foreign",
            data(&[("tls.crt", &foreign.certificate), ("tls.key", &foreign.key)]),
        ),
        ("no authority", data(&[("ca.crt", "garbage")])),
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
    for (what, damage) in &damages {
        // This one brings a CA that is whole: what is served is given up for it, which takes a moment.
        let is_given_up = *what == "other names";
        let before = bed.until_injected().await.unwrap();
        bed.patch(SECRET, damage).await.unwrap();
        eventually(what, Duration::from_secs(20), async || {
            if !is_given_up {
                bed.admits().await.unwrap();
            }
            let secret = bed.secret().await?;
            let is_mended = ["tls.crt", "tls.key", "ca.key"]
                .iter()
                .all(|key| secret[*key].contains("BEGIN"));
            ensure!(is_mended && secret["tls.crt"] != before["tls.crt"], "not mended");
            ensure!(secret["tls.crt"] != foreign.certificate, "it is foreign");
            Ok(())
        })
        .await
        .unwrap();
        bed.until_injected().await.unwrap();
        if is_given_up {
            bed.until_admits().await.unwrap();
        }
        bed.admits().await.unwrap();
    }
}

#[tokio::test]
async fn a_bundle_that_is_spoiled_is_injected_again() {
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
            let what = format!("{object}: {bundle}");
            if bundle != json!(STANDARD.encode("garbage")) {
                // An API server may refuse what is no PEM.
                patched.unwrap();
            }
            let spoiled = Instant::now();
            bed.until_injected().await.unwrap();
            bed.until_admits().await.unwrap();
            assert!(
                spoiled.elapsed() < Duration::from_secs(10),
                "{what}: {:?}",
                spoiled.elapsed()
            );
        }
    }
    assert_eq!(
        bed.secret().await.unwrap()["ca.crt"],
        secret["ca.crt"],
        "nothing is issued for that"
    );
}

#[tokio::test]
async fn a_replica_without_rights_goes_on_serving_and_tells() {
    let bed = Bed::with_replica(&FLAGS).await.unwrap();
    bed.until_admits().await.unwrap();
    bed.run(&["delete", "rolebinding", "helmops-webhook"])
        .await
        .unwrap();
    bed.run(&["delete", "clusterrolebinding", "helmops-webhook"])
        .await
        .unwrap();
    eventually("the rights to go", SOON, async || {
        for what in ["create secrets", "patch validatingwebhookconfiguration/helmops"] {
            let may = may(&bed.kubectl, "helmops-webhook", what).await?;
            ensure!(!may, "it may still {what}");
        }
        Ok(())
    })
    .await
    .unwrap();
    bed.run(&["delete", SECRET]).await.unwrap();
    eventually("a word in the log", Duration::from_secs(20), async || {
        let log = bed.replicas["one"].running.process.log();
        ensure!(
            log.contains("failed to update the Secret (there is no Secret")
                && log.contains("the rights are in manifests/base/rbac.yaml"),
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
    helmops_tests::helmops::apply_manifests(&bed.cluster.kubectl())
        .await
        .unwrap();
    bed.until_injected().await.unwrap();
    bed.admits().await.unwrap();
}
