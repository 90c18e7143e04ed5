//! The frame of all reconciliations: what is the same for the loops of all kinds of objects.
//!
//! ```text
//! get ─► does the cache show the last write? ─► finalize, or decode and reconcile ─► metrics ─► retry state
//! ```

use std::{future::ready, sync::Arc, time::Instant};

use helmops_api::{Decoded, Unusable};
use helmops_model::reason::Reason;
use helmops_trace::{Outcome, TraceContext, Tracer, in_trace, set_attribute};
use kube::{Resource, core::ObjectMeta, runtime::reflector::ObjectRef};
use tracing::{Instrument, Span};

use crate::{
    backoff,
    decode_error::cut_error,
    error_class::ClassifiedError,
    metrics::{Controller, ReconcileMetrics},
    queue::RequeueAfter,
    retry_state::{Done, RetryKey, RetryState},
    workers::WorkerPermit,
};

/// The key of an object of a reconciler.
pub type KeyOf<R> = ObjectRef<Decoded<<R as Reconciler>::Object>>;

/// What is special about the objects of a kind.
///
/// A reconciliation is level-triggered: it depends only on the current state, never on the event, so it may start at any time and
/// any number of times. An object is never reconciled concurrently.
pub trait Reconciler: Sync {
    /// The objects.
    type Object: Resource<DynamicType = ()> + Clone + Send + Sync + 'static;
    /// Why a reconciliation fails.
    type Error: ClassifiedError + Send;
    /// The labels in metrics.
    const CONTROLLER: Controller;
    /// The annotations with which a user requests an attempt in spite of earlier failures, by changing their value.
    const REQUEST_ANNOTATIONS: &'static [&'static str] = &[];

    /// The object in the cache.
    fn get(&self, key: &KeyOf<Self>) -> Option<Arc<Decoded<Self::Object>>>;

    /// The retry state of the objects.
    fn retry_state(&self) -> &RetryState<KeyOf<Self>>;

    /// Counts reconciliations.
    fn metrics(&self) -> &ReconcileMetrics;

    /// The span of all log lines about an object. `metadata` is `None` if the object does not exist.
    fn span(&self, key: &KeyOf<Self>, metadata: Option<&ObjectMeta>) -> Span;

    /// Drops what is remembered of an object that does not exist, is being deleted or does not decode.
    fn forget(&self, _key: &KeyOf<Self>) {}

    /// Cleans up after an object that does not exist.
    ///
    /// # Errors
    /// If a part of it has to be done again.
    fn deleted(
        &self,
        _key: &KeyOf<Self>,
        _permit: &mut WorkerPermit,
    ) -> impl Future<Output = Result<Done, Self::Error>> + Send {
        ready(Ok(Done::UNTIL_CHANGE))
    }

    /// Cleans up an object that is being deleted, whether it decodes or not.
    ///
    /// # Errors
    /// If a part of it has to be done again.
    fn finalize(
        &self,
        _key: &KeyOf<Self>,
        _object: &Decoded<Self::Object>,
        _permit: &mut WorkerPermit,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send {
        ready(Ok(()))
    }

    /// Reports an object that does not decode, besides the log.
    fn report_invalid(&self, _metadata: &ObjectMeta, _error: &Unusable) {}

    /// The span that the reconciliation of an object is a child of, if it belongs to a trace: from a change until the object is ready.
    fn trace(&self, _key: &KeyOf<Self>, _object: &Self::Object) -> Option<(&Tracer, TraceContext)> {
        None
    }

    /// Brings what the object describes to its desired state.
    ///
    /// # Errors
    /// If a part of it has to be done again, or waits for a change.
    fn reconcile(
        &self,
        key: &KeyOf<Self>,
        object: &Self::Object,
        permit: &mut WorkerPermit,
    ) -> impl Future<Output = Result<Done, Self::Error>> + Send;
}

