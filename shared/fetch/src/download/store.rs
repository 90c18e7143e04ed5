//! Passes an archive to its output, and computes its digest.

use std::io::{self, Read, Write};

use helmops_model::chart::digest::HashingWriter;

use super::error::{DigestMismatch, DownloadError, Origin};
use crate::http::{CHUNK, FetchErrorKind, HttpResponse, read_error};

/// A stored archive.
#[derive(Debug)]
pub struct Stored<W> {
    /// The output.
    pub output: W,
    /// SHA-256 of the archive, in hexadecimal digits.
    pub sha256: String,
    /// The size of the archive in bytes.
    pub bytes: u64,
}

/// A digest that the archive must have, and who requires it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Required {
    /// SHA-256 in hexadecimal digits, in lower case.
    pub sha256: String,
    /// The source of the required digest.
    pub origin: Origin,
}

/// SHA-256 in hexadecimal digits, if a digest of an index is that: Helm's own indexes have it, others have any text.
pub fn sha256_of(digest: &str) -> Option<String> {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    let is_sha256 = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sha256.then(|| digits.to_ascii_lowercase())
}

/// Reads a response to its output, and compares the digest. `url` is for messages.
pub async fn store<W: Write + Send + 'static>(
    response: HttpResponse,
    url: &str,
    limit: u64,
    required: &[Required],
    output: W,
) -> Result<Stored<W>, DownloadError> {
    let stored = response
        .read_raw(limit, move |body| copy(body, output))
        .await
        .map_err(DownloadError::Fetch)?
        .map_err(DownloadError::Write)?;
    check(required, &stored.sha256, url)?;
    Ok(stored)
}

/// Compares a digest with those that are required.
fn check(required: &[Required], actual: &str, url: &str) -> Result<(), DigestMismatch> {
    match required.iter().find(|required| required.sha256 != actual) {
        None => Ok(()),
        Some(required) => Err(DigestMismatch {
            url: url.to_owned(),
            origin: required.origin,
            expected: required.sha256.clone(),
            actual: actual.to_owned(),
        }),
    }
}

/// Errors of the body are those of the request, and errors of the output the inner ones.
fn copy<W: Write>(mut body: impl Read, output: W) -> Result<Result<Stored<W>, io::Error>, FetchErrorKind> {
    let mut output = HashingWriter::new(output);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = body.read(&mut chunk).map_err(|error| read_error(&error))?;
        let Some(read) = chunk.get(..count).filter(|read| !read.is_empty()) else {
            break;
        };
        if let Err(error) = output.write_all(read) {
            return Ok(Err(error));
        }
    }
    Ok(output.finish().map(|(output, sha256, bytes)| Stored {
        output,
        sha256,
        bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sha256_is_compared() {
        let digits = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789";
        let lower = Some(digits.to_ascii_lowercase());
        assert_eq!(sha256_of(digits), lower);
        assert_eq!(sha256_of(&format!("sha256:{digits}")), lower);
        for other in [
            "",
            "5f3b",
            &digits.repeat(2),
            &digits.replace('a', "g"),
            "sha512:ab",
        ] {
            assert_eq!(sha256_of(other), None, "{other}");
        }
    }
}
