//! helmops in a control plane: its released manifests, and its processes with their own ServiceAccounts.

mod manifests;
mod processes;
mod webhook;

use std::path::Path;

use anyhow::Result;
use futures::FutureExt;
use tokio::process::Command;

use crate::chart_server::ChartServer;
use crate::charts::ChartRepo;
use crate::control_plane::Options;
use crate::serve::{Started, Step};
use crate::test_bed::TestBed;

pub use self::manifests::{LOCAL_AGENT, NAMESPACE, Part, apply, apply_local_agent, manifests, objects};
pub use self::processes::{
    ReceiverProcess, Running, alive, start_controller, start_local_agent, start_notifier, start_receiver,
    start_standalone_controller,
};
pub use self::webhook::{
    CONFIGURATIONS, ManagedWebhook, Webhook, configuration, configuration_without_bundle, ensure_called,
    register_managed_webhook, register_webhook, start_managed_webhook, start_webhook,
};

/// The namespace of the examples: Fleet's workspace for clusters other than its own.
const EXAMPLES_NAMESPACE: &str = "fleet-default";

/// Versions of the chart `web` in the repository that [`step`] serves, as documented in README.md.
const EXAMPLE_VERSIONS: [&str; 3] = ["0.1.0", "0.2.0", "1.0.0"];

/// A control plane with the CRDs, namespace and roles of helmops beside Fleet.
pub async fn control_plane(audit_log: bool) -> Result<TestBed> {
    control_plane_with(&[], audit_log).await
}

/// The same, with more parts of helmops.
pub async fn control_plane_with(parts: &[Part], audit_log: bool) -> Result<TestBed> {
    let options = Options {
        audit_log,
        manifests: Part::paths(&[&[Part::Base], parts].concat()),
        ..Options::default()
    };
    TestBed::start(&options).await
}

/// A control plane with a simulated node, and with the CRDs, namespaces and roles of helmops without Fleet and of its agent.
pub async fn local_control_plane(audit_log: bool) -> Result<TestBed> {
    let options = Options {
        audit_log,
        manifests: Part::paths(&[Part::Base, Part::Standalone]),
        nodes: true,
        ..Options::default()
    };
    let bed = TestBed::start(&options).await?;
    apply_local_agent(&bed).await?;
    Ok(bed)
}

/// Installs the agent, and starts the processes of helmops, the agent and a chart repository, which run as long as the control plane.
pub fn step() -> Step {
    Box::new(|cluster| {
        async move {
            let command = |program: &Path| Command::new(program);
            apply_local_agent(cluster).await?;
            let create = ["create", "namespace", EXAMPLES_NAMESPACE];
            cluster.kubectl().run(&create).await?.ok()?;
            let webhook = start_webhook(cluster, "webhook", &command).await?;
            register_webhook(&cluster.kubectl(), &webhook).await?;
            let controller = start_standalone_controller(cluster, "controller", &command).await?;
            let agent = start_local_agent(cluster, "agent", &command).await?;
            let folder = cluster.directory.join("charts");
            let charts = ChartRepo::build(&cluster.tools, &folder, &[("web", &EXAMPLE_VERSIONS)]).await?;
            Ok(Started {
                processes: vec![webhook.running.process, controller.process, agent.process],
                charts: Some(ChartServer::http(charts.folder()).await?),
            })
        }
        .boxed_local()
    })
}
