//! Releases that depend on each other and are removed together: what others depend on is uninstalled after them.

use anyhow::{Context, ensure};
use helmops_bed::wait::eventually;
use serde_json::json;

use super::spec;
use crate::harness::SOON;
use crate::harness::agent::Fixture;

/// `web` depends on `api`, which depends on `db`: in Fleet's way, and in that of helmops.
const CHAIN: [&str; 3] = ["web", "api", "db"];

/// Deploys them, so that each can be deployed. With the timeouts of the uninstallation of `db` and `api`.
async fn deploy_chain(fixture: &Fixture, [of_db, of_api]: [&str; 2]) {
    let on = |name: &str| json!([{ "name": fixture.name(name) }]);
    let uninstall = |timeout: &str| json!({ "timeout": timeout });
    let db = json!({ "uninstall": uninstall(of_db) });
    fixture.deploy("db", "1.0.0", &spec("x", &db)).await;
    let api = json!({ "dependsOn": on("db"), "uninstall": uninstall(of_api) });
    fixture.deploy("api", "1.0.0", &spec("x", &api)).await;
    let mut web = spec("x", &json!({}));
    web["dependsOn"] = on("api");
    fixture.deploy("web", "1.0.0", &web).await;
    for name in CHAIN {
        fixture.until_ready(name).await;
    }
}

/// The uninstallations so far, by the names of this test.
fn uninstalled(fixture: &Fixture) -> Vec<String> {
    let runs = fixture.helm_runs().into_iter();
    let runs = runs.filter_map(|run| Some(run.strip_prefix("uninstall ")?.split('-').next()?.to_owned()));
    runs.collect()
}

async fn until_uninstalled(fixture: &Fixture, expected: &[&str]) {
    eventually("the uninstallations", SOON, async || {
        let found = uninstalled(fixture);
        ensure!(found == expected, "they are {found:?}");
        Ok(())
    })
    .await
    .unwrap();
}

async fn until_gone(fixture: &Fixture, name: &str) {
    let secret = format!("secret/sh.helm.release.v1.{}.v1", fixture.name(name));
    fixture.until_none(&secret).await;
}

#[tokio::test]
async fn releases_that_are_deleted_together_are_uninstalled_in_reverse_order() {
    let fixture = Fixture::new("order-chain").await;
    let _agent = fixture.start().await;
    deploy_chain(&fixture, ["5m", "5m"]).await;
    for name in ["db", "api", "web"] {
        fixture.delete(name).await;
    }
    until_gone(&fixture, "db").await;
    assert_eq!(uninstalled(&fixture), CHAIN);
    // The agent may see the deletion of `db` before the others.
    let (_, text) = fixture.event("DependentsRemain").await;
    assert!(text.contains("these BundleDeployments depend on it"), "{text}");
}

#[tokio::test]
async fn the_order_is_known_to_an_agent_that_was_away() {
    let fixture = Fixture::new("order-away").await;
    let mut agent = fixture.start().await;
    deploy_chain(&fixture, ["5m", "5m"]).await;
    // Something that stays: an agent without any BundleDeployment removes nothing.
    fixture.deploy("stays", "1.0.0", &json!({})).await;
    fixture.until_ready("stays").await;
    agent.process.kill().await.unwrap();
    for name in CHAIN {
        fixture.delete(name).await;
    }
    let _agent = fixture.start().await;
    until_gone(&fixture, "db").await;
    assert_eq!(uninstalled(&fixture), CHAIN);
}

#[tokio::test]
async fn a_dependent_that_hangs_is_awaited_until_the_timeout() {
    let fixture = Fixture::new("order-hangs").await;
    let _agent = fixture.start().await;
    deploy_chain(&fixture, ["3s", "20s"]).await;
    fixture.delay_helm("uninstall", 60);
    for name in ["db", "api"] {
        fixture.delete(name).await;
    }
    // It is not removed, so that the other one waits no longer than its own timeout.
    until_uninstalled(&fixture, &["api"]).await;
    fixture.delay_helm("uninstall", 0);
    until_gone(&fixture, "db").await;
    assert_eq!(uninstalled(&fixture), ["api", "db"]);
    assert!(fixture.record(&fixture.name("api"), 1).await.is_some());
    let api = fixture.name("api");
    let expected = [
        format!("are not deleted: {}", fixture.name("web")),
        format!("were not uninstalled within 3s (lifecycle.uninstall.timeout): {api}"),
    ];
    eventually("the Events", SOON, async || {
        let events = fixture.events().await;
        for expected in &expected {
            let mut texts = events.iter().filter(|(reason, _)| reason == "DependentsRemain");
            let found = texts.find(|(_, text)| text.contains(expected));
            found.with_context(|| format!("{expected} is not in {events:?}"))?;
        }
        Ok(())
    })
    .await
    .unwrap();
}

