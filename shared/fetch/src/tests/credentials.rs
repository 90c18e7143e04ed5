//! Which credentials are sent where, and what messages report about them.

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{
        PASSWORD, TestResolver, anonymous, assert_fails, basic, login, login_at, over_plain_http, reference,
        version,
    },
    responses::{indexed, registry, unauthorized},
    server::{Reply, RequestHead, Server, response, status},
};
use crate::{
    access::Access,
    login::{EntryWithoutLogin, Login},
};

/// Serves charts to one user.
fn private(head: &RequestHead) -> Reply {
    if head.text("Authorization") == basic("user") {
        indexed(&[], &["1.0.0"])
    } else {
        unauthorized("Basic realm=\"charts\"")
    }
}

#[tokio::test]
async fn a_login_is_sent_with_the_first_request() {
    let server = Server::http(private).await;
    let outcome = TestResolver::new()
        .repository(&login(&server, "user"), &server.url())
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.authorizations(), [basic("user")]);
}

#[tokio::test]
async fn a_rejected_login_is_sent_again_by_the_next_resolution() {
    // The account is created between two resolutions.
    let server = Server::http(|head| {
        if head.nth == 0 {
            unauthorized("Basic realm=\"charts\"")
        } else {
            private(head)
        }
    })
    .await;
    let (resolver, access) = (TestResolver::new(), login(&server, "user"));
    let outcome = resolver.repository(&access, &server.url()).await;
    let expected = [
        &*server.url(),
        "error code: 401",
        "check username and password in the Secret",
    ];
    assert_fails(outcome, Reason::Unauthorized, Class::Absent, &expected);
    assert_eq!(
        server.requests().len(),
        1,
        "a second request would be refused too"
    );
    assert_eq!(
        version(resolver.repository(&access, &server.url()).await),
        "1.0.0"
    );
    assert_eq!(resolver.requests("index", "Unauthorized"), 1);
    resolver.assert_idle(2);
}

#[tokio::test]
async fn credentials_for_another_host_are_not_sent() {
    for code in [401, 403] {
        let server = Server::http(move |_| status(code, &[])).await;
        let access = login_at("https://charts.example.com/team", "user");
        let resolver = TestResolver::new();
        let outcome = resolver.repository(&access, &server.url()).await;
        let status = format!("error code: {code}: the server requires");
        let expected = [
            &*server.url(),
            &status,
            "those in Secret access are for https://charts.example.com and are not sent anywhere else",
            "create a separate HelmOp",
        ];
        assert_fails(outcome, Reason::CredentialsNotForHost, Class::Absent, &expected);
        assert_eq!(server.authorizations(), [""]);
        assert_eq!(resolver.requests("index", "CredentialsNotForHost"), 1);
    }
}

#[tokio::test]
async fn credentials_that_are_not_sent_are_no_error_if_none_are_required() {
    let server = Server::http(|_| indexed(&[], &["1.0.0"])).await;
    let access = login_at("https://charts.example.com", "user");
    let resolver = TestResolver::new();
    assert_eq!(
        version(resolver.repository(&access, &server.url()).await),
        "1.0.0"
    );
    let outcome = resolver
        .repository(&access, &format!("{}/none", server.url()))
        .await;
    assert_eq!(version(outcome), "1.0.0");
    assert_eq!(server.authorizations(), ["", ""]);
}

