//! Runs Helm to install or upgrade a release.

use std::time::Duration;

use helmops_api::BundleDeploymentOptions;
use helmops_helm::{
    FailureReason,
    outcome::SecretTexts,
    request::{Action, Deploy, Install, Request, Upgrade},
    settings::{ActionSettings, HelmSettings},
};
use helmops_process::exit::with_causes;
use helmops_release::{
    deployed::Deployed,
    history::History,
    lifecycle::CrdPolicy,
    record::{Attempt, Cause, Status},
};
use kube::Client;

use super::{
    existing, fields, history,
    namespace::namespace_error,
    on_delete,
    prepare::{Prepared, prepare},
    recorded::{self, Role},
    renamed::{is_renamed, own_releases, remove_renamed},
    storage,
};
use crate::{
    crds::ChartCrds, error::AgentError, events::Done, inputs, live, owned::OwnedRelease,
    session::ReleaseSession,
};

/// Installs the release. `replaces`: its name has records. Returns `None` if another client has changed the records meanwhile.
///
/// # Errors
/// If something is missing, or Helm fails.
pub async fn install(
    session: &ReleaseSession<'_>,
    history: &History,
    replaces: bool,
    attempt: Attempt,
) -> Result<Option<Deployed>, AgentError> {
    let (context, release) = (session.context, &session.release);
    if !replaces {
        storage::check_objects(session).await?;
    }
    let mut prepared = prepare(session, attempt).await?;
    let has_records = replaces.then_some(history);
    existing::look_for_older_objects(session, has_records, &mut prepared).await?;
    let releases = own_releases(context, session.name()).await?;
    // Objects that do not have the name of the release in theirs pass from the old release to the new one.
    let takes_over = is_renamed(session.deployment, &releases)
        && existing::owns_all_that_exists(session, &prepared, &releases).await?;
    apply_crds(session, session.policy.install.crds, &mut prepared).await?;
    on_delete::remember(session).await?;
    context.guard.remember_version().await?;
    if prepared.settings.creates_namespace {
        inputs::create_namespace(&context.downstream, &prepared.deployer, &release.namespace).await?;
    }
    storage::check_exists(session).await?;
    if replaces && history.newest_of(session.name()).is_some() {
        history::make_room(session, history).await?;
    }
    let install = |deploy, settings: &HelmSettings| {
        Action::Install(Install {
            deploy,
            settings: ActionSettings {
                takes_ownership: settings.install.takes_ownership || takes_over,
                ..settings.install
            },
            replaces,
        })
    };
    let hook_timeout = prepared.settings.install.hook_timeout;
    run(
        session,
        prepared,
        (install, hook_timeout),
        Done::Installed,
        &releases,
    )
    .await
}

/// Upgrades the release. `discard` is the revision of a failed attempt whose record is deleted first. Returns `None` if another client has
/// changed the records meanwhile.
///
/// # Errors
/// If something is missing, or Helm fails.
pub async fn upgrade(
    session: &ReleaseSession<'_>,
    history: &History,
    discard: Option<u64>,
    attempt: Attempt,
) -> Result<Option<Deployed>, AgentError> {
    let has_other_values = attempt.cause == Cause::Values;
    let mut prepared = prepare(session, attempt).await?;
    if has_other_values {
        let objects = inputs::sources_of(session.deployment);
        session.context.reports.values_changed(&session.release, &objects);
    }
    let releases = own_releases(session.context, session.name()).await?;
    apply_crds(session, session.policy.upgrade.crds, &mut prepared).await?;
    on_delete::remember(session).await?;
    let max_history = prepare_records(session, history, discard, &prepared.deployer).await?;
    let upgrade = |deploy, settings: &HelmSettings| {
        Action::Upgrade(Upgrade {
            deploy,
            settings: settings.upgrade,
            max_history,
        })
    };
    let hook_timeout = prepared.settings.upgrade.hook_timeout;
    run(
        session,
        prepared,
        (upgrade, hook_timeout),
        Done::Upgraded,
        &releases,
    )
    .await
}

/// Prepares what was deployed before for the next revision, once nothing that this one needs is missing. Returns how many revisions Helm
/// keeps.
async fn prepare_records(
    session: &ReleaseSession<'_>,
    history: &History,
    discard: Option<u64>,
    deployer: &Client,
) -> Result<u32, AgentError> {
    let (records, release) = (&session.context.records, &session.release);
    let is_own = history.newest_of(session.name()).is_some();
    let (mut history, mut kept) = (history.clone(), session.policy.history);
    if is_own {
        if let Some(revision) = discard {
            let deleted = records.delete(release, revision, Status::Failed);
            session.records.changed_by(deleted).await?;
            history = session.records.history().await?;
        }
        (history, kept) = history::make_room(session, &history).await?;
    } else {
        // Helm takes it over first, with the permissions of the account that deploys: these records belong to another owner.
        session.context.guard.remember_version().await?;
    }
    if let Some(replaced) = history.replaced_by_upgrade() {
        let recorded = recorded::of(session, deployer, is_own);
        let prepared = recorded.prepare(replaced.number, Role::Replaced);
        session.records.changed_by(prepared).await?;
        fields::take_over(session, deployer, replaced.number).await?;
    }
    Ok(kept)
}

