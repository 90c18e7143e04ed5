//! Servers that limit requests, or that are in trouble for a while: they are spared.

use std::time::{Duration, SystemTime};

use helmops_shared::reason::Reason;
use reqwest::StatusCode;
use tokio::sync::watch;

use super::{
    answers::indexed,
    asking::{Asking, Outcome, anonymous, assert_fails, fault, in_the_clear, in_time, reference, version},
    rig::{Act, Head, Reply, Server, status},
};
use crate::{backoff::Pace, resolve::http::Fault};

type Answering = fn() -> Reply;

const HOUR: Duration = Duration::from_hours(1);

fn limited(retry_after: &str) -> Reply {
    status(429, &[("Retry-After", retry_after)])
}

/// Requests are limited, and the server says for how long.
#[track_caller]
fn assert_limited(outcome: Outcome, code: StatusCode) -> Duration {
    let Err(error) = &outcome else {
        panic!("{outcome:?}")
    };
    let Fault::RateLimited {
        status,
        after: Some(after),
    } = *fault(error)
    else {
        panic!("{error}")
    };
    assert_eq!(status, code);
    let words = format!(
        "the server limits requests; retrying later, after {} s as it says",
        after.as_secs()
    );
    let code = format!("error code: {}", code.as_u16());
    assert_fails(
        outcome,
        Reason::RateLimited,
        Pace::SLOW.at_least(after),
        &[&code, &words],
    );
    after
}

/// There is at least so much time between two requests.
#[track_caller]
fn assert_spared(heads: &[Head], pause: Duration) {
    let [first, second] = heads else {
        panic!("{heads:?}")
    };
    let spared = second.at - first.at;
    assert!(spared >= pause, "{spared:?}");
}

