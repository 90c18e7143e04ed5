//! Backoff of servers that limit requests or fail for a while.

use std::time::{Duration, SystemTime};

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;
use reqwest::StatusCode;
use tokio::sync::watch;

use super::{
    fixture::{
        ResolveResult, TestResolver, anonymous, assert_fails, fetch_error_kind, over_plain_http, reference,
        version, within_deadline,
    },
    responses::indexed,
    server::{Action, Reply, RequestHead, Server, status},
};
use crate::http::FetchErrorKind;

type ReplyFn = fn() -> Reply;

const HOUR: Duration = Duration::from_hours(1);

fn rate_limited(retry_after: &str) -> Reply {
    status(429, &[("Retry-After", retry_after)])
}

/// Asserts that the server limits requests; returns its `Retry-After`.
#[track_caller]
fn assert_limited(outcome: ResolveResult, code: StatusCode) -> Duration {
    let Err(error) = &outcome else {
        panic!("{outcome:?}")
    };
    let FetchErrorKind::RateLimited {
        status,
        after: Some(after),
    } = *fetch_error_kind(error)
    else {
        panic!("{error}")
    };
    assert_eq!(status, code);
    let expected = format!(
        "the server limits requests; retrying later after {} s (Retry-After)",
        after.as_secs()
    );
    let code = format!("error code: {}", code.as_u16());
    assert_fails(
        outcome,
        Reason::RateLimited,
        Class::RateLimited(after),
        &[&code, &expected],
    );
    after
}

/// Asserts the minimum time between two requests.
#[track_caller]
fn assert_backoff(heads: &[RequestHead], pause: Duration) {
    let [first, second] = heads else {
        panic!("{heads:?}")
    };
    let elapsed = second.at - first.at;
    assert!(elapsed >= pause, "{elapsed:?}");
}

#[tokio::test]
async fn retry_after_in_seconds_is_respected() {
    let server = Server::http(|head| match head.nth {
        0 => rate_limited("1"),
        _ => indexed(&[], &["1.0.0"]),
    })
    .await;
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &server.url()).await;
    let after = assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(after, Duration::from_secs(1));
    resolver.assert_idle(1);

    let found = resolver
        .repository_until_success(&anonymous(), &server.url())
        .await;
    assert_eq!(found.version, "1.0.0");
    assert_backoff(&server.requests(), after);
    assert_eq!(resolver.requests("index", "RateLimited"), 1);
    assert_eq!(resolver.requests("index", "success"), 1);
    resolver.assert_idle(2);
}

#[tokio::test]
async fn retry_after_with_a_date_is_respected() {
    let server = Server::http(|_| rate_limited(&httpdate::fmt_http_date(SystemTime::now() + HOUR))).await;
    let resolver = TestResolver::new();
    for _ in 0..2 {
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        let after = assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
        assert!((Duration::from_mins(59)..=HOUR).contains(&after), "{after:?}");
    }
    assert_eq!(server.requests().len(), 1, "the host backs off");
}