#[tokio::test]
async fn credentials_for_another_host_are_not_sent_to_a_registry() {
    let server = Server::http(|_| unauthorized("Basic realm=\"registry\"")).await;
    let access = over_plain_http(login_at("https://charts.example.com", "user"));
    let resolver = TestResolver::new();
    for requested in ["1.0.0", "1.x"] {
        let outcome = resolver.registry(&access, &reference(&server), requested).await;
        let expected = [
            &*server.host(),
            "responded with status 401",
            "are for https://charts.example.com",
        ];
        assert_fails(outcome, Reason::CredentialsNotForHost, Class::Absent, &expected);
    }
    assert_eq!(server.authorizations(), ["", ""]);
    assert_eq!(resolver.requests("manifest", "Unauthorized"), 1);
    assert_eq!(resolver.requests("tags", "Unauthorized"), 1);
    resolver.assert_idle(2);
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_port_or_scheme_of_the_host() {
    let server = Server::http(private).await;
    for origin in [
        format!("http://127.0.0.1:{}", server.port() ^ 1),
        format!("https://{}", server.host()),
        format!("http://localhost:{}", server.port()),
    ] {
        let outcome = TestResolver::new()
            .repository(&login_at(&origin, "user"), &server.url())
            .await;
        assert_fails(outcome, Reason::CredentialsNotForHost, Class::Absent, &[&origin]);
    }
    assert_eq!(server.authorizations(), ["", "", ""]);
}

#[tokio::test]
async fn host_logins_are_sent_to_their_host_only() {
    let (server, other) = (Server::http(private).await, Server::http(private).await);
    let access = Access {
        host_logins: vec![(
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
    let resolver = TestResolver::new();
    assert_eq!(
        version(resolver.repository(&access, &server.url()).await),
        "1.0.0"
    );
    let outcome = resolver.repository(&access, &other.url()).await;
    assert_fails(
        outcome,
        Reason::CredentialsNotForHost,
        Class::Absent,
        &[
            &other.url(),
            &format!("are for {} and are not sent", server.host()),
        ],
    );
    assert_eq!(other.authorizations(), [""]);
}

#[tokio::test]
async fn a_login_in_the_url_is_sent_and_not_reported() {
    let server = Server::http(private).await;
    let with = |user: &str| server.url().replace("//", &format!("//{user}:{PASSWORD}@"));
    let resolver = TestResolver::new();
    let found = resolver.repository(&anonymous(), &with("user")).await.unwrap();
    assert_eq!(found.url, format!("{}/web-1.0.0.tgz", server.url()));
    let outcome = resolver.repository(&anonymous(), &with("other")).await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Class::Absent,
        &[&server.host(), "error code: 401"],
    );
    assert_eq!(server.authorizations(), [basic("user"), basic("other")]);
}

#[tokio::test]
async fn a_query_is_sent_and_not_reported() {
    let server = Server::http(|_| status(404, &[])).await;
    let repo = format!("{}/charts?token={PASSWORD}", server.url());
    let outcome = TestResolver::new().repository(&anonymous(), &repo).await;
    assert_fails(
        outcome,
        Reason::RepositoryNotFound,
        Class::Absent,
        &[&format!("{}/charts/index.yaml", server.url())],
    );
    assert_eq!(
        server.lines(),
        [format!("GET /charts/index.yaml?token={PASSWORD}")]
    );
}

#[tokio::test]
async fn a_docker_config_entry_may_apply_to_a_part_of_a_registry() {
    let server = Server::http(|head| match head.text("Authorization") {
        sent if sent == basic("team") => registry(head, &["1.0.0"]),
        _ => unauthorized("Basic realm=\"registry\""),
    })
    .await;
    let login = |username: &str| Login {
        username: username.to_owned(),
        password: PASSWORD.to_owned(),
    };
    let access = over_plain_http(Access {
        host_logins: vec![
            (server.host(), login("all")),
            (format!("{}/team", server.host()), login("team")),
        ],
        ..Access::default()
    });
    let resolver = TestResolver::new();
    let team = format!("oci://{}/team/web", server.host());
    assert_eq!(version(resolver.registry(&access, &team, "1.0.0").await), "1.0.0");
    let outcome = resolver.registry(&access, &reference(&server), "1.0.0").await;
    assert_fails(
        outcome,
        Reason::Unauthorized,
        Class::Absent,
        &["the registry requires other credentials"],
    );
    assert_eq!(server.authorizations(), ["", &basic("team"), "", &basic("all")]);
}

#[tokio::test]
async fn a_docker_config_login_is_not_sent_unencrypted() {
    let server = Server::http(private).await;
    let host_logins = |entry: String| Access {
        host_logins: vec![(
            entry,
            Login {
                username: "user".to_owned(),
                password: PASSWORD.to_owned(),
            },
        )],
        secret: "access".to_owned(),
        ..Access::default()
    };
    let resolver = TestResolver::new();
    let outcome = resolver
        .repository(&host_logins(server.host()), &server.url())
        .await;
    let expected = [
        "in Secret access are for HTTPS",
        "set key basicHTTP of the Secret to true",
    ];
    assert_fails(outcome, Reason::CredentialsNotForHost, Class::Absent, &expected);
    assert_eq!(server.authorizations(), [""]);
    // The Secret, or the entry, can allow it.
    for access in [
        over_plain_http(host_logins(server.host())),
        host_logins(server.url()),
    ] {
        assert_eq!(
            version(resolver.repository(&access, &server.url()).await),
            "1.0.0"
        );
    }
}

/// Whether a repository or a registry refuses it.
#[tokio::test]
async fn a_login_that_cannot_work_is_named() {
    for (status, reason) in [(401, Reason::Unauthorized), (403, Reason::Forbidden)] {
        let script =
            move |_: &RequestHead| response(status, &[("WWW-Authenticate", "Basic realm=\"charts\"")], "");
        let server = Server::http(script).await;
        let helper = EntryWithoutLogin::Helper("desktop".to_owned());
        let entry = Access {
            secret: "access".to_owned(),
            without_login: vec![(server.host(), helper)],
            ..Access::default()
        };
        let mut with_line_break = login(&server, "user");
        with_line_break.login.as_mut().unwrap().password.push('\n');
        for (access, words) in [
            (
                anonymous(),
                ["spec.helmSecretName is empty", "username and password"],
            ),
            (entry, ["credential helper (\"desktop\")", "docker-registry"]),
            (
                with_line_break,
                ["the password ends with a line break", "Secret access"],
            ),
        ] {
            let resolver = TestResolver::new();
            let outcome = resolver.repository(&access, &server.url()).await;
            let code = format!("error code: {status}: ");
            assert_fails(outcome, reason, Class::Absent, &[&[&*code][..], &words].concat());
            let access = over_plain_http(access);
            let outcome = resolver.registry(&access, &reference(&server), "1.x").await;
            let code = format!("responded with status {status}");
            assert_fails(outcome, reason, Class::Absent, &[&[&*code][..], &words].concat());
        }
    }
}
