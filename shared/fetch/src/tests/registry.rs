//! Registries: which requests are sent, and what their responses mean.

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, ClassifiedError, classified};
use reqwest::StatusCode;

use super::{
    fixture::{ResolveResult, TestResolver, anonymous, assert_fails, over_plain_http, reference, version},
    responses::{DIGEST, manifest, refused, registry, tags},
    server::{Reply, RequestHead, Server, forever, response, status},
};
use crate::{ResolveError, access::Access, oci::RegistryError};

const LIST: &str = "GET /v2/web/tags/list?n=1000";

fn access() -> Access {
    over_plain_http(anonymous())
}

async fn resolve(
    version: &str,
    script: impl Fn(&RequestHead) -> Reply + Send + Sync + 'static,
) -> (TestResolver, Server, ResolveResult) {
    let server = Server::http(script).await;
    let resolver = TestResolver::new();
    let outcome = resolver.registry(&access(), &reference(&server), version).await;
    resolver.assert_idle(server.requests().len() as u64);
    (resolver, server, outcome)
}

#[tokio::test]
async fn an_exact_version_costs_one_request_for_its_manifest() {
    let (resolver, server, outcome) = resolve("1.0.0", |head| registry(head, &["1.0.0", "1.1.0"])).await;
    let found = outcome.unwrap();
    assert_eq!((found.version.as_str(), found.digest.as_str()), ("1.0.0", DIGEST));
    assert_eq!(found.url, format!("oci://{}/web:1.0.0", server.host()));
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0"]);
    assert!(
        server.requests()[0]
            .text("Accept")
            .contains("application/vnd.oci.image.manifest.v1+json")
    );
    assert_eq!(resolver.requests("manifest", "success"), 1);
    assert_eq!(resolver.bytes("manifest"), 0);
}

#[tokio::test]
async fn a_range_costs_a_tag_list_and_a_manifest() {
    let (resolver, server, outcome) = resolve("1.x", |head| {
        registry(head, &["latest", "1.0.0", "1.1.0", "2.0.0"])
    })
    .await;
    let found = outcome.unwrap();
    assert_eq!((found.version.as_str(), found.digest.as_str()), ("1.1.0", DIGEST));
    assert_eq!(server.lines(), [LIST, "HEAD /v2/web/manifests/1.1.0"]);
    assert_eq!(resolver.requests("tags", "success"), 1);
    assert!(resolver.bytes("tags") > 0);
}

#[tokio::test]
async fn an_exact_version_without_a_tag_is_searched_in_the_list() {
    let (_, server, outcome) = resolve("1.0.0", |head| registry(head, &["1.0.0_build.1", "0.9.0"])).await;
    let found = outcome.unwrap();
    assert_eq!(found.version, "1.0.0+build.1", "_ in a tag stands for +");
    let lines = [
        "HEAD /v2/web/manifests/1.0.0",
        LIST,
        "HEAD /v2/web/manifests/1.0.0_build.1",
    ];
    assert_eq!(server.lines(), lines);

    let (resolver, server, outcome) = resolve("1.0.0", |head| registry(head, &["0.9.0", "1.1.0"])).await;
    let expected = [
        &*server.host(),
        "could not find tag matching constraint",
        "0.9.0",
        "1.1.0",
    ];
    assert_fails(outcome, Reason::NoMatchingVersion, Class::Absent, &expected);
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0", LIST]);
    assert_eq!(resolver.requests("manifest", "RepositoryNotFound"), 1);
}

#[tokio::test]
async fn build_metadata_is_requested_with_an_underscore() {
    let (_, server, outcome) = resolve("1.0.0+build.1", |head| registry(head, &["1.0.0_build.1"])).await;
    assert_eq!(version(outcome), "1.0.0+build.1");
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0_build.1"]);
}

