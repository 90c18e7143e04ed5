//! `promtool check metrics`: names, types, help and units as Prometheus wants them.

use std::process::Stdio;

use helmops_tests::probe;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::bed::Monitored;

#[tokio::test]
async fn promtool_finds_nothing_to_say() {
    let monitored = Monitored::start().await.unwrap();
    let client = probe::client(None).unwrap();
    for process in [&monitored.controller, &monitored.webhook.running] {
        let url = format!("{}/metrics", process.admin);
        let text = probe::get(&client, &url).await.unwrap();
        assert_eq!(check(&monitored, &text).await, "", "of {text}");
    }
    let odd = "# TYPE odd counter\nodd 1\n";
    assert!(check(&monitored, odd).await.contains("odd"), "it looks");
}

/// What promtool says of metrics.
async fn check(monitored: &Monitored, text: &str) -> String {
    let mut promtool = Command::new(monitored.monitoring.promtool())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(text.as_bytes()).await.unwrap();
    drop(input);
    let output = promtool.wait_with_output().await.unwrap();
    let told = [output.stdout, output.stderr].concat();
    String::from_utf8(told).unwrap()
}
