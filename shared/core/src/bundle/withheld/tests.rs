use helmops_api::{HelmOp, PrunedFields};
use helmops_model::chart::resolved::ChartVersion;
use serde_json::{Value, json};

use super::*;
use crate::{
    admit::ValidHelmOp,
    bundle::{BundleInputs, Plan, RequestedCharts, plan},
};

fn helmop(over: &Value) -> HelmOp {
    let strategy = json!({ "maxUnavailable": 1, "onFailure": { "action": "Rollback" } });
    let mut object = json!({
        "metadata": { "name": "web", "namespace": "fleet", "uid": "u-1" },
        "spec": {
            "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.x", "values": { "a": 1 } },
            "pollingInterval": "1h", "rolloutStrategy": strategy, "targets": [{ "name": "all", "clusterSelector": {} }],
        },
    });
    json_patch::merge(&mut object, over);
    serde_json::from_value(object).unwrap()
}

/// One reconciliation; with the version that a poll finds, if there is one. Returns whether anything was written.
fn reconcile(helmop: &HelmOp, bundle: &mut Bundle, polled: Option<&str>) -> bool {
    reconcile_with(helmop, bundle, polled, &PrunedFields::default())
}

/// One reconciliation with an API server that does not store these fields.
fn reconcile_with(helmop: &HelmOp, bundle: &mut Bundle, polled: Option<&str>, pruned: &PrunedFields) -> bool {
    let valid = ValidHelmOp::try_from(helmop).unwrap();
    let existing = Some(&*bundle).filter(|bundle| bundle.metadata.name.is_some());
    let mut charts = RequestedCharts::of(&valid, existing);
    for chart in charts.as_mut_slice() {
        if let Some(version) = polled {
            chart.resolved(ChartVersion {
                version: version.to_owned(),
                digest: format!("digest of {version}"),
                ..ChartVersion::default()
            });
        }
        assert!(chart.version.is_some(), "nothing is resolved without a poll");
    }
    let inputs = BundleInputs {
        charts: &charts,
        handled_poll: None,
        ca_bundle: "",
        pruned,
        traceparent: None,
    };
    match plan(&valid, existing, inputs).unwrap() {
        Plan::Nothing => false,
        Plan::Create(written) | Plan::Replace(written) => {
            let status = bundle.status.take();
            *bundle = *written;
            bundle.spec = pruned.without(&bundle.spec);
            bundle.status = status;
            true
        }
    }
}

fn version(bundle: &Bundle) -> &str {
    &bundle.spec.options.helm.as_ref().unwrap().version
}

fn complete(bundle: &mut Bundle) {
    let completed = completed::record(bundle, &rollout_id(bundle));
    let status = bundle.status.get_or_insert_default();
    status.completed = completed.map(Box::new);
    status.rollout = None;
}

fn halt(bundle: &mut Bundle, failed: i64) -> String {
    let id = rollout_id(bundle);
    let status = bundle.status.get_or_insert_default();
    status.rollout = Some(RolloutStatus {
        id: id.clone(),
        waits_for: HALT.to_owned(),
        since: "2026-12-01T02:00:00Z".to_owned(),
        failed,
        ..RolloutStatus::default()
    });
    id
}

/// A Bundle with 1.0.0 that was completed, and then 1.1.0 that has failed on two clusters; with the ID of that.
fn failed(helmop: &HelmOp) -> (Bundle, String) {
    let mut bundle = Bundle::default();
    assert!(reconcile(helmop, &mut bundle, Some("1.0.0")));
    complete(&mut bundle);
    assert!(reconcile(helmop, &mut bundle, Some("1.1.0")));
    assert!(!reconcile(helmop, &mut bundle, None));
    let id = halt(&mut bundle, 2);
    (bundle, id)
}

