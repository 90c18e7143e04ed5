//! Deliveries: from messages to requests, and from their results to a backoff.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_api::{Alert, AlertProvider};
use helmops_fetch::{PostError, PostRequest};
use helmops_kube::{lease::Term, name_of};
use helmops_notify::{
    alert::{
        Message,
        format::{
            COMPONENT, CONTROLLER, Envelope, SIGNATURE, TIMED_SIGNATURE, TIMESTAMP, sign, sign_with_time,
        },
    },
    message_format::Format,
};
use helmops_process::lock;
use helmops_runtime::error_class::{Class, ClassifiedError};
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    failures::{Attempt, Failure, REJECTED, Subject},
    metrics::Delivery,
    outbox::{Delivered, Job},
    provider::{Endpoint, endpoint},
    work::AlertKey,
};

/// How long the messages of a job may take together, beside the first: what they say was true when they were planned.
const BATCH_TIME: Duration = Duration::from_secs(2);

/// How long messages on their way have after `stop`: what was delivered has to be recorded while this replica is the leader, and the next
/// one waits for the Lease.
const GRACE: Duration = Duration::from_secs(5);

/// Sends the messages of a job one after the other, until one is not accepted, or `stop`.
pub async fn deliver_all(context: &Context, job: &Job, stop: &CancellationToken) -> Option<Delivered> {
    let started = Instant::now();
    let mut all: Option<Delivered> = None;
    for message in job.messages.iter() {
        if all.is_some() && (stop.is_cancelled() || started.elapsed() > BATCH_TIME) {
            break;
        }
        let term = tokio::select! {
            term = deliver(context, job, message) => term,
            // It may be accepted nevertheless, and is repeated then.
            () = is_late(stop) => None,
        };
        let Some(term) = term else {
            break;
        };
        // Another replica may have been the leader between two terms, and have sent what was sent before.
        let before = all.filter(|all| all.term == term);
        if all.is_some() && before.is_none() {
            break;
        }
        let number = before.map_or(0, |all| all.number) + 1;
        all = Some(Delivered { number, term });
    }
    all
}

