//! Registries: what is asked of them, and what their answers come to.

use helmops_shared::reason::Reason;
use reqwest::StatusCode;

use super::{
    answers::{DIGEST, manifest, refused, registry, tags},
    asking::{Asking, Outcome, anonymous, assert_fails, in_the_clear, reference, version},
    rig::{Head, Reply, Server, answer, forever, status},
};
use crate::{
    backoff::Pace,
    resolve::{ResolveError, access::Access, oci::RegistryError},
};

const LIST: &str = "GET /v2/web/tags/list?n=1000";

fn access() -> Access {
    in_the_clear(anonymous())
}

async fn asked(
    version: &str,
    script: impl Fn(&Head) -> Reply + Send + Sync + 'static,
) -> (Asking, Server, Outcome) {
    let server = Server::http(script).await;
    let asking = Asking::new();
    let outcome = asking.registry(&access(), &reference(&server), version).await;
    asking.assert_idle(server.heads().len() as u64);
    (asking, server, outcome)
}

#[tokio::test]
async fn an_exact_version_costs_one_look_at_its_manifest() {
    let (asking, server, outcome) = asked("1.0.0", |head| registry(head, &["1.0.0", "1.1.0"])).await;
    let found = outcome.unwrap();
    assert_eq!((found.version.as_str(), found.digest.as_str()), ("1.0.0", DIGEST));
    assert_eq!(found.url, format!("oci://{}/web:1.0.0", server.host()));
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0"]);
    assert!(
        server.heads()[0]
            .text("Accept")
            .contains("application/vnd.oci.image.manifest.v1+json")
    );
    assert_eq!(asking.requests("manifest", "success"), 1);
    assert_eq!(asking.bytes("manifest"), 0);
}

#[tokio::test]
async fn a_range_costs_a_list_and_a_look() {
    let (asking, server, outcome) = asked("1.x", |head| {
        registry(head, &["latest", "1.0.0", "1.1.0", "2.0.0"])
    })
    .await;
    let found = outcome.unwrap();
    assert_eq!((found.version.as_str(), found.digest.as_str()), ("1.1.0", DIGEST));
    assert_eq!(server.lines(), [LIST, "HEAD /v2/web/manifests/1.1.0"]);
    assert_eq!(asking.requests("tags", "success"), 1);
    assert!(asking.bytes("tags") > 0);
}

#[tokio::test]
async fn an_exact_version_that_is_missing_is_looked_for_in_the_list() {
    let (_, server, outcome) = asked("1.0.0", |head| registry(head, &["1.0.0_build.1", "0.9.0"])).await;
    let found = outcome.unwrap();
    assert_eq!(found.version, "1.0.0+build.1", "what a tag writes as _ is a +");
    let lines = [
        "HEAD /v2/web/manifests/1.0.0",
        LIST,
        "HEAD /v2/web/manifests/1.0.0_build.1",
    ];
    assert_eq!(server.lines(), lines);

    let (asking, server, outcome) = asked("1.0.0", |head| registry(head, &["0.9.0", "1.1.0"])).await;
    let words = [
        &*server.host(),
        "could not find tag matching constraint",
        "0.9.0",
        "1.1.0",
    ];
    assert_fails(outcome, Reason::NoMatchingVersion, Pace::SLOW, &words);
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0", LIST]);
    assert_eq!(asking.requests("manifest", "RepositoryNotFound"), 1);
}

#[tokio::test]
async fn a_build_is_asked_for_with_an_underscore() {
    let (_, server, outcome) = asked("1.0.0+build.1", |head| registry(head, &["1.0.0_build.1"])).await;
    assert_eq!(version(outcome), "1.0.0+build.1");
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0_build.1"]);
}

#[tokio::test]
async fn a_digest_that_the_registry_does_not_tell_is_computed() {
    const BODY: &str = "{\"schemaVersion\": 2}";
    // By sha256sum.
    const COMPUTED: &str = "sha256:c5d902c53b4afcf32ad746fd9d696431650d3fbe8f7b10ca10519543fefd772c";
    const LENGTH: (&str, &str) = ("Content-Length", "20");
    let cases: [&[(&str, &str)]; 4] = [
        &[LENGTH],
        &[LENGTH, ("Docker-Content-Digest", "")],
        &[LENGTH, ("Docker-Content-Digest", "1.0.0")],
        &[LENGTH, ("Docker-Content-Digest", "sha256:c5d9")],
    ];
    for headers in cases {
        let script = move |head: &Head| match head.method.as_str() {
            "HEAD" => status(200, headers),
            _ => answer(200, &[], BODY),
        };
        let (asking, server, outcome) = asked("1.0.0", script).await;
        assert_eq!(outcome.unwrap().digest, COMPUTED);
        assert_eq!(
            server.lines(),
            ["HEAD /v2/web/manifests/1.0.0", "GET /v2/web/manifests/1.0.0"]
        );
        assert_eq!(asking.bytes("manifest"), BODY.len() as u64);
    }
}

