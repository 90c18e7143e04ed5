//! The first start, further replicas, and webhook configurations that are applied later.

use anyhow::ensure;
use helmops_bed::service_account::may;
use helmops_bed::wait::eventually;
use serde_json::json;

use super::bed::{Bed, CONFIGURATIONS, certificates};
use crate::harness::SOON;

/// The kinds of the webhook configurations, in the order of [`CONFIGURATIONS`].
const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// How often the replica logged that a configuration does not exist.
fn missing_logs(bed: &Bed, kind: &str) -> usize {
    let log = bed.replicas["one"].running.process.log();
    log.matches(&format!("there is no {kind}")).count()
}

#[tokio::test]
async fn the_first_replica_issues_the_certificate_and_others_use_it() {
    let mut bed = Bed::with_replica(&[]).await.unwrap();
    let secret = bed.until_injected().await.unwrap();
    bed.until_admits().await.unwrap();
    assert_eq!(certificates(&secret["ca.crt"]), 1);

    bed.add("two").await.unwrap();
    bed.until_ready("two").await.unwrap();
    assert_eq!(
        bed.secret().await.unwrap(),
        secret,
        "the second replica issues no certificate"
    );
    bed.terminate("one").await.unwrap();
    for _ in 0..10 {
        bed.until_admits().await.unwrap();
    }
    // Ninety days, and five years for the CA.
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    for (name, days) in [
        ("helmops_webhook_certificate_expiry_timestamp_seconds", 90.0),
        ("helmops_webhook_ca_expiry_timestamp_seconds", 1825.0),
    ] {
        let remaining = (bed.metric("two", name, &[]).await.unwrap() - now) / 86_400.0;
        assert!((remaining - days).abs() < 0.1, "{name}: {remaining}");
    }
    let failed = [("result", "error")];
    let failed = bed
        .metric("two", "helmops_webhook_certificate_actions_total", &failed)
        .await
        .unwrap();
    assert!(failed < 0.5, "{failed}");
    bed.assert_no_key_in_logs(&secret);
}

#[tokio::test]
async fn replicas_that_start_together_share_one_certificate() {
    let mut bed = Bed::start(&[]).await.unwrap();
    bed.configure().await.unwrap();
    for name in ["one", "two", "three"] {
        bed.add(name).await.unwrap();
    }
    for name in ["one", "two", "three"] {
        bed.until_ready(name).await.unwrap();
    }
    let secret = bed.until_injected().await.unwrap();
    assert_eq!(certificates(&secret["ca.crt"]), 1);
    bed.until_admits().await.unwrap();
    for _ in 0..20 {
        bed.admits().await.unwrap();
    }
}

#[tokio::test]
async fn a_replica_is_ready_when_configurations_that_are_applied_later_are_injected() {
    let mut bed = Bed::start(&[]).await.unwrap();
    bed.add("one").await.unwrap();
    eventually("only the caBundle check to fail", SOON, async || {
        for kind in KINDS {
            ensure!(
                missing_logs(&bed, kind) > 0,
                "the replica has not logged that there is no {kind}"
            );
        }
        // The API server does not trust it yet.
        let unready = bed.ready("one").await.unwrap_err().to_string();
        let serves = unready.contains("[+]certificate ok");
        ensure!(serves && unready.contains("[-]caBundle failed"), "{unready}");
        Ok(())
    })
    .await
    .unwrap();
    for kind in KINDS {
        assert_eq!(missing_logs(&bed, kind), 1, "it is logged once");
    }
    for object in CONFIGURATIONS {
        assert!(
            bed.kubectl.get(object).await.unwrap().is_none(),
            "the webhook does not create it"
        );
    }

    bed.configure().await.unwrap();
    bed.until_ready("one").await.unwrap();
    bed.until_admits().await.unwrap();
    bed.until_injected().await.unwrap();

    // The replica stays ready after a configuration is deleted, and injects it again after it is recreated.
    bed.run(&["delete", CONFIGURATIONS[1]]).await.unwrap();
    eventually("the replica to log the missing configuration", SOON, async || {
        ensure!(missing_logs(&bed, KINDS[1]) == 2, "it has not logged it");
        Ok(())
    })
    .await
    .unwrap();
    bed.ready("one").await.unwrap();
    bed.configure().await.unwrap();
    bed.until_injected().await.unwrap();
    bed.until_admits().await.unwrap();
}

