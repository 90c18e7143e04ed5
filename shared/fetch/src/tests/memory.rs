//! Memory for large responses, measured in a separate process, where nothing else runs.

use std::{env, fs, process::Command};

use helmops_model::reason::Reason;
use helmops_runtime::error_class::Class;

use super::{
    fixture::{LONG_TIMEOUTS, TestResolver, anonymous, assert_fails, over_plain_http, reference, version},
    responses,
    server::{Action, Reply, Server, response},
};
use crate::{http::Limits, repository::LIMITS};

/// The environment variable of the process that runs the measurement.
const MEASURED: &str = "HELMOPS_TEST_MEASURED";
/// Maximum memory for reading: buffers of the connection and the reader, and those of the runtime.
const COST: u64 = 12 * MIB;
const MIB: u64 = 1 << 20;

/// Entries of a chart that is not requested, of at least this size, and then the requested chart.
fn large(bytes: u64) -> Reply {
    // Few and long lines, which are the fastest to read.
    let entry =
        responses::entry("other", "1.0.0").replace("A chart of a test", "word ".repeat(800).trim_end());
    let block = entry.repeat(20).into_bytes();
    let blocks = bytes.div_ceil(block.len() as u64);
    let blocks = (0..blocks).map(move |_| block.clone());
    vec![
        Action::Write(b"HTTP/1.1 200 OK\r\n\r\napiVersion: v1\nentries:\n  other:\n".to_vec()),
        Action::Pour(Box::new(blocks)),
        Action::Write(format!("  web:\n{}", responses::entry("web", "1.0.0")).into_bytes()),
        Action::Close,
    ]
}

/// The peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024
}

/// Runs this test again in a separate process, which runs the measurement.
async fn measured(test: &str, work: impl AsyncFnOnce()) {
    if env::var_os(MEASURED).is_some() {
        return work().await;
    }
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(MEASURED, "yes")
        .output()
        .unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{output_text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output_text.contains("1 passed"),
        "the test has another name: {output_text}"
    );
}

#[tokio::test]
async fn a_large_index_is_not_held_in_memory() {
    measured("a_large_index_is_not_held_in_memory", async || {
        let server = Server::http(|head| large(if head.nth == 0 { 1 } else { 50 * MIB })).await;
        let resolver = TestResolver::new();
        // The first resolution creates the client and everything else that is created once.
        for _ in 0..2 {
            let before = peak();
            assert_eq!(
                version(resolver.repository(&anonymous(), &server.url()).await),
                "1.0.0"
            );
            let cost = peak() - before;
            eprintln!(
                "{cost} bytes of memory for {} on the wire",
                resolver.bytes("index")
            );
            assert!(cost < COST || server.requests().len() == 1, "{cost}");
        }
        assert!(resolver.bytes("index") > 50 * MIB);
        assert!(
            resolver.metric("helmops_cache_bytes") < 16 << 10,
            "only the requested charts are cached"
        );
    })
    .await;
}

#[tokio::test]
async fn an_endless_body_is_not_held_in_memory() {
    measured("an_endless_body_is_not_held_in_memory", async || {
        let server = Server::http(|head| large(if head.nth == 0 { 1 } else { u64::MAX / 2 })).await;
        let limits = Limits {
            wire: 40 * MIB,
            ..LIMITS
        };
        let resolver = TestResolver::with_limits(limits, LONG_TIMEOUTS);
        assert_eq!(
            version(resolver.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        let before = peak();
        let outcome = resolver.repository(&anonymous(), &server.url()).await;
        assert_fails(outcome, Reason::ResponseTooLarge, Class::Absent, &[]);
        let cost = peak() - before;
        assert!(cost < COST, "{cost} bytes for {}", resolver.bytes("index"));
    })
    .await;
}

#[tokio::test]
async fn an_endless_list_of_tags_is_not_held_in_memory() {
    measured("an_endless_list_of_tags_is_not_held_in_memory", async || {
        let tags: Vec<String> = (0..36_000)
            .map(|patch| format!("\"1.0.{patch}-{}\"", "a".repeat(100)))
            .collect();
        let page = format!("{{\"tags\":[{}]}}", tags.join(","));
        drop(tags);
        let server = Server::http(move |head| {
            let next = format!("</v2/web/tags/list?last={}>; rel=\"next\"", head.nth);
            // The first list has one page.
            let link: &str = if head.nth == 0 { "" } else { &next };
            let body: &str = if head.nth == 0 { "{\"tags\":[]}" } else { &page };
            let headers = [("Link", link)];
            response(200, if head.nth == 0 { &[] } else { &headers }, body)
        })
        .await;
        let (resolver, access) = (TestResolver::new(), over_plain_http(anonymous()));
        let _ = resolver.registry(&access, &reference(&server), "").await;
        let before = peak();
        let outcome = resolver.registry(&access, &reference(&server), "").await;
        assert_fails(outcome, Reason::ResponseTooLarge, Class::Absent, &[]);
        let cost = peak() - before;
        eprintln!(
            "{cost} bytes of memory for {} on the wire",
            resolver.bytes("tags")
        );
        // The page in the server, the body, the decoded page and the list.
        assert!(cost < 4 * COST, "{cost}");
    })
    .await;
}
