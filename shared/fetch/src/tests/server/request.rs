//! The head of a request, and its body.

use std::time::Instant;

use tokio::io::{self, AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 0x16;

/// The head of a request, as received.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The number of requests before this one.
    pub nth: usize,
    /// When it was received.
    pub at: Instant,
    /// Its body.
    pub body: Vec<u8>,
    headers: Vec<(String, Vec<u8>)>,
}

impl RequestHead {
    /// Method and target.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// The value of a header, byte by byte. It must not occur twice.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let mut values = self
            .headers
            .iter()
            .filter(|(header, _)| header.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_slice());
        assert!(values.next().is_none(), "{name} occurs twice: {self:?}");
        value
    }

    /// The value of a header as text, empty if it is missing.
    pub fn text(&self, name: &str) -> &str {
        std::str::from_utf8(self.header(name).unwrap_or_default()).unwrap()
    }

    /// Whether it requests a token, from the URL of [`super::super::responses::token_challenge`].
    pub fn is_for_token(&self) -> bool {
        self.target.starts_with("/token")
    }

    /// The header `Host`.
    pub fn host(&self) -> &str {
        self.text("Host")
    }
}

/// Reads a head; `None` if the connection ends instead.
///
/// # Errors
/// `InvalidData` if the client starts a TLS handshake.
pub async fn read(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<RequestHead>> {
    match stream.fill_buf().await?.first() {
        None => return Ok(None),
        Some(&HANDSHAKE) => return Err(io::ErrorKind::InvalidData.into()),
        Some(_) => {}
    }
    let first = line(stream).await?;
    let first = String::from_utf8_lossy(&first).into_owned();
    let mut expected = first.split(' ').map(str::to_owned);
    let (method, target) = (
        expected.next().unwrap_or_default(),
        expected.next().unwrap_or_default(),
    );
    let mut headers = Vec::new();
    loop {
        let line = line(stream).await?;
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        headers.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
    }
    let mut head = RequestHead {
        method,
        target,
        nth: 0,
        at: Instant::now(),
        body: Vec::new(),
        headers,
    };
    if let Ok(length) = head.text("Content-Length").parse() {
        head.body = vec![0; length];
        stream.read_exact(&mut head.body).await?;
    }
    Ok(Some(head))
}

async fn line(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).await?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(line.to_vec()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
