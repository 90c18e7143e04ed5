//! Certificates and the want of them.

use std::sync::Arc;

use helmops_shared::reason::Reason;

use super::{
    answers::{indexed, registry},
    asking::{Asking, Outcome, anonymous, assert_fails, in_the_clear, reference, trusting, version},
    rig::{Act, Ca, Leaf, Server, server_tls},
};
use crate::{
    backoff::Pace,
    resolve::access::{Access, TlsConfig},
};

const WRONG_NAME: &str = "charts.example.com";

async fn served(tls: tokio_rustls::TlsAcceptor) -> Server {
    Server::https(tls, |_| indexed(&[], &["1.0.0"])).await
}

/// A certificate that is not trusted, whatever else the HelmOp trusts.
#[track_caller]
fn assert_untrusted(outcome: Outcome, server: &Server, words: &str) {
    assert_fails(
        outcome,
        Reason::CertificateError,
        Pace::SLOW,
        &[&server.url(), words],
    );
    assert!(server.lines().is_empty(), "the request was sent all the same");
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_the_secret_names_it() {
    let ca = Ca::new();
    let server = served(ca.serving()).await;
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert_untrusted(outcome, &server, "signed by unknown authority");
    assert_eq!(asking.requests("index", "CertificateError"), 1);
    let outcome = asking
        .repository(&trusting(anonymous(), &Ca::new()), &server.url())
        .await;
    assert_untrusted(outcome, &server, "put the CA's certificate into key cacerts");
    let outcome = asking
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    asking.assert_idle(3);
}

#[tokio::test]
async fn certificates_that_are_not_good() {
    let ca = Ca::new();
    let leaf = |name, days| ca.issue(&Leaf { name, days });
    for (pair, words) in [
        (leaf("127.0.0.1", (-30, -1)), "the certificate has expired"),
        (leaf("127.0.0.1", (1, 30)), "the certificate is not valid yet"),
        (
            leaf(WRONG_NAME, (-1, 1)),
            "the certificate is for another host name",
        ),
        (Leaf::default().self_signed(), "signed by unknown authority"),
    ] {
        let server = served(server_tls(&pair, None)).await;
        let asking = Asking::new();
        let outcome = asking
            .repository(&trusting(anonymous(), &ca), &server.url())
            .await;
        assert_untrusted(outcome, &server, words);
        asking.assert_idle(1);

        let skipping = TlsConfig {
            insecure_skip_tls_verify: true,
            ..TlsConfig::default()
        };
        let outcome = asking.repository(&with(skipping), &server.url()).await;
        assert_eq!(version(outcome), "1.0.0", "insecureSkipTLSVerify");
    }
}

#[tokio::test]
async fn the_name_that_the_certificate_is_for_is_told() {
    let ca = Ca::new();
    let pair = ca.issue(&Leaf {
        name: WRONG_NAME,
        ..Leaf::default()
    });
    let server = served(server_tls(&pair, None)).await;
    let outcome = Asking::new()
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_untrusted(outcome, &server, WRONG_NAME);
}

#[tokio::test]
async fn a_client_certificate() {
    let ca = Ca::new();
    let pair = ca.issue(&Leaf::default());
    let server = served(server_tls(&pair, Some(&ca))).await;
    let asking = Asking::new();
    let outcome = asking
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_untrusted(
        outcome,
        &server,
        "it may want a client certificate: keys tls.crt and tls.key",
    );

    let identity = |identity: Vec<u8>| {
        with(TlsConfig {
            authorities: vec![(ca.pem.clone().into_bytes(), "key cacerts of the Secret")],
            identity: Some(identity),
            ..TlsConfig::default()
        })
    };
    let stranger = identity(Ca::new().issue(&Leaf::default()).identity());
    let outcome = asking.repository(&stranger, &server.url()).await;
    assert_untrusted(outcome, &server, "the server refuses the TLS connection");

    let outcome = asking.repository(&identity(pair.identity()), &server.url()).await;
    assert_eq!(version(outcome), "1.0.0");
}

#[tokio::test]
async fn secrets_with_something_else_in_them() {
    let ca = Ca::new();
    let server = served(ca.serving()).await;
    let (pair, other) = (ca.issue(&Leaf::default()), ca.issue(&Leaf::default()));
    let mismatch = format!("{}\n{}", pair.certificate, other.key);
    let asking = Asking::new();
    for (authorities, identity, words) in [
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
        let transport = TlsConfig {
            authorities: authorities
                .map(|pem| (pem.as_bytes().to_vec(), "key cacerts of the Secret"))
                .into_iter()
                .collect(),
            identity: identity.map(|pem| pem.as_bytes().to_vec()),
            ..TlsConfig::default()
        };
        let outcome = asking.repository(&with(transport), &server.url()).await;
        let error = assert_fails(
            outcome,
            Reason::InvalidSecret,
            Pace::SLOW,
            &[&server.url(), words],
        );
        assert!(!error.to_string().contains("PRIVATE KEY"), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn https_where_no_tls_is_spoken() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let url = server.url().replace("http:", "https:");
    let outcome = Asking::new().repository(&anonymous(), &url).await;
    let words = [&*url, "no TLS connection", "is it an https server?"];
    assert_fails(outcome, Reason::CertificateError, Pace::SLOW, &words);

    let outcome = Asking::new()
        .registry(&anonymous(), &reference(&server), "1.0.0")
        .await;
    assert_fails(
        outcome,
        Reason::CertificateError,
        Pace::SLOW,
        &["no TLS connection", "key basicHTTP"],
    );
    assert!(server.lines().is_empty());
}

#[tokio::test]
async fn http_where_tls_is_spoken() {
    let server = served(Ca::new().serving()).await;
    let url = server.url().replace("https:", "http:");
    let outcome = Asking::new().repository(&anonymous(), &url).await;
    assert_fails(
        outcome,
        Reason::ConnectionFailed,
        Pace::TRANSIENT,
        &[&url, "the connection was closed"],
    );
}

#[tokio::test]
async fn a_connection_that_ends_without_a_farewell_is_no_end_of_a_body() {
    let ca = Ca::new();
    // Without a length the body ends with the connection, and only TLS can tell an end from a cut.
    let server = Server::https(ca.serving(), |_| {
        let index = super::answers::index(&["1.0.0"]);
        vec![
            Act::Write(format!("HTTP/1.1 200 OK\r\n\r\n{index}").into_bytes()),
            Act::Cut,
        ]
    })
    .await;
    let outcome = Asking::new()
        .repository(&trusting(anonymous(), &ca), &server.url())
        .await;
    assert_fails(
        outcome,
        Reason::ConnectionFailed,
        Pace::TRANSIENT,
        &[&server.url(), "the connection was closed"],
    );
}

#[tokio::test]
async fn registries_are_asked_over_tls_unless_the_secret_says_otherwise() {
    let ca = Ca::new();
    let script = |head: &_| registry(head, &["1.0.0"]);
    let (safe, plain) = (
        Server::https(ca.serving(), script).await,
        Server::http(script).await,
    );
    let (access, asking) = (trusting(anonymous(), &ca), Asking::new());
    let outcome = asking.registry(&access, &reference(&safe), "1.0.0").await;
    assert_eq!(version(outcome), "1.0.0");
    let outcome = asking
        .registry(&in_the_clear(access), &reference(&plain), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
}

fn with(transport: TlsConfig) -> Access {
    Access {
        transport: Arc::new(transport),
        ..Access::default()
    }
}
