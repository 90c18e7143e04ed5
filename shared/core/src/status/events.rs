//! Events for changes of a status.

use bounded_text::{cut, numbered};
use helmops_api::{
    Condition, HelmOpStatus, ResolvedChart, Unusable,
    bundle::{APPROVAL, BundleStatus, GATE, HALT, ROLLBACK, RolloutStatus},
};
use helmops_model::{
    condition::ConditionType,
    event::{Event, MAX_NOTE},
    reason::Reason,
};

/// Action of resolving and polling versions, as in Fleet.
const GET_VERSION: &str = "GetNewChartVersion";
/// Action of checking a HelmOp against the Policies, as in Fleet.
const APPLY_POLICIES: &str = "ApplyPolicyRestrictions";
/// Every other action.
const RECONCILE: &str = "Reconcile";

/// The events for a change of the status. What did not change is not reported again, and the first version is not an event: it
/// is in the status.
pub fn events(old: &HelmOpStatus, new: &HelmOpStatus) -> Vec<Event> {
    [
        new_version(old, new),
        new_digest(old, new),
        digest_changed(old, new),
        failed_poll(old, new),
        acceptance(old, new),
        releases(old, new),
        rollout_stopped(old.rollout.as_deref(), new.rollout.as_deref()),
    ]
    .into_iter()
    .flatten()
    .chain(
        ConditionType::NOTICES
            .into_iter()
            .filter_map(|notice| noticed(old, new, notice)),
    )
    .collect()
}

