//! `/metrics`: what a scrape costs is bounded, whoever sends it.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::State,
    http::{
        StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};
use prometheus::{Registry, TextEncoder};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::admin::Expose;

/// Scrapes at once, until their answers are sent: those of two Prometheus servers. Each can be as large as 10,000 objects make
/// it.
const AT_ONCE: usize = 2;

/// How long a further scrape waits for one of them to end. Prometheus itself gives up after 10 s.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that the connection is given at a time, so that the answer counts until the peer has read nearly all of it.
const CHUNK: usize = 64 << 10;

/// What a scrape shows.
#[derive(Clone)]
pub struct Exposed {
    registry: Registry,
    more: Arc<[Arc<Expose>]>,
    permits: Arc<Semaphore>,
}

impl Exposed {
    /// The metrics of a registry, and further ones.
    pub fn new(registry: Registry, more: Vec<Arc<Expose>>) -> Self {
        Self {
            registry,
            more: more.into(),
            permits: Arc::new(Semaphore::new(AT_ONCE)),
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
pub async fn metrics(State(exposed): State<Exposed>) -> Response {
    let permit = timeout(PATIENCE, Arc::clone(&exposed.permits).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            [(RETRY_AFTER, "5")],
            format!("{AT_ONCE} scrapes are under way already; scrape less often, or with fewer servers\n"),
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
    _permit: OwnedSemaphorePermit,
}

impl Scrape {
    fn new(text: String, permit: OwnedSemaphorePermit) -> Self {
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

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_further_scrape_waits_until_an_answer_is_read() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let more: Arc<Expose> = Arc::new(move |text: &mut String| {
            count.fetch_add(1, Ordering::Relaxed);
            text.push_str(&"x".repeat(3 * CHUNK));
        });
        let exposed = Exposed::new(Registry::new(), vec![more]);
        let scrape = || metrics(State(exposed.clone()));
        let mut answers = Vec::new();
        for _ in 0..AT_ONCE {
            answers.push(scrape().await);
        }
        let refused = scrape().await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(made.load(Ordering::Relaxed), AT_ONCE, "nothing is made for it");

        // A peer that has read a part of its answer still counts.
        let mut slow = answers.pop().unwrap().into_body();
        assert_eq!(
            slow.frame().await.unwrap().unwrap().into_data().unwrap().len(),
            CHUNK
        );
        assert_eq!(scrape().await.status(), StatusCode::SERVICE_UNAVAILABLE);

        let (read, waiting) = tokio::join!(slow.collect(), scrape());
        assert_eq!(read.unwrap().to_bytes().len(), 2 * CHUNK);
        assert_eq!(waiting.status(), StatusCode::OK);
    }
}
