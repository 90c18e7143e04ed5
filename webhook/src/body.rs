//! Bodies of requests. All that are in memory together have a budget, and one address has half of it.

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
use helmops_shared::runtime::PeerBytes;
use thiserror::Error;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

/// Largest body. A review carries an object twice (new and stored), the API server takes requests of up to 3 MiB, and
/// the rest is for what it adds: `managedFields`, the user and the envelope.
pub const MAX_BODY: usize = 7 << 20;

/// All bodies in memory: four of the largest and thousands of usual ones (about 10 KiB). With a quarter of the memory
/// limit of the manifest (128Mi) there is room for connections and for what a body decodes to.
pub const BUDGET: usize = 32 << 20;

/// The part of it that one address may hold. API servers may all come from one address, so this must be enough for all of
/// them: two of the largest bodies, and more than a thousand usual ones.
pub const PEER_BUDGET: usize = BUDGET / 2;

/// What is taken from the budget at a time while a body arrives. What has not arrived takes nothing.
const STEP: usize = 64 << 10;

/// Longest time for a body to arrive and to have its turn. The shipped configurations let the API server wait 5 s.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The API server has the whole body when it begins to send. So a body has this long, and the time that its bytes take
/// at [`MIN_RATE`].
const GRACE: Duration = Duration::from_secs(2);

/// Bytes a second.
const MIN_RATE: u32 = 1 << 20;

/// Bodies above this size are decoded one at a time, so that their decoded forms are not in memory together.
const LARGE: usize = 16 << 10;

/// Bodies in memory.
#[derive(Debug)]
pub struct Bodies {
    held: Arc<AtomicUsize>,
    large: Semaphore,
}

/// One body, which counts as in memory until it is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    bytes: Bytes,
    _grant: Grant,
    _turn: Option<SemaphorePermit<'a>>,
}

/// Why a body was not read.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It is longer than any review.
    #[error("the body has more than {MAX_BODY} bytes; no AdmissionReview has")]
    TooLarge,
    /// Too many bodies are in memory.
    #[error("bodies of {BUDGET} bytes are being read already; try again")]
    Budget,
    /// The address has its part of the budget.
    #[error("bodies of {PEER_BUDGET} bytes from this address are being read already; try again")]
    PeerBudget,
    /// It came too slowly.
    #[error("the body did not arrive in time; it has {GRACE:?}, and a second for each {MIN_RATE} bytes")]
    Slow,
    /// Large bodies before it took too long.
    #[error("large bodies are being decoded; try again")]
    Turn,
    /// The connection broke.
    #[error("the body broke off: {0}")]
    Broken(#[source] axum::Error),
}

impl Refusal {
    /// Values of the metric's label `reason`.
    pub const REASONS: [&str; 6] = ["too_large", "budget", "peer_budget", "slow", "turn", "broken"];

    /// The value of the metric's label.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Budget => "budget",
            Self::PeerBudget => "peer_budget",
            Self::Slow => "slow",
            Self::Turn => "turn",
            Self::Broken(_) => "broken",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Budget | Self::PeerBudget | Self::Turn => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl IntoResponse for Refusal {
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

impl AsRef<[u8]> for Held<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            held: Arc::default(),
            large: Semaphore::new(1),
        }
    }
}

impl Bodies {
    /// Reads the body of a request. It waits for the peer and, with a large body, for its turn; never for the budget.
    ///
    /// # Errors
    /// Where the body does not fit, does not come, or comes too slowly.
    pub async fn read(&self, request: Request) -> Result<Held<'_>, Refusal> {
        let deadline = Instant::now() + DEADLINE;
        let (parts, body) = request.into_parts();
        let mut grant = Grant {
            held: Arc::clone(&self.held),
            peer: parts.extensions.get::<PeerBytes>().cloned(),
            bytes: 0,
        };
        let bytes = Arriving::new(body, deadline)?.whole(&mut grant).await?;
        let turn = if bytes.len() > LARGE {
            let turn = timeout_at(deadline, self.large.acquire()).await;
            Some(turn.map_err(|_| Refusal::Turn)?.map_err(|_| Refusal::Turn)?)
        } else {
            None
        };
        Ok(Held {
            bytes,
            _grant: grant,
            _turn: turn,
        })
    }
}

