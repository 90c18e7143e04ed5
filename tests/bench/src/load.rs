//! A closed loop: each stream sends its next request after it has checked the response to the last one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::{Connections, Sender, Target};
use super::corpus::{Sample, UID_PLACEHOLDER};
use super::response::{Expected, ResponseError, check};
use helmops_bed::random;

/// Time for the first responses on a slow machine.
const BASE_TIMEOUT: Duration = Duration::from_secs(10);
/// A tenth of the rate of the slowest webhook that is worth measuring; a slower one hangs.
const TIMEOUT_PER_REQUEST: Duration = Duration::from_millis(10);

/// The called webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Webhook {
    /// The validating webhook.
    Validate,
    /// The mutating webhook.
    Mutate,
}

impl Webhook {
    /// Its name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::Mutate => "mutate",
        }
    }
}

/// One load to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    pub webhook: Webhook,
    /// How many requests are in flight at any time.
    pub streams: u16,
}

/// One webhook of one server, and the requests to it.
#[derive(Debug)]
pub struct Endpoint {
    webhook: Webhook,
    uri: Uri,
    headers: HeaderMap,
    corpus: Arc<[Sample]>,
    /// First group of all uids; different for each endpoint, so that a server cannot cache responses.
    salt: String,
}

impl Endpoint {
    /// The webhook at `path` of a server.
    pub fn new(target: &Target, path: &str, webhook: Webhook, corpus: &Arc<[Sample]>) -> Result<Self> {
        // The API server sends its timeout.
        let path = format!("{path}?timeout=5s");
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
        headers.insert(HOST, format!("127.0.0.1:{}", target.port).parse()?);
        Ok(Self {
            webhook,
            uri: path
                .parse()
                .with_context(|| format!("{path} is not a valid URL path"))?,
            headers,
            corpus: Arc::clone(corpus),
            salt: random::word().chars().take(8).collect(),
        })
    }

    fn sample(&self, number: u64) -> Result<&Sample> {
        let index = usize::try_from(number)?.checked_rem(self.corpus.len());
        index
            .and_then(|index| self.corpus.get(index))
            .context("nothing to send")
    }

    fn uid(&self, number: u64) -> String {
        format!("{}-0000-4000-8000-{number:012x}", self.salt)
    }

    fn request(&self, sample: &Sample, uid: &str, buffer: &mut BytesMut) -> Result<Request<Full<Bytes>>> {
        // The buffer reuses its memory: the previous request has been sent.
        buffer.extend_from_slice(&sample.body);
        let range = sample.uid_at..sample.uid_at + UID_PLACEHOLDER.len();
        buffer
            .get_mut(range)
            .context("a body with a uid")?
            .copy_from_slice(uid.as_bytes());
        let mut request = Request::new(Full::new(buffer.split().freeze()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }

    fn expected<'a>(&self, sample: &Sample, uid: &'a str) -> Expected<'a> {
        match self.webhook {
            Webhook::Validate => Expected {
                uid,
                allowed: sample.allowed,
                patched: false,
            },
            Webhook::Mutate => Expected {
                uid,
                allowed: true,
                patched: sample.patched,
            },
        }
    }
}

/// The result of a number of requests.
#[derive(Debug, Default)]
pub struct LoadResult {
    /// From the first request to the last response.
    pub elapsed: Duration,
    /// From each request to the end of its response, in no order.
    pub latencies: Vec<Duration>,
    pub wrong: u32,
    pub first_error: Option<ResponseError>,
}

impl LoadResult {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.wrong += other.wrong;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// Streams of requests to one webhook, over open connections.
#[derive(Debug)]
pub struct Streams {
    endpoint: Arc<Endpoint>,
    senders: Vec<Sender>,
    /// Number of the next request.
    next: u64,
    _connections: Connections,
}

impl Streams {
    /// Opens the connections.
    pub async fn open(target: &Target, endpoint: Endpoint, streams: u16) -> Result<Self> {
        let mut connections = Connections::default();
        let senders = connections.open(target, streams).await?;
        Ok(Self {
            endpoint: Arc::new(endpoint),
            senders,
            next: 0,
            _connections: connections,
        })
    }

    /// Sends this number of requests, and waits for all responses.
    ///
    /// # Errors
    /// If a response is missing; wrong ones are counted.
    pub async fn drive(&mut self, requests: u32) -> Result<LoadResult> {
        let end = self.next + u64::from(requests);
        let numbers = Arc::new(Numbers {
            next: AtomicU64::new(self.next),
            end,
        });
        self.next = end;
        let started = Instant::now();
        let mut streams = JoinSet::new();
        for sender in self.senders.drain(..) {
            streams.spawn(stream(sender, Arc::clone(&self.endpoint), Arc::clone(&numbers)));
        }
        let mut result = LoadResult::default();
        let all = async {
            while let Some(ended) = streams.join_next().await {
                let (sender, part) = ended??;
                self.senders.push(sender);
                result.add(part);
            }
            anyhow::Ok(())
        };
        let deadline = BASE_TIMEOUT + TIMEOUT_PER_REQUEST * requests;
        let in_time = timeout(deadline, all).await;
        in_time
            .with_context(|| format!("{requests} requests took more than {deadline:?}"))
            .flatten()?;
        result.elapsed = started.elapsed();
        Ok(result)
    }
}

/// The numbers of the requests that are not sent yet, shared by all streams.
#[derive(Debug)]
struct Numbers {
    next: AtomicU64,
    end: u64,
}

impl Numbers {
    fn take(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then_some(number)
    }
}

async fn stream(
    mut sender: Sender,
    endpoint: Arc<Endpoint>,
    numbers: Arc<Numbers>,
) -> Result<(Sender, LoadResult)> {
    let mut result = LoadResult::default();
    let mut buffer = BytesMut::new();
    while let Some(number) = numbers.take() {
        let sample = endpoint.sample(number)?;
        let uid = endpoint.uid(number);
        let request = endpoint.request(sample, &uid, &mut buffer)?;
        sender.ready().await.context("the connection was closed")?;
        let sent = Instant::now();
        let response = sender.send(request).await;
        let latency = sent.elapsed();
        let (status, body) = response.with_context(|| format!("no response to request {number}"))?;
        result.latencies.push(latency);
        if let Err(error) = check(status, &body, endpoint.expected(sample, &uid)) {
            result.wrong += 1;
            result.first_error.get_or_insert(error);
        }
    }
    Ok((sender, result))
}

#[cfg(test)]
mod tests;
