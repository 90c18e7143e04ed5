//! Registries that want credentials: tokens, and user name with password.

use std::sync::{Arc, Mutex};

use helmops_shared::reason::Reason;
use tokio::net::TcpListener;

use super::{
    answers::{refused, registry, token, wants, wants_token},
    asking::{
        Asking, anonymous, assert_fails, basic, in_the_clear, in_time, login, reference, trusting, version,
    },
    rig::{Ca, Head, Reply, Server, answer, forever, status},
};
use crate::backoff::Pace;

type Answering = fn() -> Reply;

const HEAD: &str = "HEAD /v2/web/manifests/1.0.0";
const TOKEN: &str = "GET /token?service=registry%20of%20a%20test&scope=repository%3Aweb%3Apull";

/// A registry that gives out one token after the other and takes the last alone.
fn with_tokens(seconds: u32) -> impl Fn(&Head) -> Reply + Send + Sync + 'static {
    let given = Mutex::new(0);
    move |head| {
        let mut given = given.lock().unwrap();
        if head.is_for_token() {
            *given += 1;
            token(&format!("t{given}"), seconds)
        } else if *given > 0 && head.text("Authorization") == format!("Bearer t{given}") {
            registry(head, &["1.0.0"])
        } else {
            wants_token(head)
        }
    }
}

#[tokio::test]
async fn a_token_for_everybody() {
    let server = Server::http(with_tokens(300)).await;
    let asking = Asking::new();
    let outcome = asking
        .registry(&in_the_clear(anonymous()), &reference(&server), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.lines(), [HEAD, TOKEN, HEAD]);
    assert_eq!(server.sent(), ["", "", "Bearer t1"]);
    assert_eq!(asking.requests("token", "success"), 1);
    assert_eq!(asking.requests("manifest", "Unauthorized"), 1);
    assert_eq!(asking.requests("manifest", "success"), 1);
    asking.assert_idle(3);
}

#[tokio::test]
async fn a_token_for_a_login() {
    let server = Server::http(with_tokens(300)).await;
    let access = in_the_clear(login(&server, "user"));
    let outcome = Asking::new().registry(&access, &reference(&server), "1.x").await;
    assert_eq!(version(outcome), "1.0.0");
    let list = "GET /v2/web/tags/list?n=1000";
    assert_eq!(server.lines(), [list, TOKEN, list, HEAD]);
    assert_eq!(server.sent(), ["", &basic("user"), "Bearer t1", "Bearer t1"]);
}

