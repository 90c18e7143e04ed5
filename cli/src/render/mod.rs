//! What Helm would deploy: the chart is fetched and rendered as by the agent, with the same requests and arguments.
//!
//! ```text
//! options of a HelmOp ─► `chart`: archive ─► Helm (the request `Render` of the agent) ─► documents
//! ```

mod chart;

use std::{
    env,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use helmops_agent::helm::{
    Helm, HelmMetrics,
    kubeconfig::kubeconfig,
    request::{Action, Deploy, HelmSettings, Identity, Render, Request},
    run_scope::RunScope,
    workspace::Workspaces,
};
use helmops_api::BundleDeploymentOptions;
use helmops_release::{chart_metadata::Origin, names::ReleaseKey, post_render::PostRender, scopes::Scopes};
use kube::Config;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub use self::chart::{ChartAccess, fetch, resolver};
use crate::failure::Failure;

/// The programs that are tried, in this order: that of the agent, and that of a user.
const PROGRAMS: [&str; 2] = ["helmops-helm", "helm"];

/// Which Helm renders.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct HelmFlag {
    /// Program Helm, version 4; by default helmops-helm or helm in $PATH
    #[arg(long, value_name = "FILE")]
    pub helm: Option<PathBuf>,
}

impl HelmFlag {
    /// The program; `None` if there is none.
    pub fn program(&self) -> Option<PathBuf> {
        if self.helm.is_some() {
            return self.helm.clone();
        }
        let path = env::var_os("PATH")?;
        let find = |name| env::split_paths(&path).map(move |folder| folder.join(name));
        PROGRAMS.into_iter().flat_map(find).find(|file| file.is_file())
    }
}

/// A release whose objects are rendered.
#[derive(Clone, Copy, Debug)]
pub struct Rendered<'r> {
    /// The name of the BundleDeployment.
    pub name: &'r str,
    /// The release.
    pub release: &'r ReleaseKey,
    /// How it is deployed.
    pub options: &'r BundleDeploymentOptions,
    /// Its values, as JSON or YAML; later ones override earlier ones.
    pub values: &'r [Vec<u8>],
    /// Whether it exists already.
    pub is_upgrade: bool,
}

/// The objects and hooks of an archive, as YAML documents without the marks of the agent.
///
/// # Errors
/// If Helm fails.
pub async fn render(
    program: &Path,
    archive: &Path,
    config: &Config,
    rendered: Rendered<'_>,
) -> Result<String, Failure> {
    let folder = TempDir::new().map_err(|error| Failure::because("cannot create a folder", &error))?;
    let workspaces = Workspaces::open(&folder.path().join("work"))
        .map_err(|error| Failure::because("cannot create a folder", &error))?;
    let metrics = HelmMetrics::register(&prometheus::Registry::new())
        .map_err(|error| Failure::because("cannot start", &error))?;
    let mut helm = Helm::new(
        program.to_owned(),
        PathBuf::new(),
        workspaces,
        NonZeroUsize::MIN,
        metrics,
    );
    // Variables of Helm change what it does; all others may be needed for the credentials.
    helm.environment = env::vars_os()
        .filter(|(name, _)| !name.to_string_lossy().starts_with("HELM_"))
        .collect();
    let settings = HelmSettings::of(rendered.options, rendered.options.lifecycle.as_deref());
    let deploy = Deploy {
        archive: archive.to_owned(),
        origin: Origin {
            bundle_deployment: rendered.name.to_owned(),
            ..Origin::default()
        },
        values: rendered.values.to_vec(),
        secrets: Vec::new(),
        post_render: unmarked(rendered.options),
        enables_dns: settings.enables_dns,
        skips_schema: settings.skips_schema,
        description: String::new(),
        skips_crds: true,
        on_delete: None,
        acceptance: None,
    };
    let request = Request {
        release: rendered.release.clone(),
        identity: Identity::Agent,
        action: Action::Render(Render {
            deploy,
            is_upgrade: rendered.is_upgrade,
        }),
        hook_timeout: settings.hook_timeout,
    };
    let kubeconfig =
        kubeconfig(config).map_err(|error| Failure::because("cannot write a kubeconfig for Helm", &error))?;
    let success = helm
        .run(
            request,
            kubeconfig,
            &RunScope::of_agent(&CancellationToken::new(), ""),
        )
        .await;
    let success = success.map_err(|failure| {
        Failure::unable(format!("Helm cannot render the chart: {failure}"))
            .with_hint("it has to be Helm 4: helm version")
    })?;
    Ok(success.printed)
}

/// What the agent changes in the objects, without the marks of a set.
pub fn unmarked(options: &BundleDeploymentOptions) -> PostRender {
    PostRender {
        set: String::new(),
        // Kinds without a namespace are only known with the cluster. `adoption::normalize` and the diff ignore the namespace of the
        // release.
        namespace: None,
        deletes_crds: options.delete_crd_resources,
        scopes: Scopes::default(),
    }
}