#[tokio::test]
async fn a_digest_without_a_valid_header_is_computed() {
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
        let script = move |head: &RequestHead| match head.method.as_str() {
            "HEAD" => status(200, headers),
            _ => response(200, &[], BODY),
        };
        let (resolver, server, outcome) = resolve("1.0.0", script).await;
        assert_eq!(outcome.unwrap().digest, COMPUTED);
        assert_eq!(
            server.lines(),
            ["HEAD /v2/web/manifests/1.0.0", "GET /v2/web/manifests/1.0.0"]
        );
        assert_eq!(resolver.bytes("manifest"), BODY.len() as u64);
    }
}

#[tokio::test]
async fn a_digest_in_the_reference_must_match_the_manifest() {
    let server = Server::http(|head| registry(head, &["1.0.0"])).await;
    let resolver = TestResolver::new();
    let pinned = |digest: &str| format!("{}@{digest}", reference(&server));
    let outcome = resolver.registry(&access(), &pinned(DIGEST), "1.0.0").await;
    assert_eq!(version(outcome), "1.0.0");
    let other = DIGEST.replace('4', "5");
    for requested in ["1.0.0", "1.x"] {
        let outcome = resolver.registry(&access(), &pinned(&other), requested).await;
        let expected = ["digest mismatch: tag 1.0.0", DIGEST, &other, &server.host()];
        assert_fails(outcome, Reason::NoMatchingVersion, Class::Absent, &expected);
    }
}