#[tokio::test]
async fn a_token_is_kept() {
    let server = Server::http(with_tokens(300)).await;
    let (asking, access) = (Asking::new(), in_the_clear(anonymous()));
    for _ in 0..3 {
        let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(server.lines(), [HEAD, TOKEN, HEAD, HEAD, HEAD]);
    assert_eq!(asking.requests("token", "success"), 1);
}

#[tokio::test]
async fn a_token_serves_even_where_the_version_is_missing() {
    let server = Server::http(with_tokens(300)).await;
    let access = in_the_clear(anonymous());
    let outcome = Asking::new()
        .registry(&access, &reference(&server), "1.0.1")
        .await;
    assert_fails(outcome, Reason::NoMatchingVersion, Pace::SLOW, &["1.0.0"]);
    let (head, list) = ("HEAD /v2/web/manifests/1.0.1", "GET /v2/web/tags/list?n=1000");
    assert_eq!(server.lines(), [head, TOKEN, head, list]);
}

#[tokio::test]
async fn a_token_that_the_registry_no_longer_takes_is_renewed() {
    let is_revoked = Arc::new(Mutex::new(false));
    let (revoked, inner) = (Arc::clone(&is_revoked), with_tokens(300));
    let server = Server::http(move |head| {
        let is_kept = head.text("Authorization") == "Bearer t1";
        if is_kept && *revoked.lock().unwrap() {
            wants_token(head)
        } else {
            inner(head)
        }
    })
    .await;
    let (asking, access) = (Asking::new(), in_the_clear(anonymous()));
    let ask = async || version(asking.registry(&access, &reference(&server), "1.0.0").await);
    assert_eq!(ask().await, "1.0.0");
    *is_revoked.lock().unwrap() = true;
    assert_eq!(ask().await, "1.0.0");
    assert_eq!(ask().await, "1.0.0");
    assert_eq!(
        server.sent(),
        ["", "", "Bearer t1", "Bearer t1", "", "Bearer t2", "Bearer t2"]
    );
}

#[tokio::test]
async fn a_token_for_no_time_is_used_at_once_and_not_kept() {
    let script = with_tokens(1);
    let issued = move |head: &Head| {
        if head.is_for_token() {
            let _ = script(head);
            let body = "{\"token\":\"t1\",\"expires_in\":60,\"issued_at\":\"2020-01-01T00:00:00Z\"}";
            return answer(200, &[], body);
        }
        match head.text("Authorization") {
            "Bearer t1" => registry(head, &["1.0.0"]),
            _ => wants_token(head),
        }
    };
    let server = Server::http(issued).await;
    let (asking, access) = (Asking::new(), in_the_clear(anonymous()));
    for _ in 0..2 {
        let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
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
            .unwrap_or_else(|| wants_token(head))
    })
    .await;
    let asking = Asking::new();
    for (user, expected) in [("one", "1.0.0"), ("two", "2.0.0"), ("one", "1.0.0")] {
        let access = in_the_clear(login(&server, user));
        let outcome = asking.registry(&access, &reference(&server), "").await;
        assert_eq!(version(outcome), expected, "{user}");
    }
    assert_eq!(asking.requests("token", "success"), 2);
}

#[tokio::test]
async fn user_name_and_password() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("user") => registry(head, &["1.0.0"]),
        _ => wants("Basic realm=\"registry\""),
    })
    .await;
    let (asking, access) = (Asking::new(), in_the_clear(login(&server, "user")));
    for _ in 0..2 {
        let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
        assert_eq!(version(outcome), "1.0.0");
    }
    // From then on it is sent at once.
    assert_eq!(server.sent(), ["", &basic("user"), &basic("user")]);
}

