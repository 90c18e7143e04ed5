//! Several charts of one repository.

use std::time::Instant;

use helmops_shared::reason::Reason;

use super::{
    answers::{entry, index_of, revalidating},
    asking::{Asking, anonymous, assert_fails, version},
    rig::Server,
};
use crate::backoff::Pace;

const CHARTS: [(&str, &[&str]); 3] = [("api", &["1.0.0"]), ("db", &["2.0.0"]), ("web", &["3.0.0"])];

async fn server() -> Server {
    Server::http(|head| revalidating(head, "\"a\"", &index_of(&CHARTS))).await
}

#[tokio::test]
async fn charts_of_one_repository_need_one_download() {
    let server = server().await;
    let asking = Asking::new().beside(&["api", "db", "web"]);
    let (url, since) = (server.url(), Instant::now());
    for (chart, versions) in CHARTS {
        let outcome = asking.chart(&anonymous(), (&url, chart), since).await;
        assert_eq!(version(outcome), versions[0]);
    }
    assert_eq!(server.heads().len(), 1);
    assert_eq!(asking.metric("helmops_fetch_coalesced_total"), 2);
    // And one revalidation.
    let since = Instant::now();
    for (chart, _) in CHARTS {
        asking.chart(&anonymous(), (&url, chart), since).await.unwrap();
    }
    assert_eq!(server.heads().len(), 2);
    assert_eq!(asking.requests("index", "not_modified"), 1);
}

#[tokio::test]
async fn a_chart_that_nobody_wanted_before_is_fetched_whole() {
    let server = server().await;
    let (asking, url) = (Asking::new().beside(&["web"]), server.url());
    let ask =
        async |asking: &Asking, chart: &str| asking.chart(&anonymous(), (&url, chart), Instant::now()).await;
    assert_eq!(version(ask(&asking, "web").await), "3.0.0");
    // A HelmOp for it has just been made.
    let asking = asking.beside(&["web", "db"]);
    assert_eq!(version(ask(&asking, "db").await), "2.0.0");
    assert_eq!(version(ask(&asking, "web").await), "3.0.0");
    assert_eq!(version(ask(&asking, "db").await), "2.0.0");
    let sent = server
        .heads()
        .iter()
        .map(|head| head.text("If-None-Match").to_owned())
        .collect::<Vec<_>>();
    assert_eq!(
        sent,
        ["", "", "\"a\"", "\"a\""],
        "an answer without the chart is nothing to compare with"
    );
    assert_eq!(asking.requests("index", "success"), 2);
}

#[tokio::test]
async fn a_chart_that_the_repository_does_not_have_costs_no_download_each_time() {
    let server = server().await;
    let (asking, url) = (Asking::new(), server.url());
    for _ in 0..3 {
        let outcome = asking.chart(&anonymous(), (&url, "nosuch"), Instant::now()).await;
        assert_fails(
            outcome,
            Reason::ChartNotFound,
            Pace::SLOW,
            &["the index has no chart \"nosuch\"", &url],
        );
    }
    assert_eq!(asking.requests("index", "success"), 1);
    assert_eq!(asking.requests("index", "not_modified"), 2);
}

#[tokio::test]
async fn entries_that_are_broken_are_passed_over_and_counted() {
    let broken = entry("web", "1.0.0").replace("1.0.0", "not a version");
    let body = format!(
        "apiVersion: v1\nentries:\n  web:\n{broken}{}",
        entry("web", "1.0.0")
    );
    let server = Server::http(move |_| super::rig::answer(200, &[], body.clone())).await;
    let asking = Asking::new();
    assert_eq!(
        version(asking.repository(&anonymous(), &server.url()).await),
        "1.0.0"
    );
    assert_eq!(asking.metric("helmops_index_skipped_entries_total"), 1);
}

#[tokio::test]
async fn a_layout_that_shows_late_costs_a_second_download_once() {
    // The fast reader gives up far behind the point up to which it keeps what it has read.
    let many = entry("other", "1.0.0").repeat(2000);
    let body = format!(
        "apiVersion: v1\nentries:\n  other:\n{many}  web: [{{name: web, version: 1.0.0, urls: [w.tgz]}}]\n"
    );
    assert!(body.len() > 300 << 10);
    let server = Server::http(move |head| {
        // It changes each time, so that there is always something to read.
        let etag = format!("\"{}\"", head.nth);
        super::rig::answer(200, &[("ETag", &etag)], body.clone())
    })
    .await;
    let asking = Asking::new();
    for requests in [2, 3, 4] {
        assert_eq!(
            version(asking.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        assert_eq!(server.heads().len(), requests);
    }
    assert_eq!(server.heads()[1].header("If-None-Match"), None);
    asking.assert_idle(4);
}

#[tokio::test]
async fn what_others_want_does_not_make_a_chart_fail() {
    let server = server().await;
    let asking = Asking::new().beside(&["nosuch", "", "../etc"]);
    assert_eq!(
        version(asking.repository(&anonymous(), &server.url()).await),
        "3.0.0"
    );
}
