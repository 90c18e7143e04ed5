//! Charts in buckets: which requests a poll sends, what it shares, and what is refused.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex},
    time::Instant,
};

use helmops_bucket::{BucketChart, BucketFields, BucketKeys, BucketLocation, ChartObject};
use helmops_chart::PackedListedChart;
use helmops_chart::Strategy;
use helmops_model::{chart::resolved::ChartVersion, reason::Reason};
use helmops_process::lock;
use helmops_runtime::error_class::{Class, ClassifiedError, Scope};
use reqwest::Url;

use super::{
    fixture::{PASSWORD, TestResolver, anonymous, in_namespace, trusting},
    server::{Ca, Reply, RequestHead, Server, forever, response, status},
};
use crate::{
    access::Access,
    bucket::{BucketError, BucketPoll, BucketQuery},
    http::Addresses,
    poll::DeployedChart,
};

const LIST: &str = "GET /charts?list-type=2&max-keys=1000";

/// The objects of a bucket that a test changes while its server runs: their contents by their names.
type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

fn objects(all: &[(&str, &str)]) -> Objects {
    let all = all
        .iter()
        .map(|(name, content)| ((*name).to_owned(), content.as_bytes().to_vec()));
    Arc::new(Mutex::new(all.collect()))
}

fn web() -> Objects {
    objects(&[
        ("web/Chart.yaml", "name: web\nversion: 1.0.0\n"),
        ("web/templates/a.yaml", "a: 1"),
        ("db/Chart.yaml", "name: db\nversion: 2.0.0\n"),
    ])
}

fn put(objects: &Objects, name: &str, content: &str) {
    lock(objects).insert(name.to_owned(), content.as_bytes().to_vec());
}

fn etag(content: &[u8]) -> String {
    let sum: usize = content.iter().map(|byte| usize::from(*byte)).sum();
    format!("\"{:x}-{sum:x}\"", content.len())
}

/// The reply of a server with the protocol of S3, `page` objects in each list.
fn reply(objects: &Objects, head: &RequestHead, page: usize) -> Reply {
    let url = Url::parse(&format!("http://h{}", head.target)).unwrap();
    let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    let objects = lock(objects);
    if query.contains_key("list-type") {
        let text = |key: &str| query.get(key).cloned().unwrap_or_default();
        let (prefix, after) = (text("prefix"), text("continuation-token"));
        return response(
            200,
            &[("Content-Type", "application/xml")],
            list(&objects, &prefix, &after, page),
        );
    }
    let name = url.path().strip_prefix("/charts/").unwrap_or_default();
    match objects.get(name) {
        Some(content) => response(
            200,
            &[
                ("ETag", &etag(content)),
                ("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT"),
            ],
            content.clone(),
        ),
        None => failure(404, "NoSuchKey"),
    }
}

/// A list as S3 writes it.
fn list(objects: &BTreeMap<String, Vec<u8>>, prefix: &str, after: &str, page: usize) -> String {
    let matching = |name: &&String| name.starts_with(prefix) && name.as_str() > after;
    let mut names = objects.keys().filter(matching);
    let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>charts</Name>"
        .to_owned();
    let mut last = None;
    for name in names.by_ref().take(page) {
        let content = &objects[name];
        write!(
            xml,
            "<Contents><Key>{name}</Key><LastModified>2026-11-30T10:00:00.000Z</LastModified><ETag>{}</ETag><Size>{}</Size>\
             <StorageClass>STANDARD</StorageClass></Contents>",
            etag(content).replace('"', "&quot;"),
            content.len()
        )
        .unwrap();
        last = Some(name);
    }
    if let Some(token) = names.next().and(last) {
        write!(xml, "<NextContinuationToken>{token}</NextContinuationToken>").unwrap();
    }
    xml + "</ListBucketResult>"
}

/// An error as S3 writes it, with what must not be in messages.
fn failure(code: u16, name: &str) -> Reply {
    let body = format!("<Error><Code>{name}</Code><Message>{PASSWORD}</Message></Error>");
    response(code, &[("Content-Type", "application/xml")], body)
}

async fn serve(objects: &Objects) -> Server {
    let objects = Arc::clone(objects);
    Server::http(move |head| reply(&objects, head, 1000)).await
}

fn at(server: &Server, path: &str) -> BucketChart {
    below(&server.url(), "", path)
}

