//! The proxy of a Secret.

use std::sync::Arc;

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;
use reqwest::Url;

use super::{
    fixture::{TestResolver, anonymous, assert_fails, over_plain_http, version},
    responses::{indexed, registry},
    server::{Server, status},
};
use crate::{
    access::Access,
    http::{Addresses, Connection, ProxyConfig},
};

fn through(proxy: &Server, login: Option<(&str, &str)>) -> Access {
    let login = login.map(|(username, password)| (username.to_owned(), password.to_owned()));
    let proxy = ProxyConfig {
        address: Url::parse(&proxy.url()).unwrap(),
        login,
    };
    Access {
        connection: Connection {
            proxy: Some(Arc::new(proxy)),
            ..Connection::default()
        },
        ..anonymous()
    }
}

#[tokio::test]
async fn repositories_and_registries_are_read_through_the_proxy() {
    let proxy = Server::http(|head| {
        if head.target.ends_with("/index.yaml") {
            indexed(&[], &["1.0.0"])
        } else {
            registry(head, &["2.0.0"])
        }
    })
    .await;
    let resolver = TestResolver::new();
    let access = through(&proxy, Some(("user", "pass")));
    let outcome = resolver.repository(&access, "http://charts.example/stable").await;
    assert_eq!(version(outcome), "1.0.0");
    let access = over_plain_http(access);
    let outcome = resolver
        .registry(&access, "oci://registry.example/web", "2.x")
        .await;
    assert_eq!(version(outcome), "2.0.0");
    let requests = proxy.requests();
    assert_eq!(requests[0].line(), "GET http://charts.example/stable/index.yaml");
    assert!(requests.len() >= 3);
    for request in requests {
        assert_eq!(request.text("Proxy-Authorization"), "Basic dXNlcjpwYXNz");
    }
}

/// The user who names the proxy must not reach what requests must not reach.
#[tokio::test]
async fn a_proxy_with_a_denied_address_gets_nothing() {
    let proxy = Server::http(|_| status(200, &[])).await;
    let resolver = TestResolver::with_addresses(Addresses::default());
    let outcome = resolver
        .repository(&through(&proxy, None), "http://charts.example/stable")
        .await;
    let expected = ["127.0.0.1", "--allow-cidrs"];
    assert_fails(outcome, Reason::ConnectionFailed, Class::Absent, &expected);
    assert_eq!(proxy.lines(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_proxy_that_wants_a_login_is_reported_with_the_keys() {
    let proxy = Server::http(|_| status(407, &[])).await;
    // With TLS, the proxy is to open a tunnel.
    for repo in ["http://charts.example/stable", "https://charts.example/stable"] {
        let outcome = TestResolver::new().repository(&through(&proxy, None), repo).await;
        let expected = ["407", "proxyUsername", "proxyPassword"];
        assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
    }
}
