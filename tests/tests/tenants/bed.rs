//! A control plane in one of the two modes, with both processes of helmops and the neighbour in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use helmops_tests::api::Api;
use helmops_tests::chart_server::ChartServer;
use helmops_tests::charts::ChartRepo;
use helmops_tests::helmops::{self, Running, Webhook};
use helmops_tests::kubectl::Kubectl;
use helmops_tests::leader::LEASE;
use helmops_tests::test_bed::TestBed;
use helmops_tests::wait::eventually;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::leaks::Planted;
use crate::limits::Limits;
use crate::neighbour::Neighbour;
use crate::stage::SOON;

/// The API group of all kinds of Fleet.
pub const FLEET: &str = "apis/fleet.cattle.io/v1alpha1";
/// A namespace with this label has no webhook: one can be bypassed or down, and the controller must do without.
pub const UNGUARDED: &str = "helmops.dev/unguarded";
/// Charts are served on loopback.
const ALLOWED: &str = "127.0.0.0/8,::1/128";
/// Addresses that the controller must not reach.
const DENIED: &str = "127.0.0.9/32";
/// What the shipped definitions bound, and Fleet's do not.
const BOUNDS: [&str; 3] = ["maxItems", "maxLength", "x-kubernetes-validations"];

/// All processes and connections live as long as the program; a runtime of one test would end before the next one.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
/// The control planes. Only one attack runs at a time, or one would disturb what the other measures.
pub static BEDS: Mutex<Beds> = Mutex::const_new(Beds {
    beside_fleet: None,
    standalone: None,
});

/// How helmops is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With the default loops and Fleet's definitions, which bound less than the shipped ones.
    BesideFleet,
    /// With both loops and the shipped definitions.
    Standalone,
}

/// The control plane of each mode, once it is needed.
pub struct Beds {
    beside_fleet: Option<Bed>,
    standalone: Option<Bed>,
}

impl Beds {
    /// The control plane of a mode; the first call starts it.
    pub async fn of(&mut self, mode: Mode) -> Result<&mut Bed> {
        let bed = match mode {
            Mode::BesideFleet => &mut self.beside_fleet,
            Mode::Standalone => &mut self.standalone,
        };
        if bed.is_none() {
            *bed = Some(Bed::start(mode).await?);
        }
        bed.as_mut().context("no control plane")
    }
}

/// Everything that runs.
pub struct Bed {
    pub mode: Mode,
    pub testbed: TestBed,
    pub api: Api,
    pub kubectl: Kubectl,
    pub webhook: Webhook,
    /// Nothing where it did not start.
    pub controller: Option<Running>,
    pub neighbour: Neighbour,
    /// The same charts for everybody, without a login.
    pub charts: ChartServer,
    /// What must not be found anywhere.
    pub planted: Vec<Planted>,
    pub controller_limits: Limits,
    pub webhook_limits: Limits,
    /// How much of each log was searched.
    pub searched: BTreeMap<String, usize>,
    starts: u32,
}

impl Bed {
    async fn start(mode: Mode) -> Result<Self> {
        let testbed = helmops::control_plane(Path::new(env!("CARGO_BIN_EXE_testbed")), false).await?;
        let kubectl = testbed.kubectl();
        install(&kubectl, mode).await?;
        let webhook = start_webhook(&testbed, 1).await?;
        let folder = testbed.directory.join("charts");
        let charts = ChartRepo::build(&testbed.tools, &folder, &[("web", &["1.1.0", "1.2.0"])]).await?;
        let controller_limits = Limits::read("controller/controller.yaml")?;
        let controller = start_controller(&testbed, mode, controller_limits, 1).await?;
        let api = Api::new(&testbed)?;
        let neighbour = Neighbour::create(&testbed, &api, mode, &charts).await?;
        let password = Planted {
            what: "the neighbour's password",
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
        // A killed process releases no Lease; waiting for its end is not the subject here.
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
    // A log for each, since all of them are searched.
    helmops::start_controller(testbed, &format!("controller-{number}"), &command).await
}

async fn start_webhook(testbed: &TestBed, number: u32) -> Result<Webhook> {
    let command = |program: &Path| testbed.command(program);
    let webhook = helmops::start_webhook(testbed, &format!("webhook-{number}"), &command).await?;
    let kubectl = testbed.kubectl();
    helmops::register_webhook(&kubectl, &webhook).await?;
    exempt_unguarded(&kubectl).await?;
    Ok(webhook)
}

async fn install(kubectl: &Kubectl, mode: Mode) -> Result<()> {
    match mode {
        Mode::Standalone => helmops::apply_standalone(kubectl).await,
        Mode::BesideFleet => {
            let definitions = helmops::manifests().join("standalone/crds");
            let definitions = definitions.to_str().context("a path that is not UTF-8")?;
            kubectl
                .run(&["apply", "--server-side", "--filename", definitions])
                .await?
                .ok()?;
            unbound_definitions(kubectl).await
        }
    }
}

/// Removes from the definitions what Fleet's do not have.
async fn unbound_definitions(kubectl: &Kubectl) -> Result<()> {
    let names = ["get", "customresourcedefinitions", "--output=name"];
    let names = kubectl.run(&names).await?.ok()?;
    for name in names.lines() {
        // The API server writes the status of a new definition meanwhile.
        eventually("a definition without bounds", SOON, async || {
            let mut definition = kubectl.get(name).await?.context("it is gone")?;
            unbound(&mut definition["spec"]);
            let replace = ["replace", "--filename=-"];
            kubectl
                .run_with_input(&replace, &definition.to_string())
                .await?
                .ok()
                .map(drop)
        })
        .await?;
    }
    Ok(())
}

fn unbound(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for bound in BOUNDS {
                fields.remove(bound);
            }
            fields.values_mut().for_each(unbound);
        }
        Value::Array(items) => items.iter_mut().for_each(unbound),
        _ => {}
    }
}

async fn exempt_unguarded(kubectl: &Kubectl) -> Result<()> {
    let selector = json!({ "matchExpressions": [{ "key": UNGUARDED, "operator": "DoesNotExist" }] });
    let patch =
        json!([{ "op": "add", "path": "/webhooks/0/namespaceSelector", "value": selector }]).to_string();
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let patch = ["patch", kind, "helmops", "--type=json", "--patch", &patch];
        kubectl.run(&patch).await?.ok()?;
    }
    Ok(())
}
