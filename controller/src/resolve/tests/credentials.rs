//! Which credentials go where, and what is told of them.

use helmops_shared::reason::Reason;

use super::{
    answers::{indexed, registry, wants},
    asking::{
        Asking, PASSWORD, anonymous, assert_fails, basic, in_the_clear, login, login_at, reference, version,
    },
    rig::{Head, Reply, Server, status},
};
use crate::{
    backoff::Pace,
    resolve::access::{Access, Login},
};

/// Serves charts to one user.
fn private(head: &Head) -> Reply {
    if head.text("Authorization") == basic("user") {
        indexed(&[], &["1.0.0"])
    } else {
        wants("Basic realm=\"charts\"")
    }
}

#[tokio::test]
async fn a_login_is_sent_at_once() {
    let server = Server::http(private).await;
    let outcome = Asking::new()
        .repository(&login(&server, "user"), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.sent(), [basic("user")]);
}

#[tokio::test]
async fn refused_and_then_taken() {
    // The account is opened between two look-ups.
    let server = Server::http(|head| {
        if head.nth == 0 {
            wants("Basic realm=\"charts\"")
        } else {
            private(head)
        }
    })
    .await;
    let (asking, access) = (Asking::new(), login(&server, "user"));
    let outcome = asking.repository(&access, &server.url()).await;
    let words = [
        &*server.url(),
        "error code: 401",
        "check username and password in the Secret",
    ];
    assert_fails(outcome, Reason::Unauthorized, Pace::SLOW, &words);
    assert_eq!(server.heads().len(), 1, "the same again would be refused again");
    assert_eq!(version(asking.repository(&access, &server.url()).await), "1.0.0");
    assert_eq!(asking.requests("index", "Unauthorized"), 1);
    asking.assert_idle(2);
}

#[tokio::test]
async fn withheld_from_another_place() {
    for code in [401, 403] {
        let server = Server::http(move |_| status(code, &[])).await;
        let access = login_at("https://charts.example.com/team", "user");
        let asking = Asking::new();
        let outcome = asking.repository(&access, &server.url()).await;
        let told = format!("error code: {code}: the server requires");
        let words = [
            &*server.url(),
            &told,
            "those in Secret access are for https://charts.example.com and are not sent anywhere else",
            "create a separate HelmOp",
        ];
        assert_fails(outcome, Reason::CredentialsNotForHost, Pace::SLOW, &words);
        assert_eq!(server.sent(), [""]);
        assert_eq!(asking.requests("index", "CredentialsNotForHost"), 1);
    }
}

#[tokio::test]
async fn withheld_where_nobody_wants_it() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let access = login_at("https://charts.example.com", "user");
    let asking = Asking::new();
    assert_eq!(version(asking.repository(&access, &server.url()).await), "1.0.0");
    let outcome = asking
        .repository(&access, &format!("{}/none", server.url()))
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.sent(), ["", ""]);
}

#[tokio::test]
async fn withheld_from_a_registry() {
    let server = Server::http(|_| wants("Basic realm=\"registry\"")).await;
    let access = in_the_clear(login_at("https://charts.example.com", "user"));
    let asking = Asking::new();
    for asked in ["1.0.0", "1.x"] {
        let outcome = asking.registry(&access, &reference(&server), asked).await;
        let words = [
            &*server.host(),
            "error code: 401",
            "are for https://charts.example.com",
        ];
        assert_fails(outcome, Reason::CredentialsNotForHost, Pace::SLOW, &words);
    }
    assert_eq!(server.sent(), ["", ""]);
    assert_eq!(asking.requests("manifest", "CredentialsNotForHost"), 1);
    assert_eq!(asking.requests("tags", "CredentialsNotForHost"), 1);
    asking.assert_idle(2);
}

#[tokio::test]
async fn withheld_from_the_same_host_on_another_port_or_scheme() {
    let server = Server::http(private).await;
    for home in [
        format!("http://127.0.0.1:{}", server.port() ^ 1),
        format!("https://{}", server.host()),
        format!("http://localhost:{}", server.port()),
    ] {
        let outcome = Asking::new()
            .repository(&login_at(&home, "user"), &server.url())
            .await;
        assert_fails(outcome, Reason::CredentialsNotForHost, Pace::SLOW, &[&home]);
    }
    assert_eq!(server.sent(), ["", "", ""]);
}