#[tokio::test]
async fn refused_for_ever() {
    for challenge in ["Basic realm=\"registry\"", "Bearer"] {
        let server = Server::http(move |head| match challenge {
            _ if head.is_for_token() => token("t1", 300),
            "Bearer" => wants_token(head),
            _ => wants(challenge),
        })
        .await;
        let (asking, access) = (Asking::new(), in_the_clear(login(&server, "user")));
        for (asked, per_look_up) in [("1.0.0", "manifests"), ("", "tags")] {
            let before = server.heads().len();
            let outcome = asking.registry(&access, &reference(&server), asked).await;
            let words = [
                &*server.host(),
                "the registry requires other credentials",
                "spec.helmSecretName",
            ];
            assert_fails(outcome, Reason::Unauthorized, Pace::SLOW, &words);
            let lines = &server.lines()[before..];
            let count = lines.iter().filter(|line| line.contains(per_look_up)).count();
            assert_eq!(count, 2, "once without, once with: {lines:?}");
            assert!(lines.len() <= 3, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_login_that_is_wanted_and_not_there() {
    let server = Server::http(|_| wants("Basic realm=\"registry\"")).await;
    let outcome = Asking::new()
        .registry(&in_the_clear(anonymous()), &reference(&server), "1.0.0")
        .await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Pace::SLOW,
        &["the registry requires"],
    );
    assert_eq!(server.heads().len(), 1, "there is nothing else to say");
}

#[tokio::test]
async fn a_token_server_that_refuses_the_password() {
    let server = Server::http(|head| {
        if head.is_for_token() {
            answer(401, &[], "{\"details\":\"incorrect username or password\"}")
        } else {
            wants_token(head)
        }
    })
    .await;
    let (asking, access) = (Asking::new(), in_the_clear(login(&server, "user")));
    let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
    let words = [
        &*format!("{}/token", server.url()),
        "incorrect username or password",
        "spec.helmSecretName",
    ];
    assert_fails(outcome, Reason::Unauthorized, Pace::SLOW, &words);
    assert_eq!(server.lines(), [HEAD, TOKEN]);
    assert_eq!(asking.requests("token", "Unauthorized"), 1);
}

#[tokio::test]
async fn a_token_server_that_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let down = listener.local_addr().unwrap();
    drop(listener);
    let server = Server::http(move |_| wants(&format!("Bearer realm=\"http://{down}/token\""))).await;
    let (asking, access) = (Asking::new(), in_the_clear(anonymous()));
    let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
    let words = [
        &*format!("failed to fetch http://{down}/token"),
        "connection refused",
    ];
    assert_fails(outcome, Reason::ConnectionFailed, Pace::TRANSIENT, &words);
    assert_eq!(asking.requests("token", "ConnectionFailed"), 1);
    asking.assert_idle(2);
    // The registry itself is well, and is not held liable.
    let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
    assert_fails(outcome, Reason::ConnectionFailed, Pace::TRANSIENT, &words);
    assert_eq!(server.heads().len(), 2);

    let server = Server::http(|head| {
        if head.is_for_token() {
            status(503, &[])
        } else {
            wants_token(head)
        }
    })
    .await;
    let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
    let words = [
        &*format!("{}/token", server.url()),
        "error code: 503: the server is in trouble",
    ];
    assert_fails(outcome, Reason::RepositoryError, Pace::TRANSIENT, &words);
}

#[tokio::test]
async fn tokens_that_are_none() {
    let broken: [(Answering, &str); 4] = [
        (
            || answer(200, &[], "<html>Sign in</html>"),
            "is not a JSON object",
        ),
        (|| answer(200, &[], "{}"), "holds no token"),
        (
            || answer(200, &[], "{\"token\":\"a\\r\\nX-Evil: b\"}"),
            "characters that no header can carry",
        ),
        (|| forever(&[], vec![b' '; 1 << 16]), "larger than"),
    ];
    for (reply, words) in broken {
        let server = Server::http(move |head| {
            if head.is_for_token() {
                reply()
            } else {
                wants_token(head)
            }
        })
        .await;
        let asking = Asking::new();
        let outcome = asking
            .registry(&in_the_clear(anonymous()), &reference(&server), "1.0.0")
            .await;
        let error = outcome.unwrap_err();
        assert!(
            matches!(error.reason(), Reason::RepositoryError | Reason::ResponseTooLarge),
            "{error}"
        );
        assert_eq!(error.pace(), Some(Pace::SLOW), "{error}");
        let message = error.to_string();
        assert!(
            message.contains(words) && message.contains(&format!("{}/token", server.url())),
            "{message}"
        );
        assert_eq!(server.heads().len(), 2);
        asking.assert_idle(2);
    }
}

#[tokio::test]
async fn a_password_does_not_go_to_a_realm_in_the_clear() {
    let ca = Ca::new();
    let plain = Server::http(|_| token("t1", 300)).await;
    let realm = format!("Bearer realm=\"{}/token\"", plain.url());
    let server = Server::https(ca.serving(), move |_| wants(&realm)).await;
    let access = trusting(login(&server, "user"), &ca);
    let outcome = Asking::new()
        .registry(&access, &reference(&server), "1.0.0")
        .await;
    let words = [
        &*server.url(),
        &plain.host(),
        "in the clear",
        "must name an https realm",
    ];
    assert_fails(outcome, Reason::RepositoryError, Pace::SLOW, &words);
    assert!(plain.lines().is_empty());
}

#[tokio::test]
async fn a_password_goes_to_the_realm_that_the_registry_names() {
    let ca = Ca::new();
    let issuer = Server::https(ca.serving(), |_| token("t1", 300)).await;
    let realm = format!("Bearer realm=\"{}/token\"", issuer.url());
    let server = Server::https(ca.serving(), move |head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ => wants(&realm),
    })
    .await;
    let access = trusting(login(&server, "user"), &ca);
    let outcome = Asking::new()
        .registry(&access, &reference(&server), "1.0.0")
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(issuer.sent(), [basic("user")]);
    assert_eq!(server.sent(), ["", "Bearer t1"]);
}

/// A registry that names another server as its token server learns nothing of what that answers.
#[tokio::test]
async fn nothing_is_quoted_of_a_realm_on_another_host() {
    let answers: [(Answering, Reason, Pace); 4] = [
        (
            || refused(403, "DENIED", "internal-only"),
            Reason::Forbidden,
            Pace::SLOW,
        ),
        (
            || answer(401, &[], "{\"details\":\"internal-only\"}"),
            Reason::Unauthorized,
            Pace::SLOW,
        ),
        (
            || answer(200, &[], "{\"internal-only\":1}"),
            Reason::RepositoryError,
            Pace::SLOW,
        ),
        (
            || answer(200, &[("Content-Encoding", "internal-only")], "x"),
            Reason::RepositoryError,
            Pace::TRANSIENT,
        ),
    ];
    for (reply, reason, pace) in answers {
        let inner = Server::http(move |_| reply()).await;
        let realm = format!("Bearer realm=\"{}/status\"", inner.url());
        let server = Server::http(move |_| wants(&realm)).await;
        let outcome = Asking::new()
            .registry(&in_the_clear(anonymous()), &reference(&server), "1.0.0")
            .await;
        let error = assert_fails(outcome, reason, pace, &[&inner.host()]);
        assert!(!format!("{error}{error:?}").contains("internal-only"), "{error}");
        assert_eq!(inner.heads().len(), 1);
    }
}

#[tokio::test]
async fn demands_that_cannot_be_met() {
    for (challenge, words) in [
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
            Some(challenge) => wants(challenge),
            None => status(401, &[]),
        })
        .await;
        let access = in_the_clear(login(&server, "user"));
        let outcome = Asking::new()
            .registry(&access, &reference(&server), "1.0.0")
            .await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Pace::SLOW,
            &[&server.host(), words],
        );
        assert_eq!(server.heads().len(), 1);
    }
}

