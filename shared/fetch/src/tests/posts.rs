//! Requests that send something, to servers that misbehave.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, ClassifiedError, classified};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};

use super::fixture::{anonymous, basic, login};
use super::server::{
    Action, Ca, Leaf, Reply, Server, chunked, forever, response, server_tls, stalling, status,
    with_content_length,
};
use crate::endpoint::{EndpointRequest, send};
use crate::http::{Addresses, FetchErrorKind, PostError, PostRequest, Poster, ProxyConfig, TlsConfig};
use crate::permits::Permits;

const BODY: &[u8] = br#"{"text":"hello"}"#;

fn poster() -> Poster {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Poster::new(Addresses {
        allow: vec!["127.0.0.0/8".parse().unwrap()],
        deny: Vec::new(),
    })
}

fn request(url: &str) -> PostRequest {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer geheim"));
    PostRequest {
        url: Url::parse(url).unwrap(),
        headers,
        body: BODY.to_vec(),
        tls: Arc::default(),
        proxy: None,
        timeout: Duration::from_secs(15),
    }
}

async fn served(reply: impl Fn() -> Reply + Send + Sync + 'static) -> (Server, Result<Vec<u8>, PostError>) {
    let server = Server::http(move |_| reply()).await;
    let posted = poster().post(request(&server.url())).await;
    (server, posted)
}

#[tokio::test]
async fn a_body_is_sent_and_connections_are_reused() {
    let server = Server::http(|_| response(202, &[], "accepted")).await;
    let poster = poster();
    for _ in 0..3 {
        assert_eq!(poster.post(request(&server.url())).await.unwrap(), b"accepted");
    }
    let requests = server.requests();
    assert_eq!((requests.len(), server.connections()), (3, 1));
    assert_eq!((&*requests[0].line(), &*requests[0].body), ("POST /", BODY));
    assert_eq!(requests[0].text("Authorization"), "Bearer geheim");
}

