//! A control plane in one of the two modes, with both processes of helmops and the neighbour in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use helmops_bed::api::Api;
use helmops_bed::chart_server::ChartServer;
use helmops_bed::charts::ChartRepo;
use helmops_bed::helmops::{self, Part, Running, Webhook};
use helmops_bed::kubectl::Kubectl;
use helmops_bed::leader::LEASE;
use helmops_bed::test_bed::TestBed;
use helmops_bed::wait::eventually;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::runtime::Runtime;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use crate::attack::SOON;
use crate::leaks::PlantedSecret;
use crate::limits::Limits;
use crate::neighbour::Neighbour;

/// The path of Fleet's API group.
pub const FLEET: &str = "apis/fleet.cattle.io/v1alpha1";
/// The webhook ignores namespaces with this label: it can be bypassed or down, and the controller must work without it.
pub const WITHOUT_WEBHOOK: &str = "helmops.dev/without-webhook";
/// Charts are served on loopback.
const ALLOWED: &str = "127.0.0.0/8,::1/128";
/// Addresses that the controller must not reach.
const DENIED: &str = "127.0.0.9/32";
/// Bounds that are in the shipped CRDs but not in Fleet's.
const BOUNDS: [&str; 3] = ["maxItems", "maxLength", "x-kubernetes-validations"];

/// All processes and connections live as long as the program. The runtime of one test would end before the next test.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
/// The control plane of each mode, once it is needed. In one mode only one attack runs at a time, or it would disturb what another one
/// measures.
static BESIDE_FLEET: Mutex<Option<Environment>> = Mutex::const_new(None);
static STANDALONE: Mutex<Option<Environment>> = Mutex::const_new(None);

/// How helmops is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With the default controllers, and CRDs like Fleet's, which bound less than the shipped ones.
    BesideFleet,
    /// With all controllers and the shipped CRDs.
    Standalone,
}

impl Mode {
    /// What of helmops is installed besides what all installations have.
    const fn parts(self) -> &'static [Part] {
        match self {
            Self::BesideFleet => &[],
            Self::Standalone => &[Part::Standalone],
        }
    }

    /// Waits for the control plane of this mode, and starts it for the first attack.
    pub async fn lock(self) -> Result<MappedMutexGuard<'static, Environment>> {
        let environment = match self {
            Self::BesideFleet => &BESIDE_FLEET,
            Self::Standalone => &STANDALONE,
        };
        let mut guard = environment.lock().await;
        if guard.is_none() {
            *guard = Some(Environment::start(self).await?);
        }
        MutexGuard::try_map(guard, Option::as_mut)
            .ok()
            .context("no control plane")
    }
}

/// Everything that runs in one mode.
pub struct Environment {
    pub mode: Mode,
    pub testbed: TestBed,
    pub api: Api,
    pub kubectl: Kubectl,
    pub webhook: Webhook,
    /// None where it did not start.
    pub controller: Option<Running>,
    pub neighbour: Neighbour,
    /// The same charts, without a login.
    pub charts: ChartServer,
    /// Secrets that must not appear in logs, objects, events or metrics.
    pub planted: Vec<PlantedSecret>,
    pub controller_limits: Limits,
    pub webhook_limits: Limits,
    /// How much of each log was searched.
    pub searched: BTreeMap<String, usize>,
    starts: u32,
}

impl Environment {
    async fn start(mode: Mode) -> Result<Self> {
        let testbed = helmops::control_plane_with(mode.parts(), false).await?;
        let kubectl = testbed.kubectl();
        if mode == Mode::BesideFleet {
            let crds = helmops::manifests().join("standalone/crds");
            kubectl.apply_files(&[crds]).await?;
            remove_crd_bounds(&kubectl).await?;
        }
        let webhook = start_webhook(&testbed, 1).await?;
        let folder = testbed.directory.join("charts");
        let charts = ChartRepo::build(&testbed.tools, &folder, &[("web", &["1.1.0", "1.2.0"])]).await?;
        let controller_limits = Limits::read("controller/controller.yaml")?;
        let controller = start_controller(&testbed, mode, controller_limits, 1).await?;
        let api = Api::new(&testbed)?;
        let neighbour = Neighbour::create(&testbed, &api, mode, &charts).await?;
        let password = PlantedSecret {
            description: "the neighbour's password",
            text: neighbour.password.clone(),
        };
        Ok(Self {
            mode,
            charts: ChartServer::http(charts.folder()).await?,
            api,
            kubectl,
            webhook,
            controller: Some(controller),
            neighbour,
            planted: vec![password],
            controller_limits,
            webhook_limits: Limits::read("webhook.yaml")?,
            testbed,
            searched: BTreeMap::new(),
            starts: 1,
        })
    }

