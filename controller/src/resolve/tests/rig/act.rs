//! What a server does about a request.

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

/// Everything that is done about a request, in this order.
pub type Reply = Vec<Act>;

/// One thing that a server does.
pub enum Act {
    /// Writes these bytes.
    Write(Vec<u8>),
    /// Writes these bytes one by one, so far apart.
    Drip(Vec<u8>, Duration),
    /// Writes all of these, which may never end.
    Pour(Box<dyn Iterator<Item = Vec<u8>> + Send>),
    /// Does nothing until the test says so.
    Until(watch::Receiver<bool>),
    /// Does nothing for ever.
    Stall,
    /// Ends the connection.
    Close,
    /// Ends the connection without a farewell, as a cut line would.
    Cut,
}

/// What comes after a reply.
pub enum Then {
    /// The next request.
    Next,
    /// The end, with a farewell.
    Close,
    /// The end, without one.
    Cut,
}

/// A complete and honest answer.
pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
    let body = body.into();
    promising(status, headers, body.len() as u64, body)
}

/// An answer without a body.
pub fn status(status: u16, headers: &[(&str, &str)]) -> Reply {
    answer(status, headers, "")
}

/// An answer that claims another length than it has; the connection ends behind it.
pub fn promising(status: u16, headers: &[(&str, &str)], length: u64, body: impl Into<Vec<u8>>) -> Reply {
    let body = body.into();
    let is_honest = length == body.len() as u64;
    // To a request for the head alone no body is an honest answer.
    let length = length.to_string();
    let mut headers = headers.to_vec();
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("Content-Length"))
    {
        headers.push(("Content-Length", &length));
    }
    let mut reply = vec![Act::Write(head(status, &headers)), Act::Write(body)];
    if !is_honest {
        reply.push(Act::Close);
    }
    reply
}

/// An answer of no length told that goes on with these bytes over and over.
pub fn forever(headers: &[(&str, &str)], bytes: impl Into<Vec<u8>>) -> Reply {
    vec![
        Act::Write(head(200, headers)),
        Act::Pour(Box::new(iter::repeat(bytes.into()))),
    ]
}

/// An answer that stops in the middle of its body.
pub fn stalling(body: impl Into<Vec<u8>>) -> Reply {
    vec![
        Act::Write(head(200, &[("Content-Length", "100000")])),
        Act::Write(body.into()),
        Act::Stall,
    ]
}

/// An answer in chunks, sent as they stand here.
pub fn chunked(chunks: &str) -> Reply {
    vec![
        Act::Write(head(200, &[("Transfer-Encoding", "chunked")])),
        Act::Write(chunks.as_bytes().to_vec()),
        Act::Close,
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

/// Does it all.
///
/// # Errors
/// Where the peer goes away before.
pub async fn perform(
    reply: Reply,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    written: &AtomicU64,
) -> io::Result<Then> {
    let write = async |stream: &mut _, bytes: &[u8]| {
        AsyncWriteExt::write_all(stream, bytes).await?;
        AsyncWriteExt::flush(stream).await?;
        written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        io::Result::Ok(())
    };
    for act in reply {
        match act {
            Act::Write(bytes) => write(stream, &bytes).await?,
            Act::Drip(bytes, pause) => {
                for byte in bytes {
                    write(stream, &[byte]).await?;
                    sleep(pause).await;
                }
            }
            Act::Pour(all) => {
                for bytes in all {
                    write(stream, &bytes).await?;
                }
            }
            Act::Until(mut told) => {
                // Where the test has ended there is nobody left to tell.
                let _ = told.wait_for(|told| *told).await;
            }
            Act::Stall => {
                // Nothing more is asked on this connection, so this ends when the peer gives up.
                stream.read_u8().await?;
            }
            Act::Close => return Ok(Then::Close),
            Act::Cut => return Ok(Then::Cut),
        }
    }
    Ok(Then::Next)
}