#[tokio::test]
async fn a_limit_in_seconds() {
    let server = Server::http(|head| match head.nth {
        0 => limited("1"),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    let after = assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(after, Duration::from_secs(1));
    asking.assert_idle(1);

    let found = asking.repository_in_the_end(&anonymous(), &server.url()).await;
    assert_eq!(found.version, "1.0.0");
    assert_spared(&server.heads(), after);
    assert_eq!(asking.requests("index", "RateLimited"), 1);
    assert_eq!(asking.requests("index", "success"), 1);
    asking.assert_idle(2);
}

#[tokio::test]
async fn a_limit_until_a_date() {
    let server = Server::http(|_| limited(&httpdate::fmt_http_date(SystemTime::now() + HOUR))).await;
    let asking = Asking::new();
    for _ in 0..2 {
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        let after = assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
        assert!((Duration::from_mins(59)..=HOUR).contains(&after), "{after:?}");
    }
    assert_eq!(server.heads().len(), 1, "the host is spared");
}

#[tokio::test]
async fn a_limit_that_is_called_unavailability() {
    let server = Server::http(|_| status(503, &[("Retry-After", "120")])).await;
    let asking = Asking::new();
    for _ in 0..2 {
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        assert_limited(outcome, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(server.heads().len(), 1, "the host is spared");
}

#[tokio::test]
async fn a_limit_without_a_time() {
    let server = Server::http(|_| status(429, &[])).await;
    let asking = Asking::new();
    for _ in 0..2 {
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        let words = ["error code: 429: the server limits requests; retrying later"];
        assert_fails(outcome, Reason::RateLimited, Pace::SLOW, &words);
    }
    assert_eq!(server.heads().len(), 1, "the host is spared");
}

#[tokio::test]
async fn a_limit_that_never_ends_is_not_believed() {
    let server = Server::http(|_| limited("99999999999999999999")).await;
    let outcome = Asking::new().repository(&anonymous(), &server.url()).await;
    assert_fails(
        outcome,
        Reason::RateLimited,
        Pace::SLOW.at_least(HOUR),
        &["error code: 429"],
    );
}

#[tokio::test]
async fn a_limit_holds_whatever_comes_of_requests_under_way() {
    // The first request hangs until the second one has met the limit, and is then answered well.
    let (release, released) = watch::channel(false);
    let server = Server::http(move |head| match head.target.as_str() {
        "/slow/index.yaml" => {
            let mut reply = vec![Act::Until(released.clone())];
            reply.extend(indexed(&[], &["1.0.0"]));
            reply
        }
        _ => limited("3600"),
    })
    .await;
    let (asking, access) = (Asking::new(), anonymous());
    let slow = format!("{}/slow", server.url());
    let slow = asking.repository(&access, &slow);
    let limited = async {
        let outcome = asking.repository(&access, &server.url()).await;
        assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
        release.send(true).unwrap();
    };
    let (found, ()) = in_time(futures::future::join(slow, limited)).await;
    assert_eq!(version(found), "1.0.0");
    let outcome = asking.repository(&access, &server.url()).await;
    assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(server.heads().len(), 2, "the host is spared");
}

#[tokio::test]
async fn trouble_that_passes() {
    let cases: [(Answering, Reason, &str); 2] = [
        (
            || status(500, &[]),
            Reason::RepositoryError,
            "error code: 500: the server is in trouble; it is asked again",
        ),
        (
            || vec![Act::Close],
            Reason::ConnectionFailed,
            "the connection was closed",
        ),
    ];
    for (reply, reason, words) in cases {
        let server = Server::http(move |head| match head.nth {
            0 => reply(),
            _ => indexed(&[], &["1.0.0"]),
        })
        .await;
        let asking = Asking::new();
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        assert_fails(outcome, reason, Pace::TRANSIENT, &[&server.url(), words]);
        let found = asking.repository_in_the_end(&anonymous(), &server.url()).await;
        assert_eq!(found.version, "1.0.0");
        assert_spared(&server.heads()[..2], Duration::from_secs(1));
        // It is well again.
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        assert_eq!(version(outcome), "1.0.0");
        asking.assert_idle(3);
    }
}

#[tokio::test]
async fn trouble_that_comes_and_goes() {
    let server = Server::http(|head| match head.nth % 2 {
        0 => indexed(&[("ETag", "\"a\"")], &["1.0.0"]),
        _ => status(503, &[]),
    })
    .await;
    let (asking, access, url) = (Asking::new(), anonymous(), server.url());
    assert_eq!(version(asking.repository(&access, &url).await), "1.0.0");
    for round in 0..2 {
        let outcome = asking.repository(&access, &url).await;
        let words = [
            &*url,
            "error code: 503: the server is in trouble; it is asked again",
        ];
        assert_fails(outcome, Reason::RepositoryError, Pace::TRANSIENT, &words);
        assert_eq!(asking.repository_in_the_end(&access, &url).await.version, "1.0.0");
        assert_spared(
            &server.heads()[2 * round + 1..2 * round + 3],
            Duration::from_secs(1),
        );
    }
    assert_eq!(asking.requests("index", "RepositoryError"), 2);
    assert_eq!(asking.requests("index", "success"), 3);
    asking.assert_idle(5);
}

#[tokio::test]
async fn what_is_wrong_with_one_repository_is_not_held_against_its_neighbours() {
    let server = Server::http(|head| match head.target.as_str() {
        "/good/index.yaml" => indexed(&[], &["1.0.0"]),
        "/page/index.yaml" => super::rig::answer(200, &[], "<html>"),
        "/none/index.yaml" => status(404, &[]),
        _ => status(403, &[]),
    })
    .await;
    let asking = Asking::new();
    for bad in ["page", "none", "shut"] {
        let outcome = asking
            .repository(&anonymous(), &format!("{}/{bad}", server.url()))
            .await;
        assert!(outcome.is_err());
        let outcome = asking
            .repository(&anonymous(), &format!("{}/good", server.url()))
            .await;
        assert_eq!(version(outcome), "1.0.0", "after {bad}");
    }
    assert_eq!(server.heads().len(), 6);
}

#[tokio::test]
async fn a_host_in_trouble_is_not_held_against_others() {
    let (bad, good) = (
        Server::http(|_| limited("3600")).await,
        Server::http(|_| indexed(&[], &["1.0.0"])).await,
    );
    let asking = Asking::new();
    let outcome = asking.repository(&anonymous(), &bad.url()).await;
    assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    let outcome = asking.repository(&anonymous(), &good.url()).await;
    assert_eq!(version(outcome), "1.0.0");
}

#[tokio::test]
async fn registries_limit_requests_too() {
    let server = Server::http(|_| limited("3600")).await;
    let (asking, access) = (Asking::new(), in_the_clear(anonymous()));
    for version in ["1.0.0", ""] {
        let outcome = asking.registry(&access, &reference(&server), version).await;
        assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(server.heads().len(), 1, "the host is spared");
    assert_eq!(asking.requests("manifest", "RateLimited"), 1);
}

#[tokio::test]
async fn what_fails_together_counts_once() {
    // As many repositories as a host is asked for at a time fail at the same moment.
    let (release, released) = watch::channel(false);
    let server = Server::http(move |head| {
        if head.nth < 6 {
            let mut reply = vec![Act::Until(released.clone())];
            reply.extend(status(500, &[]));
            reply
        } else {
            indexed(&[], &["1.0.0"])
        }
    })
    .await;
    let (asking, access) = (Asking::new(), anonymous());
    let repos = (0..6)
        .map(|number| format!("{}/{number}", server.url()))
        .collect::<Vec<_>>();
    let look_ups = repos.iter().map(|repo| asking.repository(&access, repo));
    let all_there = async {
        while server.heads().len() < 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        release.send(true).unwrap();
    };
    let (outcomes, ()) = in_time(futures::future::join(
        futures::future::join_all(look_ups),
        all_there,
    ))
    .await;
    assert!(outcomes.iter().all(Result::is_err));
    asking.repository_in_the_end(&access, &server.url()).await;
    let heads = server.heads();
    let spared = heads[6].at - heads[5].at;
    assert!(
        spared < Duration::from_secs(10),
        "{spared:?} as after six failures in a row"
    );
}