    /// Kills the controller and starts another one, which has nothing in memory.
    ///
    /// # Errors
    /// Where it does not become ready.
    pub async fn restart_controller(&mut self) -> Result<()> {
        if let Some(mut controller) = self.controller.take() {
            controller.process.kill().await?;
        }
        // A killed process releases no Lease; this test does not wait for its expiry.
        let lease = format!("lease/{LEASE}");
        let kubectl = self.kubectl.in_namespace(helmops::NAMESPACE);
        kubectl
            .run(&["delete", &lease, "--ignore-not-found"])
            .await?
            .ok()?;
        self.starts += 1;
        self.controller =
            Some(start_controller(&self.testbed, self.mode, self.controller_limits, self.starts).await?);
        Ok(())
    }

    /// Replaces both processes, whatever state they are in.
    ///
    /// # Errors
    /// Where one of them does not become ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.webhook.running.process.kill().await?;
        self.webhook = start_webhook(&self.testbed, self.starts + 1).await?;
        self.restart_controller().await
    }

    /// The port of the controller for the kubelet's probes.
    pub fn probe_port(&self) -> Result<String> {
        let controller = self.controller.as_ref().context("no controller")?;
        Ok(controller.probes.clone())
    }

    /// The admin ports of what runs.
    pub fn admin_ports(&self) -> Vec<(&'static str, &str)> {
        let controller = self.controller.iter().map(|running| ("controller", running));
        let all = controller.chain([("webhook", &self.webhook.running)]);
        all.map(|(name, running)| (name, running.admin.as_str()))
            .collect()
    }
}

async fn start_controller(testbed: &TestBed, mode: Mode, limits: Limits, number: u32) -> Result<Running> {
    let command = |program: &Path| -> Command {
        let mut command = testbed.command(program);
        command.env("HELMOPS_ALLOW_CIDRS", ALLOWED);
        command.env("HELMOPS_DENY_CIDRS", DENIED);
        // What the controller reads from its control group in a pod.
        command.env("HELMOPS_MEMORY_LIMIT", format!("{}Ki", limits.memory));
        if mode == Mode::Standalone {
            command.env("HELMOPS_CONTROLLERS", "helmop,bundle");
        }
        command
    };
    // Each process has a log of its own, since all logs are searched.
    helmops::start_controller(testbed, &format!("controller-{number}"), &command).await
}

async fn start_webhook(testbed: &TestBed, number: u32) -> Result<Webhook> {
    let command = |program: &Path| testbed.command(program);
    let webhook = helmops::start_webhook(testbed, &format!("webhook-{number}"), &command).await?;
    let kubectl = testbed.kubectl();
    helmops::register_webhook(&kubectl, &webhook).await?;
    exempt_namespaces(&kubectl).await?;
    Ok(webhook)
}

/// Removes the bounds that Fleet's CRDs do not have.
async fn remove_crd_bounds(kubectl: &Kubectl) -> Result<()> {
    let names = ["get", "customresourcedefinitions", "--output=name"];
    let names = kubectl.run(&names).await?.ok()?;
    for name in names.lines() {
        // The API server writes the status of a new CRD at the same time, so this may conflict.
        eventually("a CRD without bounds", SOON, async || {
            let mut crd = kubectl.get(name).await?.context("it is gone")?;
            remove_bounds(&mut crd["spec"]);
            let replace = ["replace", "--filename=-"];
            kubectl
                .run_with_input(&replace, &crd.to_string())
                .await?
                .ok()
                .map(drop)
        })
        .await?;
    }
    Ok(())
}

fn remove_bounds(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for bound in BOUNDS {
                fields.remove(bound);
            }
            fields.values_mut().for_each(remove_bounds);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_bounds),
        _ => {}
    }
}

async fn exempt_namespaces(kubectl: &Kubectl) -> Result<()> {
    let selector = json!({ "matchExpressions": [{ "key": WITHOUT_WEBHOOK, "operator": "DoesNotExist" }] });
    let patch =
        json!([{ "op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector }]).to_string();
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let patch = ["patch", kind, "helmops", "--type=json", "--patch", &patch];
        kubectl.run(&patch).await?.ok()?;
    }
    Ok(())
}
