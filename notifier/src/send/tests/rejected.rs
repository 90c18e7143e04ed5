//! Messages whose content an endpoint rejects.

use super::*;

fn names_in(server: &Endpoint) -> Vec<String> {
    let received = server.received();
    let names = received.iter().map(|body| {
        let body: Value = serde_json::from_str(body).unwrap();
        let name = &body["involvedObject"]["name"];
        name.as_str().unwrap().to_owned()
    });
    names.collect()
}

/// One of the first messages is rejected each time. It is tried once, and all others are delivered, also those of later failures.
#[tokio::test]
async fn a_rejected_message_keeps_no_other_one_back() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::Unless("web-0001", 422)).await;
    rig.fail_many(5);
    rig.report("x", &server.url()).await;
    let delivered = |number: u64| {
        let status = Some(rig.api.status("alerts", "x"));
        status.filter(|status| status["delivered"] == number)
    };
    until("the other messages", || delivered(4)).await;
    let status = rig.alert_is("x", "DeliveryFailed").await;
    assert_eq!(
        (
            &status["undelivered"],
            &status["undeliveredMessages"][0]["object"]
        ),
        (&json!(1), &json!("HelmOp/a/web-0001"))
    );
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert_eq!(
        message,
        "AlertProvider x: the server responds with status 422 Unprocessable Entity"
    );
    assert!(LONGEST.contains(&rig.rejected().unwrap()));
    // What fails later.
    rig.fail();
    rig.change(Work::Alert(key("a", "x"))).await;
    until("the later message", || delivered(5)).await;
    assert_eq!(
        names_in(&server),
        ["web-0000", "web-0001", "web-0002", "web-0003", "web-0004", "web"]
    );
    assert!((sum_of(&rig.registry, "helmops_alert_undelivered") - 1.0).abs() < 0.5);
    // A change of the Alert.
    server.behave(Reply::status(200));
    rig.changed(&alert("x"));
    rig.change(Work::Alert(key("a", "x"))).await;
    until("the rejected message", || delivered(6)).await;
    rig.alert_is("x", "Ready").await;
    rig.stop().await;
    assert_eq!(names_in(&server).last().unwrap(), "web-0001");
}

/// A token or an Alert is corrected while a request with the wrong one is on its way.
#[tokio::test]
async fn a_correction_during_a_request_is_used_immediately() {
    for (status, corrected) in [(401, provider("x")), (422, alert("x"))] {
        let rig = Rig::start();
        let server = Endpoint::start(Reply::Hang).await;
        rig.fail();
        let spec = json!({ "type": "generic", "address": server.url(), "timeout": "5m" });
        rig.api.apply("alertproviders", "x", &spec);
        rig.alert("x", "x").await;
        until("the request", || (!server.received().is_empty()).then_some(())).await;
        server.behave(Reply::status(200));
        rig.changed(&corrected);
        let response = format!("HTTP/1.1 {status} \r\nContent-Length: 0\r\n\r\n");
        server.respond(&response).await;
        rig.delivered("x").await;
        rig.alert_is("x", "Ready").await;
        rig.stop().await;
        assert_eq!(server.received().len(), 2, "{status}");
    }
}

/// An endpoint that rejects everything is not sent everything.
#[tokio::test]
async fn an_endpoint_that_rejects_all_messages_gets_few_of_them() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(400)).await;
    rig.fail_many(40);
    let spec = json!({
        "providerRef": { "name": "x" }, "eventSources": [{ "kind": "HelmOp", "name": "*" }],
        "grouping": { "wait": "0s", "maxMessages": 0 },
    });
    rig.provider("x", &server.url()).await;
    rig.api.apply("alerts", "x", &spec);
    rig.change(Work::Alert(key("a", "x"))).await;
    let waits = || {
        let (_, wait) = rig.context.failures.of(&alert("x"))?;
        (!wait.is_zero()).then_some(wait)
    };
    let wait = until("the Alert to wait", waits).await;
    assert!(LONGEST.contains(&wait), "{wait:?}");
    let all = || (rig.api.status("alerts", "x")["undelivered"] == 40).then_some(());
    until("all messages to be listed", all).await;
    rig.stop().await;
    assert_eq!(server.received().len(), 8);
}

/// A receiver of events that has stored the event before the process could record it.
#[tokio::test]
async fn an_event_that_is_known_already_is_delivered() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(409)).await;
    rig.fail();
    rig.provider_of_type("cdevents", "events", &server.url()).await;
    rig.alert("events", "events").await;
    rig.delivered("events").await;
    rig.alert_is("events", "Ready").await;
    // Other formats have no ID that a receiver could recognize.
    rig.report("x", &server.url()).await;
    rig.alert_is("x", "DeliveryFailed").await;
    rig.stop().await;
    assert_eq!(server.received().len(), 2);
}
