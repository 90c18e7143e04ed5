//! What Helm would deploy: the chart is fetched and rendered as by the agent, with the same requests and arguments.
//!
//! ```text
//! options of a HelmOp ─► `chart`: archive ─► Helm (the request `Render` of the agent) ─► documents
//!                                             ▲
//!        `capabilities` of the cluster, or the cluster itself as the `account` that would deploy
//! ```
//!
//! Templates are programs of a tenant. They resolve no names of hosts, which could carry away what they know.

mod account;
mod capabilities;
mod chart;
mod post_render;
mod values;

use std::{
    env,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use helm_archive::Limits;
use helmops_api::BundleDeploymentOptions;
use helmops_helm::{
    Helm, HelmProgram,
    child::ChildProcess,
    kubeconfig::kubeconfig,
    outcome::{FailureReason, SecretTexts},
    request::{Action, Deploy, Identity, PostRenderers, Render, Request},
    run_scope::RunScope,
    settings::HelmSettings,
    values_from::sources,
    workspace::Workspaces,
};
use helmops_release::{
    chart_metadata::Origin,
    names::ReleaseKey,
    post_render::{CommonMetadata, PostRender},
    scopes::Scopes,
};
use kube::Client;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub use self::{
    account::{Account, AccountArgs},
    chart::{ChartAccess, chart_in, fetch, fetch_of, resolver},
    values::{ReleaseValues, ValuesOf},
};
use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    terminal::{Console, style::Style},
};

/// The program that is looked for.
const PROGRAM: &str = "helm";

/// Which Helm renders, and what templates can read.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RenderArgs {
    /// Program Helm, version 4; by default helm in $PATH
    #[arg(long, value_name = "FILE")]
    pub helm: Option<PathBuf>,
    /// Let templates read the cluster with lookup, as the account that would deploy; by default they find nothing
    #[arg(long)]
    pub with_lookup: bool,
    /// Who reads.
    #[command(flatten)]
    pub account: AccountArgs,
}

impl RenderArgs {
    /// Who reads the cluster for the chart; `None` if nothing is read for it. `agent_namespace` is used if there is no flag for it.
    ///
    /// # Errors
    /// If the person is not allowed to impersonate the account.
    pub async fn account(
        &self,
        options: &BundleDeploymentOptions,
        agent_namespace: &str,
        cluster: &ClusterArgs,
    ) -> Result<Option<Account>, Failure> {
        let has_references = !sources(options, options.lifecycle.as_deref(), "").is_empty();
        if !self.with_lookup && !has_references {
            return Ok(None);
        }
        let account = self.account.account(options, agent_namespace, cluster).await?;
        Ok(Some(account))
    }

    /// Says before a rendering that the templates may want something that they will not get.
    ///
    /// # Errors
    /// If standard error cannot be written, or the archive not be read.
    pub fn report_lookup(&self, archive: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
        if self.with_lookup {
            return Ok(());
        }
        let unable = |error: &dyn std::error::Error| Failure::because("cannot read the chart", error);
        let file = File::open(archive).map_err(|error| unable(&error))?;
        let found = helm_archive::template_with(BufReader::new(file), Limits::default(), calls_lookup);
        if let Some(path) = found.map_err(|error| unable(&error))? {
            let label = console.styles.paint(Style::Pending, "warning:");
            writeln!(
                console.err,
                "{label} the chart calls lookup ({path}), which finds nothing: --with-lookup lets it read the cluster"
            )?;
        }
        Ok(())
    }

    /// The program; `None` if there is none.
    pub fn program(&self) -> Option<PathBuf> {
        if self.helm.is_some() {
            return self.helm.clone();
        }
        let path = env::var_os("PATH")?;
        let files = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
        files.into_iter().find(|file| file.is_file())
    }
}

/// A release whose objects are rendered.
#[derive(Clone, Copy, Debug)]
pub struct Rendered<'r> {
    pub release: &'r ReleaseKey,
    /// How it is deployed.
    pub options: &'r BundleDeploymentOptions,
    /// Its values, as JSON or YAML; later ones override earlier ones.
    pub values: &'r [Vec<u8>],
    /// Whether it exists already.
    pub is_upgrade: bool,
}

