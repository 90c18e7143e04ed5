//! Several messages with one record, and groups whose format has changed.

use helmops_api::notifications::AlertSpec;
use helmops_notify::{
    alert::{Memory, Reported, Rules, plan},
    message_format::Format,
};
use k8s_openapi::jiff::Timestamp;

use super::*;

/// The object of an event.
fn subject_of(body: &str) -> String {
    let event: Value = serde_json::from_str(body).unwrap();
    event["subject"].as_str().unwrap().to_owned()
}

/// A group of a format that has groups must not be sent as one event, which would say it about its first object only.
#[tokio::test]
async fn a_group_whose_format_has_changed_is_planned_again() {
    const OBJECTS: usize = 12;
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(200)).await;
    rig.fail_many(OBJECTS);
    // The group was planned for Slack, and is sent after the type was changed.
    let spec = json!({ "type": "cdevents", "address": server.url() });
    rig.api.apply("alertproviders", "x", &spec);
    let spec = json!({
        "providerRef": { "name": "x" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }], "grouping": { "wait": "0s" },
    });
    rig.api.apply("alerts", "x", &spec);
    let objects = {
        let alert = rig.context.stores.alerts.get(&key("a", "x")).unwrap();
        let privileged = &rig.context.privileged;
        let objects = &rig.context.stores.objects;
        objects.selected(alert.valid().unwrap(), "a", privileged)
    };
    let (mut memory, now) = (Memory::default(), Timestamp::now());
    let spec: AlertSpec = serde_json::from_value(spec).unwrap();
    let rules = Rules::of(&spec, Format::Slack);
    let plan = plan(&rules, &objects, &Reported::default(), &mut memory, now);
    assert_eq!(
        (plan.messages.len(), plan.messages[0].subjects.len()),
        (1, OBJECTS)
    );
    let job = Job {
        alert: key("a", "x"),
        provider: key("a", "x"),
        format: Format::Slack,
        messages: plan.messages.into(),
    };
    assert!(rig.context.outbox.send(job));
    let all = || {
        let status = rig.api.status("alerts", "x");
        (status["delivered"] == OBJECTS).then_some(status)
    };
    let status = until("an event for each object", all).await;
    assert_eq!(status["failing"], OBJECTS);
    rig.alert_is("x", "Ready").await;
    rig.stop().await;
    let received = server.received();
    let subjects: BTreeSet<_> = received.iter().map(|body| subject_of(body)).collect();
    assert_eq!((received.len(), subjects.len()), (OBJECTS, OBJECTS));
}

/// Each write has the records of all objects, so there must not be one for each event.
#[tokio::test]
async fn many_events_take_few_writes() {
    const OBJECTS: usize = 1_000;
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(200)).await;
    rig.fail_many(OBJECTS);
    rig.provider_of_type("cdevents", "x", &server.url()).await;
    rig.alert("x", "x").await;
    let all = || (rig.api.status("alerts", "x")["delivered"] == OBJECTS).then_some(());
    until("all events", all).await;
    let writes = rig.api.writes("alerts", "x");
    let bytes: usize = writes.iter().sum();
    assert!(writes.len() < 150, "{} writes", writes.len());
    // A write for each event would be 60 MB.
    assert!(bytes < 10 << 20, "{bytes}");
    rig.stop().await;
    let subjects: BTreeSet<_> = server.received().iter().map(|body| subject_of(body)).collect();
    assert_eq!((server.received().len(), subjects.len()), (OBJECTS, OBJECTS));
}

/// The end of a process records what was delivered of a batch, so that the next one goes on after it.
#[tokio::test]
async fn the_end_of_a_process_repeats_nothing_of_a_batch() {
    const OBJECTS: usize = 1_000;
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(200)).await;
    rig.fail_many(OBJECTS);
    rig.provider_of_type("cdevents", "x", &server.url()).await;
    rig.alert("x", "x").await;
    until("some events", || (server.received().len() > 200).then_some(())).await;
    let api = rig.api.clone();
    rig.stop().await;
    let received = server.received().len();
    assert!(received < OBJECTS, "it was too fast to be interrupted");
    assert_eq!(api.status("alerts", "x")["delivered"], received);
}

/// Messages that people read are recorded one by one: a crash repeats one at most.
#[tokio::test]
async fn a_message_for_people_is_recorded_before_the_next_one() {
    const OBJECTS: usize = 40;
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(200)).await;
    rig.fail_many(OBJECTS);
    rig.provider("x", &server.url()).await;
    let spec = json!({
        "providerRef": { "name": "x" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }],
        "grouping": { "wait": "0s", "maxMessages": 0 },
    });
    rig.api.apply("alerts", "x", &spec);
    rig.change(Work::Alert(key("a", "x"))).await;
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        // In this order: what is recorded was received.
        let recorded = rig.api.status("alerts", "x")["delivered"]
            .as_u64()
            .unwrap_or_default();
        let received = server.received().len() as u64;
        let recorded_later = rig.api.status("alerts", "x")["delivered"]
            .as_u64()
            .unwrap_or_default();
        assert!(
            recorded <= received && received <= recorded_later + 1,
            "{recorded} {received} {recorded_later}"
        );
        if recorded == OBJECTS as u64 {
            break;
        }
        assert!(Instant::now() < end, "{recorded} of {OBJECTS}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(rig.api.writes("alerts", "x").len() >= OBJECTS);
}