/// Reconciles one object, and returns when to requeue it.
pub async fn reconcile<R: Reconciler>(
    reconciler: &R,
    key: &KeyOf<R>,
    mut permit: WorkerPermit,
) -> RequeueAfter {
    let object = reconciler.get(key);
    let span = reconciler.span(key, object.as_deref().map(Resource::meta));
    if let Some(object) = object {
        let existing = reconcile_existing(reconciler, key, &object, &mut permit);
        return Box::pin(existing).instrument(span).await;
    }
    let clean_up = clean_up(reconciler, key, &mut permit);
    Box::pin(clean_up).instrument(span).await
}

/// Cleans up after an object that does not exist.
async fn clean_up<R: Reconciler>(reconciler: &R, key: &KeyOf<R>, permit: &mut WorkerPermit) -> RequeueAfter {
    let retry_state = reconciler.retry_state();
    // Its failures as an object that existed have another retry key, so only those of this clean-up count.
    retry_state.pending_writes.forget(key);
    reconciler.forget(key);
    let started = Instant::now();
    let result = reconciler.deleted(key, permit).await;
    // Most objects leave nothing behind: only what fails is a reconciliation that someone looks for.
    if let reason @ Some(_) = counted_as(&result) {
        let metrics = reconciler.metrics();
        metrics.reconciled(R::CONTROLLER, reason, started.elapsed());
    }
    retry_state.requeue_after(key, RetryKey::default(), result)
}

async fn reconcile_existing<R: Reconciler>(
    reconciler: &R,
    key: &KeyOf<R>,
    object: &Decoded<R::Object>,
    permit: &mut WorkerPermit,
) -> RequeueAfter {
    let retry_state = reconciler.retry_state();
    let metadata = object.meta();
    if retry_state.pending_writes.is_stale(key, metadata) {
        return Some(backoff::CONFLICT.initial_delay);
    }
    let started = Instant::now();
    let result = match object {
        _ if metadata.deletion_timestamp.is_some() => {
            reconciler.forget(key);
            let result = reconciler.finalize(key, object, permit).await;
            result.map(|()| Done::UNTIL_CHANGE)
        }
        Decoded::Valid(object) => match reconciler.trace(key, object) {
            None => reconciler.reconcile(key, object, permit).await,
            Some((tracer, parent)) => {
                Span::current().record("trace_id", parent.trace_id());
                let work = async {
                    set_attribute("helmops.kind", || R::Object::kind(&()));
                    set_attribute("helmops.name", || key.name.clone());
                    set_attribute("helmops.namespace", || key.namespace.clone().unwrap_or_default());
                    Traced(reconciler.reconcile(key, object, permit).await)
                };
                Box::pin(in_trace(tracer, Some(parent), "reconcile", work))
                    .await
                    .0
            }
        },
        Decoded::Invalid { error, .. } => {
            reconciler.forget(key);
            let (kind, text) = (R::Object::kind(&()), cut_error(error));
            match error {
                Unusable::Invalid(_) => {
                    tracing::error!(error = text, "{kind} cannot be decoded; skipping it");
                }
                Unusable::NotStored(_) => tracing::warn!(error = text, "{kind} is not stored"),
            }
            reconciler.report_invalid(metadata, error);
            return None;
        }
    };
    reconciler
        .metrics()
        .reconciled(R::CONTROLLER, counted_as(&result), started.elapsed());
    retry_state.requeue_after(key, RetryKey::of(metadata, R::REQUEST_ANNOTATIONS), result)
}

/// What metrics count a reconciliation as; `None` for a success.
fn counted_as(result: &Result<Done, impl ClassifiedError>) -> Option<Reason> {
    match result {
        Ok(done) => done.counts_as,
        Err(error) => Some(error.reason()),
    }
}

/// The result of a reconciliation, for its span.
struct Traced<E>(Result<Done, E>);