#[tokio::test]
async fn a_token_that_does_not_suffice() {
    let server = Server::http(|head| match head.text("Authorization") {
        "Bearer t1" => refused(403, "DENIED", "requested access to the resource is denied"),
        _ if head.is_for_token() => token("t1", 300),
        _ => wants_token(head),
    })
    .await;
    let access = in_the_clear(login(&server, "user"));
    let outcome = Asking::new().registry(&access, &reference(&server), "").await;
    let words = [
        "may not pull from repository \"web\"",
        "DENIED: requested access to the resource is denied",
    ];
    assert_fails(outcome, Reason::Forbidden, Pace::SLOW, &words);
}

#[tokio::test]
async fn who_asks_for_a_token_does_not_hold_a_turn_meanwhile() {
    // More charts at once than a host is asked for at a time, and the token server is the same host.
    let server = Server::http(|head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ if head.is_for_token() => token("t1", 300),
        _ => wants_token(head),
    })
    .await;
    let (asking, access) = (Asking::new(), in_the_clear(anonymous()));
    let charts = (0..20)
        .map(|number| format!("oci://{}/web-{number}", server.host()))
        .collect::<Vec<_>>();
    let look_ups = charts
        .iter()
        .map(|chart| asking.registry(&access, chart, "1.0.0"));
    for outcome in in_time(futures::future::join_all(look_ups)).await {
        assert_eq!(version(outcome), "1.0.0");
    }
    assert_eq!(asking.requests("token", "success"), 20);
    asking.assert_idle(60);
}
