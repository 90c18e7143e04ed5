use serde_json::{Value, json};

use super::*;

fn helmop(status: &Value) -> State {
    let object =
        json!({ "metadata": { "name": "web", "namespace": "a", "generation": 2 }, "status": status });
    let helmop: HelmOp = serde_json::from_str(&object.to_string()).unwrap();
    Observed::of_helmop(&helmop).state
}

fn ready(status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:05:00Z" })
}

/// A HelmOp with this summary, whose condition `Ready` is false for this reason.
fn counted(reason: &str, summary: &Value) -> State {
    helmop(
        &json!({ "version": "1.0.0", "conditions": [ready("False", reason, "the message")], "summary": summary }),
    )
}

fn failing(state: State) -> Failing {
    match state {
        State::Failing(failing) => *failing,
        other => panic!("{other:?}"),
    }
}

fn example(name: &str, state: &str, message: &str) -> Value {
    json!({ "name": name, "bundleState": state, "message": message })
}

fn not_ready(transitioning: bool, error: bool) -> Value {
    let summary =
        json!({ "state": "x", "transitioning": transitioning, "error": error, "message": ["Replicas: 0/1"] });
    json!({ "name": "fleet/c-1", "bundleState": "NotReady", "nonReadyStatus": [
        { "kind": "Deployment", "apiVersion": "apps/v1", "namespace": "shop", "name": "web", "summary": summary }
    ] })
}

#[test]
fn a_ready_helmop_has_its_version() {
    let status = json!({ "version": "1.2.3", "conditions": [ready("True", "Ready", "")] });
    assert_eq!(
        helmop(&status),
        State::Ready {
            version: "1.2.3".into(),
            notices: Box::default(),
        }
    );
}

#[test]
fn a_ready_helmop_has_the_notices_of_its_conditions() {
    let notice = |r#type: &str, status: &str, message: &str| json!({ "type": r#type, "status": status, "reason": r#type, "message": message });
    let state = helmop(&json!({ "version": "1", "conditions": [
        notice("ChartDeprecated", "True", "https://me:secret@h/web 1 is deprecated"),
        notice("DigestChanged", "True", "x"),
        ready("True", "Ready", ""),
        notice("NewVersionOutsideRange", "True", "2 is newer"),
        notice("ChartWithdrawn", "False", "y"),
    ] }));
    let State::Ready { notices, .. } = state else {
        panic!("{state:?}")
    };
    let texts: Vec<_> = notices
        .iter()
        .map(|notice| format!("{}: {}", notice.reason, notice.message))
        .collect();
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0], "NewVersionOutsideRange: 2 is newer");
    assert!(
        texts[1].starts_with("ChartDeprecated: ") && !texts[1].contains("secret"),
        "{texts:?}"
    );
    assert_ne!(notices[0].key(), notices[1].key());
    assert!(notices[0].key().starts_with("NewVersionOutsideRange "));
}

#[test]
fn a_status_that_is_missing_or_stale_is_unknown() {
    assert_eq!(helmop(&Value::Null), State::Unknown);
    assert_eq!(helmop(&json!({})), State::Unknown);
    let status = |observed: Value| json!({ "observedGeneration": observed, "conditions": [ready("True", "Ready", "")] });
    assert_eq!(helmop(&status(json!(1))), State::Unknown);
    assert!(matches!(helmop(&status(json!(2))), State::Ready { .. }));
}

#[test]
fn a_helmop_that_is_not_accepted_fails_with_its_reason() {
    let accepted = json!({ "type": "Accepted", "status": "False", "reason": "ChartNotFound", "message": "no chart web" });
    let status = json!({ "version": "1.0.0", "conditions": [accepted, ready("False", "ChartNotFound", "no chart web")] });
    let failing = failing(helmop(&status));
    assert_eq!(
        (&*failing.reason, &*failing.version, &*failing.message),
        ("ChartNotFound", "1.0.0", "no chart web")
    );
}

