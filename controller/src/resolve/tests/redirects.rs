//! Redirects: where they are followed to, and what goes with them.

use helmops_shared::reason::Reason;

use super::{
    answers::{indexed, registry, token, wants_token},
    asking::{
        Asking, PASSWORD, anonymous, assert_fails, basic, in_the_clear, login, reference, trusting, version,
    },
    rig::{Ca, Head, Reply, Server, status},
};
use crate::backoff::Pace;

fn redirect(to: &str) -> Reply {
    status(302, &[("Location", to)])
}

/// Nothing of what is secret has come here.
#[track_caller]
fn assert_bare(heads: &[Head]) {
    assert!(!heads.is_empty(), "the redirect was not followed");
    for head in heads {
        assert_bare_of_credentials(head);
        // It would hold what stands behind the question mark.
        assert_eq!(head.header("Referer"), None, "{head:?}");
        assert!(!format!("{head:?}").contains(PASSWORD), "{head:?}");
    }
}

#[track_caller]
fn assert_bare_of_credentials(head: &Head) {
    assert_eq!(head.header("Authorization"), None, "{head:?}");
}

#[tokio::test]
async fn at_home_credentials_go_along() {
    let server = Server::http(|head| match head.target.as_str() {
        "/index.yaml" => redirect("/elsewhere/index.yaml"),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let asking = Asking::new();
    let found = asking
        .repository(&login(&server, "user"), &server.url())
        .await
        .unwrap();
    // As Helm has it: archives lie beside the index that was asked for.
    assert_eq!(found.url, format!("{}/web-1.0.0.tgz", server.url()));
    assert_eq!(server.lines(), ["GET /index.yaml", "GET /elsewhere/index.yaml"]);
    let sent = server
        .heads()
        .iter()
        .map(|head| head.text("Authorization").to_owned())
        .collect::<Vec<_>>();
    assert_eq!(sent, [basic("user"), basic("user")]);
    asking.assert_idle(1);
}

#[tokio::test]
async fn elsewhere_they_do_not() {
    let other = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let to_other_port = format!("{}/index.yaml", other.url());
    let to_other_name = format!("http://localhost:{}/index.yaml", other.port());
    for to in [to_other_port, to_other_name] {
        let server = Server::http(move |_| redirect(&to)).await;
        let asking = Asking::new();
        let repo = format!("{}/?token={PASSWORD}", server.url());
        let outcome = asking.repository(&login(&server, "user"), &repo).await;
        assert_eq!(version(outcome), "1.0.0");
        assert_eq!(server.heads()[0].text("Authorization"), basic("user"));
    }
    assert_eq!(other.heads().len(), 2);
    assert_bare(&other.heads());
}

#[tokio::test]
async fn not_even_to_another_name_of_the_same_server() {
    let server = Server::http(|head| {
        let port = head.host().rsplit_once(':').unwrap().1;
        match head.nth {
            0 => redirect(&format!("http://localhost:{port}/index.yaml")),
            _ => indexed(&[], &["1.0.0"]),
        }
    })
    .await;
    let outcome = Asking::new()
        .repository(&login(&server, "user"), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_bare(&server.heads()[1..]);
}

#[tokio::test]
async fn a_detour_does_not_bring_them_back() {
    // Home, elsewhere, home again: whoever is elsewhere could send them to any path there.
    let elsewhere = Server::http(|head| redirect(head.target.trim_start_matches("/?back="))).await;
    let away = elsewhere.url();
    let server = Server::http(move |head| match head.nth {
        0 => redirect(&format!("{away}/?back=http://{}/b/index.yaml", head.host())),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let outcome = Asking::new()
        .repository(&login(&server, "user"), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.lines(), ["GET /index.yaml", "GET /b/index.yaml"]);
    assert_bare(&elsewhere.heads());
    assert_bare_of_credentials(&server.heads()[1]);
}

#[tokio::test]
async fn a_token_stays_with_its_registry() {
    let storage = Server::http(|head| registry(head, &["1.0.0"])).await;
    let away = storage.url();
    let server = Server::http(move |head| match head.text("Authorization") {
        "Bearer t1" => redirect(&format!("{away}{}", head.target)),
        _ if head.is_for_token() => token("t1", 300),
        _ => wants_token(head),
    })
    .await;
    let access = in_the_clear(login(&server, "user"));
    let outcome = Asking::new().registry(&access, &reference(&server), "").await;
    assert_eq!(version(outcome), "1.0.0");
    assert_bare(&storage.heads());
}

#[tokio::test]
async fn a_password_stays_with_the_realm() {
    let elsewhere = Server::http(|_| token("t1", 300)).await;
    let away = format!("{}/token", elsewhere.url());
    let server = Server::http(move |head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ if head.is_for_token() => redirect(&away),
        _ => wants_token(head),
    })
    .await;
    let access = in_the_clear(login(&server, "user"));
    let outcome = Asking::new()
        .registry(&access, &reference(&server), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    let asked = server.heads().into_iter().find(Head::is_for_token).unwrap();
    assert_eq!(asked.text("Authorization"), basic("user"));
    assert_bare(&elsewhere.heads());
}

#[tokio::test]
async fn in_a_circle() {
    let server = Server::http(|head| redirect(&format!("/{}", head.nth % 2))).await;
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    let words = [
        &*server.url(),
        "more than 10 redirects, one after the other, the last to http",
    ];
    assert_fails(outcome, Reason::RepositoryError, Pace::SLOW, &words);
    assert_eq!(server.heads().len(), 11);
    asking.assert_idle(1);
}

#[tokio::test]
async fn from_https_to_http() {
    let plain = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let ca = Ca::new();
    let away = format!("{}/index.yaml", plain.url());
    let server = Server::https(ca.serving(), move |_| redirect(&away)).await;
    let access = trusting(login(&server, "user"), &ca);
    let outcome = Asking::new().repository(&access, &server.url()).await;
    let words = [
        &*server.url(),
        "a redirect from https to plain http is not followed",
        &plain.url(),
    ];
    assert_fails(outcome, Reason::RepositoryError, Pace::SLOW, &words);
    assert!(plain.lines().is_empty());
}

#[tokio::test]
async fn to_nowhere() {
    for (location, words) in [
        (None, "error code: 302: a redirect that leads nowhere"),
        (Some("file:///etc/passwd"), ""),
        (Some("http://"), ""),
    ] {
        let server = Server::http(move |_| match location {
            Some(location) => redirect(location),
            None => status(302, &[]),
        })
        .await;
        let outcome = Asking::new().repository(&anonymous(), &server.url()).await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Pace::SLOW,
            &[&server.url(), words],
        );
        assert_eq!(server.heads().len(), 1);
    }
}