fn below(endpoint: &str, prefix: &str, path: &str) -> BucketChart {
    let fields = BucketFields {
        provider: "generic",
        name: "charts",
        endpoint,
        prefix,
        insecure: true,
        ..BucketFields::default()
    };
    BucketChart {
        location: BucketLocation::parse(&fields).unwrap(),
        object: ChartObject::parse(path, Some(Strategy::ChartVersion)).unwrap(),
    }
}

fn keys(access: Access, keys: &[(&'static str, &str)]) -> Access {
    let keys = keys.iter().map(|(key, value)| (*key, (*value).to_owned()));
    Access {
        bucket: Some(Arc::new(BucketKeys(keys.collect()))),
        secret: "access".to_owned(),
        ..access
    }
}

fn signed() -> Access {
    keys(anonymous(), &[("accesskey", "reader"), ("secretkey", PASSWORD)])
}

fn changed(poll: Result<BucketPoll, BucketError>) -> PackedListedChart {
    match poll.unwrap() {
        BucketPoll::Changed(packed) => *packed,
        BucketPoll::SameContent => panic!("the chart has not changed"),
    }
}

/// The requests: objects are fetched in any order.
fn sorted(server: &Server) -> Vec<String> {
    let mut lines = server.lines();
    lines.sort_unstable();
    lines
}

#[track_caller]
fn assert_fails(poll: Result<BucketPoll, BucketError>, reason: Reason, expected: &[&str]) -> BucketError {
    let error = poll.expect_err("the poll succeeds");
    let message = error.to_string();
    assert_eq!(error.reason(), reason, "{message}");
    for part in expected {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    let debug = format!("{message}{error:?}");
    assert!(
        !debug.contains(PASSWORD) && !debug.contains("X-Amz-Signature"),
        "{debug}"
    );
    assert!(!message.contains("helmSecretName"), "{message}");
    assert!(message.len() < 1024, "{message}");
    error
}

#[tokio::test]
async fn a_poll_is_one_list_until_the_chart_changes() {
    let bucket = web();
    let server = serve(&bucket).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "web"));
    let packed = changed(resolver.bucket(&signed(), &chart, None).await);
    assert_eq!((&*packed.name, &*packed.version), ("web", "1.0.0"));
    assert_eq!(
        sorted(&server),
        [
            "GET /charts/web/Chart.yaml",
            "GET /charts/web/templates/a.yaml",
            LIST
        ]
    );

    let poll = resolver.bucket(&signed(), &chart, Some(&packed.content)).await;
    assert_eq!(poll.unwrap(), BucketPoll::SameContent);
    assert_eq!(server.lines()[3..], [LIST]);

    // Another chart, and then this one.
    put(&bucket, "db/Chart.yaml", "name: db\nversion: 2.1.0\n");
    let poll = resolver.bucket(&signed(), &chart, Some(&packed.content)).await;
    assert_eq!(poll.unwrap(), BucketPoll::SameContent);
    put(&bucket, "web/templates/a.yaml", "a: 2");
    let poll = resolver.bucket(&signed(), &chart, Some(&packed.content)).await;
    assert_ne!(changed(poll).digest, packed.digest);
    assert_eq!(server.lines().len(), 5 + 3);
    assert_eq!(resolver.requests("listing", "success"), 4);
    assert_eq!(resolver.requests("object", "success"), 4);
    resolver.assert_idle(8);
}

#[tokio::test]
async fn the_recorded_version_stays_while_the_chart_is_the_same() {
    let bucket = web();
    let server = serve(&bucket).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "web"));
    let version = async |version: Option<&ChartVersion>, changed_digest: &str| {
        let deployed = DeployedChart {
            version,
            changed_digest,
        };
        resolver
            .bucket_version(&signed(), &chart, deployed)
            .await
            .unwrap()
    };
    let first = version(None, "").await;
    let url = format!("bucket+{}/charts/web", server.url());
    assert_eq!((&*first.version, &first.url), ("1.0.0", &url));
    assert_eq!(server.lines().len(), 3);
    assert_eq!(version(Some(&first), "").await, first);
    assert_eq!(server.lines().len(), 4, "nothing but a list");
    let archive = resolver.bucket_archive(&signed(), &chart, &first).await.unwrap();
    assert_eq!(archive.content.to_string(), first.digest);

    put(&bucket, "web/templates/a.yaml", "a: 2");
    let second = version(Some(&first), "").await;
    assert_ne!(first.digest, second.digest);
    // What is held is not read again.
    let before = server.lines().len();
    assert_eq!(version(Some(&first), &second.digest).await.digest, second.digest);
    assert_eq!(server.lines().len(), before + 1);
    let gone = resolver.bucket_archive(&signed(), &chart, &first).await;
    let error = gone.unwrap_err();
    assert_eq!(error.reason(), Reason::DigestMismatch);
    assert!(error.to_string().contains(&url), "{error}");
    // A record of something else is read as none.
    let other = ChartVersion {
        digest: "sha256:0123".to_owned(),
        ..first
    };
    assert_eq!(version(Some(&other), "").await, second);
}

