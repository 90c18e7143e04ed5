//! Registries that require credentials: tokens, and user name with password.

use std::sync::{Arc, Mutex};

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, ClassifiedError};
use tokio::net::TcpListener;

use super::{
    fixture::{
        TestResolver, anonymous, assert_fails, basic, login, over_plain_http, reference, trusting, version,
        within_deadline,
    },
    responses::{refused, registry, token, token_challenge, unauthorized},
    server::{Ca, Reply, RequestHead, Server, forever, response, status},
};

type ReplyFn = fn() -> Reply;

const HEAD: &str = "HEAD /v2/web/manifests/1.0.0";
const TOKEN: &str = "GET /token?service=registry%20of%20a%20test&scope=repository%3Aweb%3Apull";

/// A registry that issues tokens and accepts only the last one.
fn with_tokens(seconds: u32) -> impl Fn(&RequestHead) -> Reply + Send + Sync + 'static {
    let issued = Mutex::new(0);
    move |head| {
        let mut issued = issued.lock().unwrap();
        if head.is_for_token() {
            *issued += 1;
            token(&format!("t{issued}"), seconds)
        } else if *issued > 0 && head.text("Authorization") == format!("Bearer t{issued}") {
            registry(head, &["1.0.0"])
        } else {
            token_challenge(head)
        }
    }
}

#[tokio::test]
async fn an_anonymous_token_is_requested_without_a_login() {
    let server = Server::http(with_tokens(300)).await;
    let resolver = TestResolver::new();
    let outcome = resolver
        .registry(&over_plain_http(anonymous()), &reference(&server), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.lines(), [HEAD, TOKEN, HEAD]);
    assert_eq!(server.authorizations(), ["", "", "Bearer t1"]);
    assert_eq!(resolver.requests("token", "success"), 1);
    assert_eq!(resolver.requests("manifest", "Unauthorized"), 1);
    assert_eq!(resolver.requests("manifest", "success"), 1);
    resolver.assert_idle(3);
}

#[tokio::test]
async fn a_token_is_requested_with_the_login() {
    let server = Server::http(with_tokens(300)).await;
    let access = over_plain_http(login(&server, "user"));
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "1.x")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    let list = "GET /v2/web/tags/list?n=1000";
    assert_eq!(server.lines(), [list, TOKEN, list, HEAD]);
    assert_eq!(
        server.authorizations(),
        ["", &basic("user"), "Bearer t1", "Bearer t1"]
    );
}

#[tokio::test]
async fn a_token_is_cached() {
    let server = Server::http(with_tokens(300)).await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(anonymous()));
    for _ in 0..3 {
        let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(server.lines(), [HEAD, TOKEN, HEAD, HEAD, HEAD]);
    assert_eq!(resolver.requests("token", "success"), 1);
}

#[tokio::test]
async fn a_token_is_cached_even_if_the_version_is_missing() {
    let server = Server::http(with_tokens(300)).await;
    let access = over_plain_http(anonymous());
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "1.0.1")
        .await;
    assert_fails(outcome, Reason::NoMatchingVersion, Class::Absent, &["1.0.0"]);
    let (head, list) = ("HEAD /v2/web/manifests/1.0.1", "GET /v2/web/tags/list?n=1000");
    assert_eq!(server.lines(), [head, TOKEN, head, list]);
}

#[tokio::test]
async fn a_token_that_the_registry_rejects_is_renewed() {
    let is_revoked = Arc::new(Mutex::new(false));
    let (revoked, inner) = (Arc::clone(&is_revoked), with_tokens(300));
    let server = Server::http(move |head| {
        let is_first = head.text("Authorization") == "Bearer t1";
        if is_first && *revoked.lock().unwrap() {
            token_challenge(head)
        } else {
            inner(head)
        }
    })
    .await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(anonymous()));
    let resolve = async || version(resolver.registry(&access, &reference(&server), "1.0.0").await);
    assert_eq!(resolve().await, "1.0.0");
    *is_revoked.lock().unwrap() = true;
    assert_eq!(resolve().await, "1.0.0");
    assert_eq!(resolve().await, "1.0.0");
    assert_eq!(
        server.authorizations(),
        ["", "", "Bearer t1", "Bearer t1", "", "Bearer t2", "Bearer t2"]
    );
}

