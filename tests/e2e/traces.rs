//! Traces from `kubectl apply` to a ready release, received by the OpenTelemetry Collector's own receiver.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use helmops_bed::collector::Span;
use helmops_bed::wait::eventually;
use serde_json::json;

use crate::harness::joined::{self, Fixture};

/// An installation on two clusters, and the export of the last batch.
const DEADLINE: Duration = Duration::from_mins(1);

const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n";

/// The spans of the HelmOp's traces, and the root of each, once there are as many roots.
async fn traces(fixture: &Fixture, roots: usize) -> (Vec<Span>, Vec<Span>) {
    let name = format!("helmops.namespace={}", fixture.workspace.namespace.name());
    let collector = &joined::suite().await.collector;
    let complete = async || {
        let all = collector.spans()?;
        let is_root = |span: &&Span| span.parent.is_empty() && span.attributes.contains(&name);
        let found: Vec<Span> = all.iter().filter(is_root).cloned().collect();
        ensure!(found.len() == roots, "{} roots", found.len());
        let spans = all
            .into_iter()
            .filter(|span| found.iter().any(|root| root.trace == span.trace));
        let spans: Vec<_> = spans.collect();
        // The agents report after the release is ready.
        for root in &found {
            let last = spans
                .iter()
                .filter(|span| span.trace == root.trace && span.service == "helmops-agent");
            ensure!(last.count() > 0, "no span of an agent");
        }
        Ok((spans, found))
    };
    eventually("the traces", DEADLINE, complete).await.unwrap()
}

fn find<'s>(spans: &'s [Span], trace: &str, service: &str, name: &str) -> Result<&'s Span> {
    let found = spans
        .iter()
        .find(|span| span.trace == trace && span.service == service && span.name == name);
    found.with_context(|| format!("{service} has no span {name:?} in {spans:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_leads_from_apply_to_ready() {
    let fixture = Fixture::new("traces", 2).await;
    fixture.charts().web("1.0.0", &[("config", CONFIG)]).await;
    fixture
        .apply("web", &json!({ "helm": { "version": "1.x" } }))
        .await;
    let (spans, roots) = traces(&fixture, 1).await;
    let root = &roots[0];
    for (service, name) in [
        ("helmops-webhook", "admission"),
        ("helmops-controller", "reconcile"),
        ("helmops-controller", "resolve"),
        ("helmops-controller", "write Bundle"),
        ("helmops-controller", "deliver"),
        ("helmops-agent", "reconcile"),
        ("helmops-agent", "fetch chart"),
        ("helmops-agent", "run Helm"),
    ] {
        let span = find(&spans, &root.trace, service, name).unwrap();
        assert!(
            span.times.0 >= root.times.0 && span.times.0 <= root.times.1,
            "{span:#?} is outside of {root:#?}"
        );
        assert_eq!(span.error, None, "{span:#?}");
        let parent = spans.iter().find(|other| other.id == span.parent);
        assert!(
            parent.is_some_and(|parent| parent.trace == root.trace),
            "{span:#?} has no parent"
        );
    }
    assert!(
        root.attributes.contains(&"helmops.version=1.0.0".to_owned()),
        "{root:#?}"
    );
    let delivered = spans.iter().filter(|span| span.name == "deliver").count();
    assert_eq!(delivered, 2, "one for each cluster");
    // A newer version that a poll finds has a trace of its own.
    fixture.charts().web("1.1.0", &[("config", CONFIG)]).await;
    let object = fixture.workspace.namespace.kubectl();
    object
        .run(&[
            "annotate",
            "helmop",
            "web",
            "helmops.fleet.cattle.io/poll-requested-at=1",
        ])
        .await
        .unwrap()
        .ok()
        .unwrap();
    let (spans, roots) = traces(&fixture, 2).await;
    let second = roots.iter().find(|other| other.trace != root.trace).unwrap();
    assert!(
        second.attributes.contains(&"helmops.version=1.1.0".to_owned()),
        "{second:#?}"
    );
    find(&spans, &second.trace, "helmops-agent", "run Helm").unwrap();
    // It starts with the change of the Bundle, before the clusters get it.
    let delivered = find(&spans, &second.trace, "helmops-controller", "deliver").unwrap();
    assert!(
        second.times.0 <= delivered.times.0,
        "{delivered:#?} is before {second:#?}"
    );
    let again = spans
        .iter()
        .filter(|span| span.trace == root.trace && span.times.0 > second.times.1);
    assert_eq!(again.count(), 0, "the first trace has ended");

    // An edit that rolls nothing out: the condition Ready stays as it is, and the root starts with the edit, at its admission.
    let spec = json!({ "helm": { "version": "1.x" }, "pollingInterval": "1h" });
    fixture.apply("web", &spec).await;
    let collector = &joined::suite().await.collector;
    let (third, admission) = eventually("the root of the edit", DEADLINE, async || {
        let name = format!("helmops.namespace={}", fixture.workspace.namespace.name());
        let is_root = |span: &Span| span.parent.is_empty() && span.attributes.contains(&name);
        let all = collector.spans()?;
        let is_third = |span: &&Span| is_root(span) && ![&root.trace, &second.trace].contains(&&span.trace);
        let third = all.iter().find(is_third).context("there are two roots")?;
        let admission = find(&all, &third.trace, "helmops-webhook", "admission")?;
        Ok((third.clone(), admission.clone()))
    })
    .await
    .unwrap();
    // The API server records seconds.
    let second_of = |nanoseconds: u64| nanoseconds / 1_000_000_000;
    assert!(
        second_of(third.times.0) >= second_of(second.times.1),
        "{third:#?} starts before {second:#?} has ended"
    );
    assert!(
        third.times.0 <= admission.times.1,
        "{admission:#?} is before {third:#?}"
    );
}