/// It needs nothing any more, whatever it depends on.
#[tokio::test]
async fn a_dependent_that_is_kept_is_not_awaited() {
    let fixture = Fixture::new("order-kept").await;
    let _agent = fixture.start().await;
    fixture.deploy("db", "1.0.0", &spec("x", &json!({}))).await;
    let on = json!([{ "name": fixture.name("db") }]);
    let kept = spec("x", &json!({ "dependsOn": on, "onDelete": "Keep" }));
    fixture.deploy("kept", "1.0.0", &kept).await;
    fixture.until_ready("kept").await;
    for name in ["db", "kept"] {
        fixture.delete(name).await;
    }
    until_gone(&fixture, "db").await;
    assert_eq!(fixture.msg(&fixture.name("kept")).await.as_deref(), Some("x"));
    let events = fixture.events().await;
    let warned = events.iter().any(|(_, text)| text.contains("within"));
    assert!(!warned, "{events:?}");
}

/// Such as custom resources, whose finalizers the other release removes.
#[tokio::test]
async fn objects_that_are_still_being_deleted_are_awaited() {
    const HELD: &str =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: held\n  finalizers: [example.com/held]\n";
    let fixture = Fixture::new("order-objects").await;
    fixture.charts.web("2.0.0", &[("held", HELD)]).await;
    let _agent = fixture.start().await;
    fixture.deploy("db", "1.0.0", &spec("x", &json!({}))).await;
    let on = json!({ "dependsOn": [{ "name": fixture.name("db") }] });
    fixture.deploy("web", "2.0.0", &spec("x", &on)).await;
    fixture.until_ready("web").await;
    for name in ["db", "web"] {
        fixture.delete(name).await;
    }
    until_gone(&fixture, "web").await;
    fixture.barrier().await;
    let remembered = fixture
        .system
        .kubectl()
        .get("configmap/helmops-agent-releases")
        .await;
    let remembered = remembered.unwrap().unwrap()["data"].clone();
    assert!(remembered[fixture.name("web")].is_string(), "{remembered}");
    let others = |run: &String| !run.starts_with("barrier");
    let runs = || {
        uninstalled(&fixture)
            .into_iter()
            .filter(others)
            .collect::<Vec<_>>()
    };
    assert_eq!(runs(), ["web"]);
    let patch = json!({ "metadata": { "finalizers": null } }).to_string();
    fixture
        .kubectl(&["patch", "configmap/held", "--type=merge", "-p", &patch])
        .await;
    until_gone(&fixture, "db").await;
    assert_eq!(runs(), ["web", "db"]);
}

#[tokio::test]
async fn those_that_wait_for_each_other_say_so_and_are_uninstalled_all_the_same() {
    let fixture = Fixture::new("order-cycle").await;
    let _agent = fixture.start().await;
    let [a, b] = ["a", "b"].map(|name| fixture.name(name));
    let on = |name: &str, msg: &str| spec(msg, &json!({ "dependsOn": [{ "name": name }] }));
    fixture.deploy("a", "1.0.0", &on(&b, "x")).await;
    fixture.deploy("b", "1.0.0", &on(&a, "x")).await;
    let path = format!("each waits for the next one: {a} -> {b} -> {a}");
    fixture.until_error("a", "Deployed", &[&path]).await;
    // Each of them is deployed without the other one, and then depends on it again.
    fixture.deploy("a", "1.0.0", &spec("x", &json!({}))).await;
    for name in ["a", "b"] {
        fixture.until_ready(name).await;
    }
    fixture.deploy("a", "1.0.0", &on(&b, "y")).await;
    fixture.until_msg(&a, "y").await;
    fixture.until_ready("a").await;
    for name in ["a", "b"] {
        fixture.delete(name).await;
    }
    for name in ["a", "b"] {
        until_gone(&fixture, name).await;
    }
}