#[tokio::test]
async fn only_the_ca_bundles_of_own_webhooks_are_written() {
    let mut bed = Bed::start(&[]).await.unwrap();
    let mut configuration = bed.configuration("validatingwebhook.yaml").unwrap();
    let mut other = configuration["webhooks"][0].clone();
    other["name"] = json!("other.example.com");
    other["failurePolicy"] = json!("Ignore");
    configuration["webhooks"].as_array_mut().unwrap().push(other);
    bed.kubectl
        .apply(&configuration.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
    let mut annotated = bed.configuration("mutatingwebhook.yaml").unwrap();
    annotated["metadata"]["annotations"] = json!({ "cert-manager.io/inject-ca-from": "a/b" });
    bed.kubectl
        .apply(&annotated.to_string())
        .await
        .unwrap()
        .ok()
        .unwrap();
    bed.add("one").await.unwrap();
    eventually("the CA bundle", SOON, async || {
        ensure!(
            certificates(&bed.bundle(CONFIGURATIONS[1]).await?) == 1,
            "it is not injected yet"
        );
        Ok(())
    })
    .await
    .unwrap();

    let found = bed
        .kubectl
        .run(&["get", CONFIGURATIONS[1], "--output=json", "--show-managed-fields"])
        .await
        .unwrap();
    let found: serde_json::Value = serde_json::from_str(&found.ok().unwrap()).unwrap();
    let webhooks = found["webhooks"].as_array().unwrap();
    let (own, foreign) = webhooks.split_at(2);
    for webhook in own {
        assert!(webhook["clientConfig"]["caBundle"].is_string(), "{webhook}");
    }
    assert_eq!(foreign.len(), 1);
    assert!(foreign[0]["clientConfig"]["caBundle"].is_null());
    let managers = found["metadata"]["managedFields"].as_array().unwrap();
    let ours: Vec<_> = managers
        .iter()
        .filter(|manager| manager["manager"] == "helmops-certs")
        .collect();
    let fields = json!({ ".": {}, "f:clientConfig": { "f:caBundle": {} }, "f:name": {} });
    let keys = ["validate", "validate-others"].map(|webhook| {
        let key = json!({ "name": format!("{webhook}.helmops.fleet.cattle.io") });
        (format!("k:{key}"), fields.clone())
    });
    let keys: serde_json::Map<_, _> = keys.into_iter().collect();
    assert_eq!(ours[0]["fieldsV1"], json!({ "f:webhooks": keys }));
    assert_eq!((ours.len(), ours[0]["operation"].as_str()), (1, Some("Apply")));
    assert_eq!(
        bed.bundle(CONFIGURATIONS[0]).await.unwrap(),
        "",
        "cert-manager injects it"
    );
    let log = bed.replicas["one"].running.process.log();
    assert!(log.contains("cert-manager manages its caBundle"), "{log}");
    let unready = bed.ready("one").await.unwrap_err().to_string();
    assert!(
        unready.contains("[-]caBundle failed"),
        "only one configuration trusts it: {unready}"
    );
    let remove = ["annotate", CONFIGURATIONS[0], "cert-manager.io/inject-ca-from-"];
    bed.run(&remove).await.unwrap();
    bed.until_ready("one").await.unwrap();
}

#[tokio::test]
async fn the_webhook_has_only_the_permissions_that_it_needs() {
    let bed = Bed::start(&[]).await.unwrap();
    for (action, expected) in [
        ("get secret/helmops-webhook-tls", true),
        ("update secret/helmops-webhook-tls", true),
        ("create secrets", false),
        ("get secret/other", false),
        ("list secrets", false),
        ("delete secret/helmops-webhook-tls", false),
        ("patch validatingwebhookconfiguration/helmops", true),
        ("patch mutatingwebhookconfiguration/helmops", true),
        ("patch validatingwebhookconfiguration/other", false),
        ("update validatingwebhookconfiguration/helmops", false),
        ("create validatingwebhookconfigurations", false),
        ("list mutatingwebhookconfigurations", false),
    ] {
        let may = may(&bed.kubectl, "helmops-webhook", action).await.unwrap();
        assert_eq!(may, expected, "{action}");
    }
}
