//! `/metrics`, with a limit on concurrent scrapes.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{ConnectInfo, State},
    http::{
        StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use helmops_fair::{FairPermit, FairSemaphore};
use hyper::body::{Frame, SizeHint};
use prometheus::{Registry, TextEncoder};
use tokio::time::timeout;

/// Concurrent scrapes, counted until their responses are sent: enough for two Prometheus servers. A response can have the
/// metrics of 10,000 objects.
const MAX_SCRAPES: usize = 2;

/// Concurrent scrapes of one address, so that a client that reads slowly does not use all of them.
const MAX_SCRAPES_PER_ADDRESS: usize = 1;

/// How long a further scrape waits for a permit. Prometheus aborts a scrape after 10 s.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that are passed to the connection at a time, so that the permit is held until the client has read nearly all of the
/// response.
const CHUNK: usize = 64 << 10;

/// Writes further metrics in the text format of Prometheus during a scrape: for metrics whose number grows with the number of
/// objects, so that they are not stored twice.
pub type MetricsWriter = dyn Fn(&mut String) + Send + Sync;

/// The sources of the metrics, and the permits for scrapes.
#[derive(Clone)]
pub struct MetricsState {
    registry: Registry,
    more: Arc<[Arc<MetricsWriter>]>,
    permits: FairSemaphore<IpAddr>,
}

impl MetricsState {
    /// Serves the metrics of a registry, and further ones.
    pub fn new(registry: Registry, more: Vec<Arc<MetricsWriter>>) -> Self {
        Self {
            registry,
            more: more.into(),
            permits: FairSemaphore::new(MAX_SCRAPES, MAX_SCRAPES_PER_ADDRESS),
        }
    }

    fn text(&self) -> Result<String, prometheus::Error> {
        let mut text = TextEncoder::new().encode_to_string(&self.registry.gather())?;
        for expose in self.more.iter() {
            expose(&mut text);
        }
        Ok(text)
    }
}

/// Serves a scrape.
pub async fn metrics(
    State(state): State<MetricsState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> Response {
    let Ok(permit) = timeout(QUEUE_TIMEOUT, state.permits.acquire(peer.ip())).await else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            [(RETRY_AFTER, "5")],
            format!(
                "{MAX_SCRAPES} scrapes are already in progress, or {MAX_SCRAPES_PER_ADDRESS} from this address; scrape less \
                 often, or with fewer servers\n"
            ),
        )
            .into_response();
    };
    // Encoding takes longer the more objects there are, so it must not block a worker of the runtime. The permit moves into the
    // blocking thread, which continues if the client disconnects.
    let encoded = tokio::task::spawn_blocking(move || (state.text(), permit)).await;
    match encoded {
        Ok((Ok(text), permit)) => (
            [(CONTENT_TYPE, "text/plain; version=0.0.4")],
            Body::new(ScrapeBody::new(text, permit)),
        )
            .into_response(),
        Ok((Err(error), _)) => failed(&error),
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> Response {
    (
        StatusCode::INTERNAL_SERVER_ERROR,
        format!("cannot encode the metrics: {error}\n"),
    )
        .into_response()
}

/// The body of a response, which holds the permit.
struct ScrapeBody {
    rest: Bytes,
    _permit: FairPermit<IpAddr>,
}

impl ScrapeBody {
    fn new(text: String, permit: FairPermit<IpAddr>) -> Self {
        Self {
            rest: text.into(),
            _permit: permit,
        }
    }
}

impl HttpBody for ScrapeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.rest.len().min(CHUNK);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt;
    use tokio::{task::JoinSet, time::Instant};

    use super::*;

    fn peer_of(last: u8) -> ConnectInfo<SocketAddr> {
        ConnectInfo(SocketAddr::from(([10, 0, 0, last], 1)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_reads_slowly_does_not_block_others() {
        let state = MetricsState::new(Registry::new(), Vec::new());
        let scrape = |peer: u8| metrics(State(state.clone()), peer_of(peer));
        let unread = scrape(1).await;
        let mut further: JoinSet<_> = (0..10).map(|_| scrape(1)).collect();
        let start = Instant::now();
        assert_eq!(scrape(2).await.status(), StatusCode::OK);
        assert_eq!(start.elapsed(), Duration::ZERO);
        while let Some(response) = further.join_next().await {
            assert_eq!(response.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        drop(unread);
        assert_eq!(scrape(1).await.status(), StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_further_scrape_waits_until_a_response_is_read() {
        let encoded = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&encoded);
        let more: Arc<MetricsWriter> = Arc::new(move |text: &mut String| {
            count.fetch_add(1, Ordering::Relaxed);
            text.push_str(&"x".repeat(3 * CHUNK));
        });
        let state = MetricsState::new(Registry::new(), vec![more]);
        let scrape = |peer: u8| metrics(State(state.clone()), peer_of(peer));
        let mut responses = Vec::new();
        for peer in 0..2 {
            responses.push(scrape(peer).await);
        }
        let rejected = scrape(9).await;
        assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            encoded.load(Ordering::Relaxed),
            MAX_SCRAPES,
            "nothing is encoded for it"
        );

        // A client that has read a part of its response still holds its permit.
        let mut slow = responses.pop().unwrap().into_body();
        assert_eq!(
            slow.frame().await.unwrap().unwrap().into_data().unwrap().len(),
            CHUNK
        );
        assert_eq!(scrape(9).await.status(), StatusCode::SERVICE_UNAVAILABLE);

        let (read, waiting) = tokio::join!(slow.collect(), scrape(9));
        assert_eq!(read.unwrap().to_bytes().len(), 2 * CHUNK);
        assert_eq!(waiting.status(), StatusCode::OK);
    }
}
