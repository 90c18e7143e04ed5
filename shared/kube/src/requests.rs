//! Requests whose path is one of the API: a layer of every client.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Request;
use percent_encoding::percent_decode_str;
use thiserror::Error;
use tower::{BoxError, Layer, Service};

/// The layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoundedRequests;

/// A client whose requests are bounded.
#[derive(Clone, Debug)]
pub struct Bounded<S>(S);

/// A request is not sent: a server would take its path for another one.
#[derive(Debug, Error)]
#[error("the request is not sent, because `.` or `..` is no name of an object or a namespace: {path}")]
struct DotSegment {
    path: String,
}

impl<S> Layer<S> for BoundedRequests {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded(inner)
    }
}

impl<S, B> Service<Request<B>> for Bounded<S>
where
    S: Service<Request<B>, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if let Some(path) = dot_segment(request.uri().path()) {
            return Box::pin(async { Err(DotSegment { path }.into()) });
        }
        let call = self.0.call(request);
        Box::pin(async move { call.await.map_err(Into::into) })
    }
}

/// The path, if a segment of it refers to another path.
fn dot_segment(path: &str) -> Option<String> {
    let mut segments = path
        .split('/')
        .map(|segment| percent_decode_str(segment).collect::<Vec<_>>());
    let is_dot = |segment: Vec<u8>| matches!(&*segment, b"." | b"..");
    segments.any(is_dot).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test]
    async fn a_path_that_a_server_would_change_is_not_sent() {
        let server = service_fn(|_: Request<()>| async { Ok::<_, BoxError>(()) });
        let client = BoundedRequests.layer(server);
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
}
