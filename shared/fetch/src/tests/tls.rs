//! TLS certificates and connections.

use std::sync::Arc;

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{
        ResolveResult, TestResolver, anonymous, assert_fails, over_plain_http, reference, trusting, version,
    },
    responses::{indexed, registry},
    server::{Action, Ca, Leaf, Server, server_tls},
};
use crate::{
    access::Access,
    http::{Connection, TlsConfig},
};

const WRONG_NAME: &str = "charts.example.com";

async fn served(tls: tokio_rustls::TlsAcceptor) -> Server {
    Server::https(tls, |_| indexed(&[], &["1.0.0"])).await
}

/// Asserts that the certificate is not trusted and no request was sent.
#[track_caller]
fn assert_untrusted(outcome: ResolveResult, server: &Server, expected: &str) {
    assert_fails(
        outcome,
        Reason::CertificateError,
        Class::Absent,
        &[&server.url(), expected],
    );
    assert!(server.lines().is_empty(), "the request was sent");
}

#[tokio::test]
async fn a_private_ca_in_the_secret_is_trusted() {
    let ca = Ca::new();
    let server = served(ca.serving()).await;
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    assert_untrusted(outcome, &server, "signed by unknown authority");
    assert_eq!(resolver.requests("index", "CertificateError"), 1);
    let outcome = resolver
        .repository(&trusting(anonymous(), &Ca::new()), &server.url())
        .await;
    assert_untrusted(outcome, &server, "put the CA's certificate into key cacerts");
    let outcome = resolver
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    resolver.assert_idle(3);
}