/// A registry whose tag `latest` is a chart of version 1.2.3.
fn latest(head: &RequestHead) -> Reply {
    let config = "application/vnd.cncf.helm.config.v1+json";
    if head.target.contains("/blobs/") {
        response(200, &[], r#"{ "name": "web", "version": "1.2.3" }"#)
    } else if head.method == "HEAD" {
        response(200, &[("Docker-Content-Digest", DIGEST)], "")
    } else {
        let body = format!(r#"{{ "config": {{ "mediaType": "{config}", "digest": "{DIGEST}" }} }}"#);
        response(200, &[], body)
    }
}

#[tokio::test]
async fn the_version_of_another_tag_and_of_a_digest_is_that_of_the_chart() {
    let server = Server::http(latest).await;
    let resolver = TestResolver::new();
    let tagged = format!("{}:latest", reference(&server));
    let first = resolver.registry(&access(), &tagged, "").await.unwrap();
    assert_eq!((&*first.version, &*first.digest), ("1.2.3", DIGEST));
    assert_eq!(first.url, format!("oci://{}/web:latest", server.host()));
    let manifest = format!("GET /v2/web/manifests/{DIGEST}");
    let blob = format!("GET /v2/web/blobs/{DIGEST}");
    let head = "HEAD /v2/web/manifests/latest".to_owned();
    assert_eq!(server.lines(), [head.clone(), manifest.clone(), blob.clone()]);
    // A digest has one version: the second poll costs one request.
    assert_eq!(resolver.registry(&access(), &tagged, "1.x").await.unwrap(), first);
    assert_eq!(server.lines()[3..], [head]);
    let outcome = resolver.registry(&access(), &tagged, "2.x").await;
    let expected = [":latest is version \"1.2.3\"", "\"2.x\"", &server.host()];
    assert_fails(outcome, Reason::NoMatchingVersion, Class::Absent, &expected);

    let server = Server::http(latest).await;
    let pinned = format!("{}@{DIGEST}", reference(&server));
    let found = TestResolver::new()
        .registry(&access(), &pinned, "")
        .await
        .unwrap();
    assert_eq!((&*found.version, &*found.digest), ("1.2.3", DIGEST));
    assert_eq!(found.url, format!("oci://{}/web@{DIGEST}", server.host()));
    assert_eq!(server.lines(), [manifest, blob]);
}

#[tokio::test]
async fn another_tag_must_be_that_of_a_chart_and_have_the_digest_of_the_reference() {
    let server = Server::http(latest).await;
    let pinned = format!("{}:latest@{}", reference(&server), DIGEST.replace('4', "5"));
    let outcome = TestResolver::new().registry(&access(), &pinned, "").await;
    assert_fails(
        outcome,
        Reason::NoMatchingVersion,
        Class::Absent,
        &["digest mismatch: tag latest", DIGEST],
    );
    let (resolver, repo) = (TestResolver::new(), |server: &Server| {
        format!("{}:latest", reference(server))
    });
    let image = Server::http(|head| match head.method.as_str() {
        "HEAD" => latest(head),
        _ => response(200, &[], r#"{ "config": { "mediaType": "image" } }"#),
    });
    let image = image.await;
    let outcome = resolver.registry(&access(), &repo(&image), "").await;
    assert_fails(
        outcome,
        Reason::InvalidChart,
        Class::Absent,
        &["not a chart", "\"image\"", DIGEST],
    );
}

#[tokio::test]
async fn a_tag_in_the_reference_is_the_version() {
    let server = Server::http(|head| registry(head, &["1.0.0", "1.1.0"])).await;
    let resolver = TestResolver::new();
    let tagged = format!("{}:1.0.0", reference(&server));
    assert_eq!(
        version(resolver.registry(&access(), &tagged, "1.x").await),
        "1.0.0"
    );
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0"]);
    let error = resolver.registry(&access(), &tagged, "2.x").await.unwrap_err();
    assert_eq!(
        error.classify(),
        classified(Reason::InvalidVersion, Class::Permanent),
        "{error}"
    );
    assert!(error.to_string().contains("mismatch: tag \"1.0.0\""), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_scheme_is_case_insensitive() {
    let server = Server::http(|head| registry(head, &["1.0.0"])).await;
    let repo = reference(&server).replace("oci://", "OCI://");
    let found = TestResolver::new().registry(&access(), &repo, "").await.unwrap();
    assert_eq!(found.url, format!("oci://{}/web:1.0.0", server.host()));
}

#[tokio::test]
async fn error_responses_are_distinguished() {
    for (code, word, reason, expected) in [
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
            "NAME_INVALID: sent by a test",
        ),
        (
            403,
            "DENIED",
            Reason::Forbidden,
            "no login was sent, because spec.helmSecretName is empty",
        ),
        (404, "DENIED", Reason::Forbidden, "DENIED: sent by a test"),
        (403, "", Reason::Forbidden, "name the Secret there"),
        (
            403,
            "UNAUTHORIZED",
            Reason::Unauthorized,
            "or check spec.helm.repo",
        ),
        (
            405,
            "UNSUPPORTED",
            Reason::RepositoryError,
            "not a response that a registry returns to this request",
        ),
    ] {
        let (resolver, server, outcome) = resolve("", move |_| refused(code, word, "sent by a test")).await;
        let status = format!("the registry responded with status {code}");
        let expected = [
            &*format!("http://{}/v2/web/tags/list", server.host()),
            expected,
            &status,
            "sent by a test",
        ];
        let error = assert_fails(outcome, reason, Class::Absent, &expected);
        let ResolveError::Registry(RegistryError::Refused { status, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(status, StatusCode::from_u16(code).unwrap());
        assert_eq!(server.lines(), [LIST]);
        assert_eq!(resolver.requests("tags", "success"), 0);
    }
}

#[tokio::test]
async fn an_error_response_to_head_is_reported_by_its_status() {
    // A response to HEAD has no body, so it has no error code.
    let head = |code| status(code, &[("Content-Length", "80")]);
    let (_, server, outcome) = resolve("1.0.0", move |_| head(403)).await;
    assert_fails(
        outcome,
        Reason::Forbidden,
        Class::Absent,
        &[&server.host(), "no login was sent"],
    );
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0"]);

    // If the manifest is unknown, the tag list shows whether the repository is too.
    let script = move |request: &RequestHead| match request.method.as_str() {
        "HEAD" => head(404),
        _ => refused(404, "NAME_UNKNOWN", "repository name not known to registry"),
    };
    let (_, server, outcome) = resolve("1.0.0", script).await;
    let expected = ["repository \"web\" not found in the registry", "NAME_UNKNOWN"];
    assert_fails(outcome, Reason::RepositoryNotFound, Class::Absent, &expected);
    assert_eq!(server.lines(), ["HEAD /v2/web/manifests/1.0.0", LIST]);
}

#[tokio::test]
async fn a_server_error_is_retried() {
    let (_, server, outcome) = resolve("1.0.0", |_| status(502, &[])).await;
    let expected = [&*server.host(), "error code: 502: the server failed"];
    assert_fails(outcome, Reason::RepositoryError, Class::TRANSIENT, &expected);
}

#[tokio::test]
async fn a_repository_without_versions_is_an_error() {
    for body in [
        "{\"name\":\"web\",\"tags\":null}",
        "{\"tags\":[]}",
        "{\"tags\":[\"latest\",\"1\",7]}",
    ] {
        let (_, server, outcome) = resolve("", move |_| response(200, &[], body)).await;
        let expected = [
            "no chart version found: chart \"web\" has no versions",
            &*server.host(),
        ];
        assert_fails(outcome, Reason::NoMatchingVersion, Class::Absent, &expected);
    }
}

#[tokio::test]
async fn invalid_tag_lists_are_reported_with_their_content() {
    for (body, expected) in [
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
        let (resolver, server, outcome) = resolve("", move |_| response(200, &[], body)).await;
        assert_fails(
            outcome,
            Reason::RepositoryError,
            Class::Absent,
            &[&server.host(), expected],
        );
        assert_eq!(
            resolver.requests("tags", "success"),
            1,
            "the response itself was complete"
        );
    }
}

#[tokio::test]
async fn endless_pages_and_manifests_are_aborted() {
    let (resolver, server, outcome) = resolve("", |_| forever(&[], vec![b' '; 1 << 16])).await;
    let expected = [&*server.host(), "larger than 4 MiB"];
    assert_fails(outcome, Reason::ResponseTooLarge, Class::Absent, &expected);
    server.wait_for_disconnects(1).await;
    assert!(server.written() < 36 << 20, "{}", server.written());
    assert_eq!(resolver.requests("tags", "ResponseTooLarge"), 1);

    let script = |head: &RequestHead| match head.method.as_str() {
        "HEAD" => status(200, &[]),
        _ => forever(&[], vec![b' '; 1 << 16]),
    };
    let (resolver, _, outcome) = resolve("1.0.0", script).await;
    assert_fails(
        outcome,
        Reason::ResponseTooLarge,
        Class::Absent,
        &["larger than 4 MiB"],
    );
    assert_eq!(resolver.requests("manifest", "ResponseTooLarge"), 1);
}

#[tokio::test]
async fn endless_error_responses_are_aborted() {
    let script = |_: &RequestHead| {
        let mut reply = forever(&[], vec![b' '; 1 << 16]);
        reply[0] = super::server::Action::Write(b"HTTP/1.1 403 Forbidden\r\n\r\n".to_vec());
        reply
    };
    let (_, server, outcome) = resolve("", script).await;
    assert_fails(outcome, Reason::Forbidden, Class::Absent, &["no login was sent"]);
    server.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn a_new_tag_is_found_by_the_next_resolution() {
    let script = |head: &RequestHead| match (head.nth, head.method.as_str()) {
        (_, "HEAD") => manifest(),
        (0, _) => tags(&[], &["1.0.0"]),
        _ => tags(&[], &["1.0.0", "1.1.0"]),
    };
    let server = Server::http(script).await;
    let resolver = TestResolver::new();
    for expected in ["1.0.0", "1.1.0"] {
        let outcome = resolver.registry(&access(), &reference(&server), "").await;
        assert_eq!(version(outcome), expected);
    }
}
