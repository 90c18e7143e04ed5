//! Collectors that work, and some that do not.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use helmops_process::lock;
use prometheus::Registry;
use tokio::{net::TcpListener, task::JoinSet, time::Instant};

use super::*;
use crate::{
    context::TraceContext,
    span::{in_span, in_trace, set_attribute},
    tracer::Tracer,
};

/// A collector: the status of each response, the last one for all that follow, and what it has received.
#[derive(Clone)]
struct Collector {
    statuses: Arc<[u16]>,
    requests: Arc<AtomicUsize>,
    accepted: Arc<Mutex<Vec<Value>>>,
}

async fn receive(State(collector): State<Collector>, body: Bytes) -> StatusCode {
    let number = collector.requests.fetch_add(1, Ordering::Relaxed);
    let statuses = &collector.statuses;
    let status = statuses.get(number).or(statuses.last()).copied().unwrap();
    if status == 0 {
        std::future::pending::<()>().await;
    }
    if status == 200 {
        lock(&collector.accepted).push(serde_json::from_slice(&body).unwrap());
    }
    StatusCode::from_u16(status).unwrap()
}

/// An exporter and its collector.
struct Bed {
    tracer: Tracer,
    metrics: TraceMetrics,
    collector: Collector,
    stop: CancellationToken,
    exporter: JoinSet<()>,
    _server: JoinSet<()>,
}

impl Bed {
    /// A status of 0 is no response.
    async fn new(statuses: &[u16]) -> Self {
        let collector = Collector {
            statuses: statuses.into(),
            requests: Arc::default(),
            accepted: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/v1/traces", post(receive))
            .with_state(collector.clone());
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self::at(&format!("http://{address}/v1/traces"), collector, server)
    }

    fn at(url: &str, collector: Collector, server: JoinSet<()>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let metrics = TraceMetrics::register(&Registry::new()).unwrap();
        let (tracer, spans) = Tracer::new(1.0, 1, metrics.clone());
        let exporter = Exporter {
            client: Client::builder().timeout(TIMEOUT).build().unwrap(),
            url: url.parse().unwrap(),
            resource: Resource {
                service: "helmops-test",
                version: "0.1.0".to_owned(),
                instance: "a".to_owned(),
                namespace: Some("helmops-system".to_owned()),
            },
            spans,
            metrics: metrics.clone(),
        };
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(exporter.run(stop.clone()));
        Self {
            tracer,
            metrics,
            collector,
            stop,
            exporter: task,
            _server: server,
        }
    }

    async fn stop(mut self) -> Duration {
        let started = Instant::now();
        self.stop.cancel();
        self.exporter.join_next().await.unwrap().unwrap();
        started.elapsed()
    }

    fn root(&self) -> TraceContext {
        self.tracer.root("uid", 1, 0).unwrap()
    }

    fn record(&self) {
        let now = SystemTime::now();
        self.tracer.record(SpanRecord {
            context: self.tracer.child(self.root()),
            parent: None,
            name: "test",
            start: now,
            end: now,
            attributes: Vec::new(),
            error: None,
        });
    }
}

/// The spans of all requests.
fn spans(collector: &Collector) -> Vec<Value> {
    let accepted = lock(&collector.accepted);
    let groups = accepted
        .iter()
        .map(|body| &body["resourceSpans"][0]["scopeSpans"][0]["spans"]);
    groups
        .flat_map(|spans| spans.as_array().unwrap().clone())
        .collect()
}

async fn until(what: &str, check: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !check() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn nested_work_is_exported_as_nested_spans() {
    let bed = Bed::new(&[200]).await;
    let root = bed.root();
    let work = async {
        set_attribute("helmops.name", || "web");
        in_span("resolve", async { Err::<(), _>("no such chart") }).await
    };
    in_trace(&bed.tracer, Some(root), "reconcile", work)
        .await
        .unwrap_err();
    let collector = bed.collector.clone();
    bed.stop().await;
    let spans = spans(&collector);
    let [inner, outer] = &spans[..] else {
        panic!("{spans:#?}")
    };
    assert_eq!(
        (&inner["name"], &outer["name"]),
        (&"resolve".into(), &"reconcile".into())
    );
    assert_eq!(inner["parentSpanId"], outer["spanId"]);
    assert_eq!(outer["parentSpanId"], Value::from(root.span_id()));
    assert_eq!(inner["traceId"], outer["traceId"]);
    assert_eq!(inner["status"]["message"], "no such chart");
    assert_eq!(outer["attributes"][0]["key"], "helmops.name");
}

#[tokio::test]
async fn without_a_trace_nothing_is_recorded() {
    let bed = Bed::new(&[200]).await;
    in_span("resolve", async {}).await;
    in_trace(&bed.tracer, None, "reconcile", in_span("resolve", async {})).await;
    let collector = bed.collector.clone();
    bed.stop().await;
    assert_eq!(collector.requests.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_busy_collector_gets_the_spans_later() {
    let bed = Bed::new(&[503, 429, 200]).await;
    bed.record();
    until("the spans arrive", || bed.metrics.exported.get() == 1).await;
    assert_eq!((spans(&bed.collector).len(), bed.metrics.failed.get()), (1, 0));
}

#[tokio::test]
async fn spans_that_a_collector_refuses_are_counted_and_not_sent_again() {
    let bed = Bed::new(&[400, 200]).await;
    bed.record();
    until("the spans fail", || bed.metrics.failed.get() == 1).await;
    bed.record();
    until("others arrive", || bed.metrics.exported.get() == 1).await;
    assert_eq!(bed.collector.requests.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_collector_that_hangs_blocks_nothing_and_what_does_not_fit_is_dropped_and_counted() {
    let bed = Bed::new(&[0]).await;
    bed.record();
    until("the request arrives", || {
        bed.collector.requests.load(Ordering::Relaxed) == 1
    })
    .await;
    let started = Instant::now();
    for _ in 0..10_000 {
        bed.record();
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(bed.metrics.dropped.get() > 5_000, "{}", bed.metrics.dropped.get());
    let elapsed = bed.stop().await;
    assert!(elapsed < FLUSH + Duration::from_secs(2), "{elapsed:?}");
}

#[tokio::test]
async fn the_last_spans_are_sent_before_the_process_ends() {
    let bed = Bed::new(&[200]).await;
    for _ in 0..1_000 {
        bed.record();
    }
    let collector = bed.collector.clone();
    bed.stop().await;
    assert_eq!(spans(&collector).len(), 1_000);
}
