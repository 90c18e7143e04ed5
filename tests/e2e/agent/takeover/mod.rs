//! A cluster moves from Fleet's agent to this one and back.
//!
//! Fleet's agent itself does not run: its releases are made by Helm, with the marks, annotations and statuses that it writes, and on
//! the way back they are checked for what it reads.

mod charts;
mod fleet;

use futures::stream::{self, StreamExt};
use helmops_bed::audit::Write;
use helmops_release::record::ApplyMethod;
use serde_json::{Value, json};

use self::charts::{Deployed, History, MSG, charts};
use self::fleet::Fleet;
use crate::harness::agent::Fixture;
use crate::harness::{run, until};

/// How many charts there are.
const CHARTS: u16 = 20;
/// Those that this agent upgrades afterwards, with their revisions until then.
const CHANGED: [(&str, u64); 3] = [("config", 1), ("old", 1), ("upgraded", 2)];
/// Runs of Helm at a time.
const AT_A_TIME: usize = 4;

/// Deploys all charts as Fleet's agent.
async fn deploy_all(fleet: &Fleet<'_>, charts: &[Deployed]) {
    stream::iter(charts)
        .for_each_concurrent(AT_A_TIME, async |chart| {
            fleet.deploy(chart, 1).await;
            if chart.history == History::Upgraded {
                fleet.deploy(chart, 2).await;
            }
        })
        .await;
    let (fixture, live) = (fleet.0, fleet.live().await);
    for chart in charts {
        let changed = CHANGED.iter().find(|(name, _)| *name == chart.name);
        let over = match changed {
            Some(_) => with_msg(fixture, chart, MSG).await,
            None => chart.over.clone(),
        };
        let revision = changed.map_or(1, |(_, revision)| *revision);
        fleet.report(chart, &over, revision, &live).await;
    }
}

/// What the spec of a chart has, with this value in its Secret.
async fn with_msg(fixture: &Fixture, chart: &Deployed, msg: &str) -> Value {
    let hash = fixture.values(chart.name, &format!("msg: {msg}\n")).await;
    let mut over = chart.over.clone();
    over["valuesHash"] = json!(hash);
    over
}

/// What Fleet's agent would not accept, of all charts.
async fn problems(fleet: &Fleet<'_>, charts: &[Deployed]) -> Vec<String> {
    let live = fleet.live().await;
    let found = stream::iter(charts).map(|chart| fleet.problems(chart, &live));
    let found: Vec<_> = found.buffered(AT_A_TIME).collect().await;
    found.concat()
}

/// The records, with their versions.
async fn records(fixture: &Fixture) -> String {
    let columns = "--output=custom-columns=NAME:.metadata.name,VERSION:.metadata.resourceVersion";
    let get = ["get", "secrets", "--selector=owner=helm", columns];
    fixture.kubectl(&get).await
}

fn texts(writes: Vec<Write>) -> Vec<String> {
    let text = |write: Write| format!("{} {} {}", write.object(), write.subresource, write.code);
    writes.into_iter().map(text).collect()
}

/// Starts the agent, which has nothing to do but to remember its namespace.
async fn starts_without_a_deployment(fixture: &Fixture, charts: &[Deployed]) {
    let before = (records(fixture).await, fixture.helm_runs());
    let written = (fixture.downstream_writes().len(), fixture.upstream_writes().len());
    let agent = fixture.start().await;
    agent.until_reconciled(CHARTS).await;
    until(&fixture.system, "configmap/helmops-agent-releases", |_| Ok(())).await;
    assert_eq!(
        texts(fixture.downstream_writes().split_off(written.0)),
        [
            "configmaps/helmops-agent  201",
            "configmaps/helmops-agent-releases  201"
        ]
    );
    assert_eq!(
        texts(fixture.upstream_writes().split_off(written.1)),
        Vec::<String>::new()
    );
    for chart in charts {
        fixture.until_ready(chart.name).await;
    }
    assert_eq!((records(fixture).await, fixture.helm_runs()), before);
    forget(fixture).await;
}

/// Deletes what the agent remembers.
async fn forget(fixture: &Fixture) {
    let state = ["configmap", "helmops-agent", "helmops-agent-releases"];
    let delete = [&["delete", "--ignore-not-found"], &state[..]].concat();
    run(&fixture.system, &delete).await;
}

/// Drift is corrected, and changes are deployed.
async fn changes(fixture: &Fixture, fleet: &Fleet<'_>, charts: &[Deployed]) {
    let _agent = fixture.start().await;
    let object = format!("configmap/{}-config", fleet.release("config"));
    fixture.kubectl(&["delete", &object]).await;
    until(&fixture.apps, &object, |_| Ok(())).await;
    for (name, revision) in CHANGED {
        let chart = charts.iter().find(|chart| chart.name == name).unwrap();
        let over = with_msg(fixture, chart, "changed").await;
        fixture.deploy(name, "1.0.0", &over).await;
        fixture.until_revision(name, revision + 1).await;
        fixture.until_ready(name).await;
        let msg = fixture.msg(&fleet.release(name)).await;
        assert_eq!(msg.as_deref(), Some("changed"), "{name}");
    }
    let (_, old) = fixture.record(&fleet.release("old"), 2).await.unwrap();
    assert_eq!(
        old.apply_method(),
        ApplyMethod::ClientSide,
        "the apply method stays the same"
    );
}

#[tokio::test]
async fn releases_move_from_fleets_agent_to_this_one_and_back_without_a_deployment() {
    let fixture = Fixture::new("takeover").await;
    run(&fixture.system, &["create", "serviceaccount", "deployer"]).await;
    let (fleet, charts) = (Fleet(&fixture), charts());
    assert_eq!(charts.len(), usize::from(CHARTS));
    deploy_all(&fleet, &charts).await;
    let none = Vec::<String>::new();
    assert_eq!(problems(&fleet, &charts).await, none);

    starts_without_a_deployment(&fixture, &charts).await;
    assert_eq!(fixture.helm_runs(), none);
    assert_eq!(problems(&fleet, &charts).await, none);

    changes(&fixture, &fleet, &charts).await;
    assert_eq!(problems(&fleet, &charts).await, none);

    // Fleet's agent applies the next changes with the same field manager, so there is no conflict.
    for (name, revision) in CHANGED {
        let chart = charts.iter().find(|chart| chart.name == name).unwrap();
        fleet.deploy(chart, revision + 2).await;
        let over = with_msg(&fixture, chart, MSG).await;
        let live = fleet.live().await;
        fleet.report(chart, &over, revision + 2, &live).await;
    }
    forget(&fixture).await;
    starts_without_a_deployment(&fixture, &charts).await;
    assert_eq!(problems(&fleet, &charts).await, none);
}
