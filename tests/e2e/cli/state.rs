//! `status`, `tree`, `history` and `events`.

use std::process::Stdio;

use anyhow::{Context, ensure};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::namespace::TestNamespace;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::harness::whole::{NAMESPACE, Whole, whole};
use crate::harness::{SOON, until};

/// The lines of a text that contain a word, with single spaces.
fn lines(text: &str, word: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains(word));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[tokio::test]
async fn a_release_that_was_rolled_back_shows_what_failed_what_runs_and_what_comes_next() {
    let whole = whole().await;
    let name = &*Whole::name("broken");
    let policy = json!({ "lifecycle": { "upgrade": { "retries": 1, "retryInterval": "1h", "remediation": "rollback" } } });
    whole.helmop(name, "0.1.0", &policy).await;
    whole.succeeds(&["wait", name]).await;
    let ready = whole.succeeds(&["status", name]).await;
    assert!(
        ready.contains("State     Ready\n  Clusters  1/1 ready\n"),
        "{ready}"
    );
    assert!(!ready.contains("not ready"), "{ready}");

    // The API server rejects a Service with this port.
    let mut broken = policy.clone();
    broken["helm"] = json!({ "values": { "service": { "port": 100_000 } } });
    whole.helmop(name, "0.2.0", &broken).await;
    let page = eventually("the rollback to be shown", SOON, async || {
        let page = whole.succeeds(&["status", name]).await;
        ensure!(
            page.contains("revision 3") && page.contains("ErrApplied"),
            "{page}"
        );
        Ok(page)
    })
    .await
    .unwrap();
    let mut clusters = lines(&page, "fleet-local/local ").into_iter();
    let cluster = clusters
        .find(|line| line.starts_with("fleet-local/local "))
        .unwrap();
    assert!(
        cluster.starts_with("fleet-local/local ErrApplied 0.2.0 web 0.1.0, revision 3 1 attempt in "),
        "{cluster}"
    );
    assert!(
        cluster.contains("100000"),
        "the error of the API server: {cluster}"
    );
    let next = format!("kubectl helmop history {name} -n {NAMESPACE} --cluster fleet-local/local");
    assert!(page.contains(&format!("Next: {next}\n")), "{page}");

    let command: Vec<_> = next.split(' ').skip(2).collect();
    let history = whole.succeeds(&command).await;
    let attempts: Vec<_> = lines(&history, "fleet-local/local ")
        .into_iter()
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            // Without the time.
            [words[3], words[4], words[6], words[7]].join(" ")
        })
        .collect();
    assert_eq!(
        attempts,
        [
            "3 rollback 0.1.0 deployed",
            "2 upgrade 0.2.0 failed",
            "1 install 0.1.0 superseded"
        ],
        "{history}"
    );

    let tree = whole.succeeds(&["tree", name]).await;
    for part in [
        &format!("HelmOp {NAMESPACE}/{name}"),
        &format!("└─ Bundle {NAMESPACE}/{name}"),
        "   └─ Cluster fleet-local/local",
        &format!("service.v1 {name}/{name}-web"),
    ] {
        assert!(tree.contains(part), "{part:?} is not in {tree}");
    }
    let events = whole.succeeds(&["events", name]).await;
    assert!(events.contains(&format!("Bundle/{name}")), "{events}");
    assert!(events.contains("Warning"), "{events}");

    let report: Value = serde_json::from_str(&whole.succeeds(&["status", name, "-o", "json"]).await).unwrap();
    assert_eq!(report["clusters"][0]["runs"], "web 0.1.0, revision 3");
    assert_eq!(report["clusters"][0]["failures"], 1);
    let names = whole.succeeds(&["status", name, "-o", "name"]).await;
    assert_eq!(names, format!("helmop.fleet.cattle.io/{name}\n"));
}

