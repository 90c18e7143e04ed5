//! Helm tests after an installation and an upgrade, with a simulated node that runs them.

use anyhow::{Context, ensure};
use helmops_bed::shared::Shared;
use helmops_bed::test_bed::TestBed;
use serde_json::{Value, json};

use super::{spec, state, until_state};
use crate::harness::agent::{CONFIG, Fixture, Permissions, start_bed_with};
use crate::harness::{condition, message};

/// A test that ends as the values choose.
const TEST: &str = r"apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-check
  annotations:
    helm.sh/hook: test
    helmops.test/exit: {{ .Values.exit | default 0 | quote }}
    helmops.test/log: the page has no title
spec:
  restartPolicy: Never
  containers: [{name: check, image: check}]
";

pub(super) async fn fixture(prefix: &str) -> Fixture {
    static BED: Shared<TestBed> = Shared::new();
    let bed = BED.get(async || start_bed_with(true).await).await.unwrap();
    let fixture = Fixture::on(bed, prefix, Permissions::ClusterAdmin).await.unwrap();
    fixture
        .charts
        .web("2.0.0", &[("config", CONFIG), ("check", TEST)])
        .await;
    fixture
}

pub(super) fn with_exit(msg: &str, exit: u8, parts: &Value) -> Value {
    let mut spec = spec(msg, parts);
    spec["lifecycle"]["wait"]["timeout"] = json!("30s");
    spec["options"]["helm"]["values"]["exit"] = json!(exit);
    spec
}

#[tokio::test]
async fn a_failed_test_is_remediated_with_its_log() {
    let fixture = fixture("testing-rollback").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({ "test": { "enable": true }, "upgrade": { "remediation": "rollback" } });
    fixture
        .deploy("web", "2.0.0", &with_exit("before", 0, &policy))
        .await;
    let found = fixture.until_ready("web").await;
    assert_eq!(state(&found, "TestSuccess"), "True TestSucceeded");
    fixture
        .deploy("web", "2.0.0", &with_exit("after", 3, &policy))
        .await;
    let found = until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    assert_eq!(state(&found, "TestSuccess"), "False TestFailed");
    assert_eq!(state(&found, "Released"), "True UpgradeSucceeded");
    for condition in ["TestSuccess", "Deployed"] {
        let text = message(&found, condition);
        assert!(text.contains("the page has no title"), "{condition}: {text}");
        assert!(text.contains(&format!("{release}-check")), "{condition}: {text}");
    }
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install", "test", "upgrade", "test", "rollback"]
    );
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("before"));
    // What runs now was tested before.
    fixture.barrier().await;
    assert_eq!(fixture.helm_runs_of(&release).len(), 5);
}

/// The tests would fail for a cause that lasts, such as a database that is down, and the remediation would be that of the
/// installation.
#[tokio::test]
async fn a_rollback_whose_version_is_wanted_again_is_not_tested() {
    let fixture = fixture("testing-reverted").await;
    let _agent = fixture.start().await;
    let release = fixture.name("web");
    let policy = json!({
        "test": { "enable": true },
        "install": { "remediation": "uninstall" },
        "upgrade": { "remediation": "rollback" },
    });
    let before = with_exit("before", 0, &policy);
    fixture.deploy("web", "2.0.0", &before).await;
    fixture.until_ready("web").await;
    fixture
        .deploy("web", "2.0.0", &with_exit("after", 3, &policy))
        .await;
    until_state(&fixture, "web", "Remediated", "True RollbackSucceeded").await;
    fixture.deploy("web", "2.0.0", &before).await;
    let found = until_state(&fixture, "web", "TestSuccess", "True TestSucceeded").await;
    assert_eq!(state(&found, "Released"), "True UpgradeSucceeded");
    fixture.until_ready("web").await;
    fixture.barrier().await;
    assert_eq!(
        fixture.helm_runs_of(&release),
        ["install", "test", "upgrade", "test", "rollback"]
    );
    assert_eq!(fixture.msg(&release).await.as_deref(), Some("before"));
}

#[tokio::test]
async fn failures_of_tests_can_be_ignored_and_tests_can_be_selected() {
    let fixture = fixture("testing-ignored").await;
    let _agent = fixture.start().await;
    let ignored = json!({ "test": { "enable": true, "ignoreFailures": true } });
    fixture
        .deploy("ignored", "2.0.0", &with_exit("x", 3, &ignored))
        .await;
    let name = format!("{}-check", fixture.name("selected"));
    let selected = json!({ "test": { "enable": true, "filters": [{ "name": name, "exclude": true }] } });
    fixture
        .deploy("selected", "2.0.0", &with_exit("x", 3, &selected))
        .await;
    let found = fixture.until_ready("ignored").await;
    assert_eq!(state(&found, "TestSuccess"), "False TestFailed");
    assert_eq!(state(&found, "Released"), "True InstallSucceeded");
    let found = fixture.until_ready("selected").await;
    assert_eq!(state(&found, "TestSuccess"), "True NoTests");
    assert_eq!(fixture.helm_runs_of(&fixture.name("selected")), ["install"]);
}

/// A worker that waits for tests would reconcile nothing else until they end.
#[tokio::test]
async fn tests_that_run_are_reported_and_delay_no_other_release() {
    let fixture = fixture("testing-slow").await;
    let endless = TEST.replace("{{ .Values.exit | default 0 | quote }}", "never");
    fixture
        .charts
        .web("3.0.0", &[("config", CONFIG), ("check", &endless)])
        .await;
    let agent = fixture.start_with("agent", &["--workers=1"]).await.unwrap();
    let tests = json!({ "test": { "enable": true, "timeout": "10m" } });
    let slow = ["slow-a", "slow-b"];
    for name in slow {
        fixture.deploy(name, "3.0.0", &with_exit("x", 0, &tests)).await;
    }
    for name in slow {
        fixture
            .until(name, |found| {
                let deployed = condition(found, "Deployed").context("not reported")?;
                let waiting = deployed["message"].as_str().unwrap_or_default();
                ensure!(
                    waiting.contains("the tests of revision 1 are running (since "),
                    "{waiting:?}"
                );
                let tests = state(found, "TestSuccess");
                ensure!(tests == "Unknown AwaitingTests", "{tests:?}");
                Ok(())
            })
            .await;
    }
    fixture.deploy("other", "1.0.0", &json!({})).await;
    fixture.until_ready("other").await;
    // They end when they are of no use any more, although each of them may take 10 minutes.
    let mut suspended = with_exit("x", 0, &tests);
    suspended["lifecycle"]["suspend"] = json!(true);
    fixture.deploy("slow-a", "3.0.0", &suspended).await;
    fixture
        .until("slow-a", |found| {
            let is_suspended = &found["status"]["lifecycle"]["suspended"];
            ensure!(*is_suspended == json!(true), "it is {is_suspended}");
            Ok(())
        })
        .await;
    fixture
        .deploy("slow-b", "1.0.0", &with_exit("fixed", 0, &json!({})))
        .await;
    fixture.until_msg(&fixture.name("slow-b"), "fixed").await;
    let found = fixture.until_ready("slow-b").await;
    assert_ne!(state(&found, "TestSuccess"), "False TestFailed");
    drop(agent);
}