#[tokio::test]
async fn a_login_for_each_host() {
    let (server, other) = (Server::http(private).await, Server::http(private).await);
    let access = Access {
        by_host: vec![(
            server.host(),
            Login {
                username: "user".to_owned(),
                password: PASSWORD.to_owned(),
            },
        )],
        secret: "access".to_owned(),
        plain_http: true,
        ..Access::default()
    };
    let asking = Asking::new();
    assert_eq!(version(asking.repository(&access, &server.url()).await), "1.0.0");
    let outcome = asking.repository(&access, &other.url()).await;
    assert_fails(
        outcome,
        Reason::CredentialsNotForHost,
        Pace::SLOW,
        &[&other.url(), "are for other hosts"],
    );
    assert_eq!(other.sent(), [""]);
}

#[tokio::test]
async fn a_login_in_the_url_is_sent_and_not_shown() {
    let server = Server::http(private).await;
    let with = |user: &str| server.url().replace("//", &format!("//{user}:{PASSWORD}@"));
    let asking = Asking::new();
    let found = asking.repository(&anonymous(), &with("user")).await.unwrap();
    assert_eq!(found.url, format!("{}/web-1.0.0.tgz", server.url()));
    let outcome = asking.repository(&anonymous(), &with("nobody")).await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Pace::SLOW,
        &[&server.host(), "error code: 401"],
    );
    assert_eq!(server.sent(), [basic("user"), basic("nobody")]);
}

#[tokio::test]
async fn what_stands_behind_the_question_mark_is_sent_and_not_shown() {
    let server = Server::http(|_| status(404, &[])).await;
    let repo = format!("{}/charts?token={PASSWORD}", server.url());
    let outcome = Asking::new().repository(&anonymous(), &repo).await;
    assert_fails(
        outcome,
        Reason::RepositoryNotFound,
        Pace::SLOW,
        &[&format!("{}/charts/index.yaml", server.url())],
    );
    assert_eq!(
        server.lines(),
        [format!("GET /charts/index.yaml?token={PASSWORD}")]
    );
}

#[tokio::test]
async fn an_entry_of_a_docker_config_for_a_part_of_a_registry() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("team") => registry(head, &["1.0.0"]),
        _ => wants("Basic realm=\"registry\""),
    })
    .await;
    let login = |username: &str| Login {
        username: username.to_owned(),
        password: PASSWORD.to_owned(),
    };
    let access = in_the_clear(Access {
        by_host: vec![
            (server.host(), login("all")),
            (format!("{}/team", server.host()), login("team")),
        ],
        ..Access::default()
    });
    let asking = Asking::new();
    let team = format!("oci://{}/team/web", server.host());
    assert_eq!(version(asking.registry(&access, &team, "1.0.0").await), "1.0.0");
    let outcome = asking.registry(&access, &reference(&server), "1.0.0").await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Pace::SLOW,
        &["the registry requires other credentials"],
    );
    assert_eq!(server.sent(), ["", &basic("team"), "", &basic("all")]);
}

#[tokio::test]
async fn a_login_of_a_docker_config_is_not_sent_unencrypted() {
    let server = Server::http(private).await;
    let by_host = |entry: String| Access {
        by_host: vec![(
            entry,
            Login {
                username: "user".to_owned(),
                password: PASSWORD.to_owned(),
            },
        )],
        secret: "access".to_owned(),
        ..Access::default()
    };
    let asking = Asking::new();
    let outcome = asking.repository(&by_host(server.host()), &server.url()).await;
    let words = [
        "in Secret access are for HTTPS",
        "set key basicHTTP of the Secret to true",
    ];
    assert_fails(outcome, Reason::CredentialsNotForHost, Pace::SLOW, &words);
    assert_eq!(server.sent(), [""]);
    // The Secret, or its entry, can allow it.
    for access in [in_the_clear(by_host(server.host())), by_host(server.url())] {
        assert_eq!(version(asking.repository(&access, &server.url()).await), "1.0.0");
    }
}
