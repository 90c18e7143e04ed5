//! Bodies of requests. A budget limits all bodies in memory, and one address can use a part of it.

use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{ConnectInfo, Request},
    http::{
        StatusCode,
        header::{HeaderValue, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use helmops_fair::{ByteBudget, Reservation, Share};
use thiserror::Error;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

/// The smallest buffer of a body that arrives in parts.
const MIN_BUFFER: usize = 64 << 10;

/// The limits of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Maximum size of a body.
    pub max_body: usize,
    /// Budget of all bodies in memory. One address can use half of it, and others half of what is left.
    pub budget: usize,
    /// Maximum time for a body to arrive and to get a permit.
    pub deadline: Duration,
    /// A body has this time, and the time that its bytes take at `min_rate`.
    pub grace: Duration,
    /// Bytes per second.
    pub min_rate: u32,
    /// Bodies above this size are decoded one at a time, so that only one decoded form is in memory.
    pub large: usize,
}

/// The bodies in memory, and their limits.
#[derive(Debug)]
pub struct Bodies {
    limits: BodyLimits,
    budget: ByteBudget,
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
    /// It is larger than the maximum.
    #[error("the body has more than {0} bytes, the maximum")]
    TooLarge(usize),
    /// The share of the budget is used up.
    #[error("of the memory for request bodies, {0} bytes, this address has used up its share; retry later")]
    Budget(usize),
    /// It arrived too slowly.
    #[error(
        "the body arrived too slowly: the timeout is {grace:?}, and one second for each {min_rate} bytes"
    )]
    Slow {
        /// Time for any body.
        grace: Duration,
        /// Bytes per second.
        min_rate: u32,
    },
    /// It is large, and other large bodies were decoded for too long.
    #[error("other large bodies are being decoded; retry later")]
    LargeBusy,
    /// The connection was lost.
    #[error("the connection was lost within the body: {0}")]
    Broken(#[source] axum::Error),
}

impl BodyError {
    /// All values of the metric label `reason`.
    pub const REASONS: [&str; 5] = ["too_large", "budget", "slow", "large_busy", "broken"];

    /// The value of the metric label `reason`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::Budget(_) => "budget",
            Self::Slow { .. } => "slow",
            Self::LargeBusy => "large_busy",
            Self::Broken(_) => "broken",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Budget(_) | Self::LargeBusy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
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

impl Bodies {
    /// No bodies yet.
    pub fn new(limits: BodyLimits) -> Self {
        Self {
            limits,
            budget: ByteBudget::new(limits.budget, Share::Half),
            large: Semaphore::new(1),
        }
    }

    /// Reads the body of a request. It waits for the peer and, if the body is large, for a permit; never for the budget.
    ///
    /// # Errors
    /// If the body exceeds a limit or a budget, arrives too slowly, or is incomplete.
    pub async fn read(&self, request: Request) -> Result<RequestBody<'_>, BodyError> {
        let deadline = Instant::now() + self.limits.deadline;
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map_or_else(String::new, |ConnectInfo(peer)| peer.ip().to_string());
        let mut reservation = self.budget.reservation(peer);
        let bytes = IncomingBody::new(body, self.limits, deadline)?
            .read_all(&mut reservation)
            .await?;
        let permit = if bytes.len() > self.limits.large {
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

/// A body that is being received.
struct IncomingBody {
    body: Body,
    limits: BodyLimits,
    started: Instant,
    deadline: Instant,
    /// The content length, if the peer has sent it.
    content_length: Option<usize>,
    received: usize,
}

impl IncomingBody {
    fn new(body: Body, limits: BodyLimits, deadline: Instant) -> Result<Self, BodyError> {
        let content_length = match body.size_hint().exact().map(usize::try_from) {
            Some(Ok(length)) if length <= limits.max_body => Some(length),
            Some(_) => return Err(BodyError::TooLarge(limits.max_body)),
            None => None,
        };
        Ok(Self {
            body,
            limits,
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
        self.reserve(reservation, first.len())?;
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
        self.reserve(reservation, length)?;
        if length > all.capacity() {
            let capacity = self.content_length.unwrap_or_else(|| {
                (2 * all.capacity()).clamp(MIN_BUFFER, self.limits.max_body.max(MIN_BUFFER))
            });
            all.reserve_exact(capacity.max(length) - all.len());
        }
        all.extend_from_slice(chunk);
        Ok(())
    }

    /// Reserves memory for what has arrived, and not for what is announced.
    fn reserve(&self, reservation: &mut Reservation, bytes: usize) -> Result<(), BodyError> {
        let reserved = reservation.grow_to(bytes);
        reserved.map_err(|_| BodyError::Budget(self.limits.budget))
    }

    /// The next chunk, if there is one and it arrives in time.
    async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.body.is_end_stream() {
            return Ok(None);
        }
        let received = u32::try_from(self.received).unwrap_or(u32::MAX);
        let due = self.started
            + self.limits.grace
            + Duration::from_secs(1) * received / self.limits.min_rate.max(1);
        let body = &mut self.body;
        let next = poll_fn(|context| poll_data(body, context));
        let chunk = timeout_at(due.min(self.deadline), next)
            .await
            .map_err(|_| BodyError::Slow {
                grace: self.limits.grace,
                min_rate: self.limits.min_rate,
            })?
            .transpose()
            .map_err(BodyError::Broken)?;
        self.received += chunk.as_ref().map_or(0, Bytes::len);
        if self.received > self.content_length.unwrap_or(self.limits.max_body) {
            return Err(BodyError::TooLarge(self.limits.max_body));
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
