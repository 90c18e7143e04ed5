//! Which resolutions share a response, and which must not.

use std::time::Instant;

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{
        TestResolver, anonymous, assert_fails, basic, login, login_at, over_plain_http, reference, trusting,
        version, within_deadline,
    },
    responses::{index, indexed, registry, revalidating, unauthorized},
    server::{Ca, Server, status},
};
use crate::{access::Access, login::Login};

const MANY: usize = 100;

#[tokio::test]
async fn concurrent_resolutions_need_one_download() {
    let server = Server::http(|head| revalidating(head, "\"a\"", &index(&["1.0.0"]))).await;
    let (resolver, access, url) = (TestResolver::new(), anonymous(), server.url());
    let resolutions = (0..MANY).map(|_| resolver.repository(&access, &url));
    for outcome in within_deadline(futures::future::join_all(resolutions)).await {
        assert_eq!(version(outcome), "1.0.0");
    }
    let requests = server.requests().len();
    assert!(requests <= 2, "{requests}");
    assert_eq!(resolver.requests("index", "success"), 1);
    assert_eq!(resolver.bytes("index"), index(&["1.0.0"]).len() as u64);
    assert_eq!(
        resolver.metric("helmops_fetch_coalesced_total"),
        (MANY - requests) as u64
    );
    resolver.assert_idle(requests as u64);
}

#[tokio::test]
async fn concurrent_resolutions_share_a_failure() {
    let server = Server::http(|_| status(404, &[])).await;
    let (resolver, access, url) = (TestResolver::new(), anonymous(), server.url());
    let resolutions = (0..MANY).map(|_| resolver.repository(&access, &url));
    for outcome in within_deadline(futures::future::join_all(resolutions)).await {
        assert_fails(outcome, Reason::RepositoryNotFound, Class::Absent, &[&url]);
    }
    assert!(server.requests().len() <= 2, "{:?}", server.lines());
}

#[tokio::test]
async fn concurrent_resolutions_of_a_registry_need_one_list_and_one_manifest() {
    let server = Server::http(|head| registry(head, &["1.0.0"])).await;
    let (resolver, access, repo) = (
        TestResolver::new(),
        over_plain_http(anonymous()),
        reference(&server),
    );
    let resolutions = (0..MANY).map(|_| resolver.registry(&access, &repo, "1.x"));
    for outcome in within_deadline(futures::future::join_all(resolutions)).await {
        assert_eq!(version(outcome), "1.0.0");
    }
    for path in ["/tags/list", "/manifests/1.0.0"] {
        let lines = server.lines();
        let count = lines.iter().filter(|line| line.contains(path)).count();
        assert!((1..=2).contains(&count), "{path}: {count}");
    }
    resolver.assert_idle(server.requests().len() as u64);
}

#[tokio::test]
async fn different_logins_do_not_share_a_response() {
    // Each user gets a different version; without a login there is none.
    let script = |head: &super::server::RequestHead| match head.text("Authorization") {
        sent if sent == basic("one") => revalidating(head, "\"of one\"", &index(&["1.0.0"])),
        sent if sent == basic("two") => revalidating(head, "\"of two\"", &index(&["2.0.0"])),
        _ => unauthorized("Basic realm=\"charts\""),
    };
    let server = Server::http(script).await;
    let resolver = TestResolver::new();
    let (one, two, without_login, url) = (
        login(&server, "one"),
        login(&server, "two"),
        anonymous(),
        server.url(),
    );
    let since = Instant::now();
    let resolve = async |access: &Access| resolver.chart(access, (&url, "web"), since).await;
    let (first, second, third) = within_deadline(futures::future::join3(
        resolve(&one),
        resolve(&two),
        resolve(&without_login),
    ))
    .await;
    assert_eq!(
        (version(first), version(second)),
        ("1.0.0".to_owned(), "2.0.0".to_owned())
    );
    assert_fails(third, Reason::Unauthorized, Class::Absent, &[&url]);
    assert_eq!(resolver.metric("helmops_fetch_coalesced_total"), 0);
    assert_eq!(server.requests().len(), 3);

    // The cached response of one login does not make the requests of another conditional.
    for access in [&two, &one, &two] {
        let found = resolver.repository(access, &url).await.unwrap().version;
        let head = server.requests().pop().unwrap();
        let expected = if found == "1.0.0" {
            (basic("one"), "\"of one\"")
        } else {
            (basic("two"), "\"of two\"")
        };
        assert_eq!(
            (head.text("Authorization"), head.text("If-None-Match")),
            (&*expected.0, expected.1)
        );
    }
    assert_eq!(resolver.requests("index", "not_modified"), 3);
}