/// A part of the budget.
#[derive(Debug)]
struct Grant {
    held: Arc<AtomicUsize>,
    peer: Option<PeerBytes>,
    bytes: usize,
}

impl Grant {
    /// Makes it at least `bytes`.
    fn raise_to(&mut self, bytes: usize) -> Result<(), Refusal> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            return Ok(());
        };
        if let Some(peer) = &self.peer
            && !peer.try_add(more, PEER_BUDGET)
        {
            return Err(Refusal::PeerBudget);
        }
        let within = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(more).filter(|sum| *sum <= BUDGET)
            });
        if within.is_err() {
            if let Some(peer) = &self.peer {
                peer.sub(more);
            }
            return Err(Refusal::Budget);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(peer) = &self.peer {
            peer.sub(self.bytes);
        }
    }
}

/// A body on its way.
struct Arriving {
    body: Body,
    begun: Instant,
    deadline: Instant,
    /// The length that the peer announced.
    announced: Option<usize>,
    received: usize,
}

impl Arriving {
    fn new(body: Body, deadline: Instant) -> Result<Self, Refusal> {
        let announced = match body.size_hint().exact().map(usize::try_from) {
            Some(Ok(length)) if length <= MAX_BODY => Some(length),
            Some(_) => return Err(Refusal::TooLarge),
            None => None,
        };
        Ok(Self {
            body,
            begun: Instant::now(),
            deadline,
            announced,
            received: 0,
        })
    }

    /// All of it. A body that comes in one piece, as most do, is not copied.
    async fn whole(mut self, grant: &mut Grant) -> Result<Bytes, Refusal> {
        let Some(first) = self.piece().await? else {
            return Ok(Bytes::new());
        };
        grant.raise_to(first.len())?;
        let Some(mut piece) = self.piece().await? else {
            return Ok(first);
        };
        let mut all = Vec::new();
        self.add(&mut all, &first, grant)?;
        drop(first);
        loop {
            self.add(&mut all, &piece, grant)?;
            match self.piece().await? {
                Some(next) => piece = next,
                None => return Ok(all.into()),
            }
        }
    }

    fn add(&self, all: &mut Vec<u8>, piece: &[u8], grant: &mut Grant) -> Result<(), Refusal> {
        let length = all.len() + piece.len();
        grant.raise_to(length.next_multiple_of(STEP))?;
        if length > all.capacity() {
            let capacity = self
                .announced
                .unwrap_or_else(|| (2 * all.capacity()).clamp(STEP, MAX_BODY));
            all.reserve_exact(capacity.max(length) - all.len());
        }
        all.extend_from_slice(piece);
        Ok(())
    }

    /// The next piece, if there is one and it comes in time.
    async fn piece(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.body.is_end_stream() {
            return Ok(None);
        }
        let received = u32::try_from(self.received).unwrap_or(u32::MAX);
        let due = self.begun + GRACE + Duration::from_secs(1) * received / MIN_RATE;
        let body = &mut self.body;
        let next = poll_fn(|context| poll_data(body, context));
        let piece = timeout_at(due.min(self.deadline), next)
            .await
            .map_err(|_| Refusal::Slow)?
            .transpose()
            .map_err(Refusal::Broken)?;
        self.received += piece.as_ref().map_or(0, Bytes::len);
        if self.received > self.announced.unwrap_or(MAX_BODY) {
            return Err(Refusal::TooLarge);
        }
        Ok(piece)
    }
}

/// The next piece of a body, without its trailers.
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
