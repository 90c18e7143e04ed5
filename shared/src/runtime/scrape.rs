//! `/metrics`: what a scrape costs is bounded, whoever sends it.

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
use hyper::body::{Frame, SizeHint};
use prometheus::{Registry, TextEncoder};
use tokio::time::timeout;

use super::admin::Expose;
use super::fair::{FairPermit, FairSemaphore};

/// Scrapes at once, until their answers are sent: those of two Prometheus servers. Each can be as large as 10,000 objects make
/// it.
const AT_ONCE: usize = 2;

/// Those of one address, so that a peer that reads slowly does not hold all of them.
const AT_ONCE_OF_ADDRESS: usize = 1;

/// How long a further scrape waits for one of them to end. Prometheus itself gives up after 10 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that the connection is given at a time, so that the answer counts until the peer has read nearly all of it.
const CHUNK: usize = 64 << 10;

/// What a scrape shows.
#[derive(Clone)]
pub struct Exposed {
    registry: Registry,
    more: Arc<[Arc<Expose>]>,
    permits: FairSemaphore<IpAddr>,
}

impl Exposed {
    /// The metrics of a registry, and further ones.
    pub fn new(registry: Registry, more: Vec<Arc<Expose>>) -> Self {
        Self {
            registry,
            more: more.into(),
            permits: FairSemaphore::new(AT_ONCE, AT_ONCE_OF_ADDRESS),
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

/// Answers a scrape.
pub async fn metrics(State(exposed): State<Exposed>, ConnectInfo(peer): ConnectInfo<SocketAddr>) -> Response {
    let Ok(permit) = timeout(PATIENCE, exposed.permits.acquire(peer.ip())).await else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            [(RETRY_AFTER, "5")],
            format!(
                "{AT_ONCE} scrapes are under way already, or {AT_ONCE_OF_ADDRESS} of this address; scrape less often, or \
                 with fewer servers\n"
            ),
        )
            .into_response();
    };
    // Its time grows with the number of objects, so it must not keep a worker from others. The permit goes with it: the
    // thread goes on where the peer is gone.
    let made = tokio::task::spawn_blocking(move || (exposed.text(), permit)).await;
    match made {
        Ok((Ok(text), permit)) => (
            [(CONTENT_TYPE, "text/plain; version=0.0.4")],
            Body::new(Scrape::new(text, permit)),
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

/// An answer, and the permit for it.
struct Scrape {
    rest: Bytes,
    _permit: FairPermit<IpAddr>,
}

impl Scrape {
    fn new(text: String, permit: FairPermit<IpAddr>) -> Self {
        Self {
            rest: text.into(),
            _permit: permit,
        }
    }
}

impl HttpBody for Scrape {
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
    async fn an_address_that_reads_slowly_leaves_room_for_others() {
        let exposed = Exposed::new(Registry::new(), Vec::new());
        let scrape = |peer: u8| metrics(State(exposed.clone()), peer_of(peer));
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
    async fn a_further_scrape_waits_until_an_answer_is_read() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let more: Arc<Expose> = Arc::new(move |text: &mut String| {
            count.fetch_add(1, Ordering::Relaxed);
            text.push_str(&"x".repeat(3 * CHUNK));
        });
        let exposed = Exposed::new(Registry::new(), vec![more]);
        let scrape = |peer: u8| metrics(State(exposed.clone()), peer_of(peer));
        let mut answers = Vec::new();
        for peer in 0..2 {
            answers.push(scrape(peer).await);
        }
        let refused = scrape(9).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(made.load(Ordering::Relaxed), AT_ONCE, "nothing is made for it");

        // A peer that has read a part of its answer still counts.
        let mut slow = answers.pop().unwrap().into_body();
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