#[tokio::test]
async fn a_digest_in_the_reference_is_held_against_the_manifest() {
    let server = Server::http(|head| registry(head, &["1.0.0"])).await;
    let asking = Asking::new();
    let pinned = |digest: &str| format!("{}@{digest}", reference(&server));
    let outcome = asking.registry(&access(), &pinned(DIGEST), "1.0.0").await;
    assert_eq!(version(outcome), "1.0.0");
    let other = DIGEST.replace('4', "5");
    for asked in ["1.0.0", "1.x"] {
        let outcome = asking.registry(&access(), &pinned(&other), asked).await;
        let words = ["digest mismatch: tag 1.0.0", DIGEST, &other, &server.host()];
        assert_fails(outcome, Reason::NoMatchingVersion, Pace::SLOW, &words);
    }
}

#[tokio::test]
async fn a_tag_in_the_reference_is_the_version() {
    let server = Server::http(|head| registry(head, &["1.0.0", "1.1.0"])).await;
    let asking = Asking::new();
    let tagged = format!("{}:1.0.0", reference(&server));
    assert_eq!(version(asking.registry(&access(), &tagged, "1.x").await), "1.0.0");
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0"]);
    let error = asking.registry(&access(), &tagged, "2.x").await.unwrap_err();
    assert_eq!(
        (error.reason(), error.pace()),
        (Reason::InvalidVersion, None),
        "{error}"
    );
    assert!(error.to_string().contains("mismatch: tag \"1.0.0\""), "{error}");
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn the_scheme_may_be_written_in_capitals() {
    let server = Server::http(|head| registry(head, &["1.0.0"])).await;
    let repo = reference(&server).replace("oci://", "OCI://");
    let found = Asking::new().registry(&access(), &repo, "").await.unwrap();
    assert_eq!(found.url, format!("oci://{}/web:1.0.0", server.host()));
}

#[tokio::test]
async fn refusals_are_told_apart() {
    for (code, word, reason, words) in [
        (
            404,
            "NAME_UNKNOWN",
            Reason::RepositoryNotFound,
            "repository \"web\" not found in the registry",
        ),
        (404, "", Reason::RepositoryNotFound, "check spec.helm.repo"),
        (
            400,
            "NAME_INVALID",
            Reason::RepositoryNotFound,
            "NAME_INVALID: told by a test",
        ),
        (
            403,
            "DENIED",
            Reason::Forbidden,
            "may not pull from repository \"web\"",
        ),
        (404, "DENIED", Reason::Forbidden, "DENIED: told by a test"),
        (
            403,
            "",
            Reason::Forbidden,
            "check the Secret that spec.helmSecretName names",
        ),
        (403, "UNAUTHORIZED", Reason::Unauthorized, "the registry requires"),
        (
            405,
            "UNSUPPORTED",
            Reason::RepositoryError,
            "not an answer that a registry gives to this",
        ),
    ] {
        let (asking, server, outcome) = asked("", move |_| refused(code, word, "told by a test")).await;
        let status = format!("the registry responded with status {code}");
        let words = [
            &*format!("http://{}/v2/web/tags/list", server.host()),
            words,
            &status,
            "told by a test",
        ];
        let error = assert_fails(outcome, reason, Pace::SLOW, &words);
        let ResolveError::Registry(RegistryError::Refused { status, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(status, StatusCode::from_u16(code).unwrap());
        assert_eq!(server.lines(), [LIST]);
        assert_eq!(asking.requests("tags", "success"), 0);
    }
}

#[tokio::test]
async fn a_look_at_a_manifest_tells_no_more_than_the_status() {
    // An answer to HEAD has no body, so that there is no word for it.
    let head = |code| status(code, &[("Content-Length", "80")]);
    let (_, server, outcome) = asked("1.0.0", move |_| head(403)).await;
    assert_fails(
        outcome,
        Reason::Forbidden,
        Pace::SLOW,
        &[&server.host(), "may not pull"],
    );
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0"]);

    // Where the manifest is unknown the list says whether the repository is.
    let script = move |request: &Head| match request.method.as_str() {
        "HEAD" => head(404),
        _ => refused(404, "NAME_UNKNOWN", "repository name not known to registry"),
    };
    let (_, server, outcome) = asked("1.0.0", script).await;
    let words = ["repository \"web\" not found in the registry", "NAME_UNKNOWN"];
    assert_fails(outcome, Reason::RepositoryNotFound, Pace::SLOW, &words);
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0", LIST]);
}

#[tokio::test]
async fn a_server_in_trouble() {
    let (_, server, outcome) = asked("1.0.0", |_| status(502, &[])).await;
    let words = [&*server.host(), "error code: 502: the server is in trouble"];
    assert_fails(outcome, Reason::RepositoryError, Pace::TRANSIENT, &words);
}

#[tokio::test]
async fn no_tags_at_all() {
    for body in [
        "{\"name\":\"web\",\"tags\":null}",
        "{\"tags\":[]}",
        "{\"tags\":[\"latest\",\"1\",7]}",
    ] {
        let (_, server, outcome) = asked("", move |_| answer(200, &[], body)).await;
        let words = [
            "no chart version found: chart \"web\" has no versions",
            &*server.host(),
        ];
        assert_fails(outcome, Reason::NoMatchingVersion, Pace::SLOW, &words);
    }
}

#[tokio::test]
async fn pages_that_are_none() {
    for (body, words) in [
        (
            "<html><body>Sign in</body></html>",
            "it begins with \"<html><body>Sign in",
        ),
        ("", "is not JSON"),
        ("{\"tags\":[\"1.0.0\"", "is not JSON"),
        (
            "[\"1.0.0\"]",
            "has no list of tags: is this the address of a registry?",
        ),
        (
            "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"no\"}]}",
            "DENIED: no",
        ),
    ] {
        let (asking, server, outcome) = asked("", move |_| answer(200, &[], body)).await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Pace::SLOW,
            &[&server.host(), words],
        );
        assert_eq!(asking.requests("tags", "success"), 1, "it arrived in good order");
    }
}

#[tokio::test]
async fn pages_and_manifests_without_end() {
    let (asking, server, outcome) = asked("", |_| forever(&[], vec![b' '; 1 << 16])).await;
    let words = [&*server.host(), "larger than 4 MiB"];
    assert_fails(outcome, Reason::ResponseTooLarge, Pace::SLOW, &words);
    server.has_been_left(1).await;
    assert!(server.written() < 36 << 20, "{}", server.written());
    assert_eq!(asking.requests("tags", "ResponseTooLarge"), 1);

    let script = |head: &Head| match head.method.as_str() {
        "HEAD" => status(200, &[]),
        _ => forever(&[], vec![b' '; 1 << 16]),
    };
    let (asking, _, outcome) = asked("1.0.0", script).await;
    assert_fails(
        outcome,
        Reason::ResponseTooLarge,
        Pace::SLOW,
        &["larger than 4 MiB"],
    );
    assert_eq!(asking.requests("manifest", "ResponseTooLarge"), 1);
}

#[tokio::test]
async fn refusals_without_end() {
    let script = |_: &Head| {
        let mut reply = forever(&[], vec![b' '; 1 << 16]);
        reply[0] = super::rig::Act::Write(b"HTTP/1.1 403 Forbidden\r\n\r\n".to_vec());
        reply
    };
    let (_, server, outcome) = asked("", script).await;
    assert_fails(outcome, Reason::Forbidden, Pace::SLOW, &["may not pull"]);
    server.has_been_left(1).await;
}

#[tokio::test]
async fn a_fresh_push_is_seen_at_the_next_look_up() {
    let script = |head: &Head| match (head.nth, head.method.as_str()) {
        (_, "HEAD") => manifest(),
        (0, _) => tags(&[], &["1.0.0"]),
        _ => tags(&[], &["1.0.0", "1.1.0"]),
    };
    let server = Server::http(script).await;
    let asking = Asking::new();
    for expected in ["1.0.0", "1.1.0"] {
        let outcome = asking.registry(&access(), &reference(&server), "").await;
        assert_eq!(version(outcome), expected);
    }
}