/// Runs Helm, and does what follows from its success or failure.
async fn run(
    session: &ReleaseSession<'_>,
    prepared: Prepared,
    (action, hook_timeout): (impl FnOnce(Deploy, &HelmSettings) -> Action, Duration),
    done: Done,
    releases: &[OwnedRelease],
) -> Result<Option<Deployed>, AgentError> {
    let (context, release) = (session.context, &session.release);
    let Prepared {
        identity,
        deployer,
        // The file stays in the cache as long as this exists.
        chart: _chart,
        settings,
        deploy,
    } = prepared;
    let secrets = deploy.secrets.clone();
    let request = Request {
        release: release.clone(),
        identity,
        action: action(deploy, &settings),
        hook_timeout,
    };
    tracing::info!(%release, action = request.action.name(), "running Helm");
    let kubeconfig = context.kubeconfig()?;
    let run = context.helm.run(request, kubeconfig, &session.work.deployment);
    let run = session.records.changed_by(run).await;
    if let Err(failure) = &run {
        correct_record(session, failure.reason, &secrets).await;
    }
    let success = run.map_err(AgentError::from)?;
    let after = session.records.history().await?;
    let revision = success
        .revision
        .or_else(|| after.deployed().map(|deployed| deployed.number));
    let Some(revision) = revision else {
        return Ok(None);
    };
    tracing::info!(%release, revision, "deployed");
    let options = &session.deployment.spec.options;
    let what = format!("revision {revision}{}", chart_of(options));
    context.reports.done(done, release, &what);
    for warning in success.warnings {
        tracing::warn!(%release, warning, "warning of the API server");
    }
    if !success.unmatched_patches.is_empty() {
        let patches = success.unmatched_patches.join(", ");
        let what = format!("no object of revision {revision} fulfils the target of {patches}");
        context.reports.unmatched(release, &what);
    }
    let deployed = Deployed::of(release, &after, revision);
    if is_renamed(session.deployment, releases) {
        remove_renamed(context, session.deployment, releases).await;
    }
    if !options.namespace_labels.is_empty() || !options.namespace_annotations.is_empty() {
        let applied = inputs::apply_metadata(&deployer, options, &release.namespace).await;
        applied.map_err(|error| namespace_error(&deployed, error))?;
    }
    Ok(Some(deployed))
}

/// Marks the newest revision as failed if it is pending. Helm does that itself when it is interrupted, but its hooks write the same
/// record at the same time, and may write the status from before. What fails here is done before the next operation.
async fn end_pending(session: &ReleaseSession<'_>) {
    let (records, release) = (&session.context.records, &session.release);
    let ended = async {
        let history = session.records.history().await?;
        match history.newest_of(session.name()) {
            Some(newest) => {
                let unlocked = records.unlock(release, newest.number);
                session.records.changed_by(unlocked).await
            }
            None => Ok(()),
        }
    };
    if let Err(error) = ended.await {
        let error = with_causes(&error);
        tracing::warn!(%release, error, "cannot record that Helm was interrupted");
    }
}

/// After a failure, changes what Helm has written into the newest record.
async fn correct_record(session: &ReleaseSession<'_>, reason: FailureReason, secrets: &SecretTexts) {
    if !secrets.is_empty() {
        hide(session, secrets).await;
    }
    // Otherwise another replica does that.
    if reason.is_interruption() && session.context.leadership.remaining().is_some() {
        end_pending(session).await;
    }
}

/// Removes values of Secrets from what Helm has written into the newest record: statuses and Events show it, and so does `helm
/// history`.
async fn hide(session: &ReleaseSession<'_>, secrets: &SecretTexts) {
    let (records, release) = (&session.context.records, &session.release);
    let hidden = async {
        let history = session.records.history().await?;
        match history.newest_of(session.name()) {
            // A deployed one is older: Helm has failed before it wrote another.
            Some(newest) if newest.status != Status::Deployed => {
                let change = |text: &str| secrets.hide(text);
                let described = records.describe(release, newest.number, change);
                session.records.changed_by(described).await
            }
            _ => Ok(()),
        }
    };
    if let Err(error) = hidden.await {
        let error = with_causes(&error);
        tracing::warn!(%release, error, "cannot remove values of Secrets from the record");
    }
}

/// Applies the CRDs of the chart in place of Helm, if the policy says how.
async fn apply_crds(
    session: &ReleaseSession<'_>,
    policy: Option<CrdPolicy>,
    prepared: &mut Prepared,
) -> Result<(), AgentError> {
    let Some(policy) = policy else {
        return Ok(());
    };
    let chart_crds = ChartCrds {
        helm: &session.context.helm,
        client: &prepared.deployer,
        release: &session.release,
        stop: &session.work.deployment,
    };
    let values = &prepared.deploy.values;
    let applied = chart_crds.apply(policy, prepared.chart.path(), values).await;
    let kinds = &session.context.kinds;
    let applied = applied.map_err(|error| {
        // Some may have been written.
        kinds.forget_all();
        AgentError::from(error)
    })?;
    for crd in applied.created.iter().chain(&applied.replaced) {
        kinds.changed(live::group_of_crd(crd));
    }
    tracing::debug!(release = %session.release, ?applied, "applied the CRDs of the chart");
    prepared.deploy.skips_crds = true;
    Ok(())
}

/// The chart, for messages.
fn chart_of(options: &BundleDeploymentOptions) -> String {
    let helm = options.helm.as_ref();
    helm.map_or_else(String::new, |helm| {
        // A registry or an archive has no name of a chart.
        let chart = if helm.chart.is_empty() {
            &helm.repo
        } else {
            &helm.chart
        };
        if chart.is_empty() {
            return String::new();
        }
        format!(", chart {chart} {}", helm.version).trim_end().to_owned()
    })
}
