//! Single requests to a server that a user names: what is sent, and that no response costs more than its limit.

use std::sync::Arc;

use reqwest::{
    Method, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};

use super::server::{Ca, Leaf, Server, forever, response, server_tls, status};
use crate::http::{Addresses, Exchange, ExchangeError, ExchangeRequest, TlsConfig};

const LIMIT: usize = 256 << 10;

fn exchange() -> Exchange {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Exchange::new(Addresses {
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        deny: Vec::new(),
    })
}

fn request(url: &str) -> ExchangeRequest {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer geheim"));
    ExchangeRequest {
        method: Method::PATCH,
        url: Url::parse(url).unwrap(),
        headers,
        body: b"{}".to_vec(),
        tls: Arc::default(),
        limit: LIMIT,
    }
}

#[tokio::test]
async fn a_response_of_any_status_is_returned_and_no_redirect_is_followed() {
    let other = Server::http(|_| response(200, &[], "elsewhere")).await;
    let location = other.url();
    let server = Server::http(move |_| status(307, &[("Location", &location)])).await;
    let moved = exchange().send(request(&server.url())).await.unwrap();
    assert_eq!(moved.status.as_u16(), 307);
    assert!(other.requests().is_empty(), "the token went elsewhere");
    let requests = server.requests();
    assert_eq!(
        (&*requests[0].line(), &*requests[0].body),
        ("PATCH /", &b"{}"[..])
    );
    assert_eq!(requests[0].text("Authorization"), "Bearer geheim");
    let server = Server::http(|_| response(403, &[], "no")).await;
    let denied = exchange().send(request(&server.url())).await.unwrap();
    assert_eq!((denied.status.as_u16(), &*denied.body), (403, &b"no"[..]));
}

#[tokio::test]
async fn a_response_is_read_up_to_its_limit_only() {
    let server = Server::http(|_| response(200, &[], vec![b'['; LIMIT])).await;
    let read = exchange().send(request(&server.url())).await.unwrap();
    assert_eq!(read.body.len(), LIMIT);
    let server = Server::http(|_| forever(&[], vec![b'['; 1 << 20])).await;
    let error = exchange().send(request(&server.url())).await.unwrap_err();
    assert!(
        matches!(error, ExchangeError::TooLarge { limit: LIMIT }),
        "{error}"
    );
    assert!(error.to_string().contains("more than 256 KiB"), "{error}");
    assert!(server.written() < 64 << 20, "{} bytes", server.written());
}

#[tokio::test]
async fn addresses_of_this_machine_are_denied() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Server::http(|_| response(200, &[], "")).await;
    let denying = Exchange::new(Addresses::default());
    for url in [server.url(), format!("http://localhost:{}/", server.port())] {
        let error = denying.send(request(&url)).await.unwrap_err().to_string();
        assert!(error.contains("--allow-cidrs"), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn with_a_ca_of_its_own_no_other_one_is_trusted() {
    let (own, other) = (Ca::new(), Ca::new());
    let pair = own.issue(&Leaf::default());
    let server = Server::https(server_tls(&pair, None), |_| response(200, &[], "")).await;
    let with = |ca: &Ca| ExchangeRequest {
        tls: Arc::new(TlsConfig {
            ca_certificates: vec![(ca.pem.clone().into_bytes(), "the kubeconfig")],
            is_exclusive: true,
            ..TlsConfig::default()
        }),
        ..request(&server.url())
    };
    assert!(exchange().send(with(&own)).await.is_ok());
    assert!(exchange().send(with(&other)).await.is_err());
}