#[tokio::test]
async fn an_expired_token_is_used_once_and_not_cached() {
    let script = with_tokens(1);
    let issued = move |head: &RequestHead| {
        if head.is_for_token() {
            let _ = script(head);
            let body = "{\"token\":\"t1\",\"expires_in\":60,\"issued_at\":\"2020-01-01T00:00:00Z\"}";
            return response(200, &[], body);
        }
        match head.text("Authorization") {
            "Bearer t1" => registry(head, &["1.0.0"]),
            _ => token_challenge(head),
        }
    };
    let server = Server::http(issued).await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(anonymous()));
    for _ in 0..2 {
        let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(server.lines(), [HEAD, TOKEN, HEAD, HEAD, TOKEN, HEAD]);
}

#[tokio::test]
async fn tokens_are_not_shared_between_logins() {
    let server = Server::http(|head| {
        let user = |token: &str, version| {
            let is_known = head.text("Authorization") == format!("Bearer {token}");
            is_known.then(|| registry(head, &[version]))
        };
        if head.is_for_token() {
            let is_one = head.text("Authorization") == basic("one");
            return token(if is_one { "t-one" } else { "t-two" }, 300);
        }
        user("t-one", "1.0.0")
            .or_else(|| user("t-two", "2.0.0"))
            .unwrap_or_else(|| token_challenge(head))
    })
    .await;
    let resolver = TestResolver::new();
    for (user, expected) in [("one", "1.0.0"), ("two", "2.0.0"), ("one", "1.0.0")] {
        let access = over_plain_http(login(&server, user));
        let outcome = resolver.registry(&access, &reference(&server), "").await;
        assert_eq!(version(outcome), expected, "{user}");
    }
    assert_eq!(resolver.requests("token", "success"), 2);
}

#[tokio::test]
async fn basic_authentication_is_remembered() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("user") => registry(head, &["1.0.0"]),
        _ => unauthorized("Basic realm=\"registry\""),
    })
    .await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(login(&server, "user")));
    for _ in 0..2 {
        let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
        assert_eq!(version(outcome), "1.0.0");
    }
    // After the first challenge it is sent immediately.
    assert_eq!(server.authorizations(), ["", &basic("user"), &basic("user")]);
}

