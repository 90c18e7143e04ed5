//! Who shares an answer, and who must not.

use std::time::Instant;

use helmops_shared::reason::Reason;

use super::{
    answers::{index, indexed, registry, revalidating, wants},
    asking::{
        Asking, anonymous, assert_fails, basic, in_the_clear, in_time, login, login_at, reference, trusting,
        version,
    },
    rig::{Ca, Server, status},
};
use crate::{
    backoff::Pace,
    resolve::access::{Access, Login},
};

const MANY: usize = 100;

#[tokio::test]
async fn many_look_ups_at_once_need_one_download() {
    let server = Server::http(|head| revalidating(head, "\"a\"", &index(&["1.0.0"]))).await;
    let (asking, access, url) = (Asking::new(), anonymous(), server.url());
    let look_ups = (0..MANY).map(|_| asking.repository(&access, &url));
    for outcome in in_time(futures::future::join_all(look_ups)).await {
        assert_eq!(version(outcome), "1.0.0");
    }
    let requests = server.heads().len();
    assert!(requests <= 2, "{requests}");
    assert_eq!(asking.requests("index", "success"), 1);
    assert_eq!(asking.bytes("index"), index(&["1.0.0"]).len() as u64);
    assert_eq!(
        asking.metric("helmops_fetch_coalesced_total"),
        (MANY - requests) as u64
    );
    asking.assert_idle(requests as u64);
}

#[tokio::test]
async fn failures_are_shared_too() {
    let server = Server::http(|_| status(404, &[])).await;
    let (asking, access, url) = (Asking::new(), anonymous(), server.url());
    let look_ups = (0..MANY).map(|_| asking.repository(&access, &url));
    for outcome in in_time(futures::future::join_all(look_ups)).await {
        assert_fails(outcome, Reason::RepositoryNotFound, Pace::SLOW, &[&url]);
    }
    assert!(server.heads().len() <= 2, "{:?}", server.lines());
}

#[tokio::test]
async fn many_look_ups_of_a_registry_need_one_list_and_one_manifest() {
    let server = Server::http(|head| registry(head, &["1.0.0"])).await;
    let (asking, access, repo) = (Asking::new(), in_the_clear(anonymous()), reference(&server));
    let look_ups = (0..MANY).map(|_| asking.registry(&access, &repo, "1.x"));
    for outcome in in_time(futures::future::join_all(look_ups)).await {
        assert_eq!(version(outcome), "1.0.0");
    }
    for asked_for in ["/tags/list", "/manifests/1.0.0"] {
        let lines = server.lines();
        let asked = lines.iter().filter(|line| line.contains(asked_for)).count();
        assert!((1..=2).contains(&asked), "{asked_for}: {asked}");
    }
    asking.assert_idle(server.heads().len() as u64);
}

#[tokio::test]
async fn logins_never_share() {
    // Each user sees a chart of a version of their own; nobody else sees any.
    let script = |head: &super::rig::Head| match head.text("Authorization") {
        sent if sent == basic("one") => revalidating(head, "\"of one\"", &index(&["1.0.0"])),
        sent if sent == basic("two") => revalidating(head, "\"of two\"", &index(&["2.0.0"])),
        _ => wants("Basic realm=\"charts\""),
    };
    let server = Server::http(script).await;
    let asking = Asking::new();
    let (one, two, nobody, url) = (
        login(&server, "one"),
        login(&server, "two"),
        anonymous(),
        server.url(),
    );
    let since = Instant::now();
    let ask = async |access: &Access| asking.chart(access, (&url, "web"), since).await;
    let (first, second, third) = in_time(futures::future::join3(ask(&one), ask(&two), ask(&nobody))).await;
    assert_eq!(
        (version(first), version(second)),
        ("1.0.0".to_owned(), "2.0.0".to_owned())
    );
    assert_fails(third, Reason::Unauthorized, Pace::SLOW, &[&url]);
    assert_eq!(asking.metric("helmops_fetch_coalesced_total"), 0);
    assert_eq!(server.heads().len(), 3);

    // Nor does what is known by one login serve another to ask with.
    for access in [&two, &one, &two] {
        let found = asking.repository(access, &url).await.unwrap().version;
        let head = server.heads().pop().unwrap();
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
    assert_eq!(asking.requests("index", "not_modified"), 3);
}

#[tokio::test]
async fn neither_do_equal_names_with_other_passwords() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("one") => indexed(&[], &["1.0.0"]),
        _ => wants("Basic realm=\"charts\""),
    })
    .await;
    let asking = Asking::new();
    let right = login(&server, "one");
    let wrong = Access {
        login: Some(Login {
            username: "one".to_owned(),
            password: "guessed".to_owned(),
        }),
        ..login(&server, "one")
    };
    let (since, url) = (Instant::now(), server.url());
    assert_eq!(version(asking.chart(&right, (&url, "web"), since).await), "1.0.0");
    let outcome = asking.chart(&wrong, (&url, "web"), since).await;
    assert_fails(outcome, Reason::Unauthorized, Pace::SLOW, &[&url]);
}