#[tokio::test]
async fn a_status_decides_whether_the_same_request_is_repeated() {
    for (code, is_transient) in [
        (400, false),
        (401, false),
        (404, false),
        (408, true),
        (413, false),
        (425, true),
        (429, true),
        (500, true),
        (503, true),
    ] {
        let (_, posted) = served(move || response(code, &[("Retry-After", "7")], "geheim")).await;
        let error = posted.unwrap_err();
        let class = if is_transient {
            Class::RateLimited(Duration::from_secs(7))
        } else {
            Class::Absent
        };
        assert_eq!(error.class(), class, "{code}");
        let text = error.to_string();
        assert!(
            text.contains(&code.to_string()) && !text.contains("geheim"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_server_that_hangs_or_resets_is_retried() {
    let server = Server::http(|_| vec![Action::Stall]).await;
    let started = Instant::now();
    let short = PostRequest {
        timeout: Duration::from_millis(200),
        ..request(&server.url())
    };
    let error = poster().post(short).await.unwrap_err();
    assert!(
        error.class().is_transient() && error.to_string().contains("within 0.2 s"),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(10));
    let (_, posted) = served(|| vec![Action::Close]).await;
    assert!(posted.unwrap_err().class().is_transient());
    let error = poster().post(request("http://127.0.0.1:1")).await.unwrap_err();
    assert!(
        error.class().is_transient() && error.to_string().contains("connection refused"),
        "{error}"
    );
}

#[tokio::test]
async fn an_accepted_request_is_accepted_whatever_follows() {
    let (server, posted) = served(|| forever(&[], vec![b'x'; 1 << 10])).await;
    assert_eq!(posted.unwrap().len(), 64 << 10);
    server.wait_for_disconnects(1).await;
    let (_, posted) = served(|| stalling("start")).await;
    assert_eq!(posted.unwrap(), b"start");
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let other = Server::http(|_| status(200, &[])).await;
    let to = format!("{}/geheim", other.url());
    let server = Server::http(move |head| match &*head.target {
        "/same" => status(308, &[("Location", "/end")]),
        "/end" => status(204, &[]),
        "/other" => status(307, &[("Location", &to)]),
        "/get" => status(302, &[("Location", "/end")]),
        "/loop" => status(307, &[("Location", "/loop")]),
        _ => status(307, &[]),
    })
    .await;
    let post = async |path: &str| poster().post(request(&format!("{}{path}", server.url()))).await;
    assert!(post("/same").await.is_ok());
    assert_eq!(server.requests()[1].body, BODY, "the body is sent again");
    for path in ["/other", "/get", "/loop", "/nowhere"] {
        let error = post(path).await.unwrap_err();
        assert!(
            matches!(error, PostError::Redirect(_)) && !error.class().is_transient(),
            "{path}: {error}"
        );
        assert!(!error.to_string().contains("geheim"), "{error}");
    }
    assert_eq!(other.lines(), [""; 0]);
}

#[tokio::test]
async fn denied_addresses_get_no_request() {
    let server = Server::http(|_| status(200, &[])).await;
    let poster = Poster::new(Addresses::default());
    for url in [
        server.url(),
        "http://169.254.169.254/latest".to_owned(),
        format!("http://localhost:{}", server.port()),
    ] {
        let error = poster.post(request(&url)).await.unwrap_err();
        assert_eq!(error.class(), Class::Absent, "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn the_certificate_of_the_server_is_verified_and_one_of_the_client_is_sent() {
    let (ca, clients) = (Ca::new(), Ca::new());
    let pair = ca.issue(&Leaf::default());
    let server = Server::https(server_tls(&pair, Some(&clients)), |_| status(200, &[])).await;
    let with = |tls: TlsConfig| PostRequest {
        tls: Arc::new(tls),
        ..request(&server.url())
    };
    let error = poster().post(with(TlsConfig::default())).await.unwrap_err();
    assert!(
        error.to_string().contains("signed by unknown authority"),
        "{error}"
    );
    let waits_for_a_change = classified(Reason::CertificateError, Class::Absent);
    assert_eq!(error.classify(), waits_for_a_change, "{error}");
    let trusting = |identity| TlsConfig {
        ca_certificates: vec![(ca.pem.clone().into_bytes(), "here")],
        identity,
        ..TlsConfig::default()
    };
    assert!(poster().post(with(trusting(None))).await.is_err());
    let identity = clients.issue(&Leaf::default()).identity();
    assert!(poster().post(with(trusting(Some(identity)))).await.is_ok());
    assert_eq!(server.lines(), ["POST /"]);
}

#[tokio::test]
async fn an_endpoint_gets_json_with_the_login_of_its_secret() {
    let server = Server::http(|_| response(200, &[], "{}")).await;
    let request = |path: &str| EndpointRequest {
        url: Url::parse(&format!("{}{path}", server.url())).unwrap(),
        body: BODY.to_vec(),
        timeout: Duration::from_secs(15),
    };
    let permits = Permits::default();
    for access in [anonymous(), login(&server, "user")] {
        let sent = send(&permits, &poster(), access, request("/gate")).await;
        assert_eq!(sent.unwrap(), b"{}");
    }
    let requests = server.requests();
    let headers = |name: &str| requests.iter().map(|one| one.text(name)).collect::<Vec<_>>();
    assert_eq!(headers("Authorization"), [String::new(), basic("user")]);
    assert_eq!(headers("Content-Type"), ["application/json"; 2]);
    assert_eq!((&*requests[1].line(), &*requests[1].body), ("POST /gate", BODY));
}

/// A part of a decision is none, and a server that stalls is no mistake in the response.
#[tokio::test]
async fn the_response_of_an_endpoint_is_complete_in_time() {
    let server = Server::http(|_| stalling("{\"open\"")).await;
    let request = EndpointRequest {
        url: Url::parse(&server.url()).unwrap(),
        body: BODY.to_vec(),
        timeout: Duration::from_millis(500),
    };
    let sent = send(&Permits::default(), &poster(), anonymous(), request).await;
    let error = sent.unwrap_err();
    assert!(
        error.class().is_transient() && error.to_string().contains("no complete response within 0.5 s"),
        "{error}"
    );
}

#[tokio::test]
async fn a_proxy_gets_the_request_with_its_own_login() {
    let proxy = Server::http(|_| status(200, &[])).await;
    let proxied = PostRequest {
        proxy: Some(Arc::new(ProxyConfig {
            address: Url::parse(&proxy.url()).unwrap(),
            login: Some(("user".to_owned(), "pass".to_owned())),
        })),
        ..request("http://chat.example/hook")
    };
    poster().post(proxied).await.unwrap();
    let requests = proxy.requests();
    assert_eq!(requests[0].line(), "POST http://chat.example/hook");
    assert_eq!(requests[0].text("Proxy-Authorization"), "Basic dXNlcjpwYXNz");
}

/// The user who names the proxy must not reach what its requests must not reach.
#[tokio::test]
async fn a_proxy_with_a_denied_address_gets_nothing() {
    let proxy = Server::http(|_| status(200, &[])).await;
    let poster = Poster::new(Addresses::default());
    let port = Url::parse(&proxy.url()).unwrap().port().unwrap();
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"] {
        let proxied = PostRequest {
            proxy: Some(Arc::new(ProxyConfig {
                address: Url::parse(&format!("http://{host}:{port}")).unwrap(),
                login: None,
            })),
            ..request("http://chat.example/hook")
        };
        let error = poster.post(proxied).await.unwrap_err();
        let is_denied = matches!(&error, PostError::NoResponse(FetchErrorKind::Address(_)));
        assert!(is_denied && error.class() == Class::Absent, "{host}: {error}");
    }
    assert_eq!(proxy.lines(), [] as [&str; 0]);
}

/// Reads a document with a short timeout.
async fn document(reply: impl Fn() -> Reply + Send + Sync + 'static) -> (Server, Result<Vec<u8>, PostError>) {
    let server = Server::http(move |_| reply()).await;
    let url = Url::parse(&format!("{}/keys", server.url())).unwrap();
    let read = poster().get(url, Duration::from_secs(2)).await;
    (server, read)
}

#[tokio::test]
async fn a_document_is_read_completely() {
    let longest = vec![b'x'; 64 << 10];
    let sent = longest.clone();
    let (server, read) = document(move || response(200, &[], sent.clone())).await;
    assert_eq!(read.unwrap(), longest);
    assert_eq!(server.lines(), ["GET /keys"]);
}

/// A part of a document is none: half of a set of keys must not replace all of it.
#[tokio::test]
async fn a_document_that_is_not_complete_is_an_error() {
    type MakeReply = fn() -> Reply;
    let cases: [(&str, MakeReply, &str); 7] = [
        ("an error", || response(500, &[], "geheim"), "status 500"),
        (
            "a redirect",
            || status(302, &[("Location", "/geheim")]),
            "status 302",
        ),
        (
            "too long",
            || response(200, &[], vec![b'x'; (64 << 10) + 1]),
            "more than 64 KiB",
        ),
        (
            "endless",
            || forever(&[], vec![b'x'; 1 << 10]),
            "more than 64 KiB",
        ),
        (
            "closed in the middle",
            || with_content_length(200, &[], 100, "geheim"),
            "connection",
        ),
        ("an invalid chunk", || chunked("zz\r\n"), "connection"),
        ("slow", || stalling("geheim"), "no complete response within 2 s"),
    ];
    for (case, reply, expected) in cases {
        let started = Instant::now();
        let (server, read) = document(reply).await;
        let error = read.unwrap_err().to_string();
        assert!(
            error.contains(expected) && !error.contains("geheim"),
            "{case}: {error}"
        );
        assert_eq!(server.lines(), ["GET /keys"], "{case}");
        assert!(started.elapsed() < Duration::from_secs(10), "{case}");
    }
}

#[tokio::test]
async fn a_document_that_arrives_byte_by_byte_has_the_time_of_the_request_only() {
    let drip = || {
        vec![
            Action::Write(b"HTTP/1.1 200 \r\nContent-Length: 1000\r\n\r\n".to_vec()),
            Action::Drip(vec![b'x'; 1000], Duration::from_millis(50)),
        ]
    };
    let started = Instant::now();
    let (server, read) = document(drip).await;
    let error = read.unwrap_err();
    assert!(
        error.class().is_transient() && error.to_string().contains("within 2 s"),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(10));
    server.wait_for_disconnects(1).await;
    let url = Url::parse("http://127.0.0.1:1/keys").unwrap();
    let error = poster().get(url, Duration::from_secs(2)).await.unwrap_err();
    assert!(error.to_string().contains("connection refused"), "{error}");
    let denied = Poster::new(Addresses::default());
    let url = Url::parse(&server.url()).unwrap();
    let error = denied.get(url, Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(error.class(), Class::Absent, "{error}");
    assert_eq!(server.connections(), 1, "a denied address gets no connection");
}