#[tokio::test]
async fn requests_are_signed_with_the_keys_of_the_secret_and_not_without_them() {
    let server = serve(&web()).await;
    let chart = at(&server, "web");
    changed(TestResolver::new().bucket(&signed(), &chart, None).await);
    changed(TestResolver::new().bucket(&anonymous(), &chart, None).await);
    let authorizations = server.authorizations();
    assert_eq!(authorizations.len(), 6);
    let (of_key, of_none) = authorizations.split_at(3);
    for authorization in of_key {
        assert!(
            authorization.starts_with("AWS4-HMAC-SHA256 Credential=reader/")
                && authorization.contains("/us-east-1/s3/"),
            "{authorization}"
        );
        assert!(!authorization.contains(PASSWORD));
    }
    assert_eq!(of_none, ["", "", ""]);
}

#[tokio::test]
async fn concurrent_polls_share_a_list_and_other_credentials_do_not() {
    let server = serve(&web()).await;
    let resolver = TestResolver::new();
    let since = Instant::now();
    let poll = async |access: Access, path: &str| {
        let query = BucketQuery {
            known: None,
            since,
            archive: 1 << 20,
        };
        changed(resolver.bucket_query(&access, &at(&server, path), query).await).name
    };
    let names = futures::join!(
        poll(signed(), "web"),
        poll(signed(), "db"),
        poll(anonymous(), "db")
    );
    assert_eq!(names, ("web".to_owned(), "db".to_owned(), "db".to_owned()));
    let lists = server.lines().into_iter().filter(|line| line == LIST);
    assert_eq!(lists.count(), 2);
}

#[tokio::test]
async fn a_list_has_parts_and_only_what_is_below_the_prefix() {
    let bucket = objects(&[
        ("team/web/Chart.yaml", "name: web\nversion: 1.0.0\n"),
        ("team/web/values.yaml", "a: 1"),
        ("team2/web/Chart.yaml", "name: other\nversion: 1.0.0\n"),
    ]);
    let shared = Arc::clone(&bucket);
    let server = Server::http(move |head| reply(&shared, head, 1)).await;
    let chart = below(&server.url(), "team", "web");
    let packed = changed(TestResolver::new().bucket(&signed(), &chart, None).await);
    assert_eq!(packed.name, "web");
    let list = |token: &str| format!("GET /charts?{token}list-type=2&prefix=team%2F&max-keys=1000");
    assert_eq!(
        sorted(&server),
        [
            "GET /charts/team/web/Chart.yaml".to_owned(),
            "GET /charts/team/web/values.yaml".to_owned(),
            list("continuation-token=team%2Fweb%2FChart.yaml&"),
            list(""),
        ]
    );
}

/// The archive of a chart.
async fn archive(version: &str) -> Vec<u8> {
    let chart = format!("apiVersion: v2\nname: web\nversion: {version}\n");
    let server = serve(&objects(&[("Chart.yaml", &chart)])).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, ""), None)
        .await;
    changed(poll).archive
}