impl<E: ClassifiedError> Outcome for Traced<E> {
    fn error(&self) -> Option<String> {
        match &self.0 {
            Ok(done) => done
                .counts_as
                .filter(|reason| *reason != Reason::Progressing)
                .map(|reason| reason.as_str().to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU16, sync::Mutex, time::Duration};

    use helmops_api::HelmOp;
    use helmops_kube::lease::Leadership;
    use helmops_process::lock;
    use prometheus::{Registry, TextEncoder};
    use serde_json::{Value, json};
    use thiserror::Error;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        client::{ApiError, CallError},
        error_class::{Class, Classified, classified},
        retry_state::Failures,
        workers::Workers,
    };

    type HelmOpKey = ObjectRef<Decoded<HelmOp>>;

    const CONTROLLER: Controller = Controller {
        label: "helmop",
        failures: || vec![Reason::APIError],
    };

    #[derive(Debug, Error)]
    enum ReconcileError {
        #[error(transparent)]
        Api(#[from] CallError),
        #[error("superseded")]
        Superseded,
        #[error("too soon")]
        TooSoon(Duration),
    }

    impl ClassifiedError for ReconcileError {
        fn classify(&self) -> Classified {
            match self {
                Self::Api(error) => error.classify(),
                Self::Superseded => classified(Reason::Progressing, Class::Superseded),
                Self::TooSoon(wait) => classified(Reason::Progressing, Class::Postponed(*wait)),
            }
        }
    }

    /// Records the calls of the frame.
    struct Recorder {
        cached: Mutex<Option<Arc<Decoded<HelmOp>>>>,
        retry_state: RetryState<HelmOpKey>,
        metrics: ReconcileMetrics,
        registry: Registry,
        calls: Mutex<Vec<&'static str>>,
        result: fn() -> Result<Done, ReconcileError>,
    }

    impl Reconciler for Recorder {
        type Object = HelmOp;
        type Error = ReconcileError;
        const CONTROLLER: Controller = CONTROLLER;
        const REQUEST_ANNOTATIONS: &'static [&'static str] = &["example.com/requested-at"];

        fn get(&self, _: &HelmOpKey) -> Option<Arc<Decoded<HelmOp>>> {
            lock(&self.cached).clone()
        }

        fn retry_state(&self) -> &RetryState<HelmOpKey> {
            &self.retry_state
        }

        fn metrics(&self) -> &ReconcileMetrics {
            &self.metrics
        }

        fn span(&self, _: &HelmOpKey, _: Option<&ObjectMeta>) -> Span {
            Span::none()
        }

        fn forget(&self, _: &HelmOpKey) {
            self.call("forget");
        }

        async fn deleted(&self, _: &HelmOpKey, _: &mut WorkerPermit) -> Result<Done, ReconcileError> {
            self.call("deleted");
            (self.result)()
        }

        async fn finalize(
            &self,
            _: &HelmOpKey,
            _: &Decoded<HelmOp>,
            _: &mut WorkerPermit,
        ) -> Result<(), ReconcileError> {
            self.call("finalize");
            (self.result)().map(|_| ())
        }

        fn report_invalid(&self, _: &ObjectMeta, _: &Unusable) {
            self.call("report_invalid");
        }

        async fn reconcile(
            &self,
            _: &HelmOpKey,
            _: &HelmOp,
            _: &mut WorkerPermit,
        ) -> Result<Done, ReconcileError> {
            self.call("reconcile");
            (self.result)()
        }
    }

    impl Recorder {
        fn new(result: fn() -> Result<Done, ReconcileError>) -> Self {
            let registry = Registry::new();
            Self {
                cached: Mutex::default(),
                retry_state: RetryState::default(),
                metrics: ReconcileMetrics::register(&registry, &[CONTROLLER]).unwrap(),
                registry,
                calls: Mutex::default(),
                result,
            }
        }

        fn call(&self, call: &'static str) {
            lock(&self.calls).push(call);
        }

        /// Puts an object with these additional metadata and this spec into the cache.
        fn cache(&self, metadata: &Value, spec: &Value) {
            let mut object =
                json!({ "metadata": { "namespace": "a", "name": "web", "resourceVersion": "1" } });
            for (field, value) in metadata.as_object().into_iter().flatten() {
                object["metadata"][field] = value.clone();
            }
            object["spec"] = spec.clone();
            let object: Decoded<HelmOp> = serde_json::from_str(&object.to_string()).unwrap();
            *lock(&self.cached) = Some(Arc::new(object));
        }

        async fn reconcile_once(&self) -> RequeueAfter {
            let workers = Workers::new(NonZeroU16::MIN, Leadership::always(), CancellationToken::new());
            workers.open();
            let permit = workers.acquire("a".into()).await.unwrap();
            reconcile(self, &key(), permit).await
        }

        fn calls(&self) -> Vec<&'static str> {
            std::mem::take(&mut lock(&self.calls))
        }

        /// The number of reconciliations with these labels `reason` and `result`.
        fn counted(&self, reason: &str, result: &str) -> bool {
            let text = TextEncoder::new()
                .encode_to_string(&self.registry.gather())
                .unwrap();
            let line = format!(
                "helmops_reconcile_total{{controller=\"helmop\",reason=\"{reason}\",result=\"{result}\"}} 1"
            );
            text.lines().any(|one| one == line)
        }
    }

