//! The way of a message from an Alert to an endpoint, to endpoints that misbehave. Only the watches are missing.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, future::join_all, stream};
use helmops_api::HelmOp;
use helmops_kube::key;
use helmops_notify::alert::Observed;
use helmops_runtime::queue;
use k8s_openapi::jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::{
    loops,
    testing::{Endpoint, FakeApi, Parts, Reply, named, object, parts, sum_of, until},
    watch::objects::WatchedHelmOp,
};

mod batches;
mod payloads;
mod rejected;

/// The first delay after a failure, with its jitter.
const FIRST: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(5);
/// The delay after a rejection.
const LONGEST: std::ops::RangeInclusive<Duration> = Duration::from_mins(14)..=Duration::from_mins(15);

/// The notifier, with an Alert and an AlertProvider of the same name for each endpoint.
struct Rig {
    api: FakeApi,
    context: Arc<Context>,
    registry: Registry,
    changed: mpsc::Sender<Work>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Rig {
    fn start() -> Self {
        let (api, stop) = (FakeApi::default(), CancellationToken::new());
        let Parts {
            context,
            sender,
            mut sent,
            registry,
        } = parts(&api, stop.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(sender.run(Arc::clone(&context), stop.clone()));
        let (of_metrics, stopped) = (Arc::clone(&context), stop.clone());
        tasks.spawn(async move { of_metrics.metrics.follow(&of_metrics.leadership, stopped).await });
        let (changed, mut triggers) = mpsc::channel(1_000);
        let (of_loops, stopped) = (Arc::clone(&context), stop.clone());
        tasks.spawn(async move {
            let triggers = stream::select(
                stream::poll_fn(move |task| triggers.poll_recv(task)),
                stream::poll_fn(move |task| sent.poll_recv(task)),
            );
            let depth = of_loops.metrics.reconciles.queue_depth.clone();
            let context = Arc::clone(&of_loops);
            let work = move |work, permit| loops::reconcile(work, permit, Arc::clone(&context));
            queue::run(
                triggers.map(loops::debounced),
                &of_loops.workers,
                &depth,
                &stopped,
                work,
            )
            .await;
        });
        Self {
            api,
            context,
            registry,
            changed,
            stop,
            tasks,
        }
    }

    /// The HelmOp `web` fails.
    fn fail(&self) {
        self.observe(&json!({ "conditions": [{ "type": "Accepted", "status": "False", "reason": "ChartNotFound", "message": "no chart" }] }));
    }

    /// The HelmOp `web` has this status.
    fn observe(&self, status: &Value) {
        self.observe_as("web", status);
    }

    /// A HelmOp has this status.
    fn observe_as(&self, name: &str, status: &Value) {
        let metadata = json!({ "name": name, "namespace": "a", "uid": "6f1a", "resourceVersion": "42" });
        let helmop: HelmOp = object(&json!({ "metadata": metadata, "spec": {}, "status": status }));
        let watched = WatchedHelmOp {
            observed: Arc::new(Observed::of_helmop(&helmop)),
            followed: Arc::default(),
        };
        self.context.stores.objects.helmops.wrote(named(name), watched);
    }

    /// So many HelmOps fail.
    fn fail_many(&self, number: usize) {
        for number in 0..number {
            let status = json!({ "conditions": [
                { "type": "Accepted", "status": "False", "reason": "ChartNotFound", "message": "no chart" },
            ] });
            self.observe_as(&format!("web-{number:04}"), &status);
        }
    }

    async fn provider(&self, name: &str, address: &str) {
        self.provider_of_type("generic", name, address).await;
    }

    async fn provider_of_type(&self, r#type: &str, name: &str, address: &str) {
        let spec = json!({ "type": r#type, "address": address, "timeout": "1s" });
        self.api.apply("alertproviders", name, &spec);
        self.change(Work::Provider(key("a", name))).await;
    }

    async fn alert(&self, name: &str, provider: &str) {
        let spec = json!({
            "providerRef": { "name": provider }, "eventSources": [{ "kind": "HelmOp", "name": "*" }], "grouping": { "wait": "0s" },
        });
        self.api.apply("alerts", name, &spec);
        self.change(Work::Alert(key("a", name))).await;
    }

    /// An Alert of the failing HelmOp to this address.
    async fn report(&self, name: &str, address: &str) {
        self.provider(name, address).await;
        self.alert(name, name).await;
    }

    async fn change(&self, work: Work) {
        self.changed.send(work).await.unwrap();
    }

    /// Waits until a delivery has failed, and returns the time until the next attempt.
    async fn failed(&self, subject: &Subject) -> Duration {
        let failure = || self.context.failures.of(subject);
        let (_, wait) = until("a failure", failure).await;
        // What is rejected waits, and not its Alert.
        self.rejected().unwrap_or(wait)
    }

    /// The time until a message of the Alert `x` that was rejected is sent again.
    fn rejected(&self) -> Option<Duration> {
        let now = Timestamp::now();
        let memories = helmops_process::lock(&self.context.memories);
        let next = memories.get(&key("a", "x"))?.plan.rejected.next(now)?;
        next.duration_since(now).try_into().ok()
    }

    /// Something has changed that may be the cause of a failure.
    fn changed(&self, subject: &Subject) {
        let work = match subject.clone() {
            Subject::Provider(key) => Work::Provider(key),
            Subject::Alert(key) => Work::Alert(key),
        };
        loops::forget_failures(&work, &self.context);
    }

    /// Waits until the condition `Ready` of an Alert has this reason.
    async fn alert_is(&self, name: &str, reason: &str) -> Value {
        let is =
            || (self.api.ready("alerts", name)["reason"] == reason).then(|| self.api.status("alerts", name));
        until(&format!("{name} to be {reason}"), is).await
    }

    /// Waits until the condition `Ready` of an AlertProvider has this reason.
    async fn provider_is(&self, name: &str, reason: &str) {
        let is = || (self.api.ready("alertproviders", name)["reason"] == reason).then_some(());
        until(&format!("AlertProvider {name} to be {reason}"), is).await;
    }

    /// Waits until the failure is recorded as delivered.
    async fn delivered(&self, name: &str) -> Value {
        let status = || Some(self.api.status("alerts", name)).filter(|status| status["delivered"] == 1);
        until(&format!("the delivery of {name}"), status).await
    }

    fn sent(&self, result: &str) -> f64 {
        let start = format!("helmops_alert_messages_total{{result=\"{result}\",type=\"generic\"}}");
        sum_of(&self.registry, &start)
    }

    /// Stops as the process does.
    async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

/// What fails about an endpoint, and what is expected.
struct Case {
    reply: Reply,
    subject: fn(&str) -> Subject,
    delay: std::ops::RangeInclusive<Duration>,
    result: &'static str,
    message: &'static str,
}

fn provider(name: &str) -> Subject {
    Subject::Provider(key("a", name))
}

fn alert(name: &str) -> Subject {
    Subject::Alert(key("a", name))
}

fn cases() -> Vec<Case> {
    let transient = |reply, message| Case {
        reply,
        subject: provider,
        delay: FIRST,
        result: "retried",
        message,
    };
    let rejected = |reply, subject, message| Case {
        reply,
        subject,
        delay: LONGEST,
        result: "rejected",
        message,
    };
    let minute = Duration::from_secs(115)..=Duration::from_mins(2);
    vec![
        transient(Reply::status(500), "status 500"),
        transient(Reply::status(503), "status 503"),
        transient(Reply::status(408), "status 408"),
        transient(Reply::Hang, "no response within 1 s"),
        transient(Reply::Bytes(String::new()), "connection"),
        transient(Reply::Bytes("HTTP/1.1 2".to_owned()), "connection"),
        transient(Reply::Bytes("geheim".to_owned()), "connection"),
        transient(Reply::Endless("HTTP/1.1 200 \r\nX: ".to_owned()), "connection"),
        Case {
            delay: minute,
            ..transient(Reply::header(429, "Retry-After: 120"), "status 429")
        },
        rejected(Reply::with(400, "geheim"), alert, "status 400"),
        rejected(Reply::status(413), alert, "status 413"),
        rejected(Reply::status(401), provider, "status 401"),
        rejected(Reply::status(404), provider, "status 404"),
        rejected(Reply::header(302, "Location: /geheim"), provider, "redirects"),
        rejected(
            Reply::header(307, "Location: http://127.0.0.1:1/geheim"),
            provider,
            "redirects",
        ),
    ]
}

/// A failure is retried or waits for a change, and its message is delivered exactly once as soon as the endpoint accepts it.
#[tokio::test]
async fn a_message_that_is_not_accepted_is_kept_and_delivered_once_later() {
    let check = async |case: Case| {
        let rig = Rig::start();
        let server = Endpoint::start(case.reply.clone()).await;
        rig.fail();
        rig.report("x", &server.url()).await;
        let subject = (case.subject)("x");
        let delay = rig.failed(&subject).await;
        let shown = format!("{:?}: {delay:?}", case.reply);
        assert!(case.delay.contains(&delay), "{shown}");
        let status = rig.alert_is("x", "DeliveryFailed").await;
        let message = status["conditions"][0]["message"].as_str().unwrap();
        assert!(
            message.contains(case.message) && !message.contains("geheim"),
            "{shown}: {message}"
        );
        let is_of_provider = matches!(subject, Subject::Provider(_));
        if is_of_provider {
            rig.provider_is("x", "DeliveryFailed").await;
        }
        assert_eq!(
            (&status["undelivered"], &status["reported"]),
            (&json!(1), &Value::Null),
            "{shown}"
        );
        assert_eq!(
            (rig.sent(case.result), rig.sent("delivered")),
            (1.0, 0.0),
            "{shown}"
        );
        assert_eq!(
            server.received().len(),
            1,
            "{shown}: nothing is repeated before the delay"
        );
        server.behave(Reply::status(204));
        rig.changed(&subject);
        rig.change(Work::Alert(key("a", "x"))).await;
        let status = rig.delivered("x").await;
        assert_eq!(
            status["reported"][0]["reasons"],
            json!(["ChartNotFound"]),
            "{shown}"
        );
        rig.alert_is("x", "Ready").await;
        rig.change(Work::Alert(key("a", "x"))).await;
        if !is_of_provider {
            assert_eq!(rig.api.ready("alertproviders", "x")["reason"], "Ready", "{shown}");
        }
        let registry = rig.registry.clone();
        rig.stop().await;
        assert_eq!(server.received().len(), 2, "{shown}: delivered once");
        assert!(sum_of(&registry, "helmops_alert_undelivered") < 0.5, "{shown}");
    };
    join_all(cases().into_iter().map(check)).await;
}

/// With the real backoff: nothing but time brings the message to an endpoint that is there again.
#[tokio::test]
async fn an_endpoint_that_is_back_gets_the_message_after_the_backoff() {
    let rig = Rig::start();
    let port = Endpoint::unused_port().await;
    rig.fail();
    rig.report("x", &format!("http://127.0.0.1:{port}")).await;
    let status = rig.alert_is("x", "DeliveryFailed").await;
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("connection refused"), "{message}");
    let started = Instant::now();
    let server = Endpoint::at(port, Reply::status(500)).await;
    until("the second attempt", || (rig.sent("retried") > 1.5).then_some(())).await;
    assert!(
        started.elapsed() > Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    server.behave(Reply::status(200));
    rig.delivered("x").await;
    rig.alert_is("x", "Ready").await;
    rig.provider_is("x", "Ready").await;
    rig.stop().await;
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn an_accepted_message_is_delivered_whatever_follows() {
    let head = "HTTP/1.1 200 \r\nContent-Length: 100\r\n\r\n";
    for reply in [
        Reply::Bytes(format!("{head}closed in the middle")),
        Reply::Endless("HTTP/1.1 200 \r\n\r\n".to_owned()),
        Reply::with(299, "x"),
    ] {
        let rig = Rig::start();
        let server = Endpoint::start(reply.clone()).await;
        rig.fail();
        rig.report("x", &server.url()).await;
        rig.delivered("x").await;
        rig.stop().await;
        assert_eq!(server.received().len(), 1, "{reply:?}");
        // What the buffers of both sockets take, and the 64 KiB that are read.
        assert!(server.written() < 16 << 20, "{reply:?}: {}", server.written());
    }
}

#[tokio::test]
async fn an_endpoint_that_hangs_delays_no_other() {
    let rig = Rig::start();
    let dead = Endpoint::start(Reply::Hang).await;
    let alive = Endpoint::start(Reply::status(200)).await;
    rig.fail();
    // It hangs for as long as the test takes.
    let spec = json!({ "type": "generic", "address": dead.url(), "timeout": "5m" });
    rig.api.apply("alertproviders", "dead", &spec);
    for number in 0..20 {
        rig.alert(&format!("dead-{number}"), "dead").await;
    }
    until("the request that hangs", || {
        (!dead.received().is_empty()).then_some(())
    })
    .await;
    rig.report("alive", &alive.url()).await;
    rig.delivered("alive").await;
    assert_eq!(
        (dead.received().len(), alive.received().len()),
        (1, 1),
        "one after the other"
    );
}

/// Of the Alerts that wait for an endpoint, one tries it, and its failure counts once: a short outage must not end in the longest delay.
#[tokio::test]
async fn many_alerts_of_one_endpoint_fail_once() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::Hang).await;
    rig.fail();
    rig.provider("x", &server.url()).await;
    for number in 0..20 {
        rig.alert(&format!("x-{number}"), "x").await;
    }
    for number in 0..20 {
        rig.alert_is(&format!("x-{number}"), "DeliveryFailed").await;
    }
    let delay = rig.failed(&provider("x")).await;
    assert!(delay <= *FIRST.end(), "{delay:?}");
    assert_eq!(server.received().len(), 1);
    server.behave(Reply::status(200));
    for number in 0..20 {
        rig.delivered(&format!("x-{number}")).await;
    }
    rig.stop().await;
    assert_eq!(server.received().len(), 21);
}

/// What is not to be sent any more is no failure: the endpoint was not tried since, but nothing waits for it.
#[tokio::test]
async fn an_alert_without_a_message_that_waits_is_ready() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(500)).await;
    rig.fail();
    rig.report("x", &server.url()).await;
    rig.alert_is("x", "DeliveryFailed").await;
    rig.observe(&json!({ "conditions": [{ "type": "Ready", "status": "True" }] }));
    rig.change(Work::Alert(key("a", "x"))).await;
    let status = rig.alert_is("x", "Ready").await;
    assert_eq!(status["undelivered"], Value::Null);
    rig.stop().await;
    assert_eq!(server.received().len(), 1);
}

/// An Alertmanager that is away while alerts are repeated gets them when it is back, and not only with the next repetition.
#[tokio::test]
async fn a_repetition_that_is_not_accepted_is_sent_again() {
    let rig = Rig::start();
    let server = Endpoint::start(Reply::status(200)).await;
    rig.fail();
    rig.provider_of_type("alertmanager", "x", &server.url()).await;
    rig.alert("x", "x").await;
    rig.delivered("x").await;
    server.behave(Reply::status(503));
    // As after a restart, and later after four minutes.
    let repeat = || {
        let mut memories = helmops_process::lock(&rig.context.memories);
        memories.get_mut(&key("a", "x")).unwrap().plan.refreshed = None;
    };
    repeat();
    rig.change(Work::Alert(key("a", "x"))).await;
    rig.alert_is("x", "DeliveryFailed").await;
    server.behave(Reply::status(200));
    rig.context.failures.forget(&provider("x"));
    rig.change(Work::Alert(key("a", "x"))).await;
    until("the repetition", || (server.received().len() == 3).then_some(())).await;
    let status = rig.alert_is("x", "Ready").await;
    assert_eq!(status["delivered"], 1, "a repetition is no message");
    // What was accepted is not sent again.
    rig.change(Work::Alert(key("a", "x"))).await;
    rig.stop().await;
    assert_eq!(server.received().len(), 3);
}

/// The end of the process waits for no endpoint that hangs: the next leader needs the Lease, and what others have accepted is recorded.
#[tokio::test]
async fn an_endpoint_that_hangs_does_not_delay_the_end_of_the_process() {
    let rig = Rig::start();
    let [dead, alive] = [
        Endpoint::start(Reply::Hang).await,
        Endpoint::start(Reply::Hang).await,
    ];
    rig.fail();
    for (name, server) in [("dead", &dead), ("alive", &alive)] {
        let spec = json!({ "type": "generic", "address": server.url(), "timeout": "5m" });
        rig.api.apply("alertproviders", name, &spec);
        rig.alert(name, name).await;
        until("the request", || (!server.received().is_empty()).then_some(())).await;
    }
    let api = rig.api.clone();
    let started = Instant::now();
    let ending = async {
        rig.stop().await;
        started.elapsed()
    };
    let recorded = async {
        alive.respond("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n").await;
        let status = || (api.status("alerts", "alive")["delivered"] == 1).then_some(());
        until("the record", status).await;
        started.elapsed()
    };
    let (ended, recorded) = tokio::join!(ending, recorded);
    assert!(ended < Duration::from_secs(15), "{ended:?}");
    assert!(
        recorded < ended,
        "{recorded:?} {ended:?}: it is recorded as it is delivered"
    );
    assert_eq!(api.status("alerts", "dead")["delivered"], Value::Null);
}