#[tokio::test]
async fn invalid_certificates_are_rejected() {
    let ca = Ca::new();
    let leaf = |name, days| ca.issue(&Leaf { name, days });
    for (pair, expected) in [
        (leaf("127.0.0.1", (-30, -1)), "the certificate has expired"),
        (leaf("127.0.0.1", (1, 30)), "the certificate is not valid yet"),
        (
            leaf(WRONG_NAME, (-1, 1)),
            "the certificate is for another host name",
        ),
        (Leaf::default().self_signed(), "signed by unknown authority"),
    ] {
        let server = served(server_tls(&pair, None)).await;
        let resolver = TestResolver::new();
        let outcome = resolver
            .repository(&trusting(anonymous(), &ca), &server.url())
            .await;
        assert_untrusted(outcome, &server, expected);
        resolver.assert_idle(1);

        let skipping = TlsConfig {
            insecure_skip_tls_verify: true,
            ..TlsConfig::default()
        };
        let outcome = resolver.repository(&with(skipping), &server.url()).await;
        assert_eq!(version(outcome), "1.0.0", "insecureSkipTLSVerify");
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_is_reported_with_that_name() {
    let ca = Ca::new();
    let pair = ca.issue(&Leaf {
        name: WRONG_NAME,
        ..Leaf::default()
    });
    let server = served(server_tls(&pair, None)).await;
    let outcome = TestResolver::new()
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_untrusted(outcome, &server, WRONG_NAME);
}

#[tokio::test]
async fn a_client_certificate_is_sent() {
    let ca = Ca::new();
    let pair = ca.issue(&Leaf::default());
    let server = served(server_tls(&pair, Some(&ca))).await;
    let resolver = TestResolver::new();
    let outcome = resolver
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_untrusted(
        outcome,
        &server,
        "it may require a client certificate: set keys tls.crt and tls.key",
    );

    let identity = |identity: Vec<u8>| {
        with(TlsConfig {
            ca_certificates: vec![(ca.pem.clone().into_bytes(), "key cacerts of the Secret")],
            identity: Some(identity),
            ..TlsConfig::default()
        })
    };
    let untrusted = identity(Ca::new().issue(&Leaf::default()).identity());
    let outcome = resolver.repository(&untrusted, &server.url()).await;
    assert_untrusted(outcome, &server, "the server refuses the TLS connection");

    let outcome = resolver
        .repository(&identity(pair.identity()), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
}

#[tokio::test]
async fn invalid_certificates_in_the_secret_are_reported() {
    let ca = Ca::new();
    let server = served(ca.serving()).await;
    let (pair, other) = (ca.issue(&Leaf::default()), ca.issue(&Leaf::default()));
    let mismatch = format!("{}\n{}", pair.certificate, other.key);
    let resolver = TestResolver::new();
    for (ca_certificates, identity, expected) in [
        (
            Some("not PEM"),
            None,
            "key cacerts of the Secret contains no certificate in PEM format",
        ),
        (
            Some(&*pair.key),
            None,
            "key cacerts of the Secret contains no certificate in PEM format",
        ),
        (None, Some("not PEM"), "keys tls.crt and tls.key of the Secret"),
        (
            None,
            Some(&*pair.certificate),
            "keys tls.crt and tls.key of the Secret",
        ),
        (None, Some(&*mismatch), "keys tls.crt and tls.key of the Secret"),
    ] {
        let tls = TlsConfig {
            ca_certificates: ca_certificates
                .map(|pem| (pem.as_bytes().to_vec(), "key cacerts of the Secret"))
                .into_iter()
                .collect(),
            identity: identity.map(|pem| pem.as_bytes().to_vec()),
            ..TlsConfig::default()
        };
        let outcome = resolver.repository(&with(tls), &server.url()).await;
        let error = assert_fails(
            outcome,
            Reason::InvalidSecret,
            Class::Absent,
            &[&server.url(), expected],
        );
        assert!(!error.to_string().contains("PRIVATE KEY"), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn https_to_a_server_without_tls_is_reported() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let url = server.url().replace("http:", "https:");
    let outcome = TestResolver::new().repository(&anonymous(), &url).await;
    let expected = [&*url, "no TLS connection", "is it an https server?"];
    assert_fails(outcome, Reason::CertificateError, Class::Absent, &expected);

    let outcome = TestResolver::new()
        .registry(&anonymous(), &reference(&server), "1.0.0")
        .await;
    assert_fails(
        outcome,
        Reason::CertificateError,
        Class::Absent,
        &["no TLS connection", "key basicHTTP"],
    );
    assert!(server.lines().is_empty());
}

#[tokio::test]
async fn http_to_a_server_with_tls_is_reported() {
    let server = served(Ca::new().serving()).await;
    let url = server.url().replace("https:", "http:");
    let outcome = TestResolver::new().repository(&anonymous(), &url).await;
    assert_fails(
        outcome,
        Reason::ConnectionFailed,
        Class::TRANSIENT,
        &[&url, "the connection was closed"],
    );
}

#[tokio::test]
async fn a_body_is_incomplete_without_a_tls_close_notification() {
    let ca = Ca::new();
    // Without a length the body ends with the connection, and only the TLS close notification shows that it is complete.
    let server = Server::https(ca.serving(), |_| {
        let index = super::responses::index(&["1.0.0"]);
        vec![
            Action::Write(format!("HTTP/1.1 200 OK\r\n\r\n{index}").into_bytes()),
            Action::Abort,
        ]
    })
    .await;
    let outcome = TestResolver::new()
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_fails(
        outcome,
        Reason::ConnectionFailed,
        Class::TRANSIENT,
        &[&server.url(), "the connection was closed"],
    );
}

#[tokio::test]
async fn registries_use_tls_unless_the_secret_allows_plain_http() {
    let ca = Ca::new();
    let script = |head: &_| registry(head, &["1.0.0"]);
    let (safe, plain) = (
        Server::https(ca.serving(), script).await,
        Server::http(script).await,
    );
    let (access, resolver) = (trusting(anonymous(), &ca), TestResolver::new());
    let outcome = resolver.registry(&access, &reference(&safe), "1.0.0").await;
    assert_eq!(version(outcome), "1.0.0");
    let outcome = resolver
        .registry(&over_plain_http(access), &reference(&plain), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
}

fn with(tls: TlsConfig) -> Access {
    Access {
        connection: Connection {
            tls: Arc::new(tls),
            proxy: None,
        },
        ..Access::default()
    }
}
