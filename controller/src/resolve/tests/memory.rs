//! What large answers cost in memory: measured in a process of its own, where nothing else goes on.

use std::{env, fs, process::Command};

use helmops_shared::reason::Reason;

use super::{
    answers,
    asking::{Asking, PATIENT, anonymous, assert_fails, in_the_clear, reference, version},
    rig::{Act, Reply, Server, answer},
};
use crate::{
    backoff::Pace,
    resolve::{http::Limits, repository::LIMITS},
};

/// The variable that tells the process what to measure.
const MEASURED: &str = "HELMOPS_TEST_MEASURED";
/// What reading may cost: buffers of the connection and the reader, and the runtime's own.
const COST: u64 = 12 * MIB;
const MIB: u64 = 1 << 20;

/// Entries of a chart that nobody asks for, as much as this or a little more, and then the chart that is wanted.
fn large(bytes: u64) -> Reply {
    // Few and long lines, which the reader has the least work with.
    let entry = answers::entry("other", "1.0.0").replace("A chart of a test", "word ".repeat(800).trim_end());
    let block = entry.repeat(20).into_bytes();
    let blocks = bytes.div_ceil(block.len() as u64);
    let blocks = (0..blocks).map(move |_| block.clone());
    vec![
        Act::Write(b"HTTP/1.1 200 OK\r\n\r\napiVersion: v1\nentries:\n  other:\n".to_vec()),
        Act::Pour(Box::new(blocks)),
        Act::Write(format!("  web:\n{}", answers::entry("web", "1.0.0")).into_bytes()),
        Act::Close,
    ]
}

/// The most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024
}

/// Runs this test again, alone in a process, and there the measurement.
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
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.contains("1 passed"), "it has another name: {told}");
}

#[tokio::test]
async fn a_large_index_is_not_held() {
    measured("a_large_index_is_not_held", async || {
        let server = Server::http(|head| large(if head.nth == 0 { 1 } else { 50 * MIB })).await;
        let asking = Asking::new();
        // The first one makes the client and whatever else is made once.
        for _ in 0..2 {
            let before = peak();
            assert_eq!(
                version(asking.repository(&anonymous(), &server.url()).await),
                "1.0.0"
            );
            let cost = peak() - before;
            eprintln!("{cost} bytes of memory for {} on the wire", asking.bytes("index"));
            assert!(cost < COST || server.heads().len() == 1, "{cost}");
        }
        assert!(asking.bytes("index") > 50 * MIB);
        assert!(
            asking.metric("helmops_cache_bytes") < 16 << 10,
            "only what is wanted is kept"
        );
    })
    .await;
}

#[tokio::test]
async fn a_body_without_end_is_not_held() {
    measured("a_body_without_end_is_not_held", async || {
        let server = Server::http(|head| large(if head.nth == 0 { 1 } else { u64::MAX / 2 })).await;
        let limits = Limits {
            wire: 40 * MIB,
            ..LIMITS
        };
        let asking = Asking::reading(limits, PATIENT);
        assert_eq!(
            version(asking.repository(&anonymous(), &server.url()).await),
            "1.0.0"
        );
        let before = peak();
        let outcome = asking.repository(&anonymous(), &server.url()).await;
        assert_fails(outcome, Reason::ResponseTooLarge, Pace::SLOW, &[]);
        let cost = peak() - before;
        assert!(cost < COST, "{cost} bytes for {}", asking.bytes("index"));
    })
    .await;
}

#[tokio::test]
async fn a_list_of_tags_without_end_is_not_held() {
    measured("a_list_of_tags_without_end_is_not_held", async || {
        let tags: Vec<String> = (0..36_000)
            .map(|patch| format!("\"1.0.{patch}-{}\"", "a".repeat(100)))
            .collect();
        let page = format!("{{\"tags\":[{}]}}", tags.join(","));
        drop(tags);
        let server = Server::http(move |head| {
            let next = format!("</v2/web/tags/list?last={}>; rel=\"next\"", head.nth);
            // The first list ends at once.
            let link: &str = if head.nth == 0 { "" } else { &next };
            let body: &str = if head.nth == 0 { "{\"tags\":[]}" } else { &page };
            let headers = [("Link", link)];
            answer(200, if head.nth == 0 { &[] } else { &headers }, body)
        })
        .await;
        let (asking, access) = (Asking::new(), in_the_clear(anonymous()));
        let _ = asking.registry(&access, &reference(&server), "").await;
        let before = peak();
        let outcome = asking.registry(&access, &reference(&server), "").await;
        assert_fails(outcome, Reason::ResponseTooLarge, Pace::SLOW, &[]);
        let cost = peak() - before;
        eprintln!("{cost} bytes of memory for {} on the wire", asking.bytes("tags"));
        // The page as the server holds it, the body, what is made of it and the list.
        assert!(cost < 4 * COST, "{cost}");
    })
    .await;
}
