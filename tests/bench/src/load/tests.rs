//! Tests against a server that knows the corpus, and sends wrong responses on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use axum::body::Bytes;
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::corpus::corpus;
use helmops_bed::private_ca::PrivateCa;

/// What the server received.
#[derive(Debug, Default)]
struct Received {
    uids: BTreeSet<String>,
    connections: usize,
}

struct TestServer {
    port: u16,
    ca: String,
    received: Arc<Mutex<Received>>,
    _tasks: JoinSet<()>,
}

impl TestServer {
    /// Sends the expected responses, after `modify` has changed their field `response`.
    async fn start(webhook: Webhook, modify: fn(usize, &mut Value)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(Received::default()));
        let ca = PrivateCa::new("test server").unwrap();
        let tls = acceptor(&ca);
        let names: BTreeMap<String, Sample> = corpus()
            .unwrap()
            .iter()
            .map(|sample| (name(&sample.body), sample.clone()))
            .collect();
        let recorded = Arc::clone(&received);
        let handler = move |body: Bytes| async move {
            let review: Value = serde_json::from_slice(&body).unwrap();
            let uid = review["request"]["uid"].as_str().unwrap().to_owned();
            let mut response = expected_response(webhook, &names[&name(&body)], &uid);
            let count = {
                let mut received = recorded.lock().unwrap();
                received.uids.insert(uid);
                received.uids.len()
            };
            modify(count, &mut response);
            Json(
                json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response }),
            )
        };
        let router = Router::new().route("/validate", post(handler));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, tls, router, Arc::clone(&received)));
        Self {
            port,
            ca: ca.pem().to_owned(),
            received,
            _tasks: tasks,
        }
    }
}

fn acceptor(ca: &PrivateCa) -> TlsAcceptor {
    let issued = ca.issue(&["127.0.0.1"]).unwrap();
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, router: Router, received: Arc<Mutex<Received>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        received.lock().unwrap().connections += 1;
        connections.spawn(serve(stream, tls.clone(), router.clone()));
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, router: Router) {
    stream.set_nodelay(true).unwrap();
    let stream = tls.accept(stream).await.unwrap();
    let (stream, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = http1::Builder::new().serve_connection(stream, service).await;
}

fn name(body: &[u8]) -> String {
    let review: Value = serde_json::from_slice(body).unwrap();
    review["request"]["name"].as_str().unwrap().to_owned()
}

fn expected_response(webhook: Webhook, sample: &Sample, uid: &str) -> Value {
    match webhook {
        Webhook::Validate => json!({ "uid": uid, "allowed": sample.allowed }),
        Webhook::Mutate if sample.patched => {
            let patch = json!([{ "op": "add", "path": "/spec/pollingInterval", "value": "0s" }]);
            let patch = STANDARD.encode(patch.to_string());
            json!({ "uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch })
        }
        Webhook::Mutate => json!({ "uid": uid, "allowed": true }),
    }
}

async fn streams(server: &TestServer, load: Load) -> Streams {
    let target = Target::new(server.port, &server.ca).unwrap();
    let endpoint = Endpoint::new(&target, "/validate", load.webhook, &corpus().unwrap()).unwrap();
    Streams::open(&target, endpoint, load.streams).await.unwrap()
}

#[tokio::test]
async fn each_request_is_sent_once_and_expected_responses_are_accepted() {
    for webhook in [Webhook::Validate, Webhook::Mutate] {
        let server = TestServer::start(webhook, |_, _| {}).await;
        let mut streams = streams(&server, Load { webhook, streams: 4 }).await;
        for requests in [20, 100] {
            let result = streams.drive(requests).await.unwrap();
            assert_eq!((result.wrong, result.first_error), (0, None));
            assert_eq!(result.latencies.len(), usize::try_from(requests).unwrap());
            assert!(
                result
                    .latencies
                    .iter()
                    .all(|latency| !latency.is_zero() && *latency <= result.elapsed)
            );
        }
        let received = server.received.lock().unwrap();
        assert_eq!(received.uids.len(), 120);
        assert!(received.uids.iter().all(|uid| uid.len() == 36));
        assert_eq!(received.connections, 4);
    }
}

#[tokio::test]
async fn wrong_responses_are_counted() {
    let deny_every_tenth = |count: usize, response: &mut Value| {
        if count.is_multiple_of(10) {
            response["allowed"] = json!(false);
        }
    };
    let webhook = Webhook::Mutate;
    let server = TestServer::start(webhook, deny_every_tenth).await;
    let result = streams(&server, Load { webhook, streams: 3 })
        .await
        .drive(200)
        .await;
    let result = result.unwrap();
    assert_eq!((result.wrong, result.latencies.len()), (20, 200));
    assert!(matches!(
        result.first_error,
        Some(ResponseError::Allowed { expected: true, .. })
    ));
}

#[tokio::test]
async fn a_closed_connection_is_an_error() {
    let webhook = Webhook::Validate;
    // A panic in a handler closes its connection.
    let server = TestServer::start(webhook, |count, _| assert!(count < 50, "on purpose")).await;
    let driven = streams(&server, Load { webhook, streams: 2 })
        .await
        .drive(100)
        .await;
    let error = driven.unwrap_err();
    assert!(
        format!("{error:#}").contains("no response to request"),
        "{error:#}"
    );
}

#[tokio::test]
async fn a_server_with_a_certificate_of_another_ca_gets_no_request() {
    let server = TestServer::start(Webhook::Validate, |_, _| {}).await;
    let other = PrivateCa::new("other").unwrap();
    let target = Target::new(server.port, other.pem()).unwrap();
    let endpoint = Endpoint::new(&target, "/validate", Webhook::Validate, &corpus().unwrap()).unwrap();
    let error = Streams::open(&target, endpoint, 1).await.unwrap_err();
    assert!(format!("{error:#}").contains("certificate"), "{error:#}");
}
