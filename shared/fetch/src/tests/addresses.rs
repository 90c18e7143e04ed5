//! Denied addresses, and responses that are not quoted.

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, ClassifiedError};

use super::{
    fixture::{TestResolver, anonymous, assert_fails, over_plain_http, reference, version},
    responses::{indexed, refused, registry, token, token_challenge},
    server::{Reply, RequestHead, Server, response, status},
};
use crate::http::{Addresses, Cidr};

/// The content of responses that must not be quoted.
const INNER: &str = "inner-secret";

fn ranges(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn redirect(to: &str) -> Reply {
    status(302, &[("Location", to)])
}

#[tokio::test]
async fn loopback_addresses_are_denied() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let resolver = TestResolver::with_addresses(Addresses::default());
    let expected = ["127.0.0.1 is a loopback address", "--allow-cidrs"];
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    assert_fails(outcome, Reason::ConnectionFailed, Class::Absent, &expected);
    let access = over_plain_http(anonymous());
    let outcome = resolver.registry(&access, &reference(&server), "").await;
    assert_fails(outcome, Reason::ConnectionFailed, Class::Absent, &expected);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn names_with_only_loopback_addresses_are_denied() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let resolver = TestResolver::with_addresses(Addresses::default());
    let url = format!("http://localhost:{}", server.port());
    for _ in 0..2 {
        let outcome = resolver.repository(&anonymous(), &url).await;
        let expected = ["host \"localhost\" has only addresses", "--allow-cidrs"];
        let error = assert_fails(outcome, Reason::ConnectionFailed, Class::Absent, &expected);
        let message = error.to_string();
        assert!(
            !message.contains("127.0.0.1") && !message.contains("::1"),
            "{message}"
        );
    }
    assert_eq!(server.connections(), 0);
    assert_eq!(resolver.requests("index", "ConnectionFailed"), 2);
}

#[tokio::test]
async fn redirects_to_denied_addresses_are_not_followed() {
    let inner = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let targets = [
        format!("http://127.0.0.2:{}/index.yaml", inner.port()),
        format!("http://[::ffff:127.0.0.2]:{}/index.yaml", inner.port()),
        format!("http://169.254.169.254:{}/latest/meta-data", inner.port()),
        "//0/index.yaml".to_owned(),
    ];
    for target in targets {
        let server = Server::http(move |_| redirect(&target)).await;
        let resolver = TestResolver::with_addresses(Addresses {
            allow: ranges(&["127.0.0.1"]),
            deny: Vec::new(),
        });
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        let expected = [&*server.url(), "--allow-cidrs"];
        assert_fails(outcome, Reason::ConnectionFailed, Class::Absent, &expected);
        assert_eq!(server.requests().len(), 1);
        resolver.assert_idle(1);
    }
    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn denied_ranges_apply_to_addresses_and_names() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let resolver = TestResolver::with_addresses(Addresses {
        allow: ranges(&["127.0.0.0/8", "::1"]),
        deny: ranges(&["127.0.0.0/8", "::1"]),
    });
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{}", server.port());
        let outcome = resolver.repository(&anonymous(), &url).await;
        let expected = ["--deny-cidrs"];
        assert_fails(outcome, Reason::ConnectionFailed, Class::Absent, &expected);
    }
    assert_eq!(server.connections(), 0);
}

/// A server that redirects to another one, whose responses contain [`INNER`].
async fn redirecting_to(inner: impl Fn(&RequestHead) -> Reply + Send + Sync + 'static) -> (Server, Server) {
    let inner = Server::http(inner).await;
    let target_url = inner.url();
    let server = Server::http(move |head| redirect(&format!("{target_url}{}", head.target))).await;
    (server, inner)
}

#[tokio::test]
async fn responses_of_other_origins_are_not_quoted() {
    let inners: [fn(&RequestHead) -> Reply; 6] = [
        |_| response(200, &[], format!("{INNER} is the content")),
        |_| response(200, &[], format!("message: {INNER}\n")),
        |_| {
            response(
                200,
                &[],
                format!("{{\"errors\":[{{\"code\":\"X\",\"message\":\"{INNER}\"}}]}}"),
            )
        },
        |_| response(200, &[("Content-Encoding", INNER)], ""),
        |_| refused(403, INNER, INNER),
        |_| {
            response(
                200,
                &[("Link", "<http://inner-secret/>; rel=\"next\"")],
                "{\"tags\":[]}",
            )
        },
    ];
    for inner in inners {
        let (server, inner) = redirecting_to(inner).await;
        let resolver = TestResolver::new();
        let access = over_plain_http(anonymous());
        for outcome in [
            resolver.repository(&anonymous(), &server.url()).await,
            resolver.registry(&access, &reference(&server), "").await,
        ] {
            let message = format!("{:?}", outcome.unwrap_err());
            assert!(!message.contains(INNER), "{message}");
        }
        assert!(!inner.requests().is_empty());
    }
}

#[tokio::test]
async fn responses_of_the_same_origin_are_quoted() {
    let server = Server::http(|_| response(200, &[], format!("{INNER} is the content"))).await;
    let outcome = TestResolver::new().repository(&anonymous(), &server.url()).await;
    assert_fails(outcome, Reason::InvalidIndex, Class::Absent, &[INNER]);
}

#[tokio::test]
async fn an_index_of_another_origin_is_used() {
    let (server, _inner) = redirecting_to(|_| indexed(&[], &["1.0.0"])).await;
    let found = TestResolver::new().repository(&anonymous(), &server.url()).await;
    assert_eq!(version(found), "1.0.0");
}

#[tokio::test]
async fn token_responses_of_other_origins_are_not_quoted() {
    let inner = Server::http(|_| response(200, &[], format!("{{\"token\": {INNER}}}"))).await;
    let target_url = format!("{}/token", inner.url());
    let server = Server::http(move |head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ if head.is_for_token() => redirect(&target_url),
        _ => token_challenge(head),
    })
    .await;
    let access = over_plain_http(anonymous());
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "")
        .await;
    let message = format!("{:?}", outcome.unwrap_err());
    assert!(!message.contains(INNER), "{message}");
    assert_eq!(inner.requests().len(), 1);
}

#[tokio::test]
async fn a_login_is_not_sent_to_the_target_of_a_redirect() {
    let other_server = Server::http(|head| match head.target.as_str() {
        _ if head.is_for_token() => token("t1", 300),
        _ => token_challenge(head),
    })
    .await;
    let target_url = other_server.url();
    let server = Server::http(move |head| redirect(&format!("{target_url}{}", head.target))).await;
    let access = over_plain_http(super::fixture::login(&server, "user"));
    for version in ["", "1.0.0"] {
        let outcome = TestResolver::new()
            .registry(&access, &reference(&server), version)
            .await;
        let error = outcome.unwrap_err();
        assert_eq!(error.reason(), Reason::Unauthorized, "{error}");
    }
    assert!(!other_server.requests().is_empty());
    for head in other_server.requests() {
        assert_eq!(head.header("Authorization"), None, "{head:?}");
        assert!(!head.is_for_token(), "{head:?}");
    }
}