/// What the chart learns of the cluster.
#[derive(Clone, Copy)]
pub enum Access<'a> {
    /// Which version and kinds it has, as everyone may know; this client reads them.
    Capabilities(&'a Client),
    /// What this account can read.
    Lookup(&'a Account),
}

impl<'a> Access<'a> {
    /// What the arguments say.
    pub fn of(args: &RenderArgs, account: Option<&'a Account>, person: &'a Client) -> Self {
        match account.filter(|_| args.with_lookup) {
            Some(account) => Self::Lookup(account),
            None => Self::Capabilities(person),
        }
    }
}

/// The objects and hooks of an archive, as YAML documents without the marks of the agent.
///
/// # Errors
/// If Helm fails.
pub async fn render(
    program: &Path,
    archive: &Path,
    access: Access<'_>,
    rendered: Rendered<'_>,
) -> Result<String, Failure> {
    let folder = TempDir::new().map_err(|error| Failure::because("cannot create a folder", &error))?;
    let workspaces = Workspaces::open(&folder.path().join("work"))
        .map_err(|error| Failure::because("cannot create a folder", &error))?;
    let mut helm = Helm::new(HelmProgram::Template(program.to_owned()), workspaces);
    // Variables of Helm change what it does, and the kubeconfig is not the one of the person; all others may be needed for the credentials.
    helm.environment = env::vars_os()
        .filter(|(name, _)| !name.to_string_lossy().starts_with("HELM_") && name != "KUBECONFIG")
        .collect();
    let settings = HelmSettings::of(rendered.options, rendered.options.lifecycle.as_deref());
    let action = if rendered.is_upgrade {
        &settings.upgrade
    } else {
        &settings.install
    };
    let deploy = Deploy {
        archive: archive.to_owned(),
        origin: Origin::default(),
        values: rendered.values.to_vec(),
        secrets: SecretTexts::default(),
        post_renderers: PostRenderers::default(),
        post_render: unmarked(rendered.options),
        enables_dns: false,
        skips_schema: action.skips_schema,
        description: String::new(),
        skips_crds: true,
        on_delete: None,
        acceptance: None,
    };
    let (identity, capabilities, kubeconfig) = match access {
        Access::Capabilities(client) => (Identity::Agent, Some(capabilities::of(client).await?), Vec::new()),
        Access::Lookup(account) => {
            let kubeconfig = kubeconfig(&account.config)
                .map_err(|error| Failure::because("cannot write a kubeconfig for Helm", &error))?;
            (account.identity.clone(), None, kubeconfig)
        }
    };
    let request = Request {
        release: rendered.release.clone(),
        identity,
        action: Action::Render(Render {
            deploy,
            is_upgrade: rendered.is_upgrade,
            capabilities,
        }),
        hook_timeout: settings.hook_timeout,
    };
    let success = helm
        .run(
            request,
            kubeconfig,
            &RunScope::of_agent(&CancellationToken::new(), ""),
            &ChildProcess::default(),
            None,
        )
        .await;
    let success = success.map_err(|failure| {
        Failure::unable(format!("Helm cannot render the chart: {failure}")).with_hint(hint(failure.reason))
    })?;
    post_render::apply(success.printed, rendered.options).await
}

/// What to do if the program is the cause, and not the chart; else empty.
const fn hint(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::OtherHelm | FailureReason::NotStarted => "it has to be Helm 4: helm version",
        _ => "",
    }
}

/// Whether a template may call the function. Where its name is only a part of another one, or a field, it does not.
fn calls_lookup(template: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
    template.split(|c| !is_of_name(c)).any(|word| word == "lookup")
}

/// What the agent changes in the objects, without the marks of a set.
pub fn unmarked(options: &BundleDeploymentOptions) -> PostRender {
    PostRender {
        set: String::new(),
        // Kinds without a namespace are only known with the cluster. `adoption::normalize` and the diff ignore the namespace of the
        // release.
        namespace: None,
        // It is in the rendered objects.
        common: CommonMetadata::default(),
        deletes_crds: options.delete_crd_resources,
        scopes: Scopes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chart that calls `required` for what `lookup` does not find says nothing of Helm.
    #[test]
    fn only_a_wrong_program_leads_to_the_hint_about_helm() {
        for (reason, has_hint) in [
            (FailureReason::OtherHelm, true),
            (FailureReason::NotStarted, true),
            (FailureReason::TemplateFailed, false),
            (FailureReason::ValuesInvalid, false),
        ] {
            assert_eq!(hint(reason).contains("Helm 4"), has_hint, "{reason:?}");
        }
    }

    #[test]
    fn calls_of_lookup_are_found() {
        for (template, expected) in [
            ("{{ lookup \"v1\" \"Secret\" .Release.Namespace \"a\" }}", true),
            ("{{(lookup \"v1\" \"Secret\" \"\" \"a\").data}}", true),
            ("{{ .Values.lookup }} {{ $lookup }} {{ .lookup.a }}", false),
            ("{{ include \"web.lookup-name\" . }} lookups dns_lookup", false),
        ] {
            assert_eq!(calls_lookup(template), expected, "{template}");
        }
    }
}