/// What a poll has found about a chart, once for each version: the condition is the memory.
fn noticed(old: &HelmOpStatus, new: &HelmOpStatus, r#type: ConditionType) -> Option<Event> {
    let condition = changed(old, new, r#type)?;
    Some(Event {
        is_warning: r#type == ConditionType::ChartWithdrawn,
        reason: condition.reason.clone(),
        action: GET_VERSION,
        note: cut(condition.message.clone(), MAX_NOTE),
    })
}

/// With a life cycle: the release has failed on more clusters than before, or is ready on all clusters. While it is tried again it has
/// not failed, so fewer failures are no success.
fn releases(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let counts = new.lifecycle.as_ref()?;
    let before = old.lifecycle.as_ref().map_or(0, |counts| counts.failed);
    let ready = of(new, ConditionType::Ready)?;
    if counts.failed > before {
        let note = format!(
            "failed on {}: {}",
            numbered(counts.failed, "cluster"),
            ready.message
        );
        return Some(Event {
            is_warning: true,
            reason: Reason::ReleasesFailed.to_string(),
            action: RECONCILE,
            note: cut(note, MAX_NOTE),
        });
    }
    let was_ready = of(old, ConditionType::Ready).is_some_and(|ready| ready.status == "True");
    (ready.status == "True" && !was_ready).then(|| Event {
        is_warning: false,
        reason: Reason::Ready.to_string(),
        action: RECONCILE,
        note: format!(
            "{}/{} clusters are ready",
            new.base.ready_clusters.unwrap_or_default(),
            new.base.desired_ready_clusters.unwrap_or_default()
        ),
    })
}

/// The rollout waits until a user does something: once for what it waits for, whatever its clusters do meanwhile, and also if `Ready` has
/// another reason.
fn rollout_stopped(old: Option<&RolloutStatus>, new: Option<&RolloutStatus>) -> Option<Event> {
    let stopped = |rollout: &RolloutStatus| {
        let reason = match &*rollout.waits_for {
            HALT => Reason::RolloutHalted,
            ROLLBACK => Reason::RolloutRolledBack,
            APPROVAL => Reason::AwaitingApproval,
            GATE => Reason::GateFailed,
            _ => return None,
        };
        (!rollout.since.is_empty()).then(|| (reason, rollout.id.clone(), rollout.partition.clone()))
    };
    let (now, rollout) = new.and_then(|rollout| Some((stopped(rollout)?, rollout)))?;
    let (reason, ..) = now;
    (old.and_then(stopped).as_ref() != Some(&now)).then(|| Event {
        is_warning: reason != Reason::AwaitingApproval,
        reason: reason.to_string(),
        action: RECONCILE,
        note: cut(rollout.message.clone(), MAX_NOTE),
    })
}

/// Events of a Bundle: it became ready, or is not ready for another reason than before. Progress is not an event.
pub fn bundle_events(old: &BundleStatus, new: &BundleStatus) -> Vec<Event> {
    let ready =
        |status: &BundleStatus| Condition::find(&status.conditions, ConditionType::Ready.as_str()).cloned();
    let Some(now) = ready(new) else {
        return Vec::new();
    };
    let before = ready(old).map(|condition| condition.reason);
    let stopped = rollout_stopped(old.rollout.as_ref(), new.rollout.as_ref());
    let is_unreported = [
        Reason::Progressing,
        Reason::AwaitingApproval,
        Reason::GateFailed,
        Reason::RolloutHalted,
    ]
    .iter()
    .any(|reason| reason.as_str() == now.reason);
    if is_unreported || now.reason.is_empty() || before.as_ref() == Some(&now.reason) {
        return stopped.into_iter().collect();
    }
    let is_ready = now.status == "True";
    let clusters = new.display.as_ref().map(|display| &*display.ready_clusters);
    let changed = Event {
        is_warning: !is_ready,
        reason: now.reason,
        action: RECONCILE,
        note: if is_ready {
            format!("{} clusters are ready", clusters.unwrap_or_default())
        } else {
            now.message
        },
    };
    stopped.into_iter().chain([changed]).collect()
}

/// The event for a HelmOp that cannot be used, so that its status cannot be updated.
pub fn unusable(error: &Unusable, note: String) -> Event {
    let reason = match error {
        Unusable::Invalid(_) => Reason::DecodeError,
        Unusable::NotStored(_) => Reason::MemoryExceeded,
    };
    Event {
        is_warning: true,
        reason: reason.to_string(),
        action: RECONCILE,
        note,
    }
}

/// The event for an object whose life cycle the API server has not stored. `kind` is that of the CRD.
pub fn lifecycle_unsupported(kind: &str) -> Event {
    Event {
        is_warning: true,
        reason: Reason::LifecycleUnsupported.to_string(),
        action: RECONCILE,
        note: format!(
            "spec.lifecycle has no effect: the CRD of {kind} in the cluster lacks it, as Fleet's own does; install the CRDs of helmops, or \
             remove spec.lifecycle"
        ),
    }
}

fn new_version(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let is_new = !old.version.is_empty() && !new.version.is_empty() && old.version != new.version;
    is_new.then(|| Event {
        is_warning: false,
        reason: Reason::GotNewChartVersion.to_string(),
        action: GET_VERSION,
        note: format!("{} (before: {})", new.version, old.version),
    })
}

/// Another digest of the same version is deployed.
fn new_digest(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let before = |chart: &ResolvedChart| {
        let key = |one: &ResolvedChart| (one.repo.clone(), one.chart.clone(), one.version.clone());
        let own = key(chart);
        let found = old.resolved.iter().find(|one| key(one) == own)?;
        let is_new = !found.digest.is_empty() && found.digest != chart.digest;
        is_new.then(|| found.digest.clone())
    };
    let (chart, before) = new
        .resolved
        .iter()
        .find_map(|chart| Some((chart, before(chart)?)))?;
    Some(Event {
        is_warning: false,
        reason: Reason::GotNewChartVersion.to_string(),
        action: GET_VERSION,
        note: format!(
            "{} with the digest {} (before: {before})",
            chart.version, chart.digest
        ),
    })
}

fn digest_changed(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let condition = changed(old, new, ConditionType::DigestChanged)?;
    Some(Event {
        is_warning: true,
        reason: Reason::DigestChanged.to_string(),
        action: GET_VERSION,
        note: condition.message.clone(),
    })
}

fn failed_poll(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let polled = changed(old, new, ConditionType::Polled)?;
    (polled.status == "False").then(|| Event {
        is_warning: true,
        reason: Reason::FailedToGetNewChartVersion.to_string(),
        action: GET_VERSION,
        note: polled.message.clone(),
    })
}

fn acceptance(old: &HelmOpStatus, new: &HelmOpStatus) -> Option<Event> {
    let accepted = changed(old, new, ConditionType::Accepted)?;
    let is_warning = accepted.status == "False";
    let was_refused = of(old, ConditionType::Accepted).is_some_and(|before| before.status == "False");
    if !is_warning && !was_refused {
        return None;
    }
    Some(Event {
        is_warning,
        reason: accepted.reason.clone(),
        action: if accepted.reason == Reason::PolicyViolation.as_str() {
            APPLY_POLICIES
        } else {
            RECONCILE
        },
        note: if is_warning {
            accepted.message.clone()
        } else {
            "accepted again".to_owned()
        },
    })
}

/// The new condition, if its status, reason or message changed.
fn changed<'s>(old: &HelmOpStatus, new: &'s HelmOpStatus, r#type: ConditionType) -> Option<&'s Condition> {
    let now = of(new, r#type)?;
    let content = |condition: &Condition| {
        (
            condition.status.clone(),
            condition.reason.clone(),
            condition.message.clone(),
        )
    };
    (of(old, r#type).map(content) != Some(content(now))).then_some(now)
}

fn of(status: &HelmOpStatus, r#type: ConditionType) -> Option<&Condition> {
    Condition::find(&status.base.conditions, r#type.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn status(version: &str, conditions: Value) -> HelmOpStatus {
        let status = json!({ "version": version, "conditions": conditions });
        serde_json::from_str(&status.to_string()).unwrap()
    }

    fn summarized(old: &HelmOpStatus, new: &HelmOpStatus) -> Vec<(bool, String, &'static str)> {
        events(old, new)
            .into_iter()
            .map(|event| {
                (
                    event.is_warning,
                    format!("{}: {}", event.reason, event.note),
                    event.action,
                )
            })
            .collect()
    }

    #[test]
    fn another_digest_of_a_version_is_reported_once() {
        let with = |digest: &str, changed: &str| {
            let record = json!([{ "repo": "oci://h/web", "version": "1.0.0", "digest": digest }]);
            let conditions = match changed {
                "" => json!([]),
                message => {
                    json!([{ "type": "DigestChanged", "status": "True", "reason": "DigestChanged", "message": message }])
                }
            };
            let status = json!({ "version": "1.0.0", "resolved": record, "conditions": conditions });
            serde_json::from_str::<HelmOpStatus>(&status.to_string()).unwrap()
        };
        let deployed = "GotNewChartVersion: 1.0.0 with the digest b (before: a)".to_owned();
        let held = "DigestChanged: b is held".to_owned();
        for (old, new, expected) in [
            (with("a", ""), with("b", ""), vec![(false, deployed, GET_VERSION)]),
            (
                with("a", ""),
                with("a", "b is held"),
                vec![(true, held, GET_VERSION)],
            ),
            (with("a", "b is held"), with("a", "b is held"), vec![]),
            (with("a", "b is held"), with("a", ""), vec![]),
            (with("", ""), with("b", ""), vec![]),
        ] {
            assert_eq!(summarized(&old, &new), expected);
        }
    }

    /// A cluster that fails and recovers gives `Ready` other reasons meanwhile.
    #[test]
    fn what_a_rollout_waits_for_is_an_event_once() {
        let waits = |what: &str, partition: &str, since: &str| {
            let rollout = json!({ "id": "a", "waitsFor": what, "partition": partition, "since": since, "message": "it waits" });
            serde_json::from_str::<HelmOpStatus>(&json!({ "rollout": rollout }).to_string()).unwrap()
        };
        let event = |reason: &str, is_warning| vec![(is_warning, format!("{reason}: it waits"), RECONCILE)];
        let none = HelmOpStatus::default();
        for (old, new, expected) in [
            (&none, waits("Approval", "a", ""), vec![]),
            (
                &none,
                waits("Approval", "a", "T"),
                event("AwaitingApproval", false),
            ),
            (
                &waits("Approval", "a", ""),
                waits("Approval", "a", "T"),
                event("AwaitingApproval", false),
            ),
            (&waits("Approval", "a", "T"), waits("Approval", "a", "T"), vec![]),
            (
                &waits("Approval", "a", "T"),
                waits("Approval", "b", "T"),
                event("AwaitingApproval", false),
            ),
            (
                &waits("Approval", "a", "T"),
                waits("Halt", "a", "T"),
                event("RolloutHalted", true),
            ),
            (&waits("Halt", "a", "T"), waits("Halt", "a", "T"), vec![]),
            (&none, waits("Soak", "a", ""), vec![]),
            // It is closed, or cannot be evaluated.
            (&none, waits("Gate", "a", ""), vec![]),
            (
                &waits("Gate", "a", ""),
                waits("Gate", "a", "T"),
                event("GateFailed", true),
            ),
            (&waits("Gate", "a", "T"), waits("Gate", "a", "T"), vec![]),
        ] {
            assert_eq!(summarized(old, &new), expected, "{old:?} {new:?}");
        }
        let bundle = |reason: &str, since: &str| -> BundleStatus {
            let conditions =
                json!([{ "type": "Ready", "status": "False", "reason": reason, "message": "ErrApplied(1)" }]);
            let rollout = json!({ "id": "a", "waitsFor": "Approval", "partition": "a", "since": since, "message": "it waits" });
            serde_json::from_str(&json!({ "conditions": conditions, "rollout": rollout }).to_string())
                .unwrap()
        };
        let notes = |old: &BundleStatus, new: &BundleStatus| -> Vec<_> {
            bundle_events(old, new)
                .into_iter()
                .map(|event| event.note)
                .collect()
        };
        let (awaits, fails) = (bundle("AwaitingApproval", "T"), bundle("NotReady", "T"));
        assert_eq!(notes(&bundle("Progressing", ""), &awaits), ["it waits"]);
        assert_eq!(notes(&awaits, &fails), ["ErrApplied(1)"]);
        assert_eq!(notes(&fails, &awaits), Vec::<String>::new());
    }

    #[test]
    fn only_a_newer_version_is_an_event() {
        let none = HelmOpStatus::default();
        let first = status("1.0.0", json!([]));
        let second = status("1.1.0", json!([]));
        assert_eq!(summarized(&none, &first), []);
        let expected = (
            false,
            "GotNewChartVersion: 1.1.0 (before: 1.0.0)".to_owned(),
            "GetNewChartVersion",
        );
        assert_eq!(summarized(&first, &second), [expected]);
        assert_eq!(summarized(&second, &second), []);
    }

    #[test]
    fn releases_are_reported_when_more_fail_or_all_are_ready() {
        let counted = |failed: i64, ready: &str| {
            let ready = json!([{ "type": "Ready", "status": ready, "message": "ErrApplied" }]);
            let mut status = status("1.0.0", ready);
            status.base.ready_clusters = Some(3);
            status.base.desired_ready_clusters = Some(3);
            status.lifecycle = Some(helmops_api::lifecycle::LifecycleSummary {
                failed,
                ..Default::default()
            });
            status
        };
        let event = |before, after| summarized(&counted(before, "False"), &counted(after, "False"));
        let failed = |note: &str| vec![(true, format!("ReleasesFailed: {note}"), "Reconcile")];
        assert_eq!(event(0, 0), []);
        assert_eq!(event(0, 1), failed("failed on 1 cluster: ErrApplied"));
        assert_eq!(event(1, 2), failed("failed on 2 clusters: ErrApplied"));
        assert_eq!(event(2, 1), []);
        assert_eq!(event(1, 0), [], "it may be tried again");
        let ready = "Ready: 3/3 clusters are ready".to_owned();
        let is_ready = counted(0, "True");
        assert_eq!(
            summarized(&counted(0, "False"), &is_ready),
            [(false, ready, "Reconcile")]
        );
        assert_eq!(summarized(&is_ready, &is_ready), []);
    }

    #[test]
    fn failures_are_reported_when_they_start_or_change() {
        let failed = |r#type: &str, reason: &str, message: &str| {
            status(
                "1.0.0",
                json!([{ "type": r#type, "status": "False", "reason": reason, "message": message }]),
            )
        };
        let accepted = status(
            "1.0.0",
            json!([{ "type": "Accepted", "status": "True", "reason": "Accepted" }]),
        );
        let poll_failed = failed("Polled", "Timeout", "slow");
        let poll_event = "FailedToGetNewChartVersion: slow".to_owned();
        assert_eq!(
            summarized(&accepted, &poll_failed),
            [(true, poll_event, "GetNewChartVersion")]
        );
        assert_eq!(summarized(&poll_failed, &poll_failed), []);

        let refused = failed("Accepted", "ChartNotFound", "gone");
        let refusal_event = "ChartNotFound: gone".to_owned();
        assert_eq!(
            summarized(&accepted, &refused),
            [(true, refusal_event, "Reconcile")]
        );
        assert_eq!(summarized(&refused, &refused), []);
        let again = "Accepted: accepted again".to_owned();
        assert_eq!(summarized(&refused, &accepted), [(false, again, "Reconcile")]);
        let forbidden = failed("Accepted", "PolicyViolation", "no");
        let policy_event = "PolicyViolation: no".to_owned();
        assert_eq!(
            summarized(&refused, &forbidden),
            [(true, policy_event, "ApplyPolicyRestrictions")]
        );
    }

    #[test]
    fn a_bundle_has_an_event_for_each_reason_except_progress() {
        let status = |status: &str, reason: &str, message: &str| -> BundleStatus {
            let json = serde_json::json!({
                "conditions": [{ "type": "Ready", "status": status, "reason": reason, "message": message }],
                "display": { "readyClusters": "2/2" },
            });
            serde_json::from_str(&json.to_string()).unwrap()
        };
        let none = BundleStatus::default();
        let progress = status("False", "Progressing", "1 of 2 clusters are ready");
        let conflict = status("False", "BundleConflict", "taken");
        let ready = status("True", "Ready", "");
        let notes = |old: &BundleStatus, new: &BundleStatus| -> Vec<_> {
            let events = bundle_events(old, new).into_iter();
            events.map(|event| (event.is_warning, event.note)).collect()
        };
        assert!(notes(&none, &progress).is_empty());
        assert_eq!(notes(&progress, &conflict), [(true, "taken".to_owned())]);
        assert!(notes(&conflict, &status("False", "BundleConflict", "other")).is_empty());
        assert_eq!(
            notes(&conflict, &ready),
            [(false, "2/2 clusters are ready".to_owned())]
        );
        assert!(notes(&ready, &ready).is_empty());
        assert!(notes(&ready, &none).is_empty());
    }
}
