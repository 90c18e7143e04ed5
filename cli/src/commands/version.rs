//! `version`: of this program, and of helmops on the cluster.

use std::collections::BTreeMap;

use bounded_text::listed;
use helmops_api::{Cluster as ClusterObject, Decoded};
use helmops_process::build_info::VERSION;
use kube::{Api, Client, api::ListParams};
use serde::Serialize;

use crate::{
    check::installed::{self, Installed},
    cluster::{ClusterArgs, api_error, objects::undecoded},
    failure::Failure,
    output::{self, Format, OutputArgs},
    terminal::Console,
};

/// Clusters that do not decode are named, up to this number.
const MAX_NAMED: usize = 3;

/// The arguments of `version`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # This program, Kubernetes, and the processes and agents of helmops
  kubectl helmop version

  # Without a cluster
  kubectl helmop version --client")]
pub struct VersionArgs {
    /// Only the version of this program
    #[arg(long)]
    pub client: bool,
    /// The format.
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Versions {
    /// Of this program, with its commit.
    pub client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// Of the processes on the cluster.
    pub processes: Vec<ProcessVersion>,
    /// How many clusters have agents of which version; an empty one is not known.
    pub agents: BTreeMap<String, usize>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessVersion {
    /// `controller`, `webhook`, `agent`, `notifier` or `receiver`.
    pub process: String,
    /// Namespace and name of its Deployment.
    pub deployment: String,
    /// The tag of its image; its image if that has none.
    pub version: String,
}

/// Prints the versions.
///
/// # Errors
/// If the API server cannot be reached.
pub async fn run(
    args: &VersionArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let mut versions = Versions {
        client: helmops_process::version().to_owned(),
        ..Versions::default()
    };
    if !args.client {
        let connected = cluster.connect().await?;
        let server = connected.client.apiserver_version().await;
        let server = server
            .map_err(|error| api_error::failed(format!("cannot reach {}", connected.server), &error))?;
        versions.kubernetes = Some(server.git_version);
        versions.read(&connected.client).await;
    }
    match args.output.output {
        Format::Json => output::write_json(&mut console.out, &versions)?,
        Format::Yaml => output::write_yaml(&mut console.out, &versions)?,
        Format::Table | Format::Wide | Format::Name => versions.print(console)?,
    }
    Ok(())
}

impl Versions {
    async fn read(&mut self, client: &Client) {
        let clusters = Api::<Decoded<ClusterObject>>::all(client.clone());
        let list = ListParams::default();
        let (installed, clusters) = tokio::join!(installed::find(client), clusters.list(&list));
        match installed {
            Ok(found) => self.processes = found.iter().map(ProcessVersion::of).collect(),
            Err(error) => self
                .unknown
                .push(format!("processes: {}", api_error::text(&error))),
        }
        match clusters {
            Ok(found) => self.add_agents(&found.items),
            // Beside Fleet, or in one namespace.
            Err(error) if api_error::is_not_found(&error) => {}
            Err(error) => self.unknown.push(format!("agents: {}", api_error::text(&error))),
        }
    }

    fn add_agents(&mut self, clusters: &[Decoded<ClusterObject>]) {
        self.agents = agents(clusters);
        let undecoded: Vec<_> = undecoded(clusters).collect();
        if !undecoded.is_empty() {
            self.unknown
                .push(format!("agents: {}", listed(&undecoded, MAX_NAMED)));
        }
    }

    fn print(&self, console: &mut Console<'_>) -> std::io::Result<()> {
        writeln!(console.out, "kubectl-helmop {}", self.client)?;
        if let Some(kubernetes) = &self.kubernetes {
            writeln!(console.out, "Kubernetes {kubernetes}")?;
        }
        for ProcessVersion {
            process,
            deployment,
            version,
        } in &self.processes
        {
            let differs = if version == VERSION {
                ""
            } else {
                " (not that of this program)"
            };
            writeln!(console.out, "{process} {version} in {deployment}{differs}")?;
        }
        for (version, count) in &self.agents {
            let version = if version.is_empty() { "unknown" } else { version };
            writeln!(console.out, "agent {version} on clusters: {count}")?;
        }
        for unknown in &self.unknown {
            writeln!(console.err, "unknown: {unknown}")?;
        }
        Ok(())
    }
}

impl ProcessVersion {
    fn of(installed: &Installed) -> Self {
        Self {
            process: installed.process.as_str().to_owned(),
            deployment: format!("{}/{}", installed.namespace, installed.name),
            version: installed.version().unwrap_or(&installed.image).to_owned(),
        }
    }
}

/// Clusters by the version of their agents; those without an agent are left out.
fn agents(clusters: &[Decoded<ClusterObject>]) -> BTreeMap<String, usize> {
    let mut versions = BTreeMap::new();
    let clusters = clusters.iter().filter_map(Decoded::valid);
    for agent in clusters.filter_map(|cluster| cluster.status.agent.as_ref()) {
        *versions.entry(agent.version.clone()).or_default() += 1;
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::buffers::Buffers;
    use serde_json::json;

    #[test]
    fn versions_that_differ_are_marked() {
        let process = |process: &str, version: &str| ProcessVersion {
            process: process.to_owned(),
            deployment: format!("helmops-system/helmops-{process}"),
            version: version.to_owned(),
        };
        let cluster = |agent| -> Decoded<ClusterObject> {
            let metadata = json!({ "namespace": "fleet-default", "name": "edge" });
            serde_json::from_value(json!({ "metadata": metadata, "status": { "agent": agent } })).unwrap()
        };
        let clusters = [
            json!({ "version": "0.1.0" }),
            json!({ "version": "0.1.0" }),
            json!({}),
            json!(null),
            json!("one"),
        ]
        .map(cluster);
        let mut versions = Versions {
            client: "0.1.0 (commit a)".to_owned(),
            kubernetes: Some("v1.36.0".to_owned()),
            processes: vec![process("controller", VERSION), process("webhook", "0.0.1")],
            ..Versions::default()
        };
        versions.add_agents(&clusters);
        let mut buffers = Buffers::default();
        let mut console = buffers.console();
        versions.print(&mut console).unwrap();
        assert_eq!(
            buffers.out(),
            format!(
                "kubectl-helmop 0.1.0 (commit a)\nKubernetes v1.36.0\ncontroller {VERSION} in helmops-system/helmops-controller\n\
                 webhook 0.0.1 in helmops-system/helmops-webhook (not that of this program)\n\
                 agent unknown on clusters: 1\nagent 0.1.0 on clusters: 2\n"
            )
        );
        let err = buffers.err();
        let expected = "unknown: agents: Cluster \"edge\" in namespace \"fleet-default\" does not decode: ";
        assert!(err.starts_with(expected), "{err}");
    }
}
