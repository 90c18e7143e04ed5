//! The writes of the bundle loop: nothing else in it writes. What is written was decided before.

mod bundles;
mod copies;
mod deployments;

use std::fmt;

use helmops_api::{BundleDeployment, NamespacedName};
use helmops_core::targeting::{
    copies::{Copy, CopyRef},
    delivery::Action,
};
use helmops_runtime::client::{ApiError, CallError};
use helmops_trace::Outcome;

use self::copies::CopyWriter;
pub use self::{
    bundles::{remove_finalizer, status, with_finalizer},
    deployments::delete as delete_deployment,
};
use super::DeliveryError;
use crate::{context::Context, watch::Copies};

/// The result of executing actions.
#[derive(Default)]
pub struct Applied {
    /// The deployment, if it was written.
    pub deployment: Option<BundleDeployment>,
    /// The error of the action that failed. Those after it were not executed.
    pub error: Option<ActionError>,
}

impl Outcome for Applied {
    fn error(&self) -> Option<String> {
        self.error.as_ref().map(|failed| failed.error.to_string())
    }
}

/// Why an action failed.
pub struct ActionError {
    pub error: DeliveryError,
    /// The copy whose observed state was stale, if that is the cause.
    pub stale: Option<CopyRef>,
}

impl<E: Into<DeliveryError>> From<E> for ActionError {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            stale: None,
        }
    }
}

/// Executes actions in order, up to the first that fails.
pub async fn execute(context: &Context, copies: &Copies, actions: &[Action]) -> Applied {
    let mut applied = Applied::default();
    let writer = CopyWriter { context, copies };
    for action in actions {
        match apply(writer, action, &mut applied.deployment).await {
            Ok(()) => tracing::debug!(action = %Description(action), "applied"),
            Err(error) => {
                tracing::debug!(action = %Description(action), "failed");
                applied.error = Some(error);
                break;
            }
        }
    }
    applied
}

async fn apply(
    writer: CopyWriter<'_>,
    action: &Action,
    deployment: &mut Option<BundleDeployment>,
) -> Result<(), ActionError> {
    match action {
        Action::CreateCopy(write) => {
            let created = writer.create(write).await;
            created.map_err(|error| failed(&reference(&write.copy), error, ApiError::exists_already))
        }
        Action::ApplyCopy(write) => {
            let applied = writer.apply(write).await;
            applied.map_err(|error| failed(&reference(&write.copy), error, ApiError::is_invalid))
        }
        Action::KeepCopy { copy, metadata } => {
            writer.copies.record_unchanged(copy, metadata);
            Ok(())
        }
        Action::SetOwners {
            copy,
            version,
            owners,
        } => {
            let set = writer.set_owners(copy, version, owners).await;
            set.map_err(|error| failed(copy, error, ApiError::is_not_found))
        }
        Action::DeleteCopy { copy, version } => {
            let CopyRef { kind, name } = copy;
            let deleted = writer.delete(copy, version).await;
            Ok(deleted.map_err(CallError::of("delete", format_args!("{kind} {name}")))?)
        }
        Action::CreateDeployment(desired) => {
            *deployment = Some(deployments::create(writer.context, desired).await?);
            Ok(())
        }
        Action::ReplaceDeployment(desired) => {
            *deployment = Some(deployments::replace(writer.context, desired).await?);
            Ok(())
        }
    }
}

/// The error of a write of a copy.
fn failed(copy: &CopyRef, error: ApiError, is_stale: impl Fn(&ApiError) -> bool) -> ActionError {
    let CopyRef { kind, name } = copy;
    ActionError {
        stale: is_stale(&error).then(|| copy.clone()),
        error: CallError::of("write", format_args!("{kind} {name}"))(error).into(),
    }
}

fn reference(copy: &Copy) -> CopyRef {
    CopyRef::of(copy.object.kind(), copy.object.metadata())
}

/// An action, for a log line.
struct Description<'a>(&'a Action);

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_copy = |f: &mut fmt::Formatter<'_>, verb: &str, CopyRef { kind, name }: &CopyRef| {
            write!(f, "{verb} {kind} {name}")
        };
        let of_deployment = |f: &mut fmt::Formatter<'_>, verb: &str, deployment: &BundleDeployment| {
            let name = NamespacedName::of(&deployment.metadata);
            write!(f, "{verb} BundleDeployment {name}")
        };
        match self.0 {
            Action::CreateCopy(write) => of_copy(f, "create", &reference(&write.copy)),
            Action::ApplyCopy(write) => of_copy(f, "apply", &reference(&write.copy)),
            Action::KeepCopy { copy, .. } => of_copy(f, "keep", &reference(copy)),
            Action::SetOwners { copy, .. } => of_copy(f, "set the owners of", copy),
            Action::DeleteCopy { copy, .. } => of_copy(f, "delete", copy),
            Action::CreateDeployment(deployment) => of_deployment(f, "create", deployment),
            Action::ReplaceDeployment(deployment) => of_deployment(f, "replace", deployment),
        }
    }
}