#[test]
fn what_has_failed_is_rolled_back_and_not_tried_again_by_polls() {
    let helmop = helmop(&json!({}));
    let (mut bundle, id) = failed(&helmop);
    let before = bundle.clone();
    assert!(reconcile(&helmop, &mut bundle, None));
    assert_eq!(version(&bundle), "1.0.0");
    // The agents verify the digest of what is deployed.
    let digests: Vec<_> = recorded_in(&bundle)
        .unwrap()
        .into_iter()
        .map(|chart| chart.digest)
        .collect();
    assert_eq!(digests, ["digest of 1.0.0"]);
    assert_eq!(deployed_charts(&bundle).unwrap()[0].version, "1.0.0");
    // A killed controller may have lost the status.
    bundle.status = None;
    for polled in [None, Some("1.1.0"), None, Some("1.1.0")] {
        assert!(!reconcile(&helmop, &mut bundle, polled), "{polled:?}");
    }
    let shown = rollout_status(&bundle).unwrap();
    assert!(
        shown
            .message
            .contains("; what was there before stays: version 1.0.0 with its options;"),
        "{}",
        shown.message
    );
    bundle.status.clone_from(&before.status);
    let shown = rollout_status(&bundle).unwrap();
    assert_eq!((&*shown.id, &*shown.waits_for, shown.failed), (&*id, ROLLBACK, 2));
    assert_eq!(
        shown.message,
        format!(
            "rollout {id} (version 1.1.0) has failed on 2 clusters and is not tried again; the last one that was completed is deployed: version \
             1.0.0 with its options; wait for another version, correct the values, or try it again with: kubectl helmop rollout resume web -n \
             fleet"
        )
    );
    // It is remembered when there is a newer version, and when that is withdrawn: then that does not stay either.
    bundle.status.as_mut().unwrap().rollout = None;
    assert!(reconcile(&helmop, &mut bundle, Some("1.1.1")));
    assert_eq!((version(&bundle), rollout_status(&bundle)), ("1.1.1", None));
    let mut without_status = Bundle {
        status: None,
        ..bundle.clone()
    };
    assert!(reconcile(&helmop, &mut bundle, Some("1.1.0")));
    assert_eq!(version(&bundle), "1.0.0");
    assert_eq!(rollout_status(&bundle).unwrap().id, id);
    assert!(reconcile(&helmop, &mut without_status, Some("1.1.0")));
    assert_eq!(version(&without_status), "1.1.1", "nothing else is known");
    // The round that reads an older Bundle comes to the same result.
    let mut stale = before;
    assert!(reconcile(&helmop, &mut stale, Some("1.1.0")));
    assert_eq!(version(&stale), "1.0.0");
}

#[test]
fn what_has_failed_goes_back_although_it_has_failed_on_other_clusters_since() {
    let group = |name: &str| json!({ "name": name, "clusterGroup": name });
    let targets = |names: &[&str]| {
        let targets: Vec<_> = names.iter().map(|name| group(name)).collect();
        helmop(&json!({ "spec": { "targets": targets } }))
    };
    let (one, both) = (targets(&["a"]), targets(&["a", "b"]));
    let (mut bundle, _) = failed(&one);
    assert!(reconcile(&one, &mut bundle, None));
    assert_eq!(version(&bundle), "1.0.0");
    // What was completed has other targets.
    assert!(reconcile(&both, &mut bundle, None));
    halt(&mut bundle, 1);
    assert!(!reconcile(&both, &mut bundle, None));
    assert_eq!(version(&bundle), "1.1.0");
    assert!(reconcile(&one, &mut bundle, None));
    assert_eq!((version(&bundle), bundle.spec.targets.len()), ("1.0.0", 1));
    assert!(!reconcile(&one, &mut bundle, None));
}

#[test]
fn what_stays_may_wait_for_a_person_too() {
    let (mut bundle, id) = failed(&helmop(&json!({})));
    assert!(reconcile(&helmop(&json!({})), &mut bundle, None));
    // The status is that of what has failed, until the next round.
    let message = rollout_status(&bundle).unwrap().message;
    assert!(!message.contains("of what stays"), "{message}");
    halt(&mut bundle, 1);
    let own = bundle.status.as_mut().unwrap().rollout.as_mut().unwrap();
    own.message = "it waits".to_owned();
    let shown = rollout_status(&bundle).unwrap();
    assert_eq!((&*shown.id, &*shown.waits_for), (&*id, ROLLBACK));
    assert!(
        shown.message.ends_with("-n fleet; of what stays: it waits"),
        "{}",
        shown.message
    );
}

#[test]
fn what_was_completed_after_all_has_not_failed() {
    let on = |name: &str| helmop(&json!({ "spec": { "targets": [{ "name": name, "clusterGroup": name }] } }));
    let (mut bundle, _) = failed(&on("a"));
    assert!(reconcile(&on("a"), &mut bundle, None));
    assert!(reconcile(&on("b"), &mut bundle, Some("1.1.1")));
    complete(&mut bundle);
    // What was completed since has other targets, so it is tried again.
    assert!(reconcile(&on("a"), &mut bundle, Some("1.1.0")));
    assert_eq!((version(&bundle), withheld_charts(&bundle)), ("1.1.0", None));
    complete(&mut bundle);
    assert!(reconcile(&on("a"), &mut bundle, Some("1.1.1")));
    complete(&mut bundle);
    assert!(reconcile(&on("a"), &mut bundle, Some("1.1.0")));
    assert_eq!((version(&bundle), withheld_charts(&bundle)), ("1.1.0", None));
}

#[test]
fn fields_that_are_not_stored_make_no_other_rollout() {
    let helmop = helmop(&json!({ "spec": { "newField": 1 } }));
    let mut bundle = Bundle::default();
    assert!(reconcile(&helmop, &mut bundle, Some("1.0.0")));
    let stored = Bundle {
        spec: serde_json::from_value(json!({})).unwrap(),
        ..Bundle::default()
    };
    let mut pruned = PrunedFields::default();
    assert!(pruned.learn(&bundle.spec, &stored.spec).pruned);
    bundle.spec = pruned.without(&bundle.spec);
    complete(&mut bundle);
    assert!(reconcile_with(&helmop, &mut bundle, Some("1.1.0"), &pruned));
    let id = halt(&mut bundle, 1);
    assert!(reconcile_with(&helmop, &mut bundle, None, &pruned));
    assert_eq!(version(&bundle), "1.0.0");
    assert_eq!(rollout_status(&bundle).unwrap().id, id);
    bundle.status.as_mut().unwrap().rollout = None;
    assert!(!reconcile_with(&helmop, &mut bundle, Some("1.1.0"), &pruned));
}

