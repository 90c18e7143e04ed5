//! Reads what a deployment needs before Helm runs.

use helmops_helm::{
    request::{Deploy, Identity, PostRenderers},
    settings::HelmSettings,
};
use helmops_release::{
    chart_metadata::Origin,
    post_render::{CommonMetadata, PostRender},
    record::{Acceptance, Attempt, Cause},
    scopes::Scopes,
};
use helmops_trace::in_span;
use kube::Client;

use super::on_delete;
use crate::{
    charts::{ChartFile, OverlayPatches, commit, has_files_of_bundle, kustomize_folder},
    error::AgentError,
    inputs,
    session::ReleaseSession,
};

/// What a deployment needs.
pub struct Prepared {
    /// Who deploys.
    pub identity: Identity,
    /// The cluster, as this account.
    pub deployer: Client,
    /// The archive of the chart. It stays in the cache as long as this exists.
    pub chart: ChartFile,
    /// What the options mean.
    pub settings: HelmSettings,
    /// What Helm gets.
    pub deploy: Deploy,
}

/// Reads what a deployment needs.
///
/// # Errors
/// If something is missing.
pub async fn prepare(session: &ReleaseSession<'_>, attempt: Attempt) -> Result<Prepared, AgentError> {
    let context = session.context;
    let (identity, deployer) = session.deployer().await?;
    let values = inputs::values(
        &context.upstream,
        &deployer,
        session.deployment,
        &session.release.namespace,
    )
    .await?;
    let patches = OverlayPatches {
        helm: &context.helm,
        release: &session.release,
        stop: &session.work.deployment,
    };
    let chart = in_span(
        "fetch chart",
        context
            .charts
            .get(&context.upstream, session.deployment, &patches),
    )
    .await?;
    let values = inputs::merged(session.deployment, chart.path(), values).await?;
    let settings = session.settings();
    let attempt = Attempt {
        deployment_id: session.deploys_values(&values.digest),
        ..attempt
    };
    let deploy = render(session, attempt, &chart, values, &identity, &settings).await?;
    Ok(Prepared {
        identity,
        deployer,
        chart,
        settings,
        deploy,
    })
}

async fn render(
    session: &ReleaseSession<'_>,
    attempt: Attempt,
    chart: &ChartFile,
    values: inputs::MergedValues,
    identity: &Identity,
    settings: &HelmSettings,
) -> Result<Deploy, AgentError> {
    let (context, deployment) = (session.context, session.deployment);
    let (options, lifecycle) = (&deployment.spec.options, deployment.spec.lifecycle.as_deref());
    let is_moved = !options.namespace.is_empty();
    let scopes = if is_moved {
        context.kinds.scopes().await?
    } else {
        Scopes::default()
    };
    let is_content = has_files_of_bundle(deployment);
    let service_account = match identity {
        Identity::ServiceAccount { .. } => options.service_account.clone(),
        Identity::Agent => String::new(),
    };
    let policy = session.policy.for_action(attempt.action);
    let is_awaited = policy.wait.is_some() || session.policy.test.is_some();
    Ok(Deploy {
        archive: chart.path().to_owned(),
        origin: Origin {
            bundle_deployment: session.name().to_owned(),
            agent_namespace: context.namespace.clone(),
            service_account,
            keep_resources: options.keep_resources,
            // Files have the version of their chart.
            version: options
                .helm
                .as_ref()
                .filter(|_| !is_content)
                .map(|helm| helm.version.clone())
                .unwrap_or_default(),
            commit: commit(deployment).to_owned(),
            copies: (!options.downstream_resources.is_empty())
                .then_some(deployment.spec.downstream_resources_generation),
            forced_by: if attempt.cause == Cause::Request || session.requested.force {
                session.desired().force_request().to_owned()
            } else {
                String::new()
            },
            attempt: Some(attempt.clone()),
        },
        values: vec![values.json],
        secrets: values.secrets,
        post_renderers: PostRenderers {
            is_content,
            folder: kustomize_folder(deployment).to_owned(),
            ..PostRenderers::of(options, lifecycle)
        },
        post_render: PostRender {
            common: lifecycle.map(CommonMetadata::of).unwrap_or_default(),
            set: session.set().as_str().to_owned(),
            namespace: is_moved.then(|| options.namespace.clone()),
            deletes_crds: options.delete_crd_resources,
            scopes,
        },
        enables_dns: settings.enables_dns,
        skips_schema: settings.for_action(attempt.action).skips_schema,
        description: attempt.to_string(),
        skips_crds: false,
        acceptance: is_awaited.then_some(Acceptance::Awaited),
        on_delete: on_delete::label(session, options.keep_resources),
    })
}
