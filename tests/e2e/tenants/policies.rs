//! Secrets that a Policy does not allow, copied to a cluster as downstream resources.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::api::Api;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};

use crate::attack::{Attack, SOON, create_in, run};
use crate::environment::{FLEET, Mode};
use crate::neighbour::create_cluster;

/// A Secret that no HelmOp may use.
const FORBIDDEN: &str = "prod-kubeconfig";
/// Enough for a status on a busy machine. A Policy that is not enforced takes all of this time.
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn downstream_resources_beside_fleet() {
    run(
        Mode::BesideFleet,
        "downstreamResources and Policy",
        downstream_resources,
    );
}

#[test]
fn downstream_resources_standalone() {
    run(
        Mode::Standalone,
        "downstreamResources and Policy",
        downstream_resources,
    );
}

/// Refused by the webhook, and by the controller where the HelmOp was stored before the Policy.
async fn downstream_resources(attack: &mut Attack<'_>) -> Result<()> {
    let namespace = attack.namespace(json!({})).await?;
    let spec = json!({
        "helm": attack.chart(), "serviceAccount": "deployer", "targets": [{ "clusterSelector": {} }],
        "downstreamResources": [{ "kind": "Secret", "name": FORBIDDEN }],
    });
    create_in(attack.env, &namespace, "helmops", "early", spec.clone()).await?;
    let policy = json!({
        "requireServiceAccount": true, "allowedServiceAccounts": ["deployer"],
        "helmOp": { "allowedHelmSecretNames": ["charts-access"] },
    });
    create_in(attack.env, &namespace, "policies", "limits", policy).await?;

    let stored = refused_by_controller(&attack.env.api, &namespace).await;
    attack.check(stored.is_ok(), format!("stored before the Policy: {stored:?}"));
    let denied = denied_by_webhook(attack, &namespace, &spec).await;
    attack.check(denied.is_ok(), format!("created after the Policy: {denied:?}"));
    if attack.env.mode == Mode::Standalone {
        bundle_copies_nothing(attack, &namespace).await?;
    }
    attack.neighbour_works().await;
    Ok(())
}

/// Waits at most [`PATIENCE`] for the condition, so that the Policy must apply soon.
async fn refused_by_controller(api: &Api, namespace: &str) -> Result<()> {
    let path = format!("{FLEET}/namespaces/{namespace}/helmops/early");
    eventually("the refusal", PATIENCE, async || {
        let helmop = api.get(&path).await?;
        let conditions = helmop["status"]["conditions"]
            .as_array()
            .context("no conditions")?;
        let accepted = conditions
            .iter()
            .find(|condition| condition["type"] == "Accepted")
            .context("no condition")?;
        ensure!(accepted["reason"] == "PolicyViolation", "it is {accepted}");
        names_field_and_secret(&accepted["message"])
    })
    .await
}

async fn denied_by_webhook(attack: &Attack<'_>, namespace: &str, spec: &Value) -> Result<()> {
    let mut number = 0;
    eventually("the denial", PATIENCE, async || {
        number += 1;
        let name = format!("late-{number}");
        match create_in(attack.env, namespace, "helmops", &name, spec.clone()).await {
            Ok(()) => anyhow::bail!("it is accepted"),
            Err(error) => names_field_and_secret(&json!(format!("{error:#}"))),
        }
    })
    .await
}

fn names_field_and_secret(message: &Value) -> Result<()> {
    let text = message.as_str().context("no message")?;
    let is_clear = text.contains("spec.downstreamResources") && text.contains(FORBIDDEN);
    ensure!(is_clear, "the message is {text}");
    Ok(())
}

/// The same with a Bundle that no HelmOp owns.
async fn bundle_copies_nothing(attack: &mut Attack<'_>, namespace: &str) -> Result<()> {
    let cluster = create_cluster(&attack.env.api, namespace, "c0", SOON).await?;
    let path = format!("api/v1/namespaces/{namespace}/secrets");
    let secret = json!({ "metadata": { "name": FORBIDDEN }, "stringData": { "kubeconfig": "of prod" } });
    attack.env.api.call(reqwest::Method::POST, &path, secret).await?;
    let spec = json!({
        "helm": { "repo": attack.env.charts.url(), "chart": "web", "version": "1.2.0" }, "helmOpOptions": {},
        "serviceAccount": "deployer", "targets": [{ "clusterSelector": {} }],
        "downstreamResources": [{ "kind": "Secret", "name": FORBIDDEN }],
    });
    create_in(attack.env, namespace, "bundles", "by-hand", spec).await?;
    let path = format!("{FLEET}/namespaces/{namespace}/bundles/by-hand");
    let refused = eventually("the refusal of the Bundle", PATIENCE, async || {
        let bundle = attack.env.api.get(&path).await?;
        let text = bundle["status"]["conditions"].to_string();
        ensure!(text.contains("PolicyViolation"), "it is {text}");
        names_field_and_secret(&json!(text))
    });
    let refused = refused.await;
    attack.check(refused.is_ok(), format!("a Bundle by hand: {refused:?}"));
    let copy = format!("api/v1/namespaces/{cluster}/secrets/{FORBIDDEN}");
    let is_copied = attack.env.api.get(&copy).await.is_ok();
    attack.check(!is_copied, "the Secret is copied to the cluster");
    Ok(())
}