#[test]
fn a_failed_poll_is_a_failure_of_a_ready_helmop() {
    let polled =
        json!({ "type": "Polled", "status": "False", "reason": "ConnectionFailed", "message": "refused" });
    let failing = failing(helmop(
        &json!({ "conditions": [ready("True", "Ready", ""), polled] }),
    ));
    assert_eq!(
        (&*failing.reason, &*failing.message),
        ("ConnectionFailed", "newer versions are not found: refused")
    );
}

#[test]
fn a_wait_for_others_is_no_failure() {
    let summary = json!({ "desiredReady": 2, "waitingForDependency": 2, "nonReadyResources": [
        example("fleet/c-1", "WaitingForDependency", "db"),
    ] });
    for reason in ["Progressing", "NotReady"] {
        let state = counted(reason, &summary);
        assert!(matches!(state, State::Progressing), "{state:?}");
    }
}

#[test]
fn failed_clusters_count_while_others_progress() {
    let summary = json!({ "desiredReady": 200, "ready": 50, "errApplied": 4, "waitApplied": 1, "outOfSync": 145, "nonReadyResources": [
        example("fleet/c-1", "ErrApplied", "no space"), example("fleet/c-2", "ErrApplied", "timeout"),
        example("fleet/c-3", "ErrApplied", ""), example("fleet/c-4", "WaitApplied", "x"),
    ] });
    let failing = failing(counted("Progressing", &summary));
    assert_eq!(&*failing.reason, "ErrApplied");
    assert_eq!(
        &*failing.message,
        "4 of 200 clusters fail: ErrApplied: fleet/c-1: no space; fleet/c-2: timeout; fleet/c-3; and 1 more"
    );
    assert_eq!(failing.since.unwrap().to_string(), "2026-01-01T00:00:00Z");
}

#[test]
fn progress_is_no_failure() {
    for summary in [
        json!({ "desiredReady": 2, "ready": 1, "waitApplied": 1 }),
        json!({ "desiredReady": 2, "ready": 1, "outOfSync": 1 }),
        json!({ "desiredReady": 3, "ready": 1, "waitApplied": 1, "notReady": 1, "nonReadyResources": [not_ready(true, false)] }),
        json!({}),
    ] {
        assert_eq!(counted("Progressing", &summary), State::Progressing, "{summary}");
    }
    assert_eq!(
        counted("", &json!({})),
        State::Progressing,
        "a condition of Fleet"
    );
}

#[test]
fn objects_in_transition_fail_after_a_while_without_a_change() {
    let summary = json!({ "desiredReady": 1, "notReady": 1, "nonReadyResources": [not_ready(true, false)] });
    let failing = failing(counted("NotReady", &summary));
    assert_eq!(failing.from.unwrap().to_string(), "2026-01-01T00:15:00Z");
    assert_eq!(
        &*failing.message,
        "1 of 1 cluster fails: NotReady: fleet/c-1: deployment.apps shop/web [progressing] Replicas: 0/1"
    );
}

#[test]
fn objects_with_an_error_fail_immediately() {
    for (transitioning, error) in [(false, true), (true, true), (false, false)] {
        let summary = json!({ "desiredReady": 1, "notReady": 1, "nonReadyResources": [not_ready(transitioning, error)] });
        let failing = failing(counted("Progressing", &summary));
        assert_eq!((&*failing.reason, failing.from), ("NotReady", None));
    }
}

#[test]
fn a_changed_object_is_named_without_its_content() {
    let summary = json!({ "desiredReady": 1, "modified": 1, "nonReadyResources": [{ "name": "fleet/c-1", "bundleState": "Modified",
        "modifiedStatus": [{ "kind": "ConfigMap", "apiVersion": "v1", "namespace": "shop", "name": "web", "patch": "geheim" }] }] });
    let failing = failing(counted("NotReady", &summary));
    assert_eq!(
        (&*failing.reason, &*failing.message),
        (
            "Modified",
            "1 of 1 cluster fails: Modified: fleet/c-1: configmap.v1 shop/web was changed"
        )
    );
}

