//! What tests of several modules need.

use std::{
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
};

use helmops_process::lock;
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::Value;
use tower::service_fn;

/// A client of an API server, and the requests that this gets.
pub fn server(
    respond: impl Fn(&Method, &str) -> (u16, Value) + Send + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let of_service = Arc::clone(&requests);
    let service = service_fn(move |request: Request<Body>| {
        lock(&of_service).push(format!("{} {}", request.method(), request.uri()));
        let (status, found) = respond(request.method(), request.uri().path());
        let response = Response::builder().status(status);
        let response = response.body(Body::from(found.to_string().into_bytes()));
        ready(Ok::<_, Infallible>(response.unwrap()))
    });
    (helmops_kube::client_of(service, "shop"), requests)
}
