//! When a connection last did something worth its place.
//!
//! Bytes do not count, requests do: a peer that trickles half a header, half an HTTP/2 preface or HTTP/2
//! pings is as idle as one that is silent. So one rule covers every protocol and every way to stall.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;

use super::connection::Caller;
use super::limits::Limits;
use crate::runtime::lock;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Activity(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    under_way: usize,
    phase: Phase,
    /// When a request last began or ended, or the connection was accepted or its handshake ended.
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No request has arrived yet.
    Fresh,
    /// At least one has.
    Used,
}

/// What a connection is good for at the moment, the least useful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It has not sent a request so far.
    Fresh,
    /// It has, and none is under way.
    Idle,
    /// A request is under way.
    Busy,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            under_way: 0,
            phase: Phase::Fresh,
            since: Instant::now(),
        })))
    }

    /// The connection can send its first request from now on.
    pub(super) fn open(&self) {
        lock(&self.0).since = Instant::now();
    }

    /// When the connection has to end unless a request begins or ends before.
    pub(super) fn deadline(&self, limits: &Limits) -> Instant {
        let state = *lock(&self.0);
        state.since
            + match (state.under_way, state.phase) {
                (0, Phase::Fresh) => limits.first_request,
                (0, Phase::Used) => limits.idle,
                (1.., _) => limits.request,
            }
    }

    /// Since when no request is under way; `None` while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = *lock(&self.0);
        (state.under_way == 0).then_some(state.since)
    }

    /// What the connection is good for, and since when.
    pub(super) fn standing(&self) -> (Standing, Instant) {
        let state = *lock(&self.0);
        let standing = match (state.under_way, state.phase) {
            (0, Phase::Fresh) => Standing::Fresh,
            (0, Phase::Used) => Standing::Idle,
            (1.., _) => Standing::Busy,
        };
        (standing, state.since)
    }

    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        let mut state = lock(&self.0);
        state.under_way += 1;
        state.phase = Phase::Used;
        state.since = Instant::now();
        UnderWay(Arc::clone(self))
    }
}

/// One request, from its header until its answer's body has been handed to the protocol or cut off. What the
/// protocol then still has to write is bounded by the idle limit.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = lock(&self.0.0);
        state.under_way -= 1;
        state.since = Instant::now();
    }
}

/// The application as hyper wants it, with each request counted in the caller's activity and carrying the caller's address
/// and byte counter.
pub(super) fn counted(
    app: Router,
    caller: &Caller,
) -> impl Service<Request<Incoming>, Response = Response<CountedBody>, Error = Infallible, Future: Send + 'static>
+ use<> {
    let app = TowerToHyperService::new(app);
    let caller = caller.clone();
    service_fn(move |mut request: Request<Incoming>| {
        let under_way = caller.activity.begin();
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(caller.address));
        extensions.insert(caller.body_bytes.clone());
        let answer = app.call(request);
        async move {
            answer.await.map(|response| {
                response.map(|body| CountedBody {
                    body,
                    _under_way: under_way,
                })
            })
        }
    })
}

/// An answer's body. Its request is under way until the protocol drops the body.
#[derive(Debug)]
pub(super) struct CountedBody {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn the_deadline_follows_the_requests() {
        let limits = Limits::default();
        let activity = Activity::new();
        let due_in = || activity.deadline(&limits) - Instant::now();
        assert_eq!(due_in(), limits.first_request);
        advance(Duration::from_secs(4)).await;
        assert_eq!(due_in() + Duration::from_secs(4), limits.first_request);
        let (first, second) = (activity.begin(), activity.begin());
        assert_eq!((due_in(), activity.idle_since()), (limits.request, None));
        advance(Duration::from_secs(4)).await;
        drop(first);
        assert_eq!((due_in(), activity.idle_since()), (limits.request, None));
        drop(second);
        assert_eq!(
            (due_in(), activity.idle_since()),
            (limits.idle, Some(Instant::now()))
        );
    }
}
