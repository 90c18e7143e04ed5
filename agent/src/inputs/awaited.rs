//! Objects of the cluster that `lifecycle.dependsOn` names.
//!
//! An object is read as the account that deploys, so that a message shows nothing that this account may not read. It is watched while a
//! BundleDeployment waits for it, and only if the account may read it.

use std::collections::BTreeSet;

use helmops_helm::request::Identity;
use helmops_release::dependencies::{self, ObjectDependency, Unmet};
use helmops_runtime::{client::CallError, error_class::Class};
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::watched::{Scope, WatchedObject, Watching};
use crate::{
    error::AgentError,
    live::{Objects, ResourceKind, whole},
    session::ReleaseSession,
};

/// Checks the objects that have to be ready before a release is deployed. A change of the first one that is not leads to the next
/// reconciliation.
///
/// # Errors
/// If one of them does not exist, is not ready, or cannot be read.
pub async fn check_objects(session: &ReleaseSession<'_>) -> Result<(), AgentError> {
    let mut objects = dependencies::objects(session.deployment, &session.release.namespace).peekable();
    if objects.peek().is_none() {
        return Ok(());
    }
    let (identity, client) = session.deployer().await?;
    let reader = Reader {
        session,
        identity,
        client,
    };
    for mut dependency in objects {
        let kinds = &session.context.kinds;
        let object = &mut dependency.object;
        let Some(kind) = kinds.get(&object.api_version, &object.kind).await? else {
            let missing = [object.group().to_owned()].into();
            // The CRD is noticed, and the API server serves its kind some time later.
            let again = kinds.set_groups(session.name(), &BTreeSet::new(), missing);
            return Err(AgentError::AwaitsObject {
                unmet: dependency.unserved(),
                class: again.map_or(Class::Absent, Class::Postponed),
            });
        };
        if !kind.is_namespaced {
            object.namespace.clear();
        }
        reader.check(&dependency, &kind).await?;
    }
    Ok(())
}

/// Ends the watches of objects that a BundleDeployment has waited for.
pub fn forget_objects(session: &ReleaseSession<'_>) {
    session.context.awaited.set(session.name(), Vec::new());
}

/// Reads objects as the account that deploys.
struct Reader<'r> {
    session: &'r ReleaseSession<'r>,
    identity: Identity,
    client: Client,
}

impl Reader<'_> {
    async fn check(&self, dependency: &ObjectDependency, kind: &ResourceKind) -> Result<(), AgentError> {
        let Err(mut unmet) = self.read(dependency).await? else {
            return Ok(());
        };
        let session = self.session;
        let watched = WatchedObject {
            scope: Scope {
                resource: kind.resource.clone(),
                namespace: dependency.object.namespace.clone(),
            },
            name: dependency.object.name.clone(),
        };
        let watching = session.context.awaited.set(session.name(), vec![watched]);
        if watching == Watching::Now {
            // It may have changed before it was watched.
            match self.read(dependency).await? {
                Ok(()) => return Ok(()),
                Err(newer) => unmet = newer,
            }
        }
        let class = match watching {
            Watching::Before | Watching::Now => Class::Permanent,
            Watching::Not => Class::Absent,
        };
        Err(AgentError::AwaitsObject { unmet, class })
    }

    /// Whether an object is ready.
    async fn read(&self, dependency: &ObjectDependency) -> Result<Result<(), Unmet>, AgentError> {
        let objects = Objects {
            kinds: &self.session.context.kinds,
            client: &self.client,
        };
        let found = match objects.read(&dependency.object).await {
            Err(error) if error.is_forbidden() => return Err(self.forbidden(dependency, &error)),
            found => found?,
        };
        let object = found.and_then(whole);
        Ok(dependency.check(object.as_ref(), Timestamp::now()))
    }

    fn forbidden(&self, dependency: &ObjectDependency, error: &CallError) -> AgentError {
        AgentError::AwaitsObject {
            unmet: dependency.forbidden(&self.identity.to_string(), &error.to_string()),
            class: Class::Absent,
        }
    }
}
