//! Downloads of archives: from which URL, with which credentials, and what is refused.

use std::{
    io::{self, Write},
    sync::OnceLock,
};

use helmops_model::{chart::source::ChartSource, reason::Reason};
use helmops_runtime::error_class::{Class, ClassifiedError};
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::{
    fixture::{ARCHIVE_LIMIT, PASSWORD, TestResolver, anonymous, basic, login, over_plain_http, reference},
    responses::{CHART, unauthorized},
    server::{Reply, RequestHead, Server, forever, response, stalling, status, with_content_length},
};
use crate::{
    access::Access,
    download::{ChartDownload, DownloadError, Downloaded},
    login::Login,
};

const ARCHIVE: &[u8] = b"the archive of a chart";

type Outcome = Result<Downloaded<Vec<u8>>, DownloadError>;

fn sha256(bytes: &[u8]) -> String {
    bounded_text::hex(digest(&SHA256, bytes).as_ref())
}

/// An index with version 1.0.0 of the chart.
fn index(url: &str, digest: &str) -> Reply {
    let entry = json!({ "name": CHART, "version": "1.0.0", "urls": [url], "digest": digest });
    response(
        200,
        &[],
        json!({ "apiVersion": "v1", "entries": { CHART: [entry] } }).to_string(),
    )
}

/// A repository whose index has this URL and digest, and an archive at any other path.
fn repository(head: &RequestHead, url: &str, digest: &str) -> Reply {
    if head.target.starts_with("/index.yaml") {
        index(url, digest)
    } else {
        response(200, &[], ARCHIVE)
    }
}

fn of(repo: &str) -> ChartSource<'_> {
    ChartSource::Repository { repo, chart: CHART }
}

async fn from_repository(url: &'static str, digest: String, expected: &str) -> (Server, Outcome) {
    let server = Server::http(move |head| repository(head, url, &digest)).await;
    let resolver = TestResolver::new();
    let outcome = resolver.download(&anonymous(), of(&server.url()), expected).await;
    resolver.assert_idle(server.requests().len() as u64);
    (server, outcome)
}

#[track_caller]
fn assert_fails(outcome: Outcome, reason: Reason, class: Class, expected: &[&str]) {
    let error = outcome.expect_err("the download succeeds");
    let message = error.to_string();
    let retry = |class: Class| (class.backoff_policy(), class.is_transient());
    assert_eq!(
        (error.reason(), retry(error.class())),
        (reason, retry(class)),
        "{message}"
    );
    for part in expected {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    assert!(!format!("{message}{error:?}").contains(PASSWORD), "{message}");
    assert!(message.len() < 1024, "{message}");
}

#[tokio::test]
async fn the_archive_of_an_index_is_downloaded_and_its_digest_verified() {
    let digest = sha256(ARCHIVE);
    let (server, outcome) = from_repository("a/web-1.0.0.tgz", digest.clone(), &digest).await;
    let downloaded = outcome.unwrap();
    assert_eq!(downloaded.output, ARCHIVE);
    assert_eq!(
        (downloaded.sha256, downloaded.bytes),
        (digest, ARCHIVE.len() as u64)
    );
    assert_eq!(downloaded.url, format!("{}/a/web-1.0.0.tgz", server.url()));
    assert_eq!(server.lines(), ["GET /index.yaml", "GET /a/web-1.0.0.tgz"]);
}

/// In a version field `1.2` is a range; what was resolved is one version.
#[tokio::test]
async fn a_resolved_version_is_not_replaced_by_another_one_in_its_range() {
    let listed = |versions: &'static [&str]| {
        move |head: &RequestHead| {
            let entry = |version: &&str| json!({ "name": CHART, "version": version, "urls": [format!("{version}.tgz")] });
            let entries: Vec<_> = versions.iter().map(entry).collect();
            let index = json!({ "apiVersion": "v1", "entries": { CHART: entries } });
            if head.target.starts_with("/index.yaml") {
                response(200, &[], index.to_string())
            } else {
                response(200, &[], ARCHIVE)
            }
        }
    };
    for (versions, is_resolved, expected) in [
        (&["1.2.5", "1.2"][..], true, Some("1.2.tgz")),
        (&["1.2.5", "1.2.0"], true, Some("1.2.0.tgz")),
        (&["1.2.5"], true, None),
        // As from Fleet's controller, for a range in a target.
        (&["1.2.5"], false, Some("1.2.5.tgz")),
    ] {
        let server = Server::http(listed(versions)).await;
        let repo = server.url();
        let chart = ChartDownload {
            source: of(&repo),
            version: "1.2",
            is_resolved,
            expected_digest: "",
            limit: ARCHIVE_LIMIT,
        };
        let outcome = TestResolver::new()
            .download_to(&anonymous(), chart, Vec::new())
            .await;
        let url = expected.map(|file| format!("{repo}/{file}"));
        match (outcome, url) {
            (Ok(downloaded), Some(url)) => assert_eq!(downloaded.url, url),
            (Err(error), None) => assert_eq!(error.reason(), Reason::NoMatchingVersion, "{error}"),
            (outcome, url) => panic!("{versions:?}: {outcome:?} {url:?}"),
        }
    }
}

