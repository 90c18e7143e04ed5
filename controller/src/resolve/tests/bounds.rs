//! Bounds of sums: over pages, over what all HelmOps want of a repository, and over what is read at the same time.

use std::{ops::Range, time::Instant};

use helmops_shared::{
    chart::registry::tag_list::{MAX_LEN, MAX_VERSIONS},
    reason::Reason,
};

use super::{
    answers::{entry, index, manifest, revalidating, tags},
    asking::{Asking, anonymous, assert_fails, in_the_clear, reference, version, within},
    rig::{Head, Reply, Server, answer},
};
use crate::{backoff::Pace, resolve::Bounds};

/// The text of a page of tags.
fn listing(patches: Range<usize>, padding: &str) -> String {
    let all: Vec<String> = patches.map(|patch| format!("\"1.0.{patch}{padding}\"")).collect();
    format!("{{\"tags\":[{}]}}", all.join(","))
}

/// A page, and the link to the next one.
fn page(head: &Head, listing: &str) -> Reply {
    let next = format!("</v2/web/tags/list?last={}>; rel=\"next\"", head.nth);
    answer(200, &[("Link", &next)], listing)
}

#[tokio::test]
async fn a_list_of_tags_is_bounded_over_all_pages() {
    let padding = format!("-{}", "a".repeat(100));
    for (count, padding, most) in [
        (MAX_VERSIONS / 4, String::new(), 5),
        (20_000, padding, MAX_LEN.div_ceil(20_000 * 100)),
    ] {
        let listing = listing(0..count, &padding);
        let server = Server::http(move |head| page(head, &listing)).await;
        let asking = Asking::new();
        let outcome = asking
            .registry(&in_the_clear(anonymous()), &reference(&server), "")
            .await;
        let words = [
            &*server.host(),
            "the list of tags has more than",
            "use an exact version",
        ];
        assert_fails(outcome, Reason::ResponseTooLarge, Pace::SLOW, &words);
        assert!(server.heads().len() <= most, "{}", server.heads().len());
        asking.assert_idle(server.heads().len() as u64);
    }
}

#[tokio::test]
async fn a_version_is_chosen_from_a_long_list_of_many_pages() {
    let pages = [0..4000, 4000..8000, 8000..12_000].map(|patches| listing(patches, ""));
    let server = Server::http(move |head| match (pages.get(head.nth), head.nth) {
        (Some(listing), _) => page(head, listing),
        (None, 3) => tags(&[], &["1.0.5-rc.1", "latest"]),
        _ => manifest(),
    })
    .await;
    let asking = Asking::new();
    let (access, repo, since) = (in_the_clear(anonymous()), reference(&server), Instant::now());
    for (asked, found) in [("", "1.0.11999"), ("<1.0.77", "1.0.76")] {
        let outcome = asking.registry_since(&access, &repo, asked, since).await;
        assert_eq!(version(outcome), found);
    }
    assert_eq!(
        asking.requests("tags", "success"),
        4,
        "the list serves all requests"
    );
    let words = [
        "of its 12001 versions the nearest are 1.0.11999, 1.0.11998, 1.0.11997, 1.0.11996, 1.0.11995, 1.0.11994",
    ];
    let outcome = asking.registry_since(&access, &repo, "2.x", since).await;
    assert_fails(outcome, Reason::NoMatchingVersion, Pace::SLOW, &words);
}

/// An index with more versions of a chart than are kept, and one of the chart that is wanted.
fn overfull() -> String {
    let url = "u".repeat(8000);
    let large = entry("big", "1.0.0").replace("big-1.0.0.tgz", &url).repeat(2200);
    format!(
        "apiVersion: v1\nentries:\n  big:\n{large}  web:\n{}",
        entry("web", "1.0.0")
    )
}