#[test]
fn a_failure_without_counts_has_the_message_of_the_condition() {
    let none = failing(counted("NoClusters", &json!({})));
    assert_eq!((&*none.reason, &*none.message), ("NoClusters", "the message"));
    let bundle = failing(counted("NotReady", &json!({ "desiredReady": 1, "ready": 1 })));
    assert_eq!((&*bundle.reason, &*bundle.message), ("NotReady", "the message"));
}

#[test]
fn texts_are_bounded() {
    let accepted = json!({ "type": "Accepted", "status": "False", "reason": "R".repeat(500), "message": "m".repeat(5000) });
    let failing = failing(helmop(
        &json!({ "version": "v".repeat(500), "conditions": [accepted] }),
    ));
    assert!(failing.reason.len() <= MAX_REASON && failing.version.len() <= MAX_VERSION);
    assert!(failing.message.len() <= MAX_MESSAGE);
}

/// The end of a text is what a container has written last.
#[test]
fn the_fewer_clusters_fail_the_more_is_shown_of_each() {
    let text = "x".repeat(700) + "last";
    for (number, is_whole) in [(1, true), (2, false), (3, false)] {
        let names = (1..=number).map(|cluster| format!("fleet/c-{cluster}"));
        let examples: Vec<_> = names.map(|name| example(&name, "ErrApplied", &text)).collect();
        let summary = json!({ "desiredReady": number, "errApplied": number, "nonReadyResources": examples });
        let failing = failing(counted("Progressing", &summary));
        assert_eq!(failing.message.contains("last"), is_whole, "{number}");
        assert!(failing.message.len() > 850 && failing.message.len() <= MAX_MESSAGE || is_whole);
        for cluster in 1..=number {
            assert!(failing.message.contains(&format!("fleet/c-{cluster}: x")));
        }
    }
}

#[test]
fn bundles_and_clusters_have_states_too() {
    let bundle = |conditions: Value| {
        let object = json!({ "metadata": { "name": "web", "generation": 1 }, "spec": { "helm": { "version": "2.0.0" } },
            "status": { "observedGeneration": 1, "conditions": conditions, "summary": { "desiredReady": 2, "errApplied": 1 } } });
        Observed::of_bundle(&serde_json::from_str(&object.to_string()).unwrap()).state
    };
    assert_eq!(
        bundle(json!([ready("True", "", "")])),
        State::Ready {
            version: "2.0.0".into(),
            notices: Box::default(),
        }
    );
    let failed = failing(bundle(json!([ready("False", "NotReady", "")])));
    assert_eq!(
        (&*failed.version, &*failed.message),
        ("2.0.0", "1 of 2 clusters fails: ErrApplied")
    );
    let cluster = |condition: Value| {
        let object = json!({ "metadata": { "name": "c", "labels": { "a": "b" } },
            "status": { "conditions": [condition], "summary": { "desiredReady": 3, "errApplied": 2 } } });
        Observed::of_cluster(&serde_json::from_str(&object.to_string()).unwrap())
    };
    let silent = cluster(ready("Unknown", "AgentSilent", "last reported at t"));
    assert_eq!(*silent.labels, [("a".into(), "b".into())]);
    assert_eq!(&*failing(silent.state).reason, "AgentSilent");
    let failed = failing(cluster(ready("False", "NotReady", "")).state);
    assert_eq!(&*failed.message, "2 of 3 Bundles fail: ErrApplied");
    assert_eq!(
        cluster(ready("True", "Ready", "")).state,
        State::Ready {
            version: "".into(),
            notices: Box::default(),
        }
    );
}