#[tokio::test]
async fn an_archive_is_used_as_it_is() {
    let bucket = web();
    let (first, second) = (archive("1.2.3").await, archive("1.2.4").await);
    let upload = |archive: &[u8]| lock(&bucket).insert("web-1.tgz".to_owned(), archive.to_vec());
    upload(&first);
    let server = serve(&bucket).await;
    let (resolver, chart) = (TestResolver::new(), at(&server, "web-1.tgz"));
    let packed = changed(resolver.bucket(&signed(), &chart, None).await);
    assert_eq!((&*packed.version, &packed.archive), ("1.2.3", &first));
    let list = "GET /charts?list-type=2&prefix=web-1.tg&max-keys=10";
    assert_eq!(server.lines(), [list, "GET /charts/web-1.tgz"]);
    let poll = resolver.bucket(&signed(), &chart, Some(&packed.content)).await;
    assert_eq!(poll.unwrap(), BucketPoll::SameContent);
    assert_eq!(server.lines()[2..], [list]);
    upload(&second);
    let poll = resolver.bucket(&signed(), &chart, Some(&packed.content)).await;
    assert_eq!(changed(poll).version, "1.2.4");
    // One page, and no more than that with its name.
    put(&bucket, "web-1.tg-1", "");
    put(&bucket, "web-1.tgz-1", "");
    let shared = Arc::clone(&bucket);
    let pages = Server::http(move |head| reply(&shared, head, 1)).await;
    changed(
        TestResolver::new()
            .bucket(&signed(), &at(&pages, "web-1.tgz"), None)
            .await,
    );
    assert_eq!(pages.lines().len(), 3);

    put(&bucket, "web-1.tgz", "no archive");
    let poll = resolver.bucket(&signed(), &chart, None).await;
    assert_fails(poll, Reason::InvalidChart, &["object \"web-1.tgz\""]);
    let poll = resolver.bucket(&signed(), &at(&server, "web.tgz"), None).await;
    assert_fails(poll, Reason::ChartNotFound, &["there is no object \"web.tgz\""]);
    let query = BucketQuery {
        known: None,
        since: Instant::now(),
        archive: 5,
    };
    let poll = resolver.bucket_query(&signed(), &chart, query).await;
    assert_fails(poll, Reason::ResponseTooLarge, &["object \"web-1.tgz\"", "limit"]);
}

#[tokio::test]
async fn an_object_that_changes_meanwhile_is_not_mixed_with_others() {
    let bucket = web();
    let shared = Arc::clone(&bucket);
    let server = Server::http(move |head| {
        let reply = reply(&shared, head, 1000);
        // Of the same length.
        put(&shared, "web/templates/a.yaml", "b: 1");
        reply
    })
    .await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    let error = assert_fails(
        poll,
        Reason::RepositoryError,
        &["object \"web/templates/a.yaml\"", "has changed"],
    );
    assert!(error.class().is_transient());
}

#[tokio::test]
async fn a_refusal_names_the_bucket_and_the_fix() {
    for (code, name, access, reason, expected) in [
        (403, "AccessDenied", signed(), Reason::Forbidden, "s3:ListBucket"),
        (
            403,
            "AccessDenied",
            anonymous(),
            Reason::Forbidden,
            "name a Secret with the keys accesskey and secretkey",
        ),
        (
            403,
            "SignatureDoesNotMatch",
            signed(),
            Reason::Unauthorized,
            "key secretkey",
        ),
        (403, "RequestTimeTooSkewed", signed(), Reason::Unauthorized, "NTP"),
        (
            404,
            "NoSuchBucket",
            signed(),
            Reason::RepositoryNotFound,
            "check bucketName",
        ),
        (
            400,
            "Strange",
            signed(),
            Reason::RepositoryError,
            "error code: 400 Strange",
        ),
    ] {
        let server = Server::http(move |_| failure(code, name)).await;
        let poll = TestResolver::new()
            .bucket(&access, &at(&server, "web"), None)
            .await;
        assert_fails(
            poll,
            reason,
            &[&format!("bucket {}/charts: ", server.url()), expected],
        );
        assert_eq!(server.lines().len(), 1, "no request is repeated");
    }
}

#[tokio::test]
async fn a_wrong_region_is_named_and_a_redirect_to_another_server_gets_no_credentials() {
    let server = Server::http(|_| status(301, &[("x-amz-bucket-region", "eu-west-1")])).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(poll, Reason::RepositoryError, &["set region: eu-west-1"]);

    let other = Server::http(|_| failure(403, "AccessDenied")).await;
    let to = other.url();
    let location = format!("{to}/charts?X-Amz-Signature={PASSWORD}");
    let server = Server::http(move |_| status(307, &[("Location", &location)])).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(poll, Reason::RepositoryError, &["redirects to", &to]);
    assert_eq!(other.authorizations(), [""]);
}

