//! Limits of totals: over pages, over the charts of all HelmOps in a repository, and over concurrent reads.

use std::{ops::Range, time::Instant};

use helm_index::tags::{MAX_LEN, MAX_VERSIONS};
use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, ClassifiedError, Scope};

use super::{
    fixture::{TestResolver, anonymous, assert_fails, in_namespace, over_plain_http, reference, version},
    responses::{entry, index, manifest, revalidating, tags},
    server::{Reply, RequestHead, Server, response},
};
use crate::MemoryBounds;

/// The text of a page of tags.
fn listing(patches: Range<usize>, padding: &str) -> String {
    let all: Vec<String> = patches.map(|patch| format!("\"1.0.{patch}{padding}\"")).collect();
    format!("{{\"tags\":[{}]}}", all.join(","))
}

/// A page, and the link to the next one.
fn page(head: &RequestHead, listing: &str) -> Reply {
    let next = format!("</v2/web/tags/list?last={}>; rel=\"next\"", head.nth);
    response(200, &[("Link", &next)], listing)
}

#[tokio::test]
async fn a_list_of_tags_is_bounded_over_all_pages() {
    let padding = format!("-{}", "a".repeat(100));
    for (count, padding, max) in [
        (MAX_VERSIONS / 4, String::new(), 5),
        (20_000, padding, MAX_LEN.div_ceil(20_000 * 100)),
    ] {
        let listing = listing(0..count, &padding);
        let server = Server::http(move |head| page(head, &listing)).await;
        let resolver = TestResolver::new();
        let outcome = resolver
            .registry(&over_plain_http(anonymous()), &reference(&server), "")
            .await;
        let expected = [
            &*server.host(),
            "the list of tags has more than",
            "use an exact version",
        ];
        assert_fails(outcome, Reason::ResponseTooLarge, Class::Absent, &expected);
        assert!(server.requests().len() <= max, "{}", server.requests().len());
        resolver.assert_idle(server.requests().len() as u64);
    }
}

#[tokio::test]
async fn a_version_is_selected_from_a_long_list_of_many_pages() {
    let pages = [0..4000, 4000..8000, 8000..12_000].map(|patches| listing(patches, ""));
    let server = Server::http(move |head| match (pages.get(head.nth), head.nth) {
        (Some(listing), _) => page(head, listing),
        (None, 3) => tags(&[], &["1.0.5-rc.1", "latest"]),
        _ => manifest(),
    })
    .await;
    let resolver = TestResolver::new();
    let (access, repo, since) = (over_plain_http(anonymous()), reference(&server), Instant::now());
    for (requested, found) in [("", "1.0.11999"), ("<1.0.77", "1.0.76")] {
        let outcome = resolver.registry_since(&access, &repo, requested, since).await;
        assert_eq!(version(outcome), found);
    }
    assert_eq!(
        resolver.requests("tags", "success"),
        4,
        "the list serves all requests"
    );
    let expected = [
        "of its 12001 versions the nearest are 1.0.11999, 1.0.11998, 1.0.11997, 1.0.11996, 1.0.11995, 1.0.11994",
    ];
    let outcome = resolver.registry_since(&access, &repo, "2.x", since).await;
    assert_fails(outcome, Reason::NoMatchingVersion, Class::Absent, &expected);
}

/// An index with more versions of a chart than are kept, and one of the requested chart.
fn oversized_index() -> String {
    let url = "u".repeat(8000);
    let large = entry("big", "1.0.0").replace("big-1.0.0.tgz", &url).repeat(2200);
    format!(
        "apiVersion: v1\nentries:\n  big:\n{large}  web:\n{}",
        entry("web", "1.0.0")
    )
}