#[tokio::test]
async fn equal_logins_of_several_secrets_do_share() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let asking = Asking::new();
    let (since, url) = (Instant::now(), server.url());
    for secret in ["one", "two"] {
        let access = Access {
            secret: secret.to_owned(),
            ..login(&server, "user")
        };
        assert_eq!(
            version(asking.chart(&access, (&url, "web"), since).await),
            "1.0.0"
        );
    }
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn trust_is_not_shared_either() {
    let ca = Ca::new();
    let server = Server::https(ca.serving(), |_| indexed(&[], &["1.0.0"])).await;
    let (asking, since, url) = (Asking::new(), Instant::now(), server.url());
    let trusting = trusting(anonymous(), &ca);
    assert_eq!(
        version(asking.chart(&trusting, (&url, "web"), since).await),
        "1.0.0"
    );
    let outcome = asking.chart(&anonymous(), (&url, "web"), since).await;
    assert_fails(outcome, Reason::CertificateError, Pace::SLOW, &[&url]);
}

#[tokio::test]
async fn a_login_for_elsewhere_makes_no_difference_where_it_is_not_sent() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let (asking, since, url) = (Asking::new(), Instant::now(), server.url());
    for access in [anonymous(), login_at("https://charts.example.com", "user")] {
        assert_eq!(
            version(asking.chart(&access, (&url, "web"), since).await),
            "1.0.0"
        );
    }
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn lists_of_registries_are_not_shared_between_logins() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("one") => registry(head, &["1.0.0"]),
        sent if sent == basic("two") => registry(head, &["2.0.0"]),
        _ => wants("Basic realm=\"registry\""),
    })
    .await;
    let (asking, since, repo) = (Asking::new(), Instant::now(), reference(&server));
    for (user, expected) in [("one", "1.0.0"), ("two", "2.0.0"), ("one", "1.0.0")] {
        let access = in_the_clear(login(&server, user));
        let outcome = asking.registry_since(&access, &repo, "", since).await;
        assert_eq!(version(outcome), expected, "{user}");
    }
    let outcome = asking
        .registry_since(&in_the_clear(anonymous()), &repo, "", since)
        .await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Pace::SLOW,
        &["the registry requires"],
    );
}

/// Both orders of asking: what is told of credentials is about those of who is told.
#[tokio::test]
async fn what_is_told_of_withheld_credentials_is_not_shared() {
    let server = Server::http(|_| wants("Basic realm=\"charts\"")).await;
    let with_secret = login_at("https://charts.example.com", "user");
    let others = Access {
        secret: "theirs".to_owned(),
        ..login_at("https://elsewhere.example.com", "other")
    };
    let all = [anonymous(), with_secret, others].map(in_the_clear);
    let told: [&[&str]; 3] = [
        &[],
        &["Secret access are for https://charts.example.com"],
        &["Secret theirs are for https://elsewhere.example.com"],
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let (asking, since, url, repo) = (Asking::new(), Instant::now(), server.url(), reference(&server));
        for who in order {
            let outcomes = [
                asking.chart(&all[who], (&url, "web"), since).await,
                asking.registry_since(&all[who], &repo, "", since).await,
            ];
            for outcome in outcomes {
                let reason = if told[who].is_empty() {
                    Reason::Unauthorized
                } else {
                    Reason::CredentialsNotForHost
                };
                let error = assert_fails(outcome, reason, Pace::SLOW, told[who]);
                for words in told
                    .iter()
                    .filter(|words| **words != told[who])
                    .copied()
                    .flatten()
                {
                    let place = words.split(' ').next_back().unwrap();
                    assert!(!error.to_string().contains(place), "{error}");
                }
            }
        }
        assert_eq!(asking.metric("helmops_fetch_coalesced_total"), 4);
    }
}
