//! The replies of a server.

use std::{
    fmt::Write,
    iter,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::watch,
    time::sleep,
};

/// The actions after a request, in this order.
pub type Reply = Vec<Action>;

/// One action of a server.
pub enum Action {
    /// Writes these bytes.
    Write(Vec<u8>),
    /// Writes these bytes one by one, with this delay after each.
    Drip(Vec<u8>, Duration),
    /// Writes all of these, which may be endless.
    Pour(Box<dyn Iterator<Item = Vec<u8>> + Send>),
    /// Waits until the test sends `true`.
    Until(watch::Receiver<bool>),
    /// Waits until the client disconnects.
    Stall,
    /// Closes the connection.
    Close,
    /// Drops the connection without a TLS close notification.
    Abort,
}

/// What follows a reply.
pub enum AfterReply {
    /// The next request.
    Next,
    /// Closing the connection.
    Close,
    /// Dropping the connection without a TLS close notification.
    Abort,
}

/// A complete response.
pub fn response(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
    let body = body.into();
    with_content_length(status, headers, body.len() as u64, body)
}

/// A response without a body.
pub fn status(status: u16, headers: &[(&str, &str)]) -> Reply {
    response(status, headers, "")
}

/// A response with this `Content-Length`. If the body has another length, the connection is closed after it.
pub fn with_content_length(
    status: u16,
    headers: &[(&str, &str)],
    length: u64,
    body: impl Into<Vec<u8>>,
) -> Reply {
    let body = body.into();
    let is_complete = length == body.len() as u64;
    // A response to HEAD has a length and no body.
    let length = length.to_string();
    let mut headers = headers.to_vec();
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("Content-Length"))
    {
        headers.push(("Content-Length", &length));
    }
    let mut reply = vec![Action::Write(head(status, &headers)), Action::Write(body)];
    if !is_complete {
        reply.push(Action::Close);
    }
    reply
}

/// An endless response without a length, which repeats these bytes.
pub fn forever(headers: &[(&str, &str)], bytes: impl Into<Vec<u8>>) -> Reply {
    vec![
        Action::Write(head(200, headers)),
        Action::Pour(Box::new(iter::repeat(bytes.into()))),
    ]
}

/// A response that stops in the middle of its body.
pub fn stalling(body: impl Into<Vec<u8>>) -> Reply {
    vec![
        Action::Write(head(200, &[("Content-Length", "100000")])),
        Action::Write(body.into()),
        Action::Stall,
    ]
}

/// A response with these raw chunks.
pub fn chunked(chunks: &str) -> Reply {
    vec![
        Action::Write(head(200, &[("Transfer-Encoding", "chunked")])),
        Action::Write(chunks.as_bytes().to_vec()),
        Action::Close,
    ]
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} \r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Performs the actions of a reply.
///
/// # Errors
/// If the client disconnects before the end.
pub async fn send(
    reply: Reply,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    written: &AtomicU64,
) -> io::Result<AfterReply> {
    let write = async |stream: &mut _, bytes: &[u8]| {
        AsyncWriteExt::write_all(stream, bytes).await?;
        AsyncWriteExt::flush(stream).await?;
        written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        io::Result::Ok(())
    };
    for act in reply {
        match act {
            Action::Write(bytes) => write(stream, &bytes).await?,
            Action::Drip(bytes, pause) => {
                for byte in bytes {
                    write(stream, &[byte]).await?;
                    sleep(pause).await;
                }
            }
            Action::Pour(all) => {
                for bytes in all {
                    write(stream, &bytes).await?;
                }
            }
            Action::Until(mut released) => {
                // This fails if the test has ended.
                let _ = released.wait_for(|released| *released).await;
            }
            Action::Stall => {
                // No more requests arrive on this connection, so this ends when the client disconnects.
                stream.read_u8().await?;
            }
            Action::Close => return Ok(AfterReply::Close),
            Action::Abort => return Ok(AfterReply::Abort),
        }
    }
    Ok(AfterReply::Next)
}
