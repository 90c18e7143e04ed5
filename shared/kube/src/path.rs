//! Names in the paths of requests.

use std::borrow::Cow;

use http::Request;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use thiserror::Error;

/// All bytes that a path cannot contain, or that a server could take for a part of its syntax. Names of RBAC often have a colon.
const ENCODED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A name as a segment of a path. The client puts names into paths as they are, and some kinds, such as those of RBAC, accept nearly every
/// text as a name. Others come from users, who expect "not found" and no error about a URL.
pub fn path_segment(name: &str) -> Cow<'_, str> {
    utf8_percent_encode(name, &ENCODED).into()
}

/// A request is not sent: a server would take its path for another one.
#[derive(Debug, Error)]
#[error("the request is not sent, because `.` or `..` is no name of an object or a namespace: {path}")]
pub struct DotSegment {
    path: String,
}

/// A request without a segment in its path that refers to another path.
///
/// # Errors
/// If there is one: such a name needs no encoding, and no object has it.
pub fn without_dot_segments<B>(request: Request<B>) -> Result<Request<B>, DotSegment> {
    let path = request.uri().path();
    let mut segments = path
        .split('/')
        .map(|segment| percent_decode_str(segment).collect::<Vec<_>>());
    if segments.any(|segment| matches!(&*segment, b"." | b"..")) {
        let path = path.to_owned();
        return Err(DotSegment { path });
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use tower::{BoxError, Layer, ServiceExt, filter::FilterLayer, service_fn};

    use super::*;

    #[test]
    fn every_name_is_one_segment() {
        for (name, expected) in [
            ("web-1.example.com", "web-1.example.com"),
            ("system:team_a~b", "system:team_a~b"),
            ("team one", "team%20one"),
            ("a/../b?c#d%20", "a%2F..%2Fb%3Fc%23d%2520"),
            ("ü\n", "%C3%BC%0A"),
            ("", ""),
        ] {
            assert_eq!(path_segment(name), expected, "{name:?}");
        }
    }

    #[tokio::test]
    async fn a_path_that_a_server_would_change_is_not_sent() {
        let server = service_fn(|_: Request<()>| async { Ok::<_, BoxError>(()) });
        let client = FilterLayer::new(without_dot_segments).layer(server);
        for (path, is_sent) in [
            ("/api/v1/namespaces/web/secrets", true),
            ("/api/v1/namespaces/a..b/secrets/.hidden", true),
            ("/api/v1/namespaces/../secrets", false),
            ("/api/v1/namespaces/%2E%2e/secrets", false),
            ("/api/v1/namespaces/web/secrets/.", false),
        ] {
            let request = Request::get(format!("https://api.test{path}"));
            let sent = client.clone().oneshot(request.body(()).unwrap()).await;
            assert_eq!(sent.is_ok(), is_sent, "{path}");
        }
    }

    #[test]
    fn a_name_that_needs_no_encoding_is_not_copied() {
        assert!(matches!(path_segment("web"), Cow::Borrowed("web")));
    }
}
