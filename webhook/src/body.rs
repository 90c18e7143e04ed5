//! Bodies of requests. A budget limits all bodies in memory, and one address can use half of it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{
        StatusCode,
        header::{HeaderValue, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use futures::future::poll_fn;
use helmops_process::PeerBytes;
use thiserror::Error;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

/// Maximum size of a body. A review contains an object twice (new and stored), the API server accepts requests of up to 3 MiB,
/// and the rest is for what it adds: `managedFields`, the user and the envelope.
pub const MAX_BODY: usize = 7 << 20;

/// Budget of all bodies in memory: four of the maximum size, or thousands of typical ones (about 10 KiB). It is a quarter of
/// the memory limit of the manifest (128Mi). The rest is for connections and for what bodies decode to.
pub const BUDGET: usize = 32 << 20;

/// Budget of one address. API servers may all have the same address, so this must be enough for all of them: two bodies of
/// the maximum size, or more than a thousand typical ones.
pub const PEER_BUDGET: usize = BUDGET / 2;

/// Bytes that are reserved from the budget at a time while a body arrives. Bytes that have not arrived are not reserved.
const RESERVE_STEP: usize = 64 << 10;

/// Maximum time for a body to arrive and to get a permit. The shipped webhook configurations have a timeout of 5 s.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The API server has the whole body when it starts to send. So a body has this time, and the time that its bytes take at
/// [`MIN_RATE`].
const GRACE: Duration = Duration::from_secs(2);

/// Bytes per second.
const MIN_RATE: u32 = 1 << 20;

/// Bodies above this size are decoded one at a time, so that only one decoded form is in memory.
const LARGE: usize = 16 << 10;

/// The budget of bodies in memory.
#[derive(Debug)]
pub struct Bodies {
    in_use: Arc<AtomicUsize>,
    large: Semaphore,
}

/// The body of one request. It uses the budget until it is dropped.
#[derive(Debug)]
pub struct RequestBody<'a> {
    bytes: Bytes,
    _reservation: Reservation,
    _permit: Option<SemaphorePermit<'a>>,
}

/// Why a body was rejected.
#[derive(Debug, Error)]
pub enum BodyError {
    /// It is larger than any AdmissionReview.
    #[error("the body has more than {MAX_BODY} bytes, the maximum of an AdmissionReview")]
    TooLarge,
    /// The budget is used up.
    #[error("request bodies of {BUDGET} bytes are already in memory; retry later")]
    Budget,
    /// The budget of the address is used up.
    #[error("request bodies of {PEER_BUDGET} bytes from this address are already in memory; retry later")]
    PeerBudget,
    /// It arrived too slowly.
    #[error(
        "the body arrived too slowly: the timeout is {GRACE:?}, and one second for each {MIN_RATE} bytes"
    )]
    Slow,
    /// It is large, and other large bodies were decoded for too long.
    #[error("other large bodies are being decoded; retry later")]
    LargeBusy,
    /// The connection was lost.
    #[error("the connection was lost within the body: {0}")]
    Broken(#[source] axum::Error),
}

impl BodyError {
    /// All values of the metric label `reason`.
    pub const REASONS: [&str; 6] = [
        "too_large",
        "budget",
        "peer_budget",
        "slow",
        "large_busy",
        "broken",
    ];

    /// The value of the metric label `reason`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Budget => "budget",
            Self::PeerBudget => "peer_budget",
            Self::Slow => "slow",
            Self::LargeBusy => "large_busy",
            Self::Broken(_) => "broken",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Budget | Self::PeerBudget | Self::LargeBusy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, format!("{self}\n")).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl AsRef<[u8]> for RequestBody<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            in_use: Arc::default(),
            large: Semaphore::new(1),
        }
    }
}

impl Bodies {
    /// Reads the body of a request. It waits for the peer and, if the body is large, for a permit; never for the budget.
    ///
    /// # Errors
    /// If the body exceeds a limit or a budget, arrives too slowly, or is incomplete.
    pub async fn read(&self, request: Request) -> Result<RequestBody<'_>, BodyError> {
        let deadline = Instant::now() + DEADLINE;
        let (parts, body) = request.into_parts();
        let mut reservation = Reservation {
            in_use: Arc::clone(&self.in_use),
            peer: parts.extensions.get::<PeerBytes>().cloned(),
            bytes: 0,
        };
        let bytes = IncomingBody::new(body, deadline)?
            .read_all(&mut reservation)
            .await?;
        let permit = if bytes.len() > LARGE {
            let permit = timeout_at(deadline, self.large.acquire()).await;
            Some(
                permit
                    .map_err(|_| BodyError::LargeBusy)?
                    .map_err(|_| BodyError::LargeBusy)?,
            )
        } else {
            None
        };
        Ok(RequestBody {
            bytes,
            _reservation: reservation,
            _permit: permit,
        })
    }
}