#[tokio::test]
async fn an_archive_with_another_digest_is_refused() {
    let (actual, other) = (sha256(ARCHIVE), sha256(b"other"));
    let words = [&*actual, &*other, "under a new version"];
    // The index has another digest than its own archive.
    let (_, outcome) = from_repository("web.tgz", other.clone(), "").await;
    assert_fails(outcome, Reason::DigestMismatch, Class::Absent, &words);
    // The index has no digest, and the archive is not the recorded one.
    let (_, outcome) = from_repository("web.tgz", String::new(), &other).await;
    assert_fails(outcome, Reason::DigestMismatch, Class::Absent, &words);
    // The version was published again.
    let (server, outcome) = from_repository("web.tgz", actual.clone(), &other).await;
    assert_fails(outcome, Reason::DigestMismatch, Class::Absent, &words);
    assert_eq!(
        server.lines(),
        ["GET /index.yaml"],
        "the archive is not requested"
    );
    // The digest is unknown.
    let (_, outcome) = from_repository("web.tgz", "5f3b".to_owned(), "").await;
    assert_eq!(outcome.unwrap().sha256, actual);
}

/// Some servers declare the compression of the archive itself.
#[tokio::test]
async fn an_archive_is_stored_as_it_is_sent() {
    for encoding in ["gzip", "x-gzip", "unknown"] {
        let server = Server::http(move |head| {
            if head.target == "/index.yaml" {
                return index("web.tgz", &sha256(ARCHIVE));
            }
            assert_eq!(head.text("Accept-Encoding"), "", "nothing is compressed twice");
            response(200, &[("Content-Encoding", encoding)], ARCHIVE)
        })
        .await;
        let outcome = TestResolver::new()
            .download(&anonymous(), of(&server.url()), "")
            .await;
        assert_eq!(outcome.unwrap().output, ARCHIVE, "{encoding}");
    }
}

#[tokio::test]
async fn a_login_is_sent_for_archives_of_the_repository_only() {
    let elsewhere = Server::http(|_| response(200, &[], ARCHIVE)).await;
    let url = format!("{}/web.tgz", elsewhere.url());
    let server = Server::http(move |head| {
        let is_first = head.nth < 2;
        repository(head, if is_first { "web.tgz" } else { &url }, "")
    })
    .await;
    let access = login(&server, "user");
    for _ in 0..2 {
        // Each resolver has its own cache of indexes.
        let outcome = TestResolver::new().download(&access, of(&server.url()), "").await;
        assert_eq!(outcome.unwrap().output, ARCHIVE);
    }
    let own = basic("user");
    assert_eq!(server.authorizations(), [&*own, &own, &own]);
    assert_eq!(elsewhere.authorizations(), [""]);
}

#[tokio::test]
async fn credentials_in_the_url_of_the_repository_are_sent_for_its_archives() {
    let server = Server::http(|head| repository(head, "web.tgz", "")).await;
    let repo = format!("http://user:{PASSWORD}@{}", server.host());
    let outcome = TestResolver::new().download(&anonymous(), of(&repo), "").await;
    let downloaded = outcome.unwrap();
    assert!(!downloaded.url.contains(PASSWORD), "{}", downloaded.url);
    assert_eq!(server.authorizations(), [basic("user"), basic("user")]);
}

#[tokio::test]
async fn a_login_for_another_host_is_named_if_an_archive_requires_one() {
    let elsewhere = Server::http(|_| unauthorized("Basic realm=\"cdn\"")).await;
    let url = format!("{}/web.tgz", elsewhere.url());
    let server = Server::http(move |head| repository(head, &url, "")).await;
    let outcome = TestResolver::new()
        .download(&login(&server, "user"), of(&server.url()), "")
        .await;
    let words = [&*server.url(), &*elsewhere.url(), "a login for each host"];
    assert_fails(outcome, Reason::CredentialsNotForHost, Class::Absent, &words);
    assert_eq!(elsewhere.authorizations(), [""]);
}