#[tokio::test]
async fn rejected_credentials_are_sent_once_per_resolution() {
    for challenge in ["Basic realm=\"registry\"", "Bearer"] {
        let server = Server::http(move |head| match challenge {
            _ if head.is_for_token() => token("t1", 300),
            "Bearer" => token_challenge(head),
            _ => unauthorized(challenge),
        })
        .await;
        let (resolver, access) = (TestResolver::new(), over_plain_http(login(&server, "user")));
        for (requested, per_resolution) in [("1.0.0", "manifests"), ("", "tags")] {
            let before = server.requests().len();
            let outcome = resolver.registry(&access, &reference(&server), requested).await;
            let expected = [
                &*server.host(),
                "the registry requires other credentials",
                "spec.helmSecretName",
            ];
            assert_fails(outcome, Reason::Unauthorized, Class::Absent, &expected);
            let lines = &server.lines()[before..];
            let count = lines.iter().filter(|line| line.contains(per_resolution)).count();
            assert_eq!(count, 2, "once without and once with credentials: {lines:?}");
            assert!(lines.len() <= 3, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_missing_login_is_reported_without_a_second_request() {
    let server = Server::http(|_| unauthorized("Basic realm=\"registry\"")).await;
    let outcome = TestResolver::new()
        .registry(&over_plain_http(anonymous()), &reference(&server), "1.0.0")
        .await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Class::Absent,
        &["spec.helmSecretName is empty"],
    );
    assert_eq!(server.requests().len(), 1, "there are no credentials to send");
}

#[tokio::test]
async fn a_password_rejected_by_the_token_server_is_reported() {
    let server = Server::http(|head| {
        if head.is_for_token() {
            response(401, &[], "{\"details\":\"incorrect username or password\"}")
        } else {
            token_challenge(head)
        }
    })
    .await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(login(&server, "user")));
    let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
    let expected = [
        &*format!("{}/token", server.url()),
        "incorrect username or password",
        "spec.helmSecretName",
    ];
    assert_fails(outcome, Reason::Unauthorized, Class::Absent, &expected);
    assert_eq!(server.lines(), [HEAD, TOKEN]);
    assert_eq!(resolver.requests("token", "Unauthorized"), 1);
}

#[tokio::test]
async fn a_failing_token_server_does_not_stop_requests_to_the_registry() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let down = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::http(move |_| unauthorized(&format!("Bearer realm=\"http://{down}/token\""))).await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(anonymous()));
    let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
    let expected = [
        &*format!("failed to fetch http://{down}/token"),
        "connection refused",
    ];
    assert_fails(outcome, Reason::ConnectionFailed, Class::TRANSIENT, &expected);
    assert_eq!(resolver.requests("token", "ConnectionFailed"), 1);
    resolver.assert_idle(2);
    // The registry itself works, and does not back off.
    let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
    assert_fails(outcome, Reason::ConnectionFailed, Class::TRANSIENT, &expected);
    assert_eq!(server.requests().len(), 2);

    let server = Server::http(|head| {
        if head.is_for_token() {
            status(503, &[])
        } else {
            token_challenge(head)
        }
    })
    .await;
    let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
    let expected = [
        &*format!("{}/token", server.url()),
        "error code: 503: the server failed",
    ];
    assert_fails(outcome, Reason::RepositoryError, Class::TRANSIENT, &expected);
}

#[tokio::test]
async fn invalid_token_responses_are_reported() {
    let broken: [(ReplyFn, &str); 4] = [
        (
            || response(200, &[], "<html>Sign in</html>"),
            "is not a JSON object",
        ),
        (|| response(200, &[], "{}"), "holds no token"),
        (
            || response(200, &[], "{\"token\":\"a\\r\\nX-Evil: b\"}"),
            "characters that no header can carry",
        ),
        (|| forever(&[], vec![b' '; 1 << 16]), "larger than"),
    ];
    for (reply, expected) in broken {
        let server = Server::http(move |head| {
            if head.is_for_token() {
                reply()
            } else {
                token_challenge(head)
            }
        })
        .await;
        let resolver = TestResolver::new();
        let outcome = resolver
            .registry(&over_plain_http(anonymous()), &reference(&server), "1.0.0")
            .await;
        let error = outcome.unwrap_err();
        assert!(
            matches!(error.reason(), Reason::RepositoryError | Reason::ResponseTooLarge),
            "{error}"
        );
        assert_eq!(error.class(), Class::Absent, "{error}");
        let message = error.to_string();
        assert!(
            message.contains(expected) && message.contains(&format!("{}/token", server.url())),
            "{message}"
        );
        assert_eq!(server.requests().len(), 2);
        resolver.assert_idle(2);
    }
}

#[tokio::test]
async fn a_password_is_not_sent_to_a_realm_without_tls() {
    let ca = Ca::new();
    let plain = Server::http(|_| token("t1", 300)).await;
    let realm = format!("Bearer realm=\"{}/token\"", plain.url());
    let server = Server::https(ca.serving(), move |_| unauthorized(&realm)).await;
    let access = trusting(login(&server, "user"), &ca);
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "1.0.0")
        .await;
    let expected = [
        &*server.url(),
        &plain.host(),
        "in the clear",
        "must name an https realm",
    ];
    assert_fails(outcome, Reason::RepositoryError, Class::Absent, &expected);
    assert!(plain.lines().is_empty());
}

