use bounded_text::is_control;
use helmops_api::lifecycle::ReleaseAttempt;
use serde_json::{Value, json};

use super::*;
use crate::state::fixture::{self, deployment, helmop, merged, now, rollout};

struct Fixture {
    helmops: Contents<WithoutObjects>,
    clusters: Contents<Cluster>,
    bundle: Contents<Bundle>,
    deployments: Contents<BundleDeployment>,
    events: Events,
    revisions: Revisions,
}

fn listed(helmop: HelmOp) -> Decoded<WithoutObjects> {
    Decoded::Valid(WithoutObjects(helmop).into())
}

fn cluster(name: &str, spec: &Value, seen: &str) -> Decoded<Cluster> {
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": name }, "spec": spec, "status": { "agent": { "lastSeen": seen } }
    }))
    .unwrap()
}

/// A roll-out, and the clusters that it is for.
fn fixture() -> Fixture {
    let observed = rollout();
    let other = |name: &str, spec: &Value| helmop(&json!({ "metadata": { "name": name }, "spec": spec }));
    let mut web = observed.helmop;
    web.spec.bundle.depends_on =
        serde_json::from_value(json!([{ "name": "crds" }, { "name": "gone" }])).unwrap();
    let depends_on = json!([
        { "name": "db", "namespace": "other" },
        { "name": "tls", "namespace": "apps", "apiVersion": "cert-manager.io/v1", "kind": "Certificate" },
    ]);
    web.spec.bundle.options.lifecycle = serde_json::from_value(json!({ "dependsOn": depends_on })).unwrap();
    Fixture {
        helmops: Contents::of([
            listed(web),
            listed(other("crds", &json!({}))),
            listed(other("front", &json!({ "dependsOn": [{ "name": "web" }] }))),
            // Another namespace, and so another `web`.
            listed(helmop(
                &json!({ "metadata": { "namespace": "other", "name": "back" }, "spec": { "dependsOn": [{ "name": "web" }] } }),
            )),
            listed(helmop(&json!({
                "metadata": { "namespace": "other", "name": "db" },
                "spec": { "lifecycle": { "dependsOn": [{ "name": "web", "namespace": "shop" }] } },
            }))),
        ]),
        clusters: Contents::of([
            cluster("c1", &json!({}), fixture::NOW),
            cluster("c3", &json!({}), "2026-03-01T09:00:00Z"),
            cluster("c4", &json!({ "paused": true }), fixture::NOW),
        ]),
        bundle: Contents::of(
            observed
                .bundle
                .into_iter()
                .map(|bundle| Decoded::Valid(bundle.into())),
        ),
        deployments: Contents::of(observed.deployments),
        events: Ok(observed.events),
        revisions: Revisions::default(),
    }
}

impl Fixture {
    fn view(&self) -> HelmOpView {
        HelmOpView::of(&Inputs {
            namespace: "shop",
            name: "web",
            helmops: &self.helmops,
            clusters: &self.clusters,
            bundle: &self.bundle,
            deployments: &self.deployments,
            events: &self.events,
            revisions: &self.revisions,
            now: now(),
        })
    }
}

#[test]
fn a_view_has_the_clusters_with_what_runs_and_what_they_wait_for() {
    let details = fixture().view().helmop.unwrap();
    let clusters: Vec<_> = details
        .clusters
        .iter()
        .map(|row| {
            (
                &*row.report.cluster,
                &*row.report.state,
                row.tone,
                &*row.running,
                row.is_silent,
            )
        })
        .collect();
    assert_eq!(
        clusters,
        [
            ("shop/c1", "Ready", Tone::Good, "1.2.0", false),
            ("shop/c2", "ErrApplied", Tone::Bad, "1.1.0", false),
            ("shop/c3", "NotReady", Tone::Pending, "1.2.0", true),
            ("shop/c4", "Pending", Tone::Pending, "", false),
        ]
    );
    let waits: Vec<_> = details
        .waits
        .iter()
        .map(|wait| (&*wait.clusters[0], &*wait.cause))
        .collect();
    assert_eq!(
        waits,
        [
            (
                "shop/c3",
                "the agent of the cluster, which has not reported for too long"
            ),
            (
                "shop/c4",
                "the cluster, which is paused (spec.paused of the Cluster)"
            ),
            ("shop/c2", "the next attempt, after failed ones"),
        ]
    );
    let versions: Vec<_> = details
        .rollout
        .by_version
        .iter()
        .map(|part| (&*part.version, part.is_desired, part.count, part.ready))
        .collect();
    assert_eq!(
        versions,
        [("1.2.0", true, 2, 1), ("1.1.0", false, 1, 0), ("", false, 1, 0)]
    );
}

#[test]
fn dependencies_are_shown_in_both_directions_with_their_state() {
    let details = fixture().view().helmop.unwrap();
    let shown = |related: &[Related]| -> Vec<_> {
        related
            .iter()
            .map(|one| {
                let name = format!("{}/{}", one.namespace, one.name);
                (name, one.state.clone(), one.exists)
            })
            .collect()
    };
    let row = |name: &str, state: &str, exists| (name.to_owned(), state.to_owned(), exists);
    assert_eq!(
        shown(&details.depends_on),
        [
            row("shop/crds", "Ready", true),
            row("shop/gone", "Unknown", false),
            row("other/db", "Ready", true),
            row("shop/certificate.cert-manager.io apps/tls", "", false),
        ]
    );
    assert_eq!(
        shown(&details.needed_by),
        [row("other/db", "Ready", true), row("shop/front", "Ready", true)]
    );
}

