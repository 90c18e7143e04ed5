//! What goes over a channel of SSH: requests of a thread that reads the responses.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use russh::{Channel, ChannelMsg, client::Msg};
use tokio::sync::mpsc;

use super::{ReadFailure, with_stderr};
use crate::http::{FetchErrorKind, Threads};

/// Messages that are buffered between the connection and the thread.
const CHUNKS: usize = 4;
/// What is kept of the messages for a person, in bytes.
const STDERR: usize = 512;

/// The responses, and a way to send requests, for a thread.
pub struct Exchange {
    chunks: mpsc::Receiver<Bytes>,
    rest: Bytes,
    requests: mpsc::Sender<Vec<u8>>,
    remaining: u64,
    limit: u64,
}

impl Exchange {
    /// Sends a request.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn send(&self, request: Vec<u8>) -> io::Result<()> {
        let sent = self.requests.blocking_send(request);
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends no request. If the connection is gone, that is fine, too.
    pub fn end(&self) {
        let _ = self.send(b"0000".to_vec());
    }
}

impl Read for Exchange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.rest.has_remaining() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.rest = chunk,
                None => return Ok(0),
            }
        }
        let count = self.rest.len().min(buffer.len());
        let too_large = || FetchErrorKind::TooLarge {
            limit: self.limit,
            measured: "over SSH",
        };
        self.remaining = self
            .remaining
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(too_large()))?;
        let (into, _) = buffer.split_at_mut(count);
        self.rest.copy_to_slice(into);
        Ok(count)
    }
}

/// Runs `work` on a thread with what arrives on a channel. It ends when this is dropped.
pub async fn run<T: Send + 'static>(
    channel: &mut Channel<Msg>,
    threads: &Threads,
    limit: u64,
    bytes: &mut u64,
    work: impl FnOnce(&mut Exchange) -> Result<T, ReadFailure> + Send + 'static,
) -> Result<T, ReadFailure> {
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let (requests, mut outgoing) = mpsc::channel::<Vec<u8>>(1);
    let mut sender = Some(sender);
    let mut stderr = Vec::new();
    let mut exchange = Exchange {
        chunks,
        rest: Bytes::new(),
        requests,
        remaining: limit,
        limit,
    };
    let mut working = threads.read(move || work(&mut exchange));
    let done = loop {
        tokio::select! {
            done = &mut working => break done,
            Some(request) = outgoing.recv() => {
                // A failed write shows in what is read.
                let _ = channel.data_bytes(request).await;
            }
            message = channel.wait(), if sender.is_some() => match message {
                Some(ChannelMsg::Data { data }) => {
                    *bytes += data.len() as u64;
                    if let Some(sender) = &sender {
                        // It fails if the thread needs no more.
                        let _ = sender.send(data).await;
                    }
                }
                Some(ChannelMsg::ExtendedData { data, .. }) => {
                    let room = STDERR.saturating_sub(stderr.len());
                    stderr.extend(data.iter().take(room));
                }
                Some(ChannelMsg::Eof | ChannelMsg::Failure) | None => sender = None,
                Some(_) => {}
            },
        }
    };
    let done = done.map_err(|error| io::Error::other(format!("the reader failed: {error}")))?;
    done.map_err(|failure| with_stderr(failure, &stderr))
}