#[tokio::test]
async fn what_others_want_of_a_repository_costs_one_more_download_and_no_more() {
    let body = overfull();
    let server = Server::http(move |head| revalidating(head, "\"a\"", &body)).await;
    let (asking, access) = (Asking::new().beside(&["big", "web"]), within("a", anonymous()));
    assert_eq!(version(asking.repository(&access, &server.url()).await), "1.0.0");
    assert_eq!(server.heads().len(), 2, "once for all, once for the own charts");
    for _ in 0..3 {
        assert_eq!(version(asking.repository(&access, &server.url()).await), "1.0.0");
    }
    assert_eq!(asking.requests("index", "success"), 2);
    assert_eq!(asking.requests("index", "not_modified"), 3);
    // The chart itself is too much.
    let outcome = asking
        .chart(&access, (&server.url(), "big"), Instant::now())
        .await;
    let words = ["the index lists too many versions"];
    assert_fails(outcome, Reason::InvalidIndex, Pace::SLOW, &words);
}

#[tokio::test]
async fn a_namespace_that_uses_up_its_share_fails_alone() {
    // A share of 64 KiB: too little for all versions of the one chart, enough for those of the other.
    let many = entry("many", "1.0.0").repeat(1000);
    let body = format!(
        "apiVersion: v1\nentries:\n  many:\n{many}  web:\n{}",
        entry("web", "1.0.0")
    );
    let server = Server::http(move |_| answer(200, &[], body.clone())).await;
    let asking = Asking::budgeted(256 << 10);
    let (url, since) = (server.url(), Instant::now());
    let greedy = within("greedy", anonymous());
    for _ in 0..2 {
        let outcome = asking.chart(&greedy, (&url, "many"), since).await;
        let words = [&*url, "the memory for reading indexes", "retrying"];
        let error = assert_fails(outcome, Reason::Busy, Pace::TRANSIENT, &words);
        assert!(error.is_transient());
    }
    let found = asking
        .chart(&within("modest", anonymous()), (&url, "web"), since)
        .await;
    assert_eq!(
        version(found),
        "1.0.0",
        "neither the failure nor the share is another's"
    );
}

#[tokio::test]
async fn a_list_of_tags_is_read_within_the_budget() {
    let listing = listing(0..30_000, "");
    let server = Server::http(move |head| page(head, &listing)).await;
    let asking = Asking::budgeted(1 << 20);
    let access = within("a", in_the_clear(anonymous()));
    for _ in 0..2 {
        let outcome = asking.registry(&access, &reference(&server), "").await;
        let words = [&*server.host(), "the memory for reading indexes"];
        assert_fails(outcome, Reason::Busy, Pace::TRANSIENT, &words);
    }
}

#[tokio::test]
async fn memory_is_given_back_after_each_read() {
    let server = Server::http(|_| answer(200, &[], index(&["1.0.0"]))).await;
    let asking = Asking::budgeted(256 << 10);
    for _ in 0..20 {
        let access = within("a", anonymous());
        assert_eq!(version(asking.repository(&access, &server.url()).await), "1.0.0");
    }
}

/// What an ordinary large repository lists, with the least memory that a process can have.
#[tokio::test]
async fn an_index_of_16_mb_is_read_and_kept_with_the_least_memory() {
    let others = entry("other", "1.0.0").repeat(110_000);
    let own: String = (0..300)
        .map(|patch| entry("web", &format!("1.0.{patch}")))
        .collect();
    let body = format!("apiVersion: v1\nentries:\n  other:\n{others}  web:\n{own}");
    assert!(body.len() > 16 << 20, "{}", body.len());
    let server = Server::http(move |head| revalidating(head, "\"a\"", &body)).await;
    let asking = Asking::bounded(&Bounds::of(64 << 20, None));
    for _ in 0..3 {
        let outcome = asking.repository(&within("a", anonymous()), &server.url()).await;
        assert_eq!(version(outcome), "1.0.299");
    }
    assert_eq!(asking.requests("index", "success"), 1);
    assert_eq!(asking.requests("index", "not_modified"), 2);
}