#[tokio::test]
async fn a_password_is_sent_to_the_realm_of_the_registry() {
    let ca = Ca::new();
    let issuer = Server::https(ca.serving(), |_| token("t1", 300)).await;
    let realm = format!("Bearer realm=\"{}/token\"", issuer.url());
    let server = Server::https(ca.serving(), move |head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ => unauthorized(&realm),
    })
    .await;
    let access = trusting(login(&server, "user"), &ca);
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(issuer.authorizations(), [basic("user")]);
    assert_eq!(server.authorizations(), ["", "Bearer t1"]);
}

/// A registry that names another server as its token server gets nothing of its responses.
#[tokio::test]
async fn responses_of_a_realm_on_another_host_are_not_quoted() {
    let responses: [(ReplyFn, Reason, Class); 4] = [
        (
            || refused(403, "DENIED", "internal-only"),
            Reason::Forbidden,
            Class::Absent,
        ),
        (
            || response(401, &[], "{\"details\":\"internal-only\"}"),
            Reason::Unauthorized,
            Class::Absent,
        ),
        (
            || response(200, &[], "{\"internal-only\":1}"),
            Reason::RepositoryError,
            Class::Absent,
        ),
        (
            || response(200, &[("Content-Encoding", "internal-only")], "x"),
            Reason::RepositoryError,
            Class::TRANSIENT,
        ),
    ];
    for (reply, reason, class) in responses {
        let inner = Server::http(move |_| reply()).await;
        let realm = format!("Bearer realm=\"{}/status\"", inner.url());
        let server = Server::http(move |_| unauthorized(&realm)).await;
        let outcome = TestResolver::new()
            .registry(&over_plain_http(anonymous()), &reference(&server), "1.0.0")
            .await;
        let error = assert_fails(outcome, reason, class, &[&inner.host()]);
        assert!(!format!("{error}{error:?}").contains("internal-only"), "{error}");
        assert_eq!(inner.requests().len(), 1);
    }
}

#[tokio::test]
async fn unsupported_challenges_are_reported() {
    for (challenge, expected) in [
        (None, "does not say in which form"),
        (
            Some("Negotiate"),
            "in the form Negotiate; Bearer and Basic are supported",
        ),
        (Some("Bearer service=\"x\""), "has no realm"),
        (
            Some("Bearer realm=\"ftp://h/token\""),
            "tokens are fetched over https only",
        ),
    ] {
        let server = Server::http(move |_| match challenge {
            Some(challenge) => unauthorized(challenge),
            None => status(401, &[]),
        })
        .await;
        let access = over_plain_http(login(&server, "user"));
        let outcome = TestResolver::new()
            .registry(&access, &reference(&server), "1.0.0")
            .await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Class::Absent,
            &[&server.host(), expected],
        );
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_token_without_permission_is_reported() {
    let server = Server::http(|head| match head.text("Authorization") {
        "Bearer t1" => refused(403, "DENIED", "requested access to the resource is denied"),
        _ if head.is_for_token() => token("t1", 300),
        _ => token_challenge(head),
    })
    .await;
    let access = over_plain_http(login(&server, "user"));
    let outcome = TestResolver::new()
        .registry(&access, &reference(&server), "")
        .await;
    let expected = [
        "may not pull from repository \"web\"",
        "DENIED: requested access to the resource is denied",
    ];
    assert_fails(outcome, Reason::Forbidden, Class::Absent, &expected);
}

#[tokio::test]
async fn a_token_request_needs_no_second_permit() {
    // More charts than concurrent requests to a host are allowed, and the token server is the same host.
    let server = Server::http(|head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ if head.is_for_token() => token("t1", 300),
        _ => token_challenge(head),
    })
    .await;
    let (resolver, access) = (TestResolver::new(), over_plain_http(anonymous()));
    let charts = (0..20)
        .map(|number| format!("oci://{}/web-{number}", server.host()))
        .collect::<Vec<_>>();
    let resolutions = charts
        .iter()
        .map(|chart| resolver.registry(&access, chart, "1.0.0"));
    for outcome in within_deadline(futures::future::join_all(resolutions)).await {
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(resolver.requests("token", "success"), 20);
    resolver.assert_idle(60);
}