#[tokio::test]
async fn keys_that_are_none_for_the_bucket_send_no_request() {
    let server = serve(&web()).await;
    for (of_secret, expected) in [
        (
            &[("accesskey", PASSWORD)][..],
            "accesskey is set, but secretkey isn't",
        ),
        (
            &[("accountKey", PASSWORD)],
            "accountKey is set, which provider generic has not",
        ),
    ] {
        let access = keys(anonymous(), of_secret);
        let poll = TestResolver::new()
            .bucket(&access, &at(&server, "web"), None)
            .await;
        assert_fails(poll, Reason::InvalidSecret, &["Secret access", expected]);
    }
    assert_eq!(server.lines().len(), 0);
}

#[tokio::test]
async fn addresses_and_certificates_are_checked_as_for_other_sources() {
    let server = serve(&web()).await;
    let resolver = TestResolver::with_addresses(Addresses::default());
    let poll = resolver.bucket(&signed(), &at(&server, "web"), None).await;
    assert_fails(poll, Reason::ConnectionFailed, &["loopback", "--allow-cidrs"]);
    assert_eq!(server.lines().len(), 0);

    let ca = Ca::new();
    let bucket = web();
    let server = Server::https(ca.serving(), move |head| reply(&bucket, head, 1000)).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(
        poll,
        Reason::CertificateError,
        &["spec.chartSource.bucket.secretRef"],
    );
    let poll = TestResolver::new()
        .bucket(&trusting(signed(), &ca), &at(&server, "web"), None)
        .await;
    assert_eq!(changed(poll).name, "web");
}

#[tokio::test]
async fn lists_and_objects_are_bounded() {
    // A list without an end, in one part and in many.
    let server = Server::http(|_| forever(&[], "<Contents>".repeat(1000))).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(poll, Reason::ResponseTooLarge, &["limit"]);

    let server = Server::http(|_| {
        let body =
            "<ListBucketResult><NextContinuationToken>again</NextContinuationToken></ListBucketResult>";
        response(200, &[], body)
    })
    .await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(poll, Reason::ResponseTooLarge, &["more than 20 parts"]);
    assert_eq!(server.lines().len(), 20);

    let many = (0..10_001).map(|number| (format!("{number}"), Vec::new()));
    let many: Objects = Arc::new(Mutex::new(many.collect()));
    let server = serve(&many).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(
        poll,
        Reason::ResponseTooLarge,
        &["more than 10000 objects", "smaller folder in prefix"],
    );

    // An object that is larger than its list says.
    let bucket = web();
    let server = Server::http(move |head| match &*head.target {
        "/charts/web/Chart.yaml" => forever(&[], "x".repeat(10_000)),
        _ => reply(&bucket, head, 1000),
    })
    .await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(poll, Reason::ResponseTooLarge, &["5 MiB"]);
    assert!(server.written() < 64 << 20);
}

#[tokio::test]
async fn the_memory_of_responses_is_that_of_the_namespace() {
    let bucket = web();
    put(&bucket, "web/large.yaml", &"x".repeat(4 << 20));
    let server = serve(&bucket).await;
    let access = in_namespace("a", signed());
    let poll = TestResolver::with_memory(16 << 20)
        .bucket(&access, &at(&server, "web"), None)
        .await;
    let error = assert_fails(poll, Reason::Busy, &["memory", "retrying"]);
    assert_eq!(error.class().scope(), Scope::Namespace);
}

#[tokio::test]
async fn what_is_no_server_of_a_bucket_is_reported() {
    let server = Server::http(|_| response(200, &[], "<html>login</html>")).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "none"), None)
        .await;
    let error = poll.expect_err("it is no list");
    assert!(matches!(error.class(), Class::Absent), "{error}");

    let odd = objects(&[("web//Chart.yaml", "name: web\nversion: 1.0.0\n")]);
    let server = serve(&odd).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    assert_fails(poll, Reason::RepositoryError, &["two slashes", "web//Chart.yaml"]);

    let server = Server::http(|_| failure(503, "SlowDown")).await;
    let poll = TestResolver::new()
        .bucket(&signed(), &at(&server, "web"), None)
        .await;
    let error = assert_fails(poll, Reason::RepositoryError, &["503", "retrying"]);
    assert_eq!(
        (error.class().scope(), server.lines().len()),
        (Scope::Repository, 1)
    );
}

