//! The control plane that tests share, with all of helmops: the webhook, all controllers, and the agent of the Cluster
//! `fleet-local/local`, which is the control plane itself, with a simulated node. HelmOps of all tests are in the namespace
//! `fleet-local`; each test has names of its own.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::command::{self, Output};
use helmops_bed::helmops::{self, Running, Webhook};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::random;
use helmops_bed::shared::{InUse, Shared};
use helmops_bed::test_bed::{TestBed, binary};
use serde_json::{Value, json};
use tokio::process::Command;

/// The namespace of the HelmOps.
pub const NAMESPACE: &str = "fleet-local";
/// The versions of the chart `web` in the repository.
const VERSIONS: [&str; 4] = ["0.1.0", "0.2.0", "1.0.0", "1.1.0-rc.1"];
/// Much longer than what a command waits for.
const DEADLINE: Duration = Duration::from_mins(2);

/// The control plane and its processes, and a chart repository of the test.
pub struct Whole {
    pub bed: TestBed,
    /// A server ends with the runtime of the test that started it.
    pub server: ChartServer,
    _suite: InUse<Suite>,
}

struct Suite {
    bed: TestBed,
    charts: ChartRepo,
    _webhook: Webhook,
    _controller: Running,
    _agent: Running,
}

/// The suite for one test. It ends soon after the last one that uses it.
pub async fn whole() -> Whole {
    static SUITE: Shared<Suite> = Shared::new();
    let suite = SUITE.get(async || Ok(Suite::start().await)).await.unwrap();
    Whole {
        bed: suite.bed.clone(),
        server: ChartServer::http(suite.charts.folder()).await.unwrap(),
        _suite: suite,
    }
}

impl Suite {
    async fn start() -> Self {
        let bed = helmops::local_control_plane(false).await.unwrap();
        let command = |program: &Path| bed.command(program);
        let webhook = helmops::start_webhook(&bed, "webhook", &command).await.unwrap();
        helmops::register_webhook(&bed.kubectl(), &webhook).await.unwrap();
        let controller = helmops::start_standalone_controller(&bed, "controller", &command)
            .await
            .unwrap();
        let agent = helmops::start_local_agent(&bed, "agent", &command).await.unwrap();
        let folder = bed.directory.join("charts");
        let charts = ChartRepo::build(&bed.tools, &folder, &[("web", &VERSIONS)])
            .await
            .unwrap();
        Self {
            charts,
            _webhook: webhook,
            _controller: controller,
            _agent: agent,
            bed,
        }
    }
}

impl Whole {
    /// kubectl for the namespace of the HelmOps.
    pub fn kubectl(&self) -> Kubectl {
        self.bed.kubectl().in_namespace(NAMESPACE)
    }

    /// A name that no other test has.
    pub fn name(prefix: &str) -> String {
        format!("{prefix}-{}", random::word())
    }

    /// Applies a HelmOp of the chart `web` in this version, in a namespace of its own, with `over` merged over its spec.
    pub async fn helmop(&self, name: &str, version: &str, over: &Value) {
        let mut spec = json!({
            "namespace": name,
            "helm": { "repo": self.server.url(), "chart": "web", "version": version },
            "targets": [{ "clusterSelector": {} }],
        });
        json_patch::merge(&mut spec, over);
        let applied = self.kubectl().apply(&super::helmop(name, &spec)).await.unwrap();
        applied.ok().unwrap();
    }

    /// Runs `kubectl helmop` with these arguments in the namespace of the HelmOps, as users run it: kubectl finds the plugin in
    /// `PATH`.
    pub async fn plugin(&self, arguments: &[&str]) -> Output {
        self.plugin_with_input(arguments, "").await
    }

    /// The same, with this standard input.
    pub async fn plugin_with_input(&self, arguments: &[&str], input: &str) -> Output {
        command::run(self.command(arguments), input, DEADLINE)
            .await
            .unwrap()
    }

    /// The command itself, in the namespace of the HelmOps unless the arguments name one.
    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let plugin = binary("kubectl-helmop").unwrap();
        let folders = [plugin.parent().unwrap().to_owned()];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&path))).unwrap();
        let mut command = Command::new(self.bed.tools.kubectl());
        command
            .arg("helmop")
            .args(arguments)
            .env("PATH", path)
            .env("KUBECONFIG", &self.bed.kubeconfig);
        if !arguments.iter().any(|argument| argument.as_ref() == "-n") {
            command.args(["--namespace", NAMESPACE]);
        }
        command
    }

    /// What the command prints; it must succeed.
    pub async fn succeeds(&self, arguments: &[&str]) -> String {
        self.plugin(arguments).await.ok().unwrap()
    }

    /// What the command prints on standard error; it must end with this exit code.
    pub async fn fails(&self, arguments: &[&str], code: i32) -> String {
        let output = self.plugin(arguments).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        output.stderr
    }
}