#[tokio::test]
async fn a_redirect_of_an_archive_gets_no_login() {
    let target = Server::http(|_| response(200, &[], ARCHIVE)).await;
    let location = format!("{}/blob", target.url());
    let server = Server::http(move |head| {
        if head.target == "/index.yaml" {
            index("web.tgz", &sha256(ARCHIVE))
        } else {
            status(302, &[("Location", &location)])
        }
    })
    .await;
    let outcome = TestResolver::new()
        .download(&login(&server, "user"), of(&server.url()), "")
        .await;
    assert_eq!(outcome.unwrap().output, ARCHIVE);
    assert_eq!(target.authorizations(), [""]);
}

#[tokio::test]
async fn an_archive_that_is_too_large_ends_at_the_limit() {
    for claims_length in [true, false] {
        let server = Server::http(move |head| {
            if head.target == "/index.yaml" {
                index("web.tgz", "")
            } else if claims_length {
                response(200, &[], vec![b'x'; 70 << 10])
            } else {
                forever(&[], vec![b'x'; 1 << 10])
            }
        })
        .await;
        let resolver = TestResolver::new();
        let outcome = resolver.download(&anonymous(), of(&server.url()), "").await;
        assert_fails(
            outcome,
            Reason::ResponseTooLarge,
            Class::Absent,
            &["web.tgz", "the limit"],
        );
        assert!(resolver.bytes("archive") < ARCHIVE_LIMIT + (64 << 10));
    }
}

