//! Responses of the API server that always decode: a layer of every client.
//!
//! Everyone who may write an object in some namespace can nest its `managedFields`, or a custom resource, deeper than decoders accept. One
//! such object would make a list of all namespaces fail. So values that are nested too deeply become null, and `managedFields`,
//! often the largest part of an object, are removed unless a client wants them ([`with_managers`]).

mod filter;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header::CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};
use kube::Client;
use tower::{BoxError, Layer, Service, service_fn};

use self::filter::Filter;

/// The layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoundedResponses;

/// A client whose responses are bounded.
#[derive(Clone, Debug)]
pub struct Bounded<S>(S);

/// A mark of requests whose response keeps `managedFields`.
#[derive(Clone, Copy, Debug)]
struct KeepManagers;

/// The same client, whose objects have `metadata.managedFields`. What it reads decodes only if they do: use a type that decodes
/// item by item, or read one object.
pub fn with_managers(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = service_fn(move |mut request: Request<_>| {
        let client = client.clone();
        request.extensions_mut().insert(KeepManagers);
        async move { client.send(request).await }
    });
    client_of(service, namespace)
}

/// A client whose requests a service answers: another client, or in tests what stands for an API server. Nothing is bounded in addition.
#[expect(clippy::disallowed_methods, reason = "no connection to an API server")]
pub fn client_of<S, B>(service: S, default_namespace: impl Into<String>) -> Client
where
    S: Service<Request<kube::client::Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
        + Send
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    Client::new(service, default_namespace)
}

impl<S> Layer<S> for BoundedResponses {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded(inner)
    }
}

impl<S, B, R> Service<Request<B>> for Bounded<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = Response<BoundedBody<R>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let keeps_managers = request.extensions().get::<KeepManagers>().is_some();
        let call = self.0.call(request);
        Box::pin(async move {
            let response = call.await.map_err(Into::into)?;
            let filter = is_json(response.headers()).then(|| Filter::new(keeps_managers));
            Ok(response.map(|body| BoundedBody { body, filter }))
        })
    }
}

/// Logs of pods are text.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|content_type| content_type.starts_with("application/json"))
}

/// A response of which each part is filtered.
#[derive(Debug)]
pub struct BoundedBody<B> {
    body: B,
    filter: Option<Filter>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for BoundedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(filter) = &mut self.filter else {
            return Poll::Ready(frame);
        };
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| frame.map_data(|part| filter.changed(&part).map_or(part, Into::into)))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.filter.is_some() {
            SizeHint::default()
        } else {
            self.body.size_hint()
        }
    }
}
