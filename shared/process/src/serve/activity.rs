//! The activity of a connection.
//!
//! Bytes do not count, requests do: a peer that trickles half a header is as idle as a silent one, and one that does not read
//! its response is limited like a slow handler. So one rule covers every way to stall.

use std::convert::Infallible;
use std::net::SocketAddr;
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

use super::limits::Limits;
use crate::lock;

/// The state of one connection, and since when: since the last request started or ended, or since the connection was accepted
/// or its handshake ended.
#[derive(Debug)]
pub(super) struct Activity(Mutex<(ConnectionState, Instant)>);

/// The state of a connection, the least useful first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionState {
    /// No request has arrived yet.
    New,
    /// There was a request, and none is in flight.
    Idle,
    /// A request is in flight.
    Active,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((ConnectionState::New, Instant::now()))))
    }

    /// Records that the handshake has ended.
    pub(super) fn handshake_ended(&self) {
        self.enter(ConnectionState::New);
    }

    /// The state of the connection, and since when.
    pub(super) fn state(&self) -> (ConnectionState, Instant) {
        *lock(&self.0)
    }

    /// When the connection is closed, unless a request starts or ends before.
    pub(super) fn deadline(&self, limits: &Limits) -> Instant {
        let (state, since) = self.state();
        since
            + match state {
                ConnectionState::New => limits.first_request,
                ConnectionState::Idle => limits.idle,
                ConnectionState::Active => limits.request,
            }
    }

    pub(super) fn start_request(self: &Arc<Self>) -> InFlightRequest {
        self.enter(ConnectionState::Active);
        InFlightRequest(Arc::clone(self))
    }

    fn enter(&self, state: ConnectionState) {
        *lock(&self.0) = (state, Instant::now());
    }
}

/// One request, from its header until the body of its response is passed to the protocol or dropped. What the
/// protocol then still has to write is limited by the idle timeout.
#[derive(Debug)]
pub(super) struct InFlightRequest(Arc<Activity>);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.enter(ConnectionState::Idle);
    }
}

/// The peer of one connection, and its requests.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) address: SocketAddr,
    pub(super) activity: Arc<Activity>,
}

/// The application as a hyper service. It counts each request in the activity of the connection, and adds the address of the
/// peer to the request.
pub(super) fn tracked_service(
    app: Router,
    context: &ConnectionContext,
) -> impl Service<Request<Incoming>, Response = Response<TrackedBody>, Error = Infallible, Future: Send + 'static>
+ use<> {
    let app = TowerToHyperService::new(app);
    let context = context.clone();
    service_fn(move |mut request: Request<Incoming>| {
        let in_flight = context.activity.start_request();
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(context.address));
        let response = app.call(request);
        async move {
            response.await.map(|response| {
                response.map(|body| TrackedBody {
                    body,
                    _in_flight: in_flight,
                })
            })
        }
    })
}

/// The body of a response. Its request is in flight until the protocol drops the body.
#[derive(Debug)]
pub(super) struct TrackedBody {
    body: Body,
    _in_flight: InFlightRequest,
}

impl HttpBody for TrackedBody {
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
    async fn the_deadline_depends_on_the_requests() {
        let limits = Limits::default();
        let activity = Activity::new();
        let due_in = || activity.deadline(&limits) - Instant::now();
        assert_eq!(due_in(), limits.first_request);
        advance(Duration::from_secs(4)).await;
        assert_eq!(due_in() + Duration::from_secs(4), limits.first_request);
        let request = activity.start_request();
        assert_eq!(due_in(), limits.request);
        advance(Duration::from_secs(4)).await;
        drop(request);
        assert_eq!(due_in(), limits.idle);
    }
}