#[tokio::test]
async fn status_503_with_retry_after_is_a_rate_limit() {
    let server = Server::http(|_| status(503, &[("Retry-After", "120")])).await;
    let resolver = TestResolver::new();
    for _ in 0..2 {
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        assert_limited(outcome, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(server.requests().len(), 1, "the host backs off");
}

#[tokio::test]
async fn a_rate_limit_without_retry_after_backs_off() {
    let server = Server::http(|_| status(429, &[])).await;
    let resolver = TestResolver::new();
    for _ in 0..2 {
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        let expected = ["error code: 429: the server limits requests; retrying later"];
        assert_fails(
            outcome,
            Reason::RateLimited,
            Class::RateLimited(Duration::ZERO),
            &expected,
        );
    }
    assert_eq!(server.requests().len(), 1, "the host backs off");
}

#[tokio::test]
async fn retry_after_is_limited_to_an_hour() {
    let server = Server::http(|_| rate_limited("99999999999999999999")).await;
    let outcome = TestResolver::new().repository(&anonymous(), &server.url()).await;
    assert_fails(
        outcome,
        Reason::RateLimited,
        Class::RateLimited(HOUR),
        &["error code: 429"],
    );
}

#[tokio::test]
async fn a_rate_limit_stays_after_a_success_of_a_request_in_flight() {
    // The first request hangs until the second one got the rate limit, and then succeeds.
    let (release, released) = watch::channel(false);
    let server = Server::http(move |head| match head.target.as_str() {
        "/slow/index.yaml" => {
            let mut reply = vec![Action::Until(released.clone())];
            reply.extend(indexed(&[], &["1.0.0"]));
            reply
        }
        _ => rate_limited("3600"),
    })
    .await;
    let (resolver, access) = (TestResolver::new(), anonymous());
    let slow = format!("{}/slow", server.url());
    let slow = resolver.repository(&access, &slow);
    let rate_limited = async {
        let outcome = resolver.repository(&access, &server.url()).await;
        assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
        release.send(true).unwrap();
    };
    let (found, ()) = within_deadline(futures::future::join(slow, rate_limited)).await;
    assert_eq!(version(found), "1.0.0");
    let outcome = resolver.repository(&access, &server.url()).await;
    assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(server.requests().len(), 2, "the host backs off");
}

#[tokio::test]
async fn a_server_that_recovers_is_used_again() {
    let cases: [(ReplyFn, Reason, &str); 2] = [
        (
            || status(500, &[]),
            Reason::RepositoryError,
            "error code: 500: the server failed; retrying",
        ),
        (
            || vec![Action::Close],
            Reason::ConnectionFailed,
            "the connection was closed",
        ),
    ];
    for (reply, reason, expected) in cases {
        let server = Server::http(move |head| match head.nth {
            0 => reply(),
            _ => indexed(&[], &["1.0.0"]),
        })
        .await;
        let resolver = TestResolver::new();
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        assert_fails(outcome, reason, Class::TRANSIENT, &[&server.url(), expected]);
        let found = resolver
            .repository_until_success(&anonymous(), &server.url())
            .await;
        assert_eq!(found.version, "1.0.0");
        assert_backoff(&server.requests()[..2], Duration::from_secs(1));
        // The backoff has been reset.
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        assert_eq!(version(outcome), "1.0.0");
        resolver.assert_idle(3);
    }
}

#[tokio::test]
async fn alternating_failures_back_off_each_time() {
    let server = Server::http(|head| match head.nth % 2 {
        0 => indexed(&[("ETag", "\"a\"")], &["1.0.0"]),
        _ => status(503, &[]),
    })
    .await;
    let (resolver, access, url) = (TestResolver::new(), anonymous(), server.url());
    assert_eq!(version(resolver.repository(&access, &url).await), "1.0.0");
    for round in 0..2 {
        let outcome = resolver.repository(&access, &url).await;
        let expected = [&*url, "error code: 503: the server failed; retrying"];
        assert_fails(outcome, Reason::RepositoryError, Class::TRANSIENT, &expected);
        assert_eq!(
            resolver.repository_until_success(&access, &url).await.version,
            "1.0.0"
        );
        assert_backoff(
            &server.requests()[2 * round + 1..2 * round + 3],
            Duration::from_secs(1),
        );
    }
    assert_eq!(resolver.requests("index", "RepositoryError"), 2);
    assert_eq!(resolver.requests("index", "success"), 3);
    resolver.assert_idle(5);
}

#[tokio::test]
async fn an_invalid_repository_does_not_block_others_on_its_host() {
    let server = Server::http(|head| match head.target.as_str() {
        "/good/index.yaml" => indexed(&[], &["1.0.0"]),
        "/page/index.yaml" => super::server::response(200, &[], "<html>"),
        "/none/index.yaml" => status(404, &[]),
        _ => status(403, &[]),
    })
    .await;
    let resolver = TestResolver::new();
    for bad in ["page", "none", "shut"] {
        let outcome = resolver
            .repository(&anonymous(), &format!("{}/{bad}", server.url()))
            .await;
        assert!(outcome.is_err());
        let outcome = resolver
            .repository(&anonymous(), &format!("{}/good", server.url()))
            .await;
        assert_eq!(version(outcome), "1.0.0", "after {bad}");
    }
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_failing_host_does_not_block_other_hosts() {
    let (bad, good) = (
        Server::http(|_| rate_limited("3600")).await,
        Server::http(|_| indexed(&[], &["1.0.0"])).await,
    );
    let resolver = TestResolver::new();
    let outcome = resolver.repository(&anonymous(), &bad.url()).await;
    assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    let outcome = resolver.repository(&anonymous(), &good.url()).await;
    assert_eq!(version(outcome), "1.0.0");
}

#[tokio::test]
async fn rate_limits_of_registries_are_respected() {
    let server = Server::http(|_| rate_limited("3600")).await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(anonymous()));
    for version in ["1.0.0", ""] {
        let outcome = resolver.registry(&access, &reference(&server), version).await;
        assert_limited(outcome, StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(server.requests().len(), 1, "the host backs off");
    assert_eq!(resolver.requests("manifest", "RateLimited"), 1);
}

#[tokio::test]
async fn concurrent_failures_count_once() {
    // As many repositories as concurrent requests to a host are allowed fail at the same time.
    let (release, released) = watch::channel(false);
    let server = Server::http(move |head| {
        if head.nth < 6 {
            let mut reply = vec![Action::Until(released.clone())];
            reply.extend(status(500, &[]));
            reply
        } else {
            indexed(&[], &["1.0.0"])
        }
    })
    .await;
    let (resolver, access) = (TestResolver::new(), anonymous());
    let repos = (0..6)
        .map(|number| format!("{}/{number}", server.url()))
        .collect::<Vec<_>>();
    let resolutions = repos.iter().map(|repo| resolver.repository(&access, repo));
    let all_received = async {
        while server.requests().len() < 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        release.send(true).unwrap();
    };
    let (outcomes, ()) = within_deadline(futures::future::join(
        futures::future::join_all(resolutions),
        all_received,
    ))
    .await;
    assert!(outcomes.iter().all(Result::is_err));
    resolver.repository_until_success(&access, &server.url()).await;
    let heads = server.requests();
    let elapsed = heads[6].at - heads[5].at;
    assert!(
        elapsed < Duration::from_secs(10),
        "{elapsed:?}, as after six consecutive failures"
    );
}