/// Bytes that are reserved from the budget.
#[derive(Debug)]
struct Reservation {
    in_use: Arc<AtomicUsize>,
    peer: Option<PeerBytes>,
    bytes: usize,
}

impl Reservation {
    /// Grows it to at least `bytes`.
    fn grow_to(&mut self, bytes: usize) -> Result<(), BodyError> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            return Ok(());
        };
        if let Some(peer) = &self.peer
            && !peer.try_add(more, PEER_BUDGET)
        {
            return Err(BodyError::PeerBudget);
        }
        let reserved = self
            .in_use
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
                in_use.checked_add(more).filter(|sum| *sum <= BUDGET)
            });
        if reserved.is_err() {
            if let Some(peer) = &self.peer {
                peer.sub(more);
            }
            return Err(BodyError::Budget);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(peer) = &self.peer {
            peer.sub(self.bytes);
        }
    }
}

/// A body that is being received.
struct IncomingBody {
    body: Body,
    started: Instant,
    deadline: Instant,
    /// The content length, if the peer has sent it.
    content_length: Option<usize>,
    received: usize,
}

impl IncomingBody {
    fn new(body: Body, deadline: Instant) -> Result<Self, BodyError> {
        let content_length = match body.size_hint().exact().map(usize::try_from) {
            Some(Ok(length)) if length <= MAX_BODY => Some(length),
            Some(_) => return Err(BodyError::TooLarge),
            None => None,
        };
        Ok(Self {
            body,
            started: Instant::now(),
            deadline,
            content_length,
            received: 0,
        })
    }

    /// Reads all of it. A body that arrives in one chunk, as most do, is not copied.
    async fn read_all(mut self, reservation: &mut Reservation) -> Result<Bytes, BodyError> {
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        reservation.grow_to(first.len())?;
        let Some(mut chunk) = self.chunk().await? else {
            return Ok(first);
        };
        let mut all = Vec::new();
        self.append(&mut all, &first, reservation)?;
        drop(first);
        loop {
            self.append(&mut all, &chunk, reservation)?;
            match self.chunk().await? {
                Some(next) => chunk = next,
                None => return Ok(all.into()),
            }
        }
    }

    fn append(
        &self,
        all: &mut Vec<u8>,
        chunk: &[u8],
        reservation: &mut Reservation,
    ) -> Result<(), BodyError> {
        let length = all.len() + chunk.len();
        reservation.grow_to(length.next_multiple_of(RESERVE_STEP))?;
        if length > all.capacity() {
            let capacity = self
                .content_length
                .unwrap_or_else(|| (2 * all.capacity()).clamp(RESERVE_STEP, MAX_BODY));
            all.reserve_exact(capacity.max(length) - all.len());
        }
        all.extend_from_slice(chunk);
        Ok(())
    }

    /// The next chunk, if there is one and it arrives in time.
    async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.body.is_end_stream() {
            return Ok(None);
        }
        let received = u32::try_from(self.received).unwrap_or(u32::MAX);
        let due = self.started + GRACE + Duration::from_secs(1) * received / MIN_RATE;
        let body = &mut self.body;
        let next = poll_fn(|context| poll_data(body, context));
        let chunk = timeout_at(due.min(self.deadline), next)
            .await
            .map_err(|_| BodyError::Slow)?
            .transpose()
            .map_err(BodyError::Broken)?;
        self.received += chunk.as_ref().map_or(0, Bytes::len);
        if self.received > self.content_length.unwrap_or(MAX_BODY) {
            return Err(BodyError::TooLarge);
        }
        Ok(chunk)
    }
}

/// The next chunk of a body, without its trailers.
fn poll_data(body: &mut Body, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, axum::Error>>> {
    loop {
        match Pin::new(&mut *body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
