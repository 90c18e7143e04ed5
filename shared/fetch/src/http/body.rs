//! Response bodies, read only up to their limits, regardless of their headers.

use std::{
    io::{self, Read},
    time::Instant,
};

use bytes::{Buf, Bytes};
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use reqwest::{Response, header::CONTENT_ENCODING};
use tokio::sync::mpsc;

use super::{error::FetchErrorKind, readers::Threads};

/// Size of the chunks in which readers read a body, in bytes.
pub const CHUNK: usize = 16 << 10;

/// Chunks buffered between the connection and the reader: enough that neither waits for the other, with little memory.
const CHUNKS: usize = 4;

/// Size limits of a response, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// As received, before decompression.
    pub wire: u64,
    /// After decompression.
    pub decoded: u64,
}

/// How a body is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The size limits.
    pub limits: Limits,
    /// Pass the body as received, whatever its `Content-Encoding` is.
    pub is_raw: bool,
    /// When it must have been read completely.
    pub deadline: Instant,
    /// The threads for the reader.
    pub threads: Threads,
}

/// Passes a body to a reader on a separate thread while it arrives. The second value is the number of bytes received.
///
/// The reader gets errors of the body as I/O errors, from which [`read_error`] takes the cause. A reader that returns early
/// ends the transfer, and a cancelled transfer ends the reader. The deadline ends it too, because a few received bytes can
/// decompress to many.
pub async fn read<T: Send + 'static>(
    response: Response,
    options: ReadOptions,
    reader: impl FnOnce(Box<dyn Read + Send>) -> T + Send + 'static,
) -> (Result<T, FetchErrorKind>, u64) {
    let is_gzip = match encoding(&response) {
        _ if options.is_raw => false,
        Ok(is_gzip) => is_gzip,
        Err(kind) => return (Err(kind), 0),
    };
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let ReadOptions {
        limits,
        deadline,
        threads,
        ..
    } = options;
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
        reader(Box::new(LimitedReader {
            inner: decoded,
            remaining: limits.decoded,
            limit: limits.decoded,
            deadline,
        }))
    });
    let bytes = transfer(response, limits.wire, &sender).await;
    drop(sender);
    let read = reading
        .await
        .map_err(|error| FetchErrorKind::InvalidResponse(format!("the reader failed: {error}")));
    (read, bytes)
}

/// The error of a body, for a reader that got an I/O error.
pub fn read_error(error: &io::Error) -> FetchErrorKind {
    let own = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<FetchErrorKind>());
    own.cloned().unwrap_or_else(|| match error.kind() {
        io::ErrorKind::UnexpectedEof => FetchErrorKind::Encoding("it ends too early".to_owned()),
        _ => FetchErrorKind::Encoding(error.to_string()),
    })
}

async fn transfer(
    response: Response,
    limit: u64,
    sender: &mpsc::Sender<Result<Bytes, FetchErrorKind>>,
) -> u64 {
    let mut bytes = 0;
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(FetchErrorKind::from_reqwest);
        bytes += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        let chunk = if bytes > limit {
            Err(FetchErrorKind::TooLarge {
                limit,
                measured: "on the wire",
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

fn encoding(response: &Response) -> Result<bool, FetchErrorKind> {
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
        Err(FetchErrorKind::Encoding(format!(
            "Content-Encoding {value:?} was not requested"
        )))
    }
}

/// Chunks as they arrive.
struct Chunks {
    chunks: mpsc::Receiver<Result<Bytes, FetchErrorKind>>,
    rest: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.rest.has_remaining() {
            match self.chunks.blocking_recv() {
                Some(Ok(chunk)) => self.rest = chunk,
                Some(Err(kind)) => return Err(io::Error::other(kind)),
                None => return Ok(0),
            }
        }
        let count = self.rest.len().min(buffer.len());
        let (into, _) = buffer.split_at_mut(count);
        self.rest.copy_to_slice(into);
        Ok(count)
    }
}

/// A reader that fails above the size limit and after the deadline.
struct LimitedReader<R> {
    inner: R,
    remaining: u64,
    limit: u64,
    deadline: Instant,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if Instant::now() > self.deadline {
            let message =
                "the response is not complete in time; it arrives too slowly, or decompresses to too much";
            return Err(io::Error::other(FetchErrorKind::Timeout(message.to_owned())));
        }
        self.remaining = self.remaining.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(FetchErrorKind::TooLarge {
                limit: self.limit,
                measured: "after decompression",
            })
        })?;
        Ok(read)
    }
}