#[test]
fn only_labels_and_state_count_as_a_change() {
    let observed = |version: &str, label: &str, message: &str| {
        let object = json!({ "metadata": { "name": "web", "resourceVersion": version, "labels": { "a": label } },
            "status": { "conditions": [ready("False", "NoClusters", message)] } });
        Observed::of_helmop(&serde_json::from_str(&object.to_string()).unwrap())
    };
    let one = observed("1", "b", "m");
    assert!(one.is_same(&observed("2", "b", "m")));
    assert!(!one.is_same(&observed("1", "c", "m")) && !one.is_same(&observed("1", "b", "n")));
}

/// Another client can write any number into a status.
#[test]
fn a_negative_count_takes_nothing_from_the_others() {
    let state = counted(
        "NotReady",
        &json!({ "desiredReady": 3, "modified": -1, "errApplied": 2 }),
    );
    let failure = failing(state);
    assert_eq!(&*failure.reason, "ErrApplied");
    assert!(
        failure.message.starts_with("2 of 3 clusters fail"),
        "{}",
        failure.message
    );
}

#[test]
fn an_object_with_more_labels_than_are_kept_has_none() {
    let observed = |number: usize| {
        let label = |number: usize| (format!("label-{number:06}"), json!("x".repeat(52)));
        let labels: serde_json::Map<_, _> = (0..number).map(label).collect();
        let object = json!({ "metadata": { "name": "web", "namespace": "a", "labels": labels } });
        Observed::of_cluster(&serde_json::from_str(&object.to_string()).unwrap())
    };
    let most = observed(MAX_LABELS / 64);
    assert_eq!((most.labels.len(), most.lacks_labels), (256, false));
    let more = observed(MAX_LABELS / 64 + 1);
    assert_eq!((more.labels.len(), more.lacks_labels), (0, true));
}

fn unusable(error: &Unusable) -> Observed {
    Observed::unusable(&Metadata::default(), error)
}

#[test]
fn an_object_that_does_not_decode_fails_and_one_that_is_not_stored_does_not() {
    let invalid = unusable(&Unusable::Invalid("a field".to_owned()));
    assert_eq!(
        &*failing(invalid.state.clone()).message,
        "it does not decode: a field"
    );
    let refused = unusable(&Unusable::NotStored("why".to_owned()));
    assert_eq!(refused.state, State::NotStored);
    assert!(
        refused.has("team", "web") && !invalid.has("team", "web"),
        "its labels are not known"
    );
}

#[test]
fn all_texts_that_are_kept_have_a_weight() {
    let weight = |bytes: usize| {
        let text = |fill: char| fill.to_string().repeat(bytes).into_boxed_str();
        let failing = Failing {
            reason: text('r'),
            version: text('v'),
            message: text('m'),
            since: None,
            from: None,
        };
        let observed = Observed {
            uid: text('u'),
            resource_version: text('1'),
            labels: [(text('k'), text('v'))].into(),
            lacks_labels: false,
            state: State::Failing(Box::new(failing)),
        };
        observed.weight()
    };
    assert_eq!(weight(100) - weight(0), 7 * 100);
    assert!(weight(0) >= size_of::<Observed>() + size_of::<Failing>() + 2 * size_of::<Box<str>>());
}

#[test]
fn ten_thousand_helmops_that_fail_fit_with_their_bundles_into_the_memory_limit_of_the_manifests() {
    let text = |bytes: usize| "x".repeat(bytes).into_boxed_str();
    let failing = Failing {
        reason: text(20),
        version: text(10),
        message: text(300),
        since: None,
        from: None,
    };
    let observed = Observed {
        uid: text(36),
        resource_version: text(9),
        labels: vec![(text(30), text(30)); 3].into(),
        lacks_labels: false,
        state: State::Failing(Box::new(failing)),
    };
    // One namespace may use three quarters of a third of the limit.
    let share = (128 << 20) / 3 / 4 * 3;
    assert!(20_000 * observed.weight() <= share, "{}", observed.weight());
}
