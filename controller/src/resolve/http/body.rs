//! Bodies of answers, read no further than allowed, whatever their headers promise.

use std::{
    io::{self, Read},
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use flate2::read::MultiGzDecoder;
use futures::{Stream, StreamExt};
use reqwest::{Response, header::CONTENT_ENCODING};
use tokio::{sync::mpsc, time::timeout};

use super::{fault::Fault, readers::Threads};

/// Chunks on their way from the connection to the reader: enough that neither waits for the other, and little memory.
const CHUNKS: usize = 4;

/// How much of an answer is taken, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// As it comes over the wire.
    pub wire: u64,
    /// After decompression.
    pub decoded: u64,
}

/// The least that a body must bring, so that a server cannot hold a connection and a thread for nothing.
///
/// Only the time is counted in which the server is waited for, so a slow reader is not held against it. A body that is
/// complete within the grace may be as small and as slow as it likes.
#[derive(Clone, Copy, Debug)]
pub struct LeastRate {
    /// The first look, since some servers make the rest of an answer while they send its beginning.
    pub grace: Duration,
    /// Time between two looks after that.
    pub window: Duration,
    /// Bytes that must have come since the last look.
    pub bytes: u64,
}

/// How and until when a body is read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How much is taken.
    pub limits: Limits,
    /// When it must have been read to its end.
    pub deadline: Instant,
    /// How slow it may be before that.
    pub rate: LeastRate,
    /// Where the reader runs.
    pub threads: Threads,
}

/// Hands a body to a reader on a thread of its own while it arrives. The second value is the number of bytes that came
/// over the wire.
///
/// What is wrong with the body the reader gets as an error, from which [`fault`] has the cause. A reader that ends early
/// ends the transfer, and a transfer that is given up ends the reader; so does the deadline, since a little on the wire
/// can be a lot to read.
pub async fn read<T: Send + 'static>(
    response: Response,
    how: Reading,
    reader: impl FnOnce(Box<dyn Read + Send>) -> T + Send + 'static,
) -> (Result<T, Fault>, u64) {
    let is_gzip = match encoding(&response) {
        Ok(is_gzip) => is_gzip,
        Err(fault) => return (Err(fault), 0),
    };
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let Reading {
        limits,
        deadline,
        rate,
        threads,
    } = how;
    let reading = threads.read(move || {
        let chunks = Chunks {
            chunks,
            rest: Bytes::new(),
        };
        let decoded: Box<dyn Read + Send> = if is_gzip {
            Box::new(MultiGzDecoder::new(chunks))
        } else {
            Box::new(chunks)
        };
        reader(Box::new(Capped {
            inner: decoded,
            left: limits.decoded,
            limit: limits.decoded,
            deadline,
        }))
    });
    let bytes = transfer(response, limits.wire, rate, &sender).await;
    drop(sender);
    let read = reading
        .await
        .map_err(|error| Fault::HttpResponse(format!("reading it failed: {error}")));
    (read, bytes)
}

/// What was wrong with a body, for a reader that met an I/O error.
pub fn fault(error: &io::Error) -> Fault {
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>());
    own.cloned().unwrap_or_else(|| match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Encoding("it ends too early".to_owned()),
        _ => Fault::Encoding(error.to_string()),
    })
}

async fn transfer(
    response: Response,
    limit: u64,
    rate: LeastRate,
    sender: &mpsc::Sender<Result<Bytes, Fault>>,
) -> u64 {
    let mut bytes = 0;
    let mut stream = response.bytes_stream();
    let mut pace = Pace::new(rate);
    while let Some(chunk) = pace.next(&mut stream).await {
        bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        let chunk = if bytes > limit {
            Err(Fault::TooLarge {
                limit,
                kind: "on the wire",
            })
        } else {
            chunk
        };
        let is_last = chunk.is_err();
        if sender.send(chunk).await.is_err() || is_last {
            break;
        }
    }
    bytes
}

/// Measures how fast a body comes.
struct Pace {
    rate: LeastRate,
    /// Time to wait for the server until the next look.
    left: Duration,
    /// Since the last look.
    bytes: u64,
}

impl Pace {
    fn new(rate: LeastRate) -> Self {
        Self {
            rate,
            left: rate.grace,
            bytes: 0,
        }
    }

    /// The next chunk, unless the body comes too slowly.
    async fn next(
        &mut self,
        stream: &mut (impl Stream<Item = reqwest::Result<Bytes>> + Unpin),
    ) -> Option<Result<Bytes, Fault>> {
        loop {
            let started = Instant::now();
            if let Ok(chunk) = timeout(self.left, stream.next()).await {
                self.left = self.left.saturating_sub(started.elapsed());
                let chunk = chunk?.map_err(Fault::of);
                self.bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
                return Some(chunk);
            }
            if self.bytes < self.rate.bytes {
                return Some(Err(self.too_slow()));
            }
            self.left = self.rate.window;
            self.bytes = 0;
        }
    }

    fn too_slow(&self) -> Fault {
        Fault::Timeout(format!(
            "the server sends the answer too slowly, {} bytes where {} are the least in {} s",
            self.bytes,
            self.rate.bytes,
            self.rate.window.as_secs()
        ))
    }
}

fn encoding(response: &Response) -> Result<bool, Fault> {
    let Some(value) = response.headers().get(CONTENT_ENCODING) else {
        return Ok(false);
    };
    let is = |name: &str| {
        value
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(name.as_bytes())
    };
    if is("identity") || is("") {
        Ok(false)
    } else if is("gzip") || is("x-gzip") {
        Ok(true)
    } else {
        Err(Fault::Encoding(format!(
            "Content-Encoding {value:?} was not asked for"
        )))
    }
}

/// Chunks as they arrive.
struct Chunks {
    chunks: mpsc::Receiver<Result<Bytes, Fault>>,
    rest: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.rest.has_remaining() {
            match self.chunks.blocking_recv() {
                Some(Ok(chunk)) => self.rest = chunk,
                Some(Err(fault)) => return Err(io::Error::other(fault)),
                None => return Ok(0),
            }
        }
        let taken = self.rest.len().min(buffer.len());
        let (into, _) = buffer.split_at_mut(taken);
        self.rest.copy_to_slice(into);
        Ok(taken)
    }
}

/// A reader that fails where it gives more than allowed, or gives it too late.
struct Capped<R> {
    inner: R,
    left: u64,
    limit: u64,
    deadline: Instant,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if Instant::now() > self.deadline {
            let why = "the answer does not come to its end; it comes too slowly, or unfolds to too much";
            return Err(io::Error::other(Fault::Timeout(why.to_owned())));
        }
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(Fault::TooLarge {
                limit: self.limit,
                kind: "after decompression",
            })
        })?;
        Ok(read)
    }
}
