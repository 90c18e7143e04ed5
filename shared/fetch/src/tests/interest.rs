//! Several charts of one repository.

use std::time::Instant;

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{TestResolver, anonymous, assert_fails, version},
    responses::{entry, index_of, revalidating},
    server::Server,
};

const CHARTS: [(&str, &[&str]); 3] = [("api", &["1.0.0"]), ("db", &["2.0.0"]), ("web", &["3.0.0"])];

async fn server() -> Server {
    Server::http(|head| revalidating(head, "\"a\"", &index_of(&CHARTS))).await
}

#[tokio::test]
async fn charts_of_one_repository_need_one_download() {
    let server = server().await;
    let resolver = TestResolver::new().with_interest(&["api", "db", "web"]);
    let (url, since) = (server.url(), Instant::now());
    for (chart, versions) in CHARTS {
        let outcome = resolver.chart(&anonymous(), (&url, chart), since).await;
        assert_eq!(version(outcome), versions[0]);
    }
    assert_eq!(server.requests().len(), 1);
    assert_eq!(resolver.metric("helmops_fetch_coalesced_total"), 2);
    // One revalidation for all of them.
    let since = Instant::now();
    for (chart, _) in CHARTS {
        resolver.chart(&anonymous(), (&url, chart), since).await.unwrap();
    }
    assert_eq!(server.requests().len(), 2);
    assert_eq!(resolver.requests("index", "not_modified"), 1);
}

#[tokio::test]
async fn a_chart_without_earlier_requests_is_fetched_unconditionally() {
    let server = server().await;
    let (resolver, url) = (TestResolver::new().with_interest(&["web"]), server.url());
    let resolve = async |resolver: &TestResolver, chart: &str| {
        resolver.chart(&anonymous(), (&url, chart), Instant::now()).await
    };
    assert_eq!(version(resolve(&resolver, "web").await), "3.0.0");
    // A HelmOp for it has just been created.
    let resolver = resolver.with_interest(&["web", "db"]);
    assert_eq!(version(resolve(&resolver, "db").await), "2.0.0");
    assert_eq!(version(resolve(&resolver, "web").await), "3.0.0");
    assert_eq!(version(resolve(&resolver, "db").await), "2.0.0");
    let sent = server
        .requests()
        .iter()
        .map(|head| head.text("If-None-Match").to_owned())
        .collect::<Vec<_>>();
    assert_eq!(
        sent,
        ["", "", "\"a\"", "\"a\""],
        "a cached response without the chart makes no request conditional"
    );
    assert_eq!(resolver.requests("index", "success"), 2);
}

#[tokio::test]
async fn a_missing_chart_does_not_cost_a_download_each_time() {
    let server = server().await;
    let (resolver, url) = (TestResolver::new(), server.url());
    for _ in 0..3 {
        let outcome = resolver
            .chart(&anonymous(), (&url, "nosuch"), Instant::now())
            .await;
        assert_fails(
            outcome,
            Reason::ChartNotFound,
            Class::Absent,
            &["the index has no chart \"nosuch\"", &url],
        );
    }
    assert_eq!(resolver.requests("index", "success"), 1);
    assert_eq!(resolver.requests("index", "not_modified"), 2);
}

#[tokio::test]
async fn invalid_entries_are_skipped_and_counted() {
    let broken = entry("web", "1.0.0").replace("1.0.0", "not a version");
    let body = format!(
        "apiVersion: v1\nentries:\n  web:\n{broken}{}",
        entry("web", "1.0.0")
    );
    let server = Server::http(move |_| super::server::response(200, &[], body.clone())).await;
    let resolver = TestResolver::new();
    assert_eq!(
        version(resolver.repository(&anonymous(), &server.url()).await),
        "1.0.0"
    );
    assert_eq!(resolver.metric("helmops_index_skipped_entries_total"), 1);
}

#[tokio::test]
async fn a_layout_detected_late_costs_a_second_download_once() {
    // The fast reader gives up after the buffer from which the general reader could start has been discarded.
    let many = entry("other", "1.0.0").repeat(2000);
    let body = format!(
        "apiVersion: v1\nentries:\n  other:\n{many}  web: [{{name: web, version: 1.0.0, urls: [w.tgz]}}]\n"
    );
    assert!(body.len() > 300 << 10);
    let server = Server::http(move |head| {
        // It changes each time, so that there is always a body to read.
        let etag = format!("\"{}\"", head.nth);
        super::server::response(200, &[("ETag", &etag)], body.clone())
    })
    .await;
    let resolver = TestResolver::new();
    for requests in [2, 3, 4] {
        assert_eq!(
            version(resolver.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        assert_eq!(server.requests().len(), requests);
    }
    assert_eq!(server.requests()[1].header("If-None-Match"), None);
    resolver.assert_idle(4);
}

#[tokio::test]
async fn charts_of_others_do_not_make_a_chart_fail() {
    let server = server().await;
    let resolver = TestResolver::new().with_interest(&["nosuch", "", "../etc"]);
    assert_eq!(
        version(resolver.repository(&anonymous(), &server.url()).await),
        "3.0.0"
    );
}
