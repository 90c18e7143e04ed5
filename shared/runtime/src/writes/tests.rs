use std::{
    convert::Infallible,
    num::NonZeroU16,
    sync::{Arc, Mutex},
};

use helmops_api::{HelmOp, HelmOpStatus};
use helmops_kube::lease::Leadership;
use helmops_model::reason::Reason;
use helmops_process::lock;
use http::{Request, Response, StatusCode};
use kube::{client::Body, core::ObjectMeta};
use prometheus::Registry;
use tokio_util::sync::CancellationToken;
use tower::service_fn;
use tracing::Span;

use super::*;
use crate::{
    metrics::{Controller, ReconcileMetrics},
    queue::RequeueAfter,
    reconciler::{Reconciler, reconcile},
    retry_state::{Done, RetryState},
    workers::{WorkerPermit, Workers},
};

type Key = ObjectRef<Decoded<HelmOp>>;

/// An API server with one HelmOp. It changes its status, unless the patch is based on another version.
#[derive(Default)]
struct Server {
    helmop: Mutex<Option<Value>>,
    patches: Mutex<Vec<Value>>,
}

impl Server {
    fn with_helmop() -> Arc<Self> {
        let metadata = json!({ "namespace": "a", "name": "web", "resourceVersion": "1" });
        let helmop = json!({ "metadata": metadata, "status": { "version": "A" } });
        Arc::new(Self {
            helmop: Mutex::new(Some(helmop)),
            patches: Mutex::default(),
        })
    }

    fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        let service = service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                assert!(
                    request.uri().path().ends_with("/helmops/web/status"),
                    "{}",
                    request.uri()
                );
                let patch = request.into_body().collect_bytes().await.unwrap();
                let (code, body) = server.patch(serde_json::from_slice(&patch).unwrap());
                let mut response = Response::new(Body::from(body.to_string().into_bytes()));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        helmops_kube::client_of(service, "a")
    }

    fn patch(&self, patch: Value) -> (u16, Value) {
        let failed = |code: u16| {
            (
                code,
                json!({ "kind": "Status", "status": "Failure", "code": code }),
            )
        };
        let mut helmop = lock(&self.helmop);
        let Some(helmop) = &mut *helmop else {
            return failed(404);
        };
        let version = helmop["metadata"]["resourceVersion"].clone();
        if patch["metadata"]["resourceVersion"] != version {
            return failed(409);
        }
        let next: u64 = version.as_str().unwrap().parse().unwrap();
        helmop["metadata"]["resourceVersion"] = (next + 1).to_string().into();
        helmop["status"]["version"] = patch["status"]["version"].clone();
        lock(&self.patches).push(patch);
        (200, helmop.clone())
    }

    fn stored(&self) -> HelmOp {
        serde_json::from_value(lock(&self.helmop).clone().unwrap()).unwrap()
    }

    fn version(&self) -> String {
        self.stored().status.unwrap().version
    }
}

/// Writes `desired` into the status. Its cache shows what a watch has delivered.
struct Writer {
    client: Client,
    desired: Mutex<&'static str>,
    cached: Mutex<HelmOp>,
    retry_state: RetryState<Key>,
    metrics: ReconcileMetrics,
}

const CONTROLLER: Controller = Controller {
    label: "helmop",
    failures: || vec![Reason::APIError],
};

impl Reconciler for Writer {
    type Object = HelmOp;
    type Error = CallError;
    const CONTROLLER: Controller = CONTROLLER;

    fn get(&self, _: &Key) -> Option<Arc<Decoded<HelmOp>>> {
        Some(Arc::new(Decoded::Valid(Arc::new(lock(&self.cached).clone()))))
    }

    fn retry_state(&self) -> &RetryState<Key> {
        &self.retry_state
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.metrics
    }

    fn span(&self, _: &Key, _: Option<&ObjectMeta>) -> Span {
        Span::none()
    }

    async fn reconcile(&self, _: &Key, helmop: &HelmOp, _: &mut WorkerPermit) -> Result<Done, CallError> {
        self.write(helmop).await.map(|_| Done::UNTIL_CHANGE)
    }
}

impl Writer {
    fn new(server: &Arc<Server>) -> Self {
        Self {
            client: server.client(),
            desired: Mutex::new("A"),
            cached: Mutex::new(server.stored()),
            retry_state: RetryState::default(),
            metrics: ReconcileMetrics::register(&Registry::new(), &[CONTROLLER]).unwrap(),
        }
    }

    async fn write(&self, helmop: &HelmOp) -> Result<Option<HelmOp>, CallError> {
        let stored = helmop.status.clone().unwrap();
        let next = HelmOpStatus {
            version: (*lock(&self.desired)).to_owned(),
            ..stored.clone()
        };
        let pending_writes = &self.retry_state.pending_writes;
        FieldManager("test")
            .write_status(&self.client, pending_writes, helmop, &stored, &next)
            .await
    }

    async fn reconcile_to(&self, desired: &'static str) -> RequeueAfter {
        *lock(&self.desired) = desired;
        let workers = Workers::new(NonZeroU16::MIN, Leadership::always(), CancellationToken::new());
        workers.open();
        let permit = workers.acquire("a".into()).await.unwrap();
        reconcile(self, &Key::new("web").within("a"), permit).await
    }
}

/// A status that changes back before the watch delivers the first change would stay as it was written: no change of a status alone
/// causes a reconciliation.
#[tokio::test(start_paused = true)]
async fn a_status_that_changes_back_before_the_watch_delivers_it_is_written() {
    let server = Server::with_helmop();
    let writer = Writer::new(&server);
    assert_eq!(writer.reconcile_to("B").await, None);
    assert_eq!(server.version(), "B");

    let requeue_after = writer.reconcile_to("A").await;
    assert_eq!(server.version(), "B", "the cache still shows A");
    assert!(
        requeue_after.is_some(),
        "and the reconciliation waits for the watch"
    );

    *lock(&writer.cached) = server.stored();
    assert_eq!(writer.reconcile_to("A").await, None);
    assert_eq!(server.version(), "A");
}

#[tokio::test]
async fn only_a_difference_is_written_and_only_to_the_version_that_was_read() {
    let server = Server::with_helmop();
    let writer = Writer::new(&server);
    let read = server.stored();
    assert!(writer.write(&read).await.unwrap().is_none(), "no difference");
    assert_eq!(*lock(&server.patches), [] as [Value; 0]);

    *lock(&writer.desired) = "B";
    let written = writer.write(&read).await.unwrap().unwrap();
    assert_eq!(written.resource_version().as_deref(), Some("2"));
    let patch = json!({ "metadata": { "resourceVersion": "1" }, "status": { "version": "B" } });
    assert_eq!(*lock(&server.patches), [patch]);

    *lock(&writer.desired) = "C";
    let error = writer.write(&read).await.unwrap_err();
    assert!(
        error.is_conflict(),
        "{error}: another client has changed the object"
    );
    assert!(error.to_string().contains("HelmOp a/web"), "{error}");

    *lock(&server.helmop) = None;
    assert!(writer.write(&read).await.unwrap().is_none(), "it was deleted");
}
