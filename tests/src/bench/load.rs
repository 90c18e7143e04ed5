//! A closed loop: each stream sends its next request when it has its answer, and checks that.

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

use super::answer::{Expected, Wrong, check};
use super::client::{Connections, Protocol, Sender, Target};
use super::corpus::{Sample, UID_MARK};
use crate::random;

/// Time for the first answers of a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// A tenth of the rate of the slowest webhook that is worth measuring; whoever is slower hangs.
const PATIENCE_PER_REQUEST: Duration = Duration::from_millis(10);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Webhook {
    /// Whether a change is allowed.
    Validate,
    /// What is to be filled in.
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

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// How HTTP is spoken.
    pub protocol: Protocol,
    /// What is asked.
    pub webhook: Webhook,
    /// How many requests are in flight at any time.
    pub streams: u16,
}

/// Requests to one webhook of one server.
#[derive(Debug)]
pub struct Question {
    webhook: Webhook,
    uri: Uri,
    headers: HeaderMap,
    corpus: Arc<[Sample]>,
    /// First group of all uids; another for each question, lest a server remember them.
    salt: String,
}

impl Question {
    /// The question to the webhook at `path` of a server.
    pub fn new(target: &Target, path: &str, webhook: Webhook, corpus: &Arc<[Sample]>) -> Result<Self> {
        let host = format!("127.0.0.1:{}", target.port);
        // The API server says how long it will wait.
        let path = format!("{path}?timeout=5s");
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
        let uri = match target.protocol {
            Protocol::Http1 => {
                headers.insert(HOST, host.parse()?);
                path.parse()
            }
            Protocol::Http2 => format!("https://{host}{path}").parse(),
        };
        Ok(Self {
            webhook,
            uri: uri.with_context(|| format!("{path} is no path of a URL"))?,
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
        // The buffer is the same memory each time: the one before has been sent.
        buffer.extend_from_slice(&sample.body);
        let place = sample.uid_at..sample.uid_at + UID_MARK.len();
        buffer
            .get_mut(place)
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

/// What came of a number of requests.
#[derive(Debug, Default)]
pub struct Outcome {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// From each request to the end of its answer, in no order.
    pub latencies: Vec<Duration>,
    /// How many answers were not the right ones.
    pub wrong: u32,
    /// One of these.
    pub first_wrong: Option<Wrong>,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
    }
}

/// Streams of requests to one webhook, over open connections.
#[derive(Debug)]
pub struct Streams {
    question: Arc<Question>,
    senders: Vec<Sender>,
    /// Number of the next request.
    next: u64,
    _connections: Connections,
}

impl Streams {
    /// Opens the connections.
    pub async fn open(target: &Target, question: Question, streams: u16) -> Result<Self> {
        let mut connections = Connections::default();
        let senders = connections.open(target, streams).await?;
        Ok(Self {
            question: Arc::new(question),
            senders,
            next: 0,
            _connections: connections,
        })
    }

    /// Sends so many requests, and waits for all answers.
    ///
    /// # Errors
    /// When an answer does not come at all; wrong ones are counted.
    pub async fn drive(&mut self, requests: u32) -> Result<Outcome> {
        let end = self.next + u64::from(requests);
        let numbers = Arc::new(Numbers {
            next: AtomicU64::new(self.next),
            end,
        });
        self.next = end;
        let began = Instant::now();
        let mut streams = JoinSet::new();
        for sender in self.senders.drain(..) {
            streams.spawn(stream(sender, Arc::clone(&self.question), Arc::clone(&numbers)));
        }
        let mut outcome = Outcome::default();
        let all = async {
            while let Some(ended) = streams.join_next().await {
                let (sender, part) = ended??;
                self.senders.push(sender);
                outcome.add(part);
            }
            anyhow::Ok(())
        };
        let deadline = PATIENCE + PATIENCE_PER_REQUEST * requests;
        let in_time = timeout(deadline, all).await;
        in_time
            .with_context(|| format!("{requests} requests took more than {deadline:?}"))
            .flatten()?;
        outcome.elapsed = began.elapsed();
        Ok(outcome)
    }
}

/// The numbers of the requests that are still to be sent; streams take them as they can.
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
    question: Arc<Question>,
    numbers: Arc<Numbers>,
) -> Result<(Sender, Outcome)> {
    let mut outcome = Outcome::default();
    let mut buffer = BytesMut::new();
    while let Some(number) = numbers.take() {
        let sample = question.sample(number)?;
        let uid = question.uid(number);
        let request = question.request(sample, &uid, &mut buffer)?;
        sender.ready().await.context("the connection was closed")?;
        let sent = Instant::now();
        let answer = sender.send(request).await;
        let latency = sent.elapsed();
        let (status, body) = answer.with_context(|| format!("no answer to request {number}"))?;
        outcome.latencies.push(latency);
        if let Err(wrong) = check(status, &body, question.expected(sample, &uid)) {
            outcome.wrong += 1;
            outcome.first_wrong.get_or_insert(wrong);
        }
    }
    Ok((sender, outcome))
}

#[cfg(test)]
mod tests;
