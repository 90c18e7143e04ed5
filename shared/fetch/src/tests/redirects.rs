//! Redirects: which are followed, and which headers are sent along.

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{
        PASSWORD, TestResolver, anonymous, assert_fails, basic, login, over_plain_http, reference, trusting,
        version,
    },
    responses::{indexed, registry, token, token_challenge},
    server::{Ca, Reply, RequestHead, Server, status},
};

fn redirect(to: &str) -> Reply {
    status(302, &[("Location", to)])
}

/// Asserts that no secrets were sent.
#[track_caller]
fn assert_no_secrets(heads: &[RequestHead]) {
    assert!(!heads.is_empty(), "the redirect was not followed");
    for head in heads {
        assert_no_credentials(head);
        // It would contain the query.
        assert_eq!(head.header("Referer"), None, "{head:?}");
        assert!(!format!("{head:?}").contains(PASSWORD), "{head:?}");
    }
}

#[track_caller]
fn assert_no_credentials(head: &RequestHead) {
    assert_eq!(head.header("Authorization"), None, "{head:?}");
}

#[tokio::test]
async fn credentials_are_sent_with_a_redirect_to_the_same_origin() {
    let server = Server::http(|head| match head.target.as_str() {
        "/index.yaml" => redirect("/moved/index.yaml"),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let resolver = TestResolver::new();
    let found = resolver
        .repository(&login(&server, "user"), &server.url())
        .await
        .unwrap();
    // As in Helm: archive URLs are relative to the requested index.
    assert_eq!(found.url, format!("{}/web-1.0.0.tgz", server.url()));
    assert_eq!(server.lines(), ["GET /index.yaml", "GET /moved/index.yaml"]);
    let sent = server
        .requests()
        .iter()
        .map(|head| head.text("Authorization").to_owned())
        .collect::<Vec<_>>();
    assert_eq!(sent, [basic("user"), basic("user")]);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn credentials_are_not_sent_with_a_redirect_to_another_origin() {
    let other = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let to_other_port = format!("{}/index.yaml", other.url());
    let to_other_name = format!("http://localhost:{}/index.yaml", other.port());
    for to in [to_other_port, to_other_name] {
        let server = Server::http(move |_| redirect(&to)).await;
        let resolver = TestResolver::new();
        let repo = format!("{}/?token={PASSWORD}", server.url());
        let outcome = resolver.repository(&login(&server, "user"), &repo).await;
        assert_eq!(version(outcome), "1.0.0");
        assert_eq!(server.requests()[0].text("Authorization"), basic("user"));
    }
    assert_eq!(other.requests().len(), 2);
    assert_no_secrets(&other.requests());
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_name_of_the_same_server() {
    let server = Server::http(|head| {
        let port = head.host().rsplit_once(':').unwrap().1;
        match head.nth {
            0 => redirect(&format!("http://localhost:{port}/index.yaml")),
            _ => indexed(&[], &["1.0.0"]),
        }
    })
    .await;
    let outcome = TestResolver::new()
        .repository(&login(&server, "user"), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_no_secrets(&server.requests()[1..]);
}

#[tokio::test]
async fn credentials_are_not_sent_after_a_redirect_back_to_the_origin() {
    // From the origin to another one and back: the other server could send the credentials to any path.
    let other_server = Server::http(|head| redirect(head.target.trim_start_matches("/?back="))).await;
    let target_url = other_server.url();
    let server = Server::http(move |head| match head.nth {
        0 => redirect(&format!("{target_url}/?back=http://{}/b/index.yaml", head.host())),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let outcome = TestResolver::new()
        .repository(&login(&server, "user"), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.lines(), ["GET /index.yaml", "GET /b/index.yaml"]);
    assert_no_secrets(&other_server.requests());
    assert_no_credentials(&server.requests()[1]);
}

#[tokio::test]
async fn a_token_is_not_sent_to_another_host() {
    let storage = Server::http(|head| registry(head, &["1.0.0"])).await;
    let target_url = storage.url();
    let server = Server::http(move |head| match head.text("Authorization") {
        "Bearer t1" => redirect(&format!("{target_url}{}", head.target)),
        _ if head.is_for_token() => token("t1", 300),
        _ => token_challenge(head),
    })
    .await;
    let access = over_plain_http(login(&server, "user"));
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_no_secrets(&storage.requests());
}

#[tokio::test]
async fn a_password_is_not_sent_beyond_the_realm() {
    let other_server = Server::http(|_| token("t1", 300)).await;
    let target_url = format!("{}/token", other_server.url());
    let server = Server::http(move |head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ if head.is_for_token() => redirect(&target_url),
        _ => token_challenge(head),
    })
    .await;
    let access = over_plain_http(login(&server, "user"));
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    let token_request = server
        .requests()
        .into_iter()
        .find(RequestHead::is_for_token)
        .unwrap();
    assert_eq!(token_request.text("Authorization"), basic("user"));
    assert_no_secrets(&other_server.requests());
}

#[tokio::test]
async fn redirect_loops_end_after_ten_redirects() {
    let server = Server::http(|head| redirect(&format!("/{}", head.nth % 2))).await;
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    let expected = [
        &*server.url(),
        "more than 10 redirects, one after the other, the last to http",
    ];
    assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
    assert_eq!(server.requests().len(), 11);
    resolver.assert_idle(1);
}

#[tokio::test]
async fn redirects_from_https_to_http_are_not_followed() {
    let plain = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let ca = Ca::new();
    let target_url = format!("{}/index.yaml", plain.url());
    let server = Server::https(ca.serving(), move |_| redirect(&target_url)).await;
    let access = trusting(login(&server, "user"), &ca);
    let outcome = TestResolver::new().repository(&access, &server.url()).await;
    let expected = [
        &*server.url(),
        "a redirect from https to plain http is not followed",
        &plain.url(),
    ];
    assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
    assert!(plain.lines().is_empty());
}

#[tokio::test]
async fn invalid_redirects_are_errors() {
    for (location, expected) in [
        (None, "error code: 302: a redirect that leads nowhere"),
        (Some("file:///etc/passwd"), ""),
        (Some("http://"), ""),
    ] {
        let server = Server::http(move |_| match location {
            Some(location) => redirect(location),
            None => status(302, &[]),
        })
        .await;
        let outcome = TestResolver::new().repository(&anonymous(), &server.url()).await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Class::Absent,
            &[&server.url(), expected],
        );
        assert_eq!(server.requests().len(), 1);
    }
}
