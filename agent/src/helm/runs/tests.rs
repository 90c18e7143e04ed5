use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use futures::future::join_all;
use helmops_helm::{
    Ends, HelmProgram,
    request::{Identity, Uninstall},
    workspace::Workspaces,
};
use helmops_kube::lease::Leadership;
use helmops_release::record::Propagation;
use prometheus::Registry;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

/// What `helmops-helm` writes after a success.
const SUCCESS: &str = "echo '{}'";

/// A program that stands in for Helm: a shell script, which finds its workspace in `$HOME/..`. It succeeds if it ends.
struct Fake {
    runs: HelmRuns,
    folder: TempDir,
}

impl Fake {
    fn new(script: &str, processes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("helm");
        // Another process writes it: a child of another test could inherit our file, and one that is open cannot be executed.
        let text = folder.path().join("script");
        fs::write(&text, format!("#!/bin/sh\n{script}\n{SUCCESS}\n")).unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        let copied = std::process::Command::new("cp").arg(&text).arg(&program).status();
        assert!(copied.unwrap().success());
        let workspaces = Workspaces::open(&folder.path().join("work")).unwrap();
        let processes = NonZeroUsize::new(processes).unwrap();
        let metrics = HelmMetrics::register(&Registry::new()).unwrap();
        Self {
            runs: HelmRuns::new(Helm::new(engine(program), workspaces), processes, None, metrics),
            folder,
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn run(&self, stop: &RunScope) -> Result<Success, Failure> {
        self.runs.run(request(), b"secret".to_vec(), stop).await
    }

    fn has_no_workspace(&self) -> bool {
        fs::read_dir(self.folder.path().join("work")).unwrap().count() == 0
    }
}

fn engine(path: PathBuf) -> HelmProgram {
    HelmProgram::Engine {
        path,
        post_renderer: "/agent".into(),
    }
}

fn no_stop() -> RunScope {
    RunScope::of_agent(&CancellationToken::new(), "")
}

fn request() -> Request {
    Request {
        release: ReleaseKey::new("shop", "web"),
        identity: Identity::Agent,
        action: Action::Uninstall(Uninstall {
            keeps_history: false,
            description: String::new(),
            propagation: Propagation::default(),
            runs_hooks: true,
        }),
        hook_timeout: Duration::from_secs(1),
    }
}

async fn until_exists(path: &str) {
    for _ in 0..1000 {
        if Path::new(path).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} was not created within 10 s");
}

#[tokio::test]
async fn helm_sees_nothing_of_the_environment_of_the_agent() {
    let fake = Fake::new(
        "env -i sh -c true; env > $HOME/../../../env; test -s $HOME/../kubeconfig",
        1,
    );
    fake.run(&no_stop()).await.unwrap();
    let text = fs::read_to_string(fake.path("env")).unwrap();
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    // What the shell sets itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    let expected = [
        "GOGC",
        "GOMEMLIMIT",
        "HELM_CACHE_HOME",
        "HELM_CONFIG_HOME",
        "HELM_DATA_HOME",
        "HELM_DRIVER",
        "HELM_NO_PLUGINS",
        "HOME",
        "TMPDIR",
    ];
    assert_eq!(names, expected);
    assert!(fake.has_no_workspace());
}

#[tokio::test]
async fn at_most_some_run_at_a_time() {
    let script =
        "d=$(dirname $0); mkdir $d/run.$$; ls -d $d/run.* | wc -l >> $d/count; sleep 0.1; rmdir $d/run.$$";
    let fake = Fake::new(script, 2);
    let stop = no_stop();
    let done = AtomicUsize::new(0);
    join_all((0..8).map(async |_| {
        fake.run(&stop).await.unwrap();
        done.fetch_add(1, SeqCst);
    }))
    .await;
    let counts = fs::read_to_string(fake.path("count")).unwrap();
    let most = counts
        .lines()
        .map(|line| line.trim().parse::<usize>().unwrap())
        .max();
    assert_eq!((most, done.load(SeqCst)), (Some(2), 8));
}

#[tokio::test]
async fn the_files_of_a_run_that_is_dropped_are_removed() {
    let fake = Fake::new("touch $(dirname $0)/started; sleep 60", 1);
    let stop = no_stop();
    let started = fake.path("started");
    tokio::select! {
        outcome = fake.run(&stop) => panic!("it ended: {outcome:?}"),
        () = async {
            until_exists(&started).await;
            assert!(!fake.has_no_workspace());
        } => {}
    }
    assert!(fake.has_no_workspace());
}

#[tokio::test]
async fn a_run_that_waits_for_a_permit_ends_with_the_agent() {
    let fake = Fake::new("touch $(dirname $0)/started; exec sleep 60", 1);
    let (running, waiting) = (no_stop(), no_stop());
    let started = fake.path("started");
    let (first, second, ()) = tokio::join!(
        fake.run(&running),
        async {
            until_exists(&started).await;
            fake.run(&waiting).await
        },
        async {
            until_exists(&started).await;
            waiting.agent.cancel();
            running.agent.cancel();
        }
    );
    for outcome in [first, second] {
        assert_eq!(outcome.unwrap_err().reason, FailureReason::Stopped);
    }
}

#[tokio::test]
async fn a_missing_helm_is_reported_with_its_path() {
    let mut fake = Fake::new("", 1);
    fake.runs.helm.program = engine(fake.folder.path().join("other"));
    for failure in [
        fake.run(&no_stop()).await.unwrap_err(),
        fake.runs.helm.version().await.unwrap_err(),
    ] {
        assert_eq!(failure.reason, FailureReason::NotStarted);
        let start = format!("cannot run Helm ({}): No such file", fake.path("other"));
        assert!(failure.message.starts_with(&start), "{failure}");
    }
    assert!(fake.has_no_workspace());
}

#[tokio::test]
async fn the_version_is_what_helm_prints() {
    let fake = Fake::new("test \"$*\" = version && echo v4.2; exit 0", 1);
    assert_eq!(fake.runs.helm.version().await.unwrap(), "v4.2");
}

/// Neither the run nor the wait for its permit.
#[tokio::test]
async fn the_deadline_of_a_reconciliation_does_not_end_helm() {
    let fake = Fake::new("sleep 0.5", 1);
    let stop = no_stop();
    let limit = Duration::from_millis(200);
    let runs = (0..3).map(|_| deadline::bounded(limit, fake.run(&stop)));
    for ended in join_all(runs).await {
        ended.expect("it was not ended").unwrap();
    }
    let hangs = deadline::bounded(limit, async {
        fake.run(&stop).await.unwrap();
        std::future::pending::<()>().await;
    });
    hangs.await.unwrap_err();
}

#[tokio::test]
async fn a_run_ends_with_the_leadership_of_its_agent() {
    let mut fake = Fake::new(
        "trap 'exit 1' TERM; touch $(dirname $0)/started; while :; do sleep 0.05; done",
        1,
    );
    let (sender, leadership) = Leadership::elected();
    let shutdown = Duration::from_secs(25);
    fake.runs.helm.ends = Ends::of(leadership, shutdown, Duration::from_secs(5));
    assert!(fake.runs.helm.ends.lease_grace < Duration::from_secs(5) && fake.runs.helm.ends.grace < shutdown);
    sender.set(Some(tokio::time::Instant::now() + Duration::from_mins(1)));
    let stop = no_stop();
    let (running, waiting) = (fake.run(&stop), fake.run(&stop));
    let lost = async {
        until_exists(&fake.path("started")).await;
        sender.set(None);
    };
    let (running, waiting, ()) = tokio::join!(running, waiting, lost);
    for ended in [running, waiting] {
        assert_eq!(ended.unwrap_err().reason, FailureReason::Stopped);
    }
}

/// A Helm that waits until it is stopped.
const ENDLESS: &str = "trap 'exit 1' TERM; touch $(dirname $0)/started; while :; do sleep 0.05; done";

#[tokio::test]
async fn a_run_ends_when_its_result_is_of_no_use_any_more() {
    let mut fake = Fake::new(ENDLESS, 1);
    fake.runs.helm.ends.brief = Duration::from_millis(300);
    let (running, waiting) = (no_stop(), no_stop());
    let started = Instant::now();
    let (first, second, ()) = tokio::join!(
        fake.run(&running),
        async {
            until_exists(&fake.path("started")).await;
            fake.run(&waiting).await
        },
        async {
            until_exists(&fake.path("started")).await;
            waiting.superseded.cancel();
            running.superseded.cancel();
        }
    );
    for outcome in [first, second] {
        assert_eq!(outcome.unwrap_err().reason, FailureReason::Superseded);
    }
    let taken = started.elapsed();
    assert!(
        taken >= fake.runs.helm.ends.brief,
        "what ends soon is not interrupted: {taken:?}"
    );
}

#[tokio::test]
async fn a_run_that_ends_soon_is_not_interrupted() {
    let fake = Fake::new("touch $(dirname $0)/started; sleep 0.5", 1);
    let stop = no_stop();
    let (outcome, ()) = tokio::join!(fake.run(&stop), async {
        until_exists(&fake.path("started")).await;
        stop.superseded.cancel();
    });
    outcome.unwrap();
}

/// Two releases whose hooks did not end in time hold one of two permits, so a third one runs.
#[tokio::test]
async fn runs_that_did_not_end_in_time_leave_a_permit_to_others() {
    let script = "d=$(dirname $0); case \"$*\" in
        *hang*) [ -e $d/again ] || { echo '{\"error\":{\"text\":\"a\",\"reason\":\"HookTimeout\"}}'; exit 1; }
            trap 'exit 1' TERM; touch $d/started; while :; do sleep 0.05; done ;;
        esac";
    let fake = Fake::new(script, 2);
    let stop = no_stop();
    let run = async |name: &str| {
        let mut request = request();
        name.clone_into(&mut request.release.name);
        fake.runs.run(request, b"secret".to_vec(), &stop).await
    };
    for name in ["hang-a", "hang-b"] {
        assert_eq!(run(name).await.unwrap_err().reason, FailureReason::HookTimeout);
    }
    fs::write(fake.path("again"), "").unwrap();
    let healthy = async {
        until_exists(&fake.path("started")).await;
        let ended = tokio::time::timeout(Duration::from_secs(20), run("web")).await;
        stop.agent.cancel();
        ended.expect("a permit is left").unwrap();
    };
    let (first, second, ()) = tokio::join!(run("hang-a"), run("hang-b"), healthy);
    for outcome in [first, second] {
        assert_eq!(outcome.unwrap_err().reason, FailureReason::Stopped);
    }
}
