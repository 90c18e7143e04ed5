//! Bodies of answers, read no further than allowed, whatever their headers promise.

use std::{
    io::{self, Read},
    time::Instant,
};

use bytes::{Buf, Bytes};
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use reqwest::{Response, header::CONTENT_ENCODING};
use tokio::sync::mpsc;

use super::fault::Fault;

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

/// Hands a body to a reader on a thread of its own while it arrives. The second value is the number of bytes that came
/// over the wire.
///
/// What is wrong with the body the reader gets as an error, from which [`fault`] has the cause. A reader that ends early
/// ends the transfer, and a transfer that is given up ends the reader; so does the deadline, since a little on the wire
/// can be a lot to read.
pub async fn read<T: Send + 'static>(
    response: Response,
    limits: Limits,
    deadline: Instant,
    reader: impl FnOnce(Box<dyn Read + Send>) -> T + Send + 'static,
) -> (Result<T, Fault>, u64) {
    let is_gzip = match encoding(&response) {
        Ok(is_gzip) => is_gzip,
        Err(fault) => return (Err(fault), 0),
    };
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let reading = tokio::task::spawn_blocking(move || {
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
    let bytes = transfer(response, limits.wire, &sender).await;
    drop(sender);
    let read = reading
        .await
        .map_err(|error| Fault::Answer(format!("reading it failed: {error}")));
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

async fn transfer(response: Response, limit: u64, sender: &mpsc::Sender<Result<Bytes, Fault>>) -> u64 {
    let mut bytes = 0;
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(Fault::of);
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
