//! The labels and annotations of the namespace of a release.

use helmops_release::{deployed::Deployed, report::Blocked};
use helmops_runtime::client::CallError;

use crate::{
    error::AgentError,
    inputs::{self, MetadataError},
    session::ReleaseSession,
};

/// Sets the labels and annotations of the namespace again if one is missing: another client has removed it, or the account that
/// deploys was not allowed to set it.
pub async fn restore(session: &ReleaseSession<'_>, current: &Deployed) -> Result<(), AgentError> {
    let options = &session.deployment.spec.options;
    if options.namespace_labels.is_empty() && options.namespace_annotations.is_empty() {
        return Ok(());
    }
    let (_, client) = session.deployer().await?;
    let result = inputs::restore_metadata(&client, options, &session.release.namespace).await;
    result.map_err(|error| namespace_error(current, error))
}

/// Without the permission, the deployment counts as failed. Other errors change nothing of what is reported of it.
pub fn namespace_error(deployed: &Deployed, error: MetadataError) -> AgentError {
    let MetadataError { verb, source } = error;
    let namespace = &deployed.id.release.namespace;
    if !source.is_forbidden() {
        let object = format!("Namespace {namespace}");
        return CallError::of("set the labels and annotations of", object)(source).into();
    }
    AgentError::NamespaceForbidden {
        release: deployed.id.to_string(),
        error: Blocked::namespace_forbidden(verb, namespace, &source.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::BundleDeploymentOptions;
    use helmops_release::{deployed::RevisionId, names::ReleaseKey, record::AttemptAction};
    use helmops_runtime::client::ApiError;

    use super::*;

    #[test]
    fn a_forbidden_namespace_is_reported_with_the_missing_verb_and_any_other_error_is_retried() {
        let failed = |verb, code| {
            let status = kube::core::Status::failure("no", "Forbidden").with_code(code);
            let source = ApiError::from(kube::Error::Api(status.boxed()));
            let deployed = Deployed {
                id: RevisionId {
                    release: ReleaseKey::of("web", &BundleDeploymentOptions::default()),
                    number: 2,
                    made_at: None,
                },
                acceptance: None,
                action: AttemptAction::Install,
                is_rollback: false,
                previous: None,
            };
            namespace_error(&deployed, MetadataError { verb, source })
        };
        for verb in ["get", "patch"] {
            let AgentError::NamespaceForbidden { release, error } = failed(verb, 403) else {
                panic!("not forbidden");
            };
            assert_eq!(release, "default/web:2");
            assert_eq!(error, Blocked::namespace_forbidden(verb, "default", "no (403)"));
        }
        assert_eq!(
            failed("patch", 500).to_string(),
            "could not set the labels and annotations of Namespace default: no (500)"
        );
    }
}