    fn key() -> HelmOpKey {
        HelmOpKey::new("web").within("a")
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is one of several results")]
    fn done() -> Result<Done, ReconcileError> {
        Ok(Done::UNTIL_CHANGE)
    }

    fn fails() -> Result<Done, ReconcileError> {
        let missing = kube::core::Status::failure("no", "NotFound").with_code(404);
        let error = ApiError::from(kube::Error::Api(missing.boxed()));
        Err(CallError::of("write", "HelmOp web")(error).into())
    }

    fn is_first_transient_delay(delay: RequeueAfter) -> bool {
        let full = backoff::TRANSIENT.initial_delay;
        delay.is_some_and(|delay| delay <= full && delay >= full * 3 / 4)
    }

    #[tokio::test]
    async fn an_object_is_reconciled_and_counted() {
        let recorder = Recorder::new(done);
        recorder.cache(&json!({}), &json!({}));
        assert_eq!(recorder.reconcile_once().await, None);
        assert_eq!(recorder.calls(), ["reconcile"]);
        assert!(recorder.counted("", "success"));
    }

    #[tokio::test]
    async fn an_object_that_does_not_exist_is_forgotten() {
        let recorder = Recorder::new(done);
        let state = &recorder.retry_state;
        let retry_key = RetryKey::default();
        state.failed(&key(), retry_key.clone(), backoff::SLOW);
        assert_eq!(recorder.reconcile_once().await, None);
        assert_eq!(recorder.calls(), ["forget", "deleted"]);
        assert_eq!(state.remaining(&key(), &retry_key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clean_up_after_a_deleted_object_is_retried_with_backoff_and_counted() {
        let recorder = Recorder::new(fails);
        let first = recorder.reconcile_once().await;
        assert!(is_first_transient_delay(first));
        assert!(recorder.counted("APIError", "error"));
        tokio::time::advance(first.unwrap()).await;
        let second = recorder.reconcile_once().await;
        assert!(second > Some(backoff::TRANSIENT.initial_delay), "{second:?}");
    }

    #[tokio::test]
    async fn a_deleted_object_starts_without_the_failures_that_it_had_while_it_existed() {
        let recorder = Recorder::new(fails);
        recorder.cache(&json!({ "generation": 1 }), &json!({}));
        for _ in 0..3 {
            recorder.reconcile_once().await;
        }
        *lock(&recorder.cached) = None;
        assert!(is_first_transient_delay(recorder.reconcile_once().await));
    }

    #[tokio::test]
    async fn nothing_is_done_before_the_cache_shows_the_last_write() {
        let recorder = Recorder::new(done);
        let version = |version: &str| {
            let mut helmop = HelmOp::default();
            helmop.metadata.resource_version = Some(version.to_owned());
            helmop
        };
        let pending = &recorder.retry_state.pending_writes;
        pending.record(key(), &version("2"));
        recorder.cache(&json!({}), &json!({}));
        let delay = recorder.reconcile_once().await;
        assert_eq!(delay, Some(backoff::CONFLICT.initial_delay));
        assert_eq!(recorder.calls(), [""; 0]);
        recorder.cache(&json!({ "resourceVersion": "2" }), &json!({}));
        assert_eq!(recorder.reconcile_once().await, None);
        assert_eq!(recorder.calls(), ["reconcile"]);
    }

    #[tokio::test]
    async fn an_object_that_is_being_deleted_is_finalized_whether_it_decodes_or_not() {
        for spec in [json!({}), json!("invalid")] {
            let recorder = Recorder::new(fails);
            recorder.cache(&json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), &spec);
            let delay = recorder.reconcile_once().await;
            assert!(is_first_transient_delay(delay), "{delay:?}");
            assert_eq!(recorder.calls(), ["forget", "finalize"]);
            assert!(recorder.counted("APIError", "error"));
        }
    }

    #[tokio::test]
    async fn an_object_that_does_not_decode_is_reported_and_waits_for_a_change() {
        let recorder = Recorder::new(fails);
        recorder.cache(&json!({}), &json!("invalid"));
        assert_eq!(recorder.reconcile_once().await, None);
        assert_eq!(recorder.calls(), ["forget", "report_invalid"]);
    }

    #[tokio::test]
    async fn an_error_is_retried_by_its_class() {
        let recorder = Recorder::new(fails);
        recorder.cache(&json!({}), &json!({}));
        let delay = recorder.reconcile_once().await;
        assert!(is_first_transient_delay(delay), "{delay:?}");
        assert!(recorder.counted("APIError", "error"));

        let recorder = Recorder::new(|| Err(ReconcileError::Superseded));
        recorder.cache(&json!({}), &json!({}));
        assert_eq!(recorder.reconcile_once().await, None);
        assert!(recorder.counted("", "requeue"));

        let recorder = Recorder::new(|| Err(ReconcileError::TooSoon(Duration::from_secs(7))));
        recorder.cache(&json!({}), &json!({}));
        assert_eq!(recorder.reconcile_once().await, Some(Duration::from_secs(7)));
    }

    /// A user who fixed something that no watch reports need not wait for the end of the backoff.
    #[tokio::test(start_paused = true)]
    async fn a_changed_request_annotation_starts_the_backoff_again() {
        let recorder = Recorder::new(fails);
        for (value, is_first) in [("1", true), ("1", false), ("2", true), ("2", false)] {
            let annotations = json!({ "example.com/requested-at": value, "example.com/other": "x" });
            recorder.cache(&json!({ "annotations": annotations }), &json!({}));
            let delay = recorder.reconcile_once().await;
            assert_eq!(is_first_transient_delay(delay), is_first, "{value}: {delay:?}");
            tokio::time::advance(delay.unwrap()).await;
        }
    }

    /// Such as an attempt that failed, and is repeated at a time that is known.
    #[tokio::test]
    async fn what_ends_without_an_error_may_count_as_a_failure() {
        #[expect(clippy::unnecessary_wraps, reason = "it is one of several results")]
        fn counted() -> Result<Done, ReconcileError> {
            Ok(Done {
                counts_as: Some(Reason::APIError),
                ..Done::UNTIL_CHANGE
            })
        }
        let existing = Recorder::new(counted);
        existing.cache(&json!({}), &json!({}));
        for recorder in [existing, Recorder::new(counted)] {
            assert_eq!(recorder.reconcile_once().await, None);
            assert!(recorder.counted("APIError", "error"));
        }
        assert_eq!(Traced(counted()).error().as_deref(), Some("APIError"));
        assert_eq!(Traced(done()).error(), None);
    }

    #[tokio::test]
    async fn a_success_resets_keeps_or_adds_failures() {
        for (failures, remains) in [
            (Failures::Reset, false),
            (Failures::Kept, true),
            (Failures::Another(backoff::SLOW.into()), true),
        ] {
            let state = RetryState::default();
            let retry_key = RetryKey::default();
            state.failed(&key(), retry_key.clone(), backoff::SLOW);
            let later = Duration::from_hours(1);
            let done = Done {
                requeue_after: Some(later),
                failures,
                ..Done::UNTIL_CHANGE
            };
            let result = Ok::<_, ReconcileError>(done);
            let delay = state.requeue_after(&key(), retry_key.clone(), result).unwrap();
            let is_requeued_earlier = matches!(failures, Failures::Another(_));
            assert_eq!(delay < later, is_requeued_earlier, "{failures:?}");
            assert_eq!(
                state.remaining(&key(), &retry_key).is_some(),
                remains,
                "{failures:?}"
            );
        }
    }
}