#[tokio::test]
async fn a_helmop_without_a_version_shows_the_reason_and_the_remedy() {
    let whole = whole().await;
    let name = &*Whole::name("stalled");
    whole
        .helmop(name, "9.x", &json!({ "pollingInterval": "1h" }))
        .await;
    let row = eventually("the HelmOp to be stalled", SOON, async || {
        let list = whole.succeeds(&["status"]).await;
        let row = lines(&list, name).pop().context("no row")?;
        ensure!(row.contains("Stalled"), "{row}");
        Ok(row)
    })
    .await
    .unwrap();
    assert!(
        row.starts_with(&format!("{name} <none> 9.x 0/0 Stalled NoMatchingVersion ")),
        "{row}"
    );
    assert!(row.contains(" retrying "), "the next poll: {row}");
    let page = whole.succeeds(&["status", name]).await;
    for part in [
        "no version yet for 9.x",
        "State     Stalled (NoMatchingVersion)",
        "What to do about NoMatchingVersion:",
        &format!("Next: kubectl helmop resolve {name} -n {NAMESPACE}"),
    ] {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
    let wrong = format!("{name}x");
    let error = whole.fails(&["status", &wrong], 1).await;
    assert!(
        error.contains(&format!(
            "there is no HelmOp {wrong:?} in namespace {NAMESPACE:?}"
        )),
        "{error}"
    );
    assert!(error.contains(&format!("did you mean {name:?}?")), "{error}");
    let none = whole.plugin(&["status", "-l", "no=such"]).await;
    assert_eq!(
        (&*none.stdout, &*none.stderr),
        (
            "",
            "No HelmOps found in namespace \"fleet-local\" with labels \"no=such\".\n"
        )
    );
}

/// A namespace with the HelmOp `web` on three clusters without agents, and the namespace of the cluster `c1`.
async fn three_clusters(whole: &Whole) -> (TestNamespace, Kubectl) {
    let namespace = TestNamespace::create(&whole.bed, "rollout").await.unwrap();
    let kubectl = namespace.kubectl();
    for number in 0..3 {
        let cluster = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Cluster", "metadata": { "name": format!("c{number}") } });
        kubectl.apply(&cluster.to_string()).await.unwrap().ok().unwrap();
    }
    let spec = json!({
        "helm": { "repo": whole.server.url(), "chart": "web", "version": "1.0.0" },
        "targets": [{ "clusterSelector": {} }],
    });
    let helmop = crate::harness::helmop("web", &spec);
    kubectl.apply(&helmop).await.unwrap().ok().unwrap();
    let cluster = until(kubectl, "cluster/c1", |cluster| {
        ensure!(cluster["status"]["namespace"].is_string(), "no namespace");
        Ok(())
    })
    .await;
    let of_cluster = whole
        .bed
        .kubectl()
        .in_namespace(cluster["status"]["namespace"].as_str().unwrap());
    (namespace, of_cluster)
}

/// The lines that `--watch` prints.
struct Watched {
    _process: Child,
    output: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
}

impl Watched {
    fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        Self {
            output: BufReader::new(process.stdout.take().unwrap()).lines(),
            _process: process,
            seen: Vec::new(),
        }
    }

    /// Waits until there is a line with this part.
    async fn until(&mut self, part: &str) {
        let found = timeout(SOON, async {
            while !self.seen.iter().any(|line| line.contains(part)) {
                let line = self.output.next_line().await.unwrap().unwrap();
                self.seen
                    .push(line.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        })
        .await;
        assert!(found.is_ok(), "no {part:?} in {:#?}", self.seen);
    }
}

#[tokio::test]
async fn a_rollout_is_shown_while_it_progresses() {
    let whole = whole().await;
    let (namespace, of_cluster) = three_clusters(&whole).await;
    let deployment = until(&of_cluster, "bundledeployment/web", |_| Ok(())).await;
    let in_namespace = |command: &[&str]| {
        let mut command: Vec<_> = command.iter().map(|&word| word.to_owned()).collect();
        command.extend(["-n".to_owned(), namespace.name().to_owned()]);
        command
    };
    let run = async |command: &[&str]| {
        let command = in_namespace(command);
        let command: Vec<_> = command.iter().map(|word| &**word).collect();
        whole.succeeds(&command).await
    };
    let page = eventually("all clusters to be shown", SOON, async || {
        let page = run(&["status", "web"]).await;
        let clusters = lines(&page, &format!("{}/c", namespace.name()));
        let waiting = clusters
            .iter()
            .filter(|line| line.contains(" WaitApplied 1.0.0 "));
        ensure!(page.contains("0/3 ready") && waiting.count() == 3, "{page}");
        Ok(page)
    })
    .await
    .unwrap();
    assert!(page.contains("Next: kubectl helmop status"), "{page}");

    // Its agent deploys.
    let watch = in_namespace(&["status", "web", "--watch"]);
    let mut watched = Watched::start(whole.command(&watch));
    watched
        .until(&format!("Cluster {}/c2 WaitApplied 1.0.0", namespace.name()))
        .await;
    let status = json!({ "status": {
        "appliedDeploymentID": deployment["spec"]["deploymentID"], "ready": true, "nonModified": true, "release": "web/web:1",
        "resources": [{ "kind": "Service", "apiVersion": "v1", "namespace": "web", "name": "web" }]
    } });
    let patch = [
        "patch",
        "bundledeployment/web",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ];
    crate::harness::run(&of_cluster, &patch).await;
    watched
        .until(&format!(
            "Cluster {}/c1 Ready 1.0.0 1.0.0, revision 1",
            namespace.name()
        ))
        .await;
    watched.until("1/3 clusters").await;

    let tree = run(&["tree", "web", "--clusters", "all"]).await;
    assert!(tree.contains("service.v1 web/web"), "{tree}");
    let folded = run(&["tree", "web", "--clusters", "not-ready"]).await;
    assert!(folded.contains("… 1 ready cluster (--clusters all)"), "{folded}");
    let row = run(&["status", "-A", "-o", "wide"]).await;
    let row = lines(&row, namespace.name()).pop().unwrap();
    assert!(
        row.starts_with(&format!("{} web 1.0.0 1.0.0 1/3 WaitApplied ", namespace.name())),
        "{row}"
    );
    let error = whole.fails(&["status", "web"], 1).await;
    assert!(
        error.contains("exists in") && error.contains("namespace"),
        "{error}"
    );
}