#[tokio::test]
async fn incomplete_archives_are_errors() {
    let cases: [fn() -> Reply; 4] = [
        || with_content_length(200, &[], 100, ARCHIVE),
        || status(404, &[]),
        || status(500, &[]),
        || status(204, &[]),
    ];
    for reply in cases {
        let server = Server::http(move |head| {
            if head.target == "/index.yaml" {
                index("web.tgz", "")
            } else {
                reply()
            }
        })
        .await;
        let outcome = TestResolver::new()
            .download(&anonymous(), of(&server.url()), "")
            .await;
        let message = outcome.expect_err("the archive is incomplete").to_string();
        assert!(
            message.contains(&format!("{}/web.tgz", server.url())),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_cancelled_download_closes_the_connection() {
    let server = Server::http(|head| {
        if head.target == "/index.yaml" {
            index("web.tgz", "")
        } else {
            stalling(ARCHIVE)
        }
    })
    .await;
    let resolver = TestResolver::new();
    let (access, url) = (anonymous(), server.url());
    {
        let download = resolver.download(&access, of(&url), "");
        tokio::pin!(download);
        while server.requests().len() < 2 {
            let wait = tokio::time::sleep(std::time::Duration::from_millis(5));
            tokio::select! {
                _ = &mut download => panic!("it never ends"),
                () = wait => {}
            }
        }
    }
    server.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn a_full_disk_is_an_error_of_its_own() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let server = Server::http(|head| repository(head, "web.tgz", "")).await;
    let repo = server.url();
    let chart = ChartDownload {
        source: of(&repo),
        version: "1.0.0",
        is_resolved: false,
        expected_digest: "",
        limit: ARCHIVE_LIMIT,
    };
    let outcome = TestResolver::new().download_to(&anonymous(), chart, Full).await;
    let error = outcome.map(|_| ()).unwrap_err();
    assert_eq!(
        (error.reason(), error.class()),
        (Reason::StorageError, Class::TRANSIENT)
    );
}

#[tokio::test]
async fn an_archive_at_a_url_is_downloaded_with_its_login() {
    let server = Server::http(|head| {
        if head.text("Authorization") == basic("user") {
            response(200, &[], ARCHIVE)
        } else {
            unauthorized("Basic realm=\"charts\"")
        }
    })
    .await;
    let url = format!("{}/charts/web-1.0.0.tgz?x=y", server.url());
    let source = ChartSource::Archive { url: &url };
    let resolver = TestResolver::new();
    let download = async |expected: &str| resolver.download(&login(&server, "user"), source, expected).await;
    assert_eq!(download("").await.unwrap().output, ARCHIVE);
    assert_eq!(download(&sha256(ARCHIVE)).await.unwrap().output, ARCHIVE);
    assert_fails(
        download(&sha256(b"other")).await,
        Reason::DigestMismatch,
        Class::Absent,
        &[&sha256(ARCHIVE), &sha256(b"other")],
    );
    assert_eq!(server.lines()[0], "GET /charts/web-1.0.0.tgz?x=y");
}

// Registries.

fn manifest_of(archive: &[u8]) -> String {
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    json!({
        "schemaVersion": 2,
        "config": { "mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": format!("sha256:{}", sha256(b"{}")), "size": 2 },
        "layers": [{ "mediaType": layer, "digest": format!("sha256:{}", sha256(archive)), "size": archive.len() }],
    })
    .to_string()
}

/// A registry with tag 1.0.0, whose manifest names the archive, and this content of its blob.
fn registry(head: &RequestHead, manifest: &str, blob: &[u8]) -> Reply {
    let digest = format!("sha256:{}", sha256(manifest.as_bytes()));
    let headers = [("Docker-Content-Digest", &*digest)];
    if head.target.contains("/blobs/") {
        response(200, &[], blob)
    } else if head.method == "HEAD" {
        response(200, &headers, "")
    } else {
        response(200, &headers, manifest)
    }
}

fn manifest() -> &'static str {
    static MANIFEST: OnceLock<String> = OnceLock::new();
    MANIFEST.get_or_init(|| manifest_of(ARCHIVE))
}

fn manifest_digest() -> String {
    format!("sha256:{}", sha256(manifest().as_bytes()))
}

async fn pull(expected: &str, script: fn(&RequestHead) -> Reply) -> (Server, Outcome) {
    let server = Server::http(script).await;
    let resolver = TestResolver::new();
    let repo = reference(&server);
    let source = ChartSource::Oci { repo: &repo };
    let outcome = resolver
        .download(&over_plain_http(anonymous()), source, expected)
        .await;
    resolver.assert_idle(server.requests().len() as u64);
    (server, outcome)
}

#[tokio::test]
async fn a_chart_is_pulled_by_the_digest_of_its_tag() {
    let (server, outcome) = pull("", |head| registry(head, manifest(), ARCHIVE)).await;
    let downloaded = outcome.unwrap();
    assert_eq!(downloaded.output, ARCHIVE);
    assert_eq!(downloaded.sha256, sha256(ARCHIVE));
    assert_eq!(downloaded.url, format!("oci://{}/web:1.0.0", server.host()));
    let lines = [
        "HEAD /v2/web/manifests/1.0.0".to_owned(),
        format!("GET /v2/web/manifests/{}", manifest_digest()),
        format!("GET /v2/web/blobs/sha256:{}", sha256(ARCHIVE)),
    ];
    assert_eq!(server.lines(), lines);
}

#[tokio::test]
async fn the_files_of_a_bundle_are_the_layer_with_their_id() {
    let manifest = |ids: &[&str]| {
        let layer = |id: &&str| {
            json!({ "mediaType": "application/fleet.file", "digest": format!("sha256:{}", sha256(ARCHIVE)), "size": ARCHIVE.len(),
                "annotations": { "id": id } })
        };
        json!({ "schemaVersion": 2, "artifactType": "application/fleet.manifest", "layers": ids.iter().map(layer).collect::<Vec<_>>() })
            .to_string()
    };
    for (ids, blob, expected) in [
        (&["s-1"][..], ARCHIVE, Ok(())),
        (
            &["s-2"],
            ARCHIVE,
            Err((Reason::InvalidChart, "annotation id: s-1")),
        ),
        (
            &["s-1", "s-1"],
            ARCHIVE,
            Err((Reason::InvalidChart, "but 2 layers")),
        ),
        (&[], ARCHIVE, Err((Reason::InvalidChart, "but 0 layers"))),
        (
            &["s-1"],
            b"other",
            Err((Reason::DigestMismatch, "has the digest")),
        ),
    ] {
        let of_bundle = manifest(ids);
        let server = Server::http(move |head| registry(head, &of_bundle, blob)).await;
        let reference = format!("oci://{}/fleet/s-1:latest", server.host());
        let access = over_plain_http(anonymous());
        match (
            TestResolver::new().content(&access, &reference, "s-1").await,
            expected,
        ) {
            (Ok(downloaded), Ok(())) => assert_eq!(downloaded.output, ARCHIVE),
            (Err(error), Err((reason, text))) => {
                assert_eq!(error.reason(), reason, "{error}");
                assert!(error.to_string().contains(text), "{error}");
            }
            (outcome, expected) => panic!("{outcome:?} {expected:?}"),
        }
        assert_eq!(server.lines()[0], "HEAD /v2/fleet/s-1/manifests/latest");
    }
}

#[tokio::test]
async fn a_recorded_manifest_is_pulled_wherever_its_tag_points_now() {
    let (server, outcome) = pull(&manifest_digest(), |head| {
        if head.method == "HEAD" || head.target.ends_with("/1.0.0") {
            registry(head, &manifest_of(b"another"), ARCHIVE)
        } else {
            registry(head, manifest(), ARCHIVE)
        }
    })
    .await;
    let downloaded = outcome.unwrap();
    assert_eq!(downloaded.output, ARCHIVE);
    assert_eq!(
        downloaded.url,
        format!("oci://{}/web@{}", server.host(), manifest_digest())
    );
    let lines = [
        format!("GET /v2/web/manifests/{}", manifest_digest()),
        format!("GET /v2/web/blobs/sha256:{}", sha256(ARCHIVE)),
    ];
    assert_eq!(server.lines(), lines, "the tag is not requested");
}

#[tokio::test]
async fn a_recorded_manifest_that_was_deleted_is_named() {
    let recorded = format!("sha256:{}", sha256(b"before"));
    let (_, outcome) = pull(&recorded, |_| response(404, &[], "")).await;
    let words = [
        &*recorded,
        "\"1.0.0\"",
        "not have this manifest any more",
        "onDigestChange: Follow",
    ];
    assert_fails(outcome, Reason::NoMatchingVersion, Class::Absent, &words);
}

#[tokio::test]
async fn a_digest_in_the_reference_holds_for_a_recorded_manifest_too() {
    let server = Server::http(|head| registry(head, manifest(), ARCHIVE)).await;
    let repo = format!("{}@{}", reference(&server), manifest_digest());
    let source = ChartSource::Oci { repo: &repo };
    let other = format!("sha256:{}", sha256(b"other"));
    let resolver = TestResolver::new();
    let outcome = resolver
        .download(&over_plain_http(anonymous()), source, &other)
        .await;
    assert_fails(
        outcome,
        Reason::NoMatchingVersion,
        Class::Absent,
        &[&manifest_digest(), &other],
    );
    assert!(server.lines().is_empty(), "nothing is requested");
}

#[tokio::test]
async fn what_a_registry_replaces_on_the_way_is_refused() {
    let (_, outcome) = pull("", |head| registry(head, manifest(), b"another archive")).await;
    let words = [
        &*sha256(ARCHIVE),
        &sha256(b"another archive"),
        "the manifest of the version",
    ];
    assert_fails(outcome, Reason::DigestMismatch, Class::Absent, &words);
    let (_, outcome) = pull("", |head| {
        let shown = if head.method == "HEAD" {
            manifest().to_owned()
        } else {
            manifest_of(b"another")
        };
        registry(head, &shown, ARCHIVE)
    })
    .await;
    assert_fails(
        outcome,
        Reason::DigestMismatch,
        Class::Absent,
        &[&manifest_digest()],
    );
}

#[tokio::test]
async fn what_is_not_a_chart_is_not_pulled() {
    const IMAGE: &str =
        r#"{"config": {"mediaType": "application/vnd.oci.image.config.v1+json"}, "layers": []}"#;
    let (server, outcome) = pull("", |head| registry(head, IMAGE, ARCHIVE)).await;
    let words = ["image.config.v1+json", "helm push", &*server.host()];
    assert_fails(outcome, Reason::InvalidChart, Class::Absent, &words);
}

#[tokio::test]
async fn an_index_may_name_a_chart_in_a_registry() {
    let at_registry = Server::http(|head| registry(head, manifest(), ARCHIVE)).await;
    for (reference, lines) in [
        (format!("oci://{}/web:1.0.0", at_registry.host()), 3),
        // Promoted by an entry in the index.
        (format!("oci://{}/web:1.0.0-rc.4", at_registry.host()), 3),
        (format!("oci://{}/web:stable", at_registry.host()), 3),
        (
            format!("oci://{}/web@{}", at_registry.host(), manifest_digest()),
            2,
        ),
    ] {
        let before = at_registry.lines().len();
        let server = Server::http(move |_| index(&reference, &sha256(ARCHIVE))).await;
        let access = Access {
            host_logins: vec![(
                format!("http://{}", at_registry.host()),
                Login {
                    username: "user".to_owned(),
                    password: PASSWORD.to_owned(),
                },
            )],
            ..over_plain_http(login(&server, "owner"))
        };
        let outcome = TestResolver::new().download(&access, of(&server.url()), "").await;
        assert_eq!(outcome.unwrap().output, ARCHIVE);
        assert_eq!(at_registry.lines().len() - before, lines);
        let outcome = TestResolver::new()
            .download(&access, of(&server.url()), &sha256(b"other"))
            .await;
        assert_fails(
            outcome,
            Reason::DigestMismatch,
            Class::Absent,
            &[&sha256(b"other")],
        );
    }
}
