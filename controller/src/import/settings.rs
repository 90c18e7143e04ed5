//! The flags of the import.

use clap::ArgAction;
use helmops_join::access::ManagementServer;

/// Flags of the import of clusters by their kubeconfigs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ImportArgs {
    /// With the bundle controller: install an agent on the cluster of each Cluster with spec.kubeConfigSecret. A user who writes
    /// Clusters can use what the kubeconfigs in all Secrets open that these may name, without access to the Secrets
    #[arg(
        long,
        env = "HELMOPS_IMPORT_CLUSTERS",
        default_value_t = false,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub import_clusters: bool,

    /// Image of the agents of imported clusters, with the registry; by default helmops-agent in the version of the controller
    #[arg(long, env = "HELMOPS_AGENT_IMAGE", value_name = "IMAGE")]
    pub agent_image: Option<String>,

    /// Namespaces in which Clusters of all namespaces may name Secrets with kubeconfigs, comma-separated, if only administrators write
    /// Clusters; by default only the namespace of the Cluster itself
    #[arg(
        long,
        env = "HELMOPS_IMPORT_SECRET_NAMESPACES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub import_secret_namespaces: Vec<String>,
}

/// What the import needs of the flags.
#[derive(Clone, Debug, Default)]
pub struct ImportSettings {
    /// Where agents reach this API server; without an address, the Secrets must have it.
    pub server: ManagementServer,
    /// The image of agents; empty for that of the manifests.
    pub image: String,
    /// The namespaces of Secrets that every Cluster may name.
    pub secret_namespaces: Vec<String>,
}

impl ImportArgs {
    /// What they say. `server` is where agents reach this API server.
    pub fn settings(&self, server: ManagementServer) -> ImportSettings {
        let names = self
            .import_secret_namespaces
            .iter()
            .map(|name| name.trim().to_owned());
        ImportSettings {
            server,
            image: self.agent_image.clone().unwrap_or_default(),
            secret_namespaces: names.filter(|name| !name.is_empty()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_namespaces_may_have_spaces_around_them() {
        let args = ImportArgs {
            import_secret_namespaces: vec![" capi".to_owned(), String::new()],
            ..ImportArgs::default()
        };
        assert_eq!(
            args.settings(ManagementServer::default()).secret_namespaces,
            ["capi"]
        );
    }
}