fn of_provider(provider: &str, endpoint: &str, path: &str) -> BucketChart {
    let fields = BucketFields {
        provider,
        name: "charts",
        endpoint,
        insecure: true,
        ..BucketFields::default()
    };
    BucketChart {
        location: BucketLocation::parse(&fields).unwrap(),
        object: ChartObject::parse(path, Some(Strategy::ChartVersion)).unwrap(),
    }
}

/// The list of a container with `web/Chart.yaml`, as Azurite writes it.
const AZURE_LIST: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<EnumerationResults ServiceEndpoint="http://127.0.0.1:10000/acme" ContainerName="charts"><Prefix/><Marker/>"#,
    "<MaxResults>1000</MaxResults><Blobs><Blob><Name>web/Chart.yaml</Name><Properties>",
    "<Creation-Time>Mon, 30 Nov 2026 23:46:55 GMT</Creation-Time><Last-Modified>Mon, 30 Nov 2026 23:46:55 GMT",
    "</Last-Modified><Etag>0x20F283C69202D20</Etag><Content-Length>25</Content-Length>",
    "<Content-Type>application/octet-stream</Content-Type><Content-MD5>0FEy3KBPF91K7e5+knE5Vg==</Content-MD5>",
    "<BlobType>BlockBlob</BlobType><LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState>",
    "<ServerEncrypted>true</ServerEncrypted><AccessTier>Hot</AccessTier><AccessTierInferred>true",
    "</AccessTierInferred></Properties></Blob></Blobs><NextMarker/></EnumerationResults>",
);

/// The reply of a server for Azure, with `Chart.yaml` of the chart in folder `web`.
fn azure(head: &RequestHead) -> Reply {
    if head.target.starts_with("/acme/charts?") {
        return response(200, &[("Content-Type", "application/xml")], AZURE_LIST);
    }
    let headers = [
        // With quotes here, and in a list without.
        ("ETag", "\"0x20F283C69202D20\""),
        ("Last-Modified", "Mon, 30 Nov 2026 23:46:55 GMT"),
    ];
    response(200, &headers, "name: web\nversion: 1.0.0\n")
}

#[tokio::test]
async fn azure_takes_a_key_a_signature_or_nothing() {
    let server = Server::http(azure).await;
    let chart = of_provider("azure", &format!("{}/acme", server.url()), "web");
    let of = |key, value| keys(anonymous(), &[(key, value)]);
    let signature = format!("sv=2024-11-04&sig={PASSWORD}%3D");
    for (access, authorization, query) in [
        (of("accountKey", "Z2VoZWlt"), "SharedKey acme:", None),
        (of("sasKey", &signature), "", Some("sig=geheim%3D")),
        (anonymous(), "", None),
    ] {
        let before = server.lines().len();
        let packed = changed(TestResolver::new().bucket(&access, &chart, None).await);
        assert_eq!((&*packed.name, &*packed.version), ("web", "1.0.0"));
        let lines = server.lines();
        assert_eq!(lines.len() - before, 2);
        for (line, sent) in lines.iter().zip(server.authorizations()).skip(before) {
            assert!(
                sent.starts_with(authorization) && sent.is_empty() == authorization.is_empty(),
                "{sent}"
            );
            assert!(query.is_none_or(|query| line.contains(query)), "{line}");
        }
    }
    // An archive, which is found on the second page, and is none.
    let archives = Server::http(|head| {
        if head.target.contains("marker=m") {
            response(200, &[], AZURE_LIST.replace("web/Chart.yaml", "web.tgz"))
        } else if head.target.contains("comp=list") {
            let blob = AZURE_LIST.find("<Blob>").unwrap()..AZURE_LIST.find("</Blobs>").unwrap();
            let none = AZURE_LIST.replace(&AZURE_LIST[blob], "");
            response(
                200,
                &[],
                none.replace("<NextMarker/>", "<NextMarker>m</NextMarker>"),
            )
        } else {
            azure(head)
        }
    })
    .await;
    let archive = of_provider("azure", &format!("{}/acme", archives.url()), "web.tgz");
    let poll = TestResolver::new().bucket(&anonymous(), &archive, None).await;
    assert_fails(poll, Reason::InvalidChart, &["object \"web.tgz\""]);

    let poll = TestResolver::new()
        .bucket(&of("accountKey", "geheim!"), &chart, None)
        .await;
    assert_fails(poll, Reason::InvalidSecret, &["accountKey is not Base64"]);
    let server = Server::http(|_| failure(403, "AuthenticationFailed")).await;
    let chart = of_provider("azure", &format!("{}/acme", server.url()), "web");
    let poll = TestResolver::new()
        .bucket(&of("sasKey", &signature), &chart, None)
        .await;
    assert_fails(
        poll,
        Reason::Unauthorized,
        &["check key sasKey, which may have expired"],
    );
}