#[tokio::test]
async fn large_charts_of_others_cost_one_more_download_and_no_more() {
    let body = oversized_index();
    let server = Server::http(move |head| revalidating(head, "\"a\"", &body)).await;
    let (resolver, access) = (
        TestResolver::new().with_interest(&["big", "web"]),
        in_namespace("a", anonymous()),
    );
    assert_eq!(
        version(resolver.repository(&access, &server.url()).await),
        "1.0.0"
    );
    assert_eq!(
        server.requests().len(),
        2,
        "once for all charts, once for those of the namespace"
    );
    for _ in 0..3 {
        assert_eq!(
            version(resolver.repository(&access, &server.url()).await),
            "1.0.0"
        );
    }
    assert_eq!(resolver.requests("index", "success"), 2);
    assert_eq!(resolver.requests("index", "not_modified"), 3);
    // The chart itself is too large.
    let outcome = resolver
        .chart(&access, (&server.url(), "big"), Instant::now())
        .await;
    let expected = ["the index lists too many versions"];
    assert_fails(outcome, Reason::InvalidIndex, Class::Absent, &expected);
}

#[tokio::test]
async fn a_namespace_above_its_share_fails_without_affecting_others() {
    // A share of 128 KiB: too small for the versions of the first chart, large enough for those of the second.
    let many = entry("many", "1.0.0").repeat(1000);
    let body = format!(
        "apiVersion: v1\nentries:\n  many:\n{many}  web:\n{}",
        entry("web", "1.0.0")
    );
    let server = Server::http(move |_| response(200, &[], body.clone())).await;
    let resolver = TestResolver::with_memory(256 << 10);
    let (url, since) = (server.url(), Instant::now());
    let greedy = in_namespace("greedy", anonymous());
    for _ in 0..2 {
        let outcome = resolver.chart(&greedy, (&url, "many"), since).await;
        let expected = [
            &*url,
            "the memory for reading indexes",
            "in use by other documents",
        ];
        let error = assert_fails(outcome, Reason::Busy, Class::TRANSIENT, &expected);
        assert_eq!(error.class(), Class::Transient(Scope::Namespace));
    }
    let found = resolver
        .chart(&in_namespace("modest", anonymous()), (&url, "web"), since)
        .await;
    assert_eq!(
        version(found),
        "1.0.0",
        "neither the failure nor the share concerns another namespace"
    );
}

#[tokio::test]
async fn a_list_of_tags_is_read_within_the_budget() {
    let listing = listing(0..30_000, "");
    let server = Server::http(move |head| page(head, &listing)).await;
    let resolver = TestResolver::with_memory(1 << 20);
    let access = in_namespace("a", over_plain_http(anonymous()));
    for _ in 0..2 {
        let outcome = resolver.registry(&access, &reference(&server), "").await;
        let expected = [&*server.host(), "the memory for reading indexes"];
        assert_fails(outcome, Reason::Busy, Class::TRANSIENT, &expected);
    }
}

#[tokio::test]
async fn memory_is_released_after_each_read() {
    let server = Server::http(|_| response(200, &[], index(&["1.0.0"]))).await;
    let resolver = TestResolver::with_memory(256 << 10);
    for _ in 0..20 {
        let access = in_namespace("a", anonymous());
        assert_eq!(
            version(resolver.repository(&access, &server.url()).await),
            "1.0.0"
        );
    }
}

/// An index of the size of a large public repository, with the smallest supported memory limit.
#[tokio::test]
async fn an_index_of_16_mib_is_read_and_cached_with_the_smallest_memory_limit() {
    let others = entry("other", "1.0.0").repeat(110_000);
    let own: String = (0..300)
        .map(|patch| entry("web", &format!("1.0.{patch}")))
        .collect();
    let body = format!("apiVersion: v1\nentries:\n  other:\n{others}  web:\n{own}");
    assert!(body.len() > 16 << 20, "{}", body.len());
    let server = Server::http(move |head| revalidating(head, "\"a\"", &body)).await;
    let resolver = TestResolver::with_bounds(&MemoryBounds::of(64 << 20, None));
    for _ in 0..3 {
        let outcome = resolver
            .repository(&in_namespace("a", anonymous()), &server.url())
            .await;
        assert_eq!(version(outcome), "1.0.299");
    }
    assert_eq!(resolver.requests("index", "success"), 1);
    assert_eq!(resolver.requests("index", "not_modified"), 2);
}