#[tokio::test]
async fn equal_user_names_with_different_passwords_do_not_share_a_response() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("one") => indexed(&[], &["1.0.0"]),
        _ => unauthorized("Basic realm=\"charts\""),
    })
    .await;
    let resolver = TestResolver::new();
    let right = login(&server, "one");
    let wrong = Access {
        login: Some(Login {
            username: "one".to_owned(),
            password: "guessed".to_owned(),
        }),
        ..login(&server, "one")
    };
    let (since, url) = (Instant::now(), server.url());
    assert_eq!(
        version(resolver.chart(&right, (&url, "web"), since).await),
        "1.0.0"
    );
    let outcome = resolver.chart(&wrong, (&url, "web"), since).await;
    assert_fails(outcome, Reason::Unauthorized, Class::Absent, &[&url]);
}

#[tokio::test]
async fn equal_logins_of_several_secrets_share_a_response() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let resolver = TestResolver::new();
    let (since, url) = (Instant::now(), server.url());
    for secret in ["one", "two"] {
        let access = Access {
            secret: secret.to_owned(),
            ..login(&server, "user")
        };
        assert_eq!(
            version(resolver.chart(&access, (&url, "web"), since).await),
            "1.0.0"
        );
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn different_trust_does_not_share_a_response() {
    let ca = Ca::new();
    let server = Server::https(ca.serving(), |_| indexed(&[], &["1.0.0"])).await;
    let (resolver, since, url) = (TestResolver::new(), Instant::now(), server.url());
    let trusting = trusting(anonymous(), &ca);
    assert_eq!(
        version(resolver.chart(&trusting, (&url, "web"), since).await),
        "1.0.0"
    );
    let outcome = resolver.chart(&anonymous(), (&url, "web"), since).await;
    assert_fails(outcome, Reason::CertificateError, Class::Absent, &[&url]);
}

#[tokio::test]
async fn a_login_that_is_not_sent_does_not_prevent_sharing() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let (resolver, since, url) = (TestResolver::new(), Instant::now(), server.url());
    for access in [anonymous(), login_at("https://charts.example.com", "user")] {
        assert_eq!(
            version(resolver.chart(&access, (&url, "web"), since).await),
            "1.0.0"
        );
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn tag_lists_are_not_shared_between_logins() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("one") => registry(head, &["1.0.0"]),
        sent if sent == basic("two") => registry(head, &["2.0.0"]),
        _ => unauthorized("Basic realm=\"registry\""),
    })
    .await;
    let (resolver, since, repo) = (TestResolver::new(), Instant::now(), reference(&server));
    for (user, expected) in [("one", "1.0.0"), ("two", "2.0.0"), ("one", "1.0.0")] {
        let access = over_plain_http(login(&server, user));
        let outcome = resolver.registry_since(&access, &repo, "", since).await;
        assert_eq!(version(outcome), expected, "{user}");
    }
    let outcome = resolver
        .registry_since(&over_plain_http(anonymous()), &repo, "", since)
        .await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Class::Absent,
        &["spec.helmSecretName is empty"],
    );
}

/// In every order: a message about credentials is about those of the same HelmOp.
#[tokio::test]
async fn messages_about_credentials_are_not_shared() {
    let server = Server::http(|_| unauthorized("Basic realm=\"charts\"")).await;
    let with_secret = login_at("https://charts.example.com", "user");
    let others = Access {
        secret: "other".to_owned(),
        ..login_at("https://elsewhere.example.com", "other")
    };
    let all = [anonymous(), with_secret, others].map(over_plain_http);
    let messages: [&[&str]; 3] = [
        &["spec.helmSecretName is empty"],
        &["Secret access are for https://charts.example.com"],
        &["Secret other are for https://elsewhere.example.com"],
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let (resolver, since, url, repo) = (
            TestResolver::new(),
            Instant::now(),
            server.url(),
            reference(&server),
        );
        for index in order {
            let outcomes = [
                resolver.chart(&all[index], (&url, "web"), since).await,
                resolver.registry_since(&all[index], &repo, "", since).await,
            ];
            for outcome in outcomes {
                let reason = if index == 0 {
                    Reason::Unauthorized
                } else {
                    Reason::CredentialsNotForHost
                };
                let error = assert_fails(outcome, reason, Class::Absent, messages[index]);
                for expected in messages
                    .iter()
                    .filter(|expected| **expected != messages[index])
                    .copied()
                    .flatten()
                {
                    let target = expected.split(' ').next_back().unwrap();
                    assert!(!error.to_string().contains(target), "{error}");
                }
            }
        }
        assert_eq!(resolver.metric("helmops_fetch_coalesced_total"), 4);
    }
}