#[tokio::test]
async fn a_secret_of_azure_goes_to_the_server_that_logs_in_and_its_token_to_the_bucket() {
    let ca = Ca::new();
    let tokens = Server::https(ca.serving(), |_| {
        let token = r#"{"token_type": "Bearer", "expires_in": 3600, "access_token": "a-token"}"#;
        response(200, &[("Content-Type", "application/json")], token)
    })
    .await;
    let server = Server::https(ca.serving(), azure).await;
    let authority = tokens.url();
    let login = [
        ("tenantId", "tenant"),
        ("clientId", "client"),
        ("clientSecret", PASSWORD),
        ("authorityHost", &*authority),
    ];
    let access = trusting(keys(anonymous(), &login), &ca);
    let chart = of_provider("azure", &format!("{}/acme", server.url()), "web");
    changed(TestResolver::new().bucket(&access, &chart, None).await);
    assert_eq!(server.authorizations(), ["Bearer a-token", "Bearer a-token"]);
    let requests = tokens.requests();
    assert_eq!(requests[0].line(), "POST /tenant/oauth2/v2.0/token");
    assert!(String::from_utf8_lossy(&requests[0].body).contains("client_secret=geheim"));

    let refusing = Server::https(ca.serving(), |_| status(401, &[])).await;
    let authority = refusing.url();
    let login = [login[0], login[1], login[2], ("authorityHost", &*authority)];
    let access = trusting(keys(anonymous(), &login), &ca);
    let poll = TestResolver::new().bucket(&access, &chart, None).await;
    assert_fails(
        poll,
        Reason::Unauthorized,
        &["keys tenantId, clientId and clientSecret"],
    );
}

/// A bucket with `web/Chart.yaml`, as the JSON API of Google lists it.
const GCS_LIST: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?>"#,
    r#"<ListBucketResult xmlns="http://doc.s3.amazonaws.com/2006-03-01"><Name>charts</Name>"#,
    "<Contents><Key>web/Chart.yaml</Key><LastModified>2026-11-30T10:00:00.000Z</LastModified><Size>25</Size>",
    "<ETag>&quot;0FEy3KBPF91K7e5+knE5Vg==&quot;</ETag></Contents></ListBucketResult>",
);

#[tokio::test]
async fn google_takes_a_service_account_or_nothing() {
    let server = Server::http(|head| {
        if head.target.contains("list-type=2") {
            return response(200, &[("Content-Type", "application/xml")], GCS_LIST);
        }
        let headers = [
            ("ETag", "\"0FEy3KBPF91K7e5+knE5Vg==\""),
            ("Last-Modified", "Mon, 30 Nov 2026 10:00:00 GMT"),
        ];
        response(200, &headers, "name: web\nversion: 1.0.0\n")
    })
    .await;
    let chart = of_provider("gcp", &server.url(), "web");
    changed(TestResolver::new().bucket(&anonymous(), &chart, None).await);
    assert_eq!(server.authorizations(), ["", ""]);
    let json = r#"{"client_email": "a@b", "private_key_id": "1", "private_key": "geheim"}"#;
    let access = keys(anonymous(), &[("serviceaccount", json)]);
    let poll = TestResolver::new().bucket(&access, &chart, None).await;
    assert_fails(
        poll,
        Reason::InvalidSecret,
        &["serviceaccount has a private_key that cannot be read"],
    );
    let server = Server::http(|_| failure(403, "AccessDenied")).await;
    let poll = TestResolver::new()
        .bucket(&anonymous(), &of_provider("gcp", &server.url(), "web"), None)
        .await;
    assert_fails(
        poll,
        Reason::Forbidden,
        &["name a Secret with the keys serviceaccount"],
    );
}
