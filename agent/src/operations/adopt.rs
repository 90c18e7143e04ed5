//! Takes over the release of a user's Helm as it is: if a deployment would change no object, only the record is changed.
//!
//! The record is changed as the account that deploys, so one that is restricted to some namespaces takes over no release in another.

use helmops_helm::request::{Action, Identity, Render, Request};
use helmops_release::{adoption, names::ReleaseKey, record::Attempt};

use super::{
    on_delete,
    prepare::{Prepared, prepare},
};
use crate::{
    charts::Charts,
    error::{AdoptionForbidden, AgentError},
    records::AdoptError,
    session::ReleaseSession,
};

/// Makes a revision that of this BundleDeployment. Returns whether it was: if anything differs, an upgrade takes it over.
///
/// # Errors
/// If something is missing that an upgrade needs too, or the record cannot be written, also if the account that deploys may not.
pub async fn adopt(
    session: &ReleaseSession<'_>,
    revision: u64,
    attempt: Attempt,
) -> Result<bool, AgentError> {
    let (context, release) = (session.context, &session.release);
    let Some(record) = context.records.read(release, revision).await? else {
        return Ok(false);
    };
    let prepared = prepare(session, attempt).await?;
    let chart = Charts::chart_in(&prepared.chart).await?;
    if let Err(obstacle) = adoption::check_chart(&record, &chart.name, &chart.version) {
        tracing::info!(%release, revision, %obstacle, "upgrading to take over the release");
        return Ok(false);
    }
    // An upgrade fails too, and reports it.
    let Some(rendered) = rendered(session, &prepared, revision > 1).await? else {
        return Ok(false);
    };
    if let Err(obstacle) = adoption::check(&record, &rendered, &prepared.deploy.post_render) {
        tracing::info!(%release, revision, %obstacle, "upgrading to take over the release");
        return Ok(false);
    }
    // What is remembered counts as deployed by this agent, so the API server decides before that.
    if !write_adopted(session, &prepared, revision, true).await? {
        return Ok(false);
    }
    on_delete::remember(session).await?;
    let is_adopted = write_adopted(session, &prepared, revision, false).await?;
    if is_adopted {
        tracing::info!(%release, revision, "took over the release as it is");
    }
    Ok(is_adopted)
}

/// Changes the record of a revision as the account that deploys. Returns whether the revision was still deployed.
async fn write_adopted(
    session: &ReleaseSession<'_>,
    prepared: &Prepared,
    revision: u64,
    dry_run: bool,
) -> Result<bool, AgentError> {
    let (records, release) = (&session.context.records, &session.release);
    let Prepared {
        identity,
        deployer,
        deploy,
        ..
    } = prepared;
    let adopted = records.adopt(deployer, release, revision, &deploy.origin, dry_run);
    let adopted = session.records.changed_by(adopted).await;
    adopted.map_err(|error| not_adopted(release, identity, error))
}

/// The objects and hooks of the chart before the post-renderer; `None` if it cannot be rendered.
///
/// # Errors
/// If the agent stops.
pub async fn rendered(
    session: &ReleaseSession<'_>,
    prepared: &Prepared,
    is_upgrade: bool,
) -> Result<Option<String>, AgentError> {
    let context = session.context;
    let request = Request {
        release: session.release.clone(),
        identity: prepared.identity.clone(),
        action: Action::Render(Render {
            deploy: prepared.deploy.clone(),
            is_upgrade,
            capabilities: None,
        }),
        hook_timeout: prepared.settings.hook_timeout,
    };
    let kubeconfig = context.kubeconfig()?;
    let run = context.helm.run(request, kubeconfig, &session.work.deployment);
    match run.await {
        Ok(success) => Ok(Some(success.printed)),
        Err(failure) if failure.reason.is_interruption() => Err(AgentError::from(failure)),
        Err(failure) => {
            tracing::info!(release = %session.release, %failure, "the chart cannot be rendered");
            Ok(None)
        }
    }
}

/// Why a release is not adopted. If a permission is missing, the error names the account that needs it.
fn not_adopted(release: &ReleaseKey, identity: &Identity, error: AdoptError) -> AgentError {
    match error {
        AdoptError::Record(error) => error.into(),
        AdoptError::Forbidden { secret, source } => {
            let account = identity.to_string();
            let release = release.clone();
            AgentError::from(AdoptionForbidden {
                release,
                account,
                secret,
                source,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_model::reason::Reason;
    use helmops_runtime::{
        client::{ApiError, CallError},
        error_class::{Class, ClassifiedError, classified},
    };
    use kube::core::Status;

    use super::*;
    use crate::records::RecordStoreError;

    fn rejected(code: u16) -> ApiError {
        let status = Status::failure("secrets is forbidden", "Forbidden").with_code(code);
        ApiError::from(kube::Error::Api(status.boxed()))
    }

    #[test]
    fn a_missing_permission_is_reported_with_the_account_and_the_secret() {
        let release = ReleaseKey::new("shop", "web");
        let account = Identity::ServiceAccount {
            namespace: "fleet".to_owned(),
            name: "tenant".to_owned(),
        };
        for (identity, account) in [
            (account, "ServiceAccount fleet/tenant"),
            (Identity::Agent, "the ServiceAccount of the agent"),
        ] {
            let forbidden = AdoptError::Forbidden {
                secret: "shop/sh.helm.release.v1.web.v1".to_owned(),
                source: rejected(403),
            };
            let error = not_adopted(&release, &identity, forbidden);
            let expected = format!(
                "release shop/web exists and was not made by this agent, and {account} may not take it over: it lacks the permission \
                 to update Secret shop/sh.helm.release.v1.web.v1, the record of the release; grant it the verb update for secrets in \
                 namespace shop, or choose another helm.releaseName: secrets is forbidden (403)"
            );
            assert_eq!(error.to_string(), expected);
            assert_eq!(
                error.classify(),
                classified(Reason::ForeignRelease, Class::Absent)
            );
        }
        let call = CallError::of("adopt", "Secret shop/a")(rejected(500));
        let error = AdoptError::Record(RecordStoreError::from(call));
        let error = not_adopted(&release, &Identity::Agent, error);
        assert!(matches!(error, AgentError::Record(_)), "{error}");
    }
}