#[test]
fn the_json_has_what_the_page_reads() {
    let view = serde_json::to_value(fixture().view()).unwrap();
    let helmop = &view["helmop"];
    assert_eq!(helmop["report"]["state"], "ErrApplied");
    assert_eq!(
        helmop["report"]["next"]["command"],
        "kubectl helmop history web -n shop --cluster shop/c2"
    );
    assert_eq!(
        helmop["report"]["clusters"],
        json!([]),
        "they are in the view once"
    );
    assert_eq!(helmop["conditionTones"], json!(["good", "good", "bad"]));
    assert_eq!(helmop["attempts"][0]["outcome"], "deployed");
    assert_eq!(helmop["attempts"][0]["tone"], "good");
    assert_eq!(
        helmop["rollout"]["byState"][0],
        json!({ "state": "Ready", "tone": "good", "count": 1 })
    );
    assert_eq!(view["isKnown"], true);
}

#[test]
fn the_history_has_the_revisions_that_were_read_and_what_is_missing() {
    let mut fixture = fixture();
    let revision = |revision, outcome: &str, message: &str| ReleaseAttempt {
        revision,
        action: "upgrade".to_owned(),
        chart: "web\u{202e}bew\u{1b}[2J".to_owned(),
        version: "1.2.0".to_owned(),
        outcome: outcome.to_owned(),
        time: format!("2026-03-01T09:0{revision}:00Z"),
        message: message.to_owned(),
        ..ReleaseAttempt::default()
    };
    let all = vec![
        revision(2, "failed", "<b>boom</b>\u{2066}"),
        revision(3, "deployed", ""),
    ];
    fixture.revisions = Revisions {
        by_cluster: [("shop/c1".to_owned(), all)].into(),
        notes: vec!["shop/c3: it is away".to_owned()],
    };
    // As a page gets it.
    let json = crate::ui::hub::json(&fixture.view());
    assert!(!std::str::from_utf8(&json).unwrap().contains(is_control));
    let view: Value = serde_json::from_slice(&json).unwrap();
    let attempts = view["helmop"]["attempts"].as_array().unwrap();
    let of_cluster: Vec<_> = attempts
        .iter()
        .filter(|attempt| attempt["cluster"] == "shop/c1")
        .collect();
    let expected = |revision: &str, outcome: &str, tone: &str, message: &str| {
        json!({
            "cluster": "shop/c1", "revision": revision, "action": "upgrade", "chart": "webbew\u{1b}[2J", "version": "1.2.0",
            "outcome": outcome, "tone": tone, "time": format!("2026-03-01T09:0{revision}:00Z"), "from": "records", "message": message,
        })
    };
    assert_eq!(
        of_cluster,
        [
            &expected("3", "deployed", "good", ""),
            &expected("2", "failed", "bad", "<b>boom</b>"),
        ]
    );
    let others = |from: &str| attempts.iter().filter(|attempt| attempt["from"] == from).count();
    assert_eq!((others("records"), others("status")), (2, 6));
    assert_eq!(view["helmop"]["historyNotes"], json!(["shop/c3: it is away"]));
    assert_eq!(view["notes"], json!([]), "the rest of the page is complete");
}

#[test]
fn a_helmop_that_is_suspended_waits_for_nothing_else() {
    let mut fixture = fixture();
    let suspended = helmop(&json!({ "spec": { "lifecycle": { "suspend": true } } }));
    fixture.helmops = Contents::of([listed(suspended)]);
    let change = merged(
        &fixture::not_ready(),
        &json!({ "status": { "lifecycle": { "suspended": true } } }),
    );
    fixture.deployments = Contents::of([deployment("c3", &change), deployment("c1", &json!({}))]);
    let details = fixture.view().helmop.unwrap();
    assert_eq!(details.tone, Tone::Off);
    let waits: Vec<_> = details
        .waits
        .iter()
        .map(|wait| (&*wait.cause, wait.count))
        .collect();
    assert_eq!(waits, [("kubectl helmop resume: it is suspended", 1)]);
}

#[test]
fn what_cannot_be_read_is_noted_and_the_rest_is_shown() {
    let mut fixture = fixture();
    fixture.deployments = Contents::default();
    fixture.deployments.is_known = true;
    fixture.deployments.note = Some("no permission for bundledeployments".to_owned());
    fixture.events = Err("no permission for events".to_owned());
    let view = fixture.view();
    assert_eq!(
        view.notes,
        ["no permission for bundledeployments", "no permission for events"]
    );
    let details = view.helmop.unwrap();
    assert_eq!(
        details.rollout.by_state.len(),
        4,
        "the status of the HelmOp counts them"
    );
    fixture.helmops = Contents::of([]);
    assert!(fixture.view().helmop.is_none());
}
