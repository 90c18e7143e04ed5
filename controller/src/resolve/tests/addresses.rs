//! Addresses that no request goes to, and answers of which nothing is quoted.

use helmops_shared::reason::Reason;

use super::{
    answers::{indexed, refused, registry, token, wants_token},
    asking::{Asking, anonymous, assert_fails, in_the_clear, reference, version},
    rig::{Head, Reply, Server, answer, status},
};
use crate::{
    backoff::Pace,
    resolve::http::{Addresses, Cidr},
};

/// What stands in answers that are nobody's business.
const INNER: &str = "inner-secret";

fn ranges(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn redirect(to: &str) -> Reply {
    status(302, &[("Location", to)])
}

#[tokio::test]
async fn an_address_of_this_machine() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let asking = Asking::to(Addresses::default());
    let words = ["127.0.0.1 is a loopback address", "--allow-cidrs"];
    let outcome = asking.repository(&anonymous(), &server.url()).await;
    assert_fails(outcome, Reason::ConnectionFailed, Pace::SLOW, &words);
    let access = in_the_clear(anonymous());
    let outcome = asking.registry(&access, &reference(&server), "").await;
    assert_fails(outcome, Reason::ConnectionFailed, Pace::SLOW, &words);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_name_of_this_machine() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let asking = Asking::to(Addresses::default());
    let url = format!("http://localhost:{}", server.port());
    for _ in 0..2 {
        let outcome = asking.repository(&anonymous(), &url).await;
        let words = ["host \"localhost\" has only addresses", "--allow-cidrs"];
        let error = assert_fails(outcome, Reason::ConnectionFailed, Pace::SLOW, &words);
        let message = error.to_string();
        assert!(
            !message.contains("127.0.0.1") && !message.contains("::1"),
            "{message}"
        );
    }
    assert_eq!(server.connections(), 0);
    assert_eq!(asking.requests("index", "ConnectionFailed"), 2);
}

#[tokio::test]
async fn where_a_redirect_leads() {
    let inner = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let places = [
        format!("http://127.0.0.2:{}/index.yaml", inner.port()),
        format!("http://[::ffff:127.0.0.2]:{}/index.yaml", inner.port()),
        format!("http://169.254.169.254:{}/latest/meta-data", inner.port()),
        "//0/index.yaml".to_owned(),
    ];
    for place in places {
        let server = Server::http(move |_| redirect(&place)).await;
        let asking = Asking::to(Addresses {
            allow: ranges(&["127.0.0.1"]),
            deny: Vec::new(),
        });
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        let words = [&*server.url(), "--allow-cidrs"];
        assert_fails(outcome, Reason::ConnectionFailed, Pace::SLOW, &words);
        assert_eq!(server.heads().len(), 1);
        asking.assert_idle(1);
    }
    assert_eq!(inner.connections(), 0);
}

#[tokio::test]
async fn what_is_denied_is_denied_under_any_name() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let asking = Asking::to(Addresses {
        allow: ranges(&["127.0.0.0/8", "::1"]),
        deny: ranges(&["127.0.0.0/8", "::1"]),
    });
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{}", server.port());
        let outcome = asking.repository(&anonymous(), &url).await;
        let words = ["--deny-cidrs"];
        assert_fails(outcome, Reason::ConnectionFailed, Pace::SLOW, &words);
    }
    assert_eq!(server.connections(), 0);
}

/// A server that redirects to another one, whose answers hold [`INNER`].
async fn leading_to(inner: impl Fn(&Head) -> Reply + Send + Sync + 'static) -> (Server, Server) {
    let inner = Server::http(inner).await;
    let away = inner.url();
    let server = Server::http(move |head| redirect(&format!("{away}{}", head.target))).await;
    (server, inner)
}

#[tokio::test]
async fn nothing_of_an_answer_elsewhere_is_quoted() {
    let inners: [fn(&Head) -> Reply; 6] = [
        |_| answer(200, &[], format!("{INNER} is what stands here")),
        |_| answer(200, &[], format!("message: {INNER}\n")),
        |_| {
            answer(
                200,
                &[],
                format!("{{\"errors\":[{{\"code\":\"X\",\"message\":\"{INNER}\"}}]}}"),
            )
        },
        |_| answer(200, &[("Content-Encoding", INNER)], ""),
        |_| refused(403, INNER, INNER),
        |_| {
            answer(
                200,
                &[("Link", "<http://inner-secret/>; rel=\"next\"")],
                "{\"tags\":[]}",
            )
        },
    ];
    for inner in inners {
        let (server, inner) = leading_to(inner).await;
        let asking = Asking::new();
        let access = in_the_clear(anonymous());
        for outcome in [
            asking.repository(&anonymous(), &server.url()).await,
            asking.registry(&access, &reference(&server), "").await,
        ] {
            let message = format!("{:?}", outcome.unwrap_err());
            assert!(!message.contains(INNER), "{message}");
        }
        assert!(!inner.heads().is_empty());
    }
}

#[tokio::test]
async fn at_home_answers_are_quoted() {
    let server = Server::http(|_| answer(200, &[], format!("{INNER} is what stands here"))).await;
    let outcome = Asking::new().repository(&anonymous(), &server.url()).await;
    assert_fails(outcome, Reason::InvalidIndex, Pace::SLOW, &[INNER]);
}

#[tokio::test]
async fn an_index_elsewhere_is_an_index() {
    let (server, _inner) = leading_to(|_| indexed(&[], &["1.0.0"])).await;
    let found = Asking::new().repository(&anonymous(), &server.url()).await;
    assert_eq!(version(found), "1.0.0");
}

#[tokio::test]
async fn nothing_of_a_token_elsewhere_is_quoted() {
    let inner = Server::http(|_| answer(200, &[], format!("{{\"token\": {INNER}}}"))).await;
    let away = format!("{}/token", inner.url());
    let server = Server::http(move |head| match head.text("Authorization") {
        "Bearer t1" => registry(head, &["1.0.0"]),
        _ if head.is_for_token() => redirect(&away),
        _ => wants_token(head),
    })
    .await;
    let access = in_the_clear(anonymous());
    let outcome = Asking::new().registry(&access, &reference(&server), "").await;
    let message = format!("{:?}", outcome.unwrap_err());
    assert!(!message.contains(INNER), "{message}");
    assert_eq!(inner.heads().len(), 1);
}

#[tokio::test]
async fn a_host_that_a_redirect_led_to_does_not_get_the_login() {
    let foreign = Server::http(|head| match head.target.as_str() {
        _ if head.is_for_token() => token("t1", 300),
        _ => wants_token(head),
    })
    .await;
    let away = foreign.url();
    let server = Server::http(move |head| redirect(&format!("{away}{}", head.target))).await;
    let access = in_the_clear(super::asking::login(&server, "user"));
    for version in ["", "1.0.0"] {
        let outcome = Asking::new()
            .registry(&access, &reference(&server), version)
            .await;
        let error = outcome.unwrap_err();
        assert_eq!(error.reason(), Reason::Unauthorized, "{error}");
    }
    assert!(!foreign.heads().is_empty());
    for head in foreign.heads() {
        assert_eq!(head.header("Authorization"), None, "{head:?}");
        assert!(!head.is_for_token(), "{head:?}");
    }
}