/// Waits until messages on their way have no more time.
async fn is_late(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

/// Sends a message. Returns the term of leadership in which it was accepted.
async fn deliver(context: &Context, job: &Job, message: &Message) -> Option<Term> {
    let namespace: Arc<str> = job.alert.namespace.as_deref().unwrap_or_default().into();
    let [of_provider, of_alert] = subjects(job);
    let has_failed = context.failures.of(&of_provider).is_some();
    let _permit = context.sends.acquire(namespace, has_failed).await;
    // If another replica is the leader, that one sends it.
    let term = context.leadership.term()?;
    let progress = context.failures.attempt(subjects(job));
    let (alert, provider) = (
        context.stores.alerts.get(&job.alert)?,
        context.stores.providers.get(&job.provider)?,
    );
    let (alert, provider) = (alert.valid()?, provider.valid()?);
    let format = Format::parse(&provider.spec.r#type).unwrap_or(Format::Generic);
    // The type of the AlertProvider has changed while the message waited. Formats differ in what one message can say: it is planned again.
    if format != job.format {
        return None;
    }
    // Another message to this endpoint has failed while this one waited. It is handed over again after the backoff, which would grow
    // with the number of Alerts if each of them tried.
    let waits = |subject: &Subject| {
        let failure = context.failures.of(subject);
        failure.is_some_and(|(_, wait)| !wait.is_zero())
    };
    if waits(&of_provider) || waits(&of_alert) {
        return None;
    }
    let started = Instant::now();
    let result = attempt(context, alert, provider, (job, message)).await;
    let result = match result {
        Ok(()) => Delivery::Delivered,
        Err((subject, failure)) => {
            let retried = if failure.class.is_transient() {
                Delivery::Retried
            } else {
                Delivery::Rejected
            };
            let delay = match subject {
                Subject::Alert(alert) => reject(context, &progress, &alert, message, &failure),
                Subject::Provider(_) => progress.failed(subject, &failure, fastrand::f64()),
            };
            tracing::warn!(
                alert = name_of(&job.alert).to_string(),
                provider = job.provider.name,
                error = failure.message,
                retry_after_seconds = delay.unwrap_or_default().as_secs(),
                "a message was not delivered"
            );
            retried
        }
    };
    if result == Delivery::Delivered {
        for subject in [of_provider, of_alert] {
            context.failures.forget(&subject);
        }
    }
    context.metrics.sent(format, result, started.elapsed());
    (result == Delivery::Delivered).then_some(term)
}

/// The endpoint has rejected the content of a message: the other messages of its Alert are sent first. Returns when it is sent again;
/// `None` if the Alert was changed meanwhile.
fn reject(
    context: &Context,
    attempt: &Attempt<'_>,
    alert: &AlertKey,
    message: &Message,
    failure: &Failure,
) -> Option<Duration> {
    // Locked before the Alert is known to be unchanged: a change after that clears what is added here.
    let mut memories = lock(&context.memories);
    attempt.rejected(alert.clone(), failure)?;
    let until = Timestamp::now().checked_add(REJECTED).unwrap_or(Timestamp::MAX);
    // There is no memory of an Alert that was deleted meanwhile.
    if let Some(memory) = memories.get_mut(alert) {
        memory.plan.rejected.add(message, until, &failure.message);
    }
    Some(REJECTED)
}

/// What a failure of a job can concern.
pub fn subjects(job: &Job) -> [Subject; 2] {
    [
        Subject::Provider(job.provider.clone()),
        Subject::Alert(job.alert.clone()),
    ]
}

async fn attempt(
    context: &Context,
    alert: &Alert,
    provider: &AlertProvider,
    (job, message): (&Job, &Message),
) -> Result<(), (Subject, Failure)> {
    let [of_provider, of_alert] = subjects(job);
    let failed = |message: String, class: Class| Failure { message, class };
    let endpoint = match endpoint(&context.client, provider).await {
        Ok(endpoint) => endpoint,
        Err(error) => return Err((of_provider, failed(error.to_string(), error.class()))),
    };
    let request = match request(context, alert, provider, (job, message), &endpoint) {
        Ok(request) => request,
        Err(error) => return Err((of_alert, failed(error, Class::Absent))),
    };
    let response = context.poster.post(request).await;
    if let Err(error) = &response
        && endpoint.format == Format::CdEvents
        && is_repetition(error)
    {
        return Ok(());
    }
    let response = response.map_err(|error| {
        let subject = if is_about_content(&error) {
            of_alert
        } else {
            of_provider.clone()
        };
        (subject, failed(error.to_string(), error.class()))
    })?;
    endpoint
        .format
        .check_response(&endpoint.address, &response)
        .map_err(|error| (of_provider, failed(error.to_string(), Class::Absent)))
}

/// Whether a receiver of events has responded that it has this one already: a process that has ended before it could record a delivery
/// leaves it to the next one to send the same event again.
fn is_repetition(error: &PostError) -> bool {
    matches!(error, PostError::Status { status, .. } if *status == StatusCode::CONFLICT)
}

/// Whether the endpoint rejects the content of a message, and not all requests.
fn is_about_content(error: &PostError) -> bool {
    let PostError::Status { status, .. } = error else {
        return false;
    };
    matches!(status.as_u16(), 400 | 409 | 411 | 413 | 415 | 422 | 431)
}

fn request(
    context: &Context,
    alert: &Alert,
    provider: &AlertProvider,
    (job, message): (&Job, &Message),
    endpoint: &Endpoint,
) -> Result<PostRequest, String> {
    let now = Timestamp::now();
    let name = name_of(&job.alert);
    let envelope = Envelope {
        alert: &name,
        alert_uid: &alert.uid().unwrap_or_default(),
        metadata: &alert.spec.event_metadata,
        summary: &alert.spec.summary,
        channel: &provider.spec.channel,
        username: &provider.spec.username,
        instance: &context.instance,
        now,
    };
    let payload = endpoint
        .format
        .payload(&endpoint.address, message, &envelope)
        .map_err(|error| error.to_string())?;
    let mut headers = endpoint.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(payload.content_type));
    if matches!(endpoint.format, Format::Generic | Format::GenericHmac) {
        headers.insert(COMPONENT, HeaderValue::from_static(CONTROLLER));
    }
    if endpoint.format == Format::GenericHmac {
        let time = now.as_second().to_string();
        for (name, value) in [
            (SIGNATURE, sign(&endpoint.key, &payload.body)),
            (
                TIMED_SIGNATURE,
                sign_with_time(&endpoint.key, &time, &payload.body),
            ),
            (TIMESTAMP, time),
        ] {
            let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            headers.insert(
                name,
                HeaderValue::from_str(&value).map_err(|error| error.to_string())?,
            );
        }
    }
    Ok(PostRequest {
        url: endpoint.address.clone(),
        headers,
        body: payload.body,
        tls: Arc::clone(&endpoint.tls),
        proxy: endpoint.proxy.clone(),
        timeout: endpoint.timeout,
    })
}