#[test]
fn what_has_failed_is_tried_again_when_a_user_resumes_it() {
    let (mut bundle, id) = failed(&helmop(&json!({})));
    assert!(reconcile(&helmop(&json!({})), &mut bundle, None));
    let resumed =
        |value: String| helmop(&json!({ "metadata": { "annotations": { labels::RESUMED_ROLLOUT: value } } }));
    // For fewer failures than there were, or for something else.
    for other in [format!("{id}/1"), "other/9".to_owned()] {
        reconcile(&resumed(other), &mut bundle, None);
        assert_eq!(version(&bundle), "1.0.0");
    }
    let resumed = resumed(format!("{id}/2"));
    assert!(reconcile(&resumed, &mut bundle, None));
    assert_eq!((version(&bundle), withheld_charts(&bundle)), ("1.1.0", None));
    assert!(!reconcile(&resumed, &mut bundle, Some("1.1.0")));
    // It fails on more clusters than the user has accepted.
    halt(&mut bundle, 3);
    assert!(reconcile(&resumed, &mut bundle, None));
    assert_eq!(version(&bundle), "1.0.0");
    assert!(!reconcile(&resumed, &mut bundle, Some("1.1.0")));
}

#[test]
fn options_that_have_failed_go_back_and_those_that_deploy_nothing_stay() {
    let before = helmop(&json!({}));
    let mut bundle = Bundle::default();
    assert!(reconcile(&before, &mut bundle, Some("1.0.0")));
    complete(&mut bundle);
    let changed = json!({ "spec": { "helm": { "values": { "a": 2 } } } });
    assert!(reconcile(&helmop(&changed), &mut bundle, None));
    halt(&mut bundle, 1);
    assert!(reconcile(&helmop(&changed), &mut bundle, None));
    let values = |bundle: &Bundle| serde_json::to_value(&bundle.spec).unwrap()["helm"]["values"].clone();
    assert_eq!(values(&bundle), json!({ "a": 1 }));
    assert_eq!(version(&bundle), "1.0.0");
    let mut suspended = changed;
    json_patch::merge(
        &mut suspended,
        &json!({ "spec": { "lifecycle": { "suspend": true }, "helmSecretName": "new" } }),
    );
    assert!(reconcile(&helmop(&suspended), &mut bundle, None));
    assert_eq!(values(&bundle), json!({ "a": 1 }));
    let lifecycle = bundle.spec.options.lifecycle.as_ref().unwrap();
    assert_eq!(lifecycle.suspend, Some(true));
    assert_eq!(bundle.spec.helm_op_options.as_ref().unwrap().secret_name, "new");
    assert!(!reconcile(&helmop(&suspended), &mut bundle, None));
    // A correction is something else.
    assert!(reconcile(
        &helmop(&json!({ "spec": { "helm": { "values": { "a": 3 } } } })),
        &mut bundle,
        None
    ));
    assert_eq!(values(&bundle), json!({ "a": 3 }));
}

#[test]
fn nothing_goes_back_without_something_to_go_back_to() {
    let rolls_back = helmop(&json!({}));
    let (failed_bundle, id) = failed(&rolls_back);
    let stays = |helmop: &HelmOp, bundle: &Bundle| {
        let mut bundle = bundle.clone();
        reconcile(helmop, &mut bundle, None);
        version(&bundle) == "1.1.0"
    };
    assert!(!stays(&rolls_back, &failed_bundle));
    let halts = helmop(&json!({ "spec": { "rolloutStrategy": { "onFailure": { "action": "Halt" } } } }));
    assert!(stays(&halts, &failed_bundle));
    let mut never = failed_bundle.clone();
    never.status.as_mut().unwrap().completed = None;
    assert!(stays(&rolls_back, &never));
    let mut other = failed_bundle.clone();
    let completed = other.status.as_mut().unwrap().completed.as_mut().unwrap();
    completed.spec = completed.spec.replace("\"all\"", "\"few\"");
    assert!(stays(&rolls_back, &other), "its clusters are others");
    let mut many = failed_bundle.clone();
    let completed = many.status.as_mut().unwrap().completed.as_mut().unwrap();
    completed.resolved = " ".repeat(200 << 10);
    assert!(stays(&rolls_back, &many), "its annotations would be too long");
    let mut earlier = failed_bundle;
    earlier.status.as_mut().unwrap().rollout.as_mut().unwrap().id = format!("{id}0");
    assert!(stays(&rolls_back, &earlier), "something else has failed");
}
