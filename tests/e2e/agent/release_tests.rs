//! Helm tests, as the agent runs them, on a control plane with a simulated node. The annotations of pods choose how they end.

use std::time::Duration;

use helmops_agent::records::Records;
use helmops_agent::release_tests::{ReleaseTests, TestError, TestRun, Tested};
use helmops_bed::control_plane::Options;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use helmops_helm::FailureReason;
use helmops_helm::request::{Action, Identity};
use helmops_helm::run_scope::RunScope;
use helmops_release::names::SetId;
use helmops_release::record::{HookPhase, TestFilters, TestState};
use tokio_util::sync::CancellationToken;

use super::engine::{AGENT, CONFIG_MAP, Engine, SHORT, install, upgrade};
use crate::harness::SOON;

/// A test that ends as the values choose. Helm deletes its pod only if it succeeds.
const POD: &str = r"apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-check
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: hook-succeeded
    helmops.test/exit: {{ .Values.exit | quote }}
    helmops.test/log: {{ .Values.log | quote }}
spec:
  restartPolicy: Never
  containers: [{name: check, image: check}]
";
/// Another test, and a hook that is none.
const OTHERS: &str = r#"apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-good
  annotations: {helm.sh/hook: test, helm.sh/hook-weight: "5"}
spec:
  restartPolicy: Never
  containers: [{name: check, image: check}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-farewell
  annotations: {helm.sh/hook: pre-delete}
"#;

async fn bed_with_node() -> InUse<TestBed> {
    static BED: Shared<TestBed> = Shared::new();
    let options = Options {
        nodes: true,
        ..Options::default()
    };
    BED.get(async || TestBed::start(&options).await).await.unwrap()
}

/// A release `web` with tests.
struct Release {
    engine: Engine,
    revision: u64,
}

impl Release {
    async fn installed(prefix: &str, templates: &[&str], values: &str) -> Self {
        let engine = Engine::on(bed_with_node().await, prefix).await;
        let mut files = vec![("templates/config.yaml", CONFIG_MAP), ("values.yaml", values)];
        let names = ["templates/a.yaml", "templates/b.yaml"];
        files.extend(names.into_iter().zip(templates.iter().copied()));
        let chart = engine.chart("1.0.0", &files).await;
        engine.run(Action::Install(install(&chart))).await.unwrap();
        Self { engine, revision: 1 }
    }

    async fn upgraded(&mut self, values: &str) {
        let folder = self.engine.files.path().join("charts/1.0.0/web-1.0.0.tgz");
        let mut upgrade = upgrade(&folder);
        upgrade.deploy.values = vec![values.as_bytes().to_vec()];
        let success = self.engine.run(Action::Upgrade(upgrade)).await.unwrap();
        self.revision = success.revision.unwrap();
    }

    async fn test(&self, filters: TestFilters) -> Result<Tested, TestError> {
        self.test_until(filters, SOON, &CancellationToken::new()).await
    }

    async fn test_until(
        &self,
        filters: TestFilters,
        timeout: Duration,
        stop: &CancellationToken,
    ) -> Result<Tested, TestError> {
        let client = self.engine.client().await;
        let records = Records::new(client.clone(), AGENT);
        let tests = ReleaseTests {
            helm: &self.engine.helm,
            records: &records,
            client: &client,
            set: &SetId::new("web-bundle", ""),
            stop: &RunScope::of_agent(stop, ""),
        };
        let run = TestRun {
            release: self.engine.release(),
            revision: self.revision,
            identity: Identity::Agent,
            filters,
            timeout,
        };
        let kubeconfig = std::fs::read(&self.engine.kubeconfig).unwrap();
        tests.run(run, kubeconfig).await
    }

    /// What the record shows without a run.
    async fn recorded(&self) -> TestState {
        let record = self.engine.record(self.revision).await.unwrap();
        record.tests(&TestFilters::default())
    }
}

fn only(name: &str) -> TestFilters {
    TestFilters {
        include: vec![name.to_owned()],
        ..TestFilters::default()
    }
}

fn without(name: &str) -> TestFilters {
    TestFilters {
        exclude: vec![name.to_owned()],
        ..TestFilters::default()
    }
}

#[tokio::test]
async fn a_failed_test_has_its_log_and_runs_again_after_a_fix() {
    let failing = "{msg: a, exit: 3, log: \"connecting\\n\\e[31mno connection to db:5432\\e[0m\\n\"}";
    let mut release = Release::installed("agent-test", &[POD], failing).await;
    assert_eq!(release.recorded().await, TestState::NotRun);
    let tested = release.test(TestFilters::default()).await.unwrap();
    let failure = tested.failure.unwrap();
    assert_eq!(failure.error.reason, FailureReason::HookFailed, "{failure}");
    assert_eq!(
        failure.log.as_deref(),
        Some("connecting\nno connection to db:5432")
    );
    let start = format!("Pod {}/web-check failed: ", release.engine.namespace.name());
    assert!(failure.to_string().starts_with(&start), "{failure}");
    assert_eq!(tested.state, release.recorded().await);
    assert!(matches!(tested.state, TestState::Failed(test) if test.name == "web-check"));

    // That it has failed says nothing of a run that did not take place.
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = release.test_until(TestFilters::default(), SOON, &stop).await;
    assert!(matches!(stopped, Err(TestError::Helm(_))), "{stopped:?}");

    // The same test fails again, with a new pod.
    release.test(TestFilters::default()).await.unwrap();
    let pod = release.engine.object("pod/web-check").await.unwrap();
    release.test(TestFilters::default()).await.unwrap();
    let again = release.engine.object("pod/web-check").await.unwrap();
    assert_ne!(again["metadata"]["uid"], pod["metadata"]["uid"]);

    release.upgraded("{exit: 0}").await;
    assert_eq!(release.recorded().await, TestState::NotRun);
    let tested = release.test(TestFilters::default()).await.unwrap();
    assert_eq!((tested.state, tested.failure), (TestState::Succeeded, None));
    assert_eq!(release.recorded().await, TestState::Succeeded);
    assert!(release.engine.object("pod/web-check").await.is_none());
    // Succeeded tests run again, too.
    let tested = release.test(TestFilters::default()).await.unwrap();
    assert_eq!(tested.state, TestState::Succeeded);
}

#[tokio::test]
async fn filtered_tests_run_and_no_hook_is_lost() {
    let release = Release::installed("agent-test-filter", &[POD, OTHERS], "{msg: a, exit: 3, log: x}").await;
    let hooks = async || {
        let record = release.engine.record(1).await.unwrap();
        let mut names: Vec<_> = record.hooks.iter().map(|hook| hook.name.clone()).collect();
        names.sort();
        names
    };
    let all = ["web-check", "web-farewell", "web-good"];
    for filters in [only("web-good"), without("web-check")] {
        let tested = release.test(filters.clone()).await.unwrap();
        assert_eq!(tested.state, TestState::Succeeded, "{filters:?}");
        assert!(
            release.engine.object("pod/web-check").await.is_none(),
            "it did not run"
        );
        assert_eq!(hooks().await, all);
    }
    assert_eq!(release.recorded().await, TestState::NotRun);
    let none = release.test(only("other")).await.unwrap();
    assert_eq!(none.state, TestState::NoTests);
    let failed = release.test(only("web-check")).await.unwrap();
    assert!(matches!(failed.state, TestState::Failed(_)));
    assert_eq!(hooks().await, all);
}

/// While Helm runs some tests, the record lacks all other hooks.
#[tokio::test]
async fn an_interrupted_run_counts_for_nothing_and_loses_no_hook() {
    let release =
        Release::installed("agent-test-stop", &[POD, OTHERS], "{msg: a, exit: never, log: x}").await;
    let stop = CancellationToken::new();
    let running = eventually("the test to run", SOON, async || {
        let record = release.engine.record(1).await.unwrap();
        let phases = record.hooks.iter().filter_map(|hook| hook.last_run.as_ref());
        anyhow::ensure!(phases.into_iter().any(|run| run.phase == HookPhase::Running));
        anyhow::ensure!(record.hooks.len() == 1, "Helm filters hooks");
        Ok(())
    });
    let interrupt = async {
        running.await.unwrap();
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(release.test_until(only("web-check"), SOON, &stop), interrupt);
    let Err(TestError::Helm(failure)) = ended else {
        panic!("it was interrupted: {ended:?}");
    };
    assert_eq!(failure.reason, FailureReason::Stopped);
    assert_eq!(release.engine.record(1).await.unwrap().hooks.len(), 3);
    assert_eq!(release.recorded().await, TestState::NotRun);
}

#[tokio::test]
async fn a_test_that_does_not_end_in_time_says_why_its_pod_does_not_run() {
    let waiting = POD.replace("exit: {{ .Values.exit", "waiting: {{ .Values.exit");
    let values = "{msg: a, exit: ImagePullBackOff, log: ''}";
    let release = Release::installed("agent-test-slow", &[&waiting], values).await;
    let stop = CancellationToken::new();
    let tested = release
        .test_until(TestFilters::default(), SHORT, &stop)
        .await
        .unwrap();
    let failure = tested.failure.unwrap();
    assert_eq!(failure.error.reason, FailureReason::HookTimeout, "{failure}");
    let log = failure.log.clone().unwrap();
    assert_eq!(log, "container check does not start: ErrImagePull");
    assert!(
        failure.to_string().contains("web-check did not end in time: "),
        "{failure}"
    );
}

#[tokio::test]
async fn a_test_can_be_a_job() {
    let job = r"apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-check
  annotations: {helm.sh/hook: test}
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations:
        helmops.test/exit: {{ .Values.exit | quote }}
        helmops.test/log: {{ .Values.log | quote }}
    spec:
      restartPolicy: Never
      containers: [{name: check, image: check}]
";
    let values = "{msg: a, exit: 3, log: \"table orders is missing\\n\"}";
    let mut release = Release::installed("agent-test-job", &[job], values).await;
    let tested = release.test(TestFilters::default()).await.unwrap();
    let failure = tested.failure.unwrap();
    assert_eq!((&*failure.test.kind, &*failure.test.name), ("Job", "web-check"));
    assert_eq!(failure.log.as_deref(), Some("table orders is missing"));
    release.upgraded("{exit: 0}").await;
    let tested = release.test(TestFilters::default()).await.unwrap();
    assert_eq!(tested.state, TestState::Succeeded);
}

#[tokio::test]
async fn a_release_without_tests_has_none() {
    let release = Release::installed("agent-test-none", &[], "{msg: a}").await;
    let tested = release.test(TestFilters::default()).await.unwrap();
    assert_eq!(tested.state, TestState::NoTests);
}
