//! One cluster: its copies, then its BundleDeployment.

use std::collections::BTreeSet;

use helmops_api::{Bundle, BundleDeployment, BundleDeploymentOptions, Decoded, NamespacedName};
use helmops_core::targeting::{
    RolloutStep, Target, TargetError,
    copies::{Copy, CopyKind, Object, SourceRef, downstream},
    deployment::{
        DesiredDeployment, DesiredSecret, DownstreamCopy, ObservedSecret, SecretValues, access_secret,
        deployment, recorded,
    },
    desired::DesiredTarget,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    DeliveryError, apply,
    copies::{CopyManager, reference},
    is_terminating,
    sources::{self, SourceUnavailable, Sources},
};
use crate::{
    client::bounded,
    context::Context,
    error_class::ClassifiedError,
    watch::{Copies, CopyRef},
};

/// What is the same for all clusters of a Bundle.
pub struct Delivery<'d> {
    /// Clients and caches.
    pub context: &'d Context,
    /// The cache of copies in the namespaces of clusters.
    pub copies: &'d Copies,
    /// The Bundle.
    pub bundle: &'d Bundle,
    /// The sources of its copies.
    pub sources: &'d Sources,
}

/// The result for one cluster.
#[derive(Default)]
pub struct Delivered {
    /// Its deployment, if it was applied.
    pub deployment: Option<BundleDeployment>,
    /// For the status: why the desired deployment is not applied.
    pub problem: Option<String>,
    /// The error, if it is to be retried.
    pub error: Option<DeliveryError>,
}

/// Why the desired deployment cannot be applied to a cluster.
enum DeliveryBlocked {
    /// Until a user changes an object that is watched.
    UntilChange(String),
    /// It is retried.
    Retryable(DeliveryError),
}

impl From<&SourceUnavailable> for DeliveryBlocked {
    fn from(unavailable: &SourceUnavailable) -> Self {
        let message = unavailable.message.clone();
        if unavailable.is_retryable {
            Self::Retryable(DeliveryError::SourceUnreadable(message))
        } else {
            Self::UntilChange(message)
        }
    }
}

impl Delivery<'_> {
    /// Checks whether the desired deployment can be applied to a cluster. If not, sets the error of the target, and returns the
    /// error that is to be retried.
    pub fn check(&self, target: &mut Target<'_>) -> Option<DeliveryError> {
        let desired = target.desired.as_ref().ok()?;
        let (message, error) = match self.blocked(target, desired)? {
            DeliveryBlocked::UntilChange(message) => (message, None),
            DeliveryBlocked::Retryable(error) => (error.to_string(), Some(error)),
        };
        target.desired = Err(TargetError::Missing(message));
        error
    }

    fn blocked(&self, target: &Target<'_>, desired: &DesiredTarget) -> Option<DeliveryBlocked> {
        // Without a namespace the target waits for one.
        let namespace = target.namespace()?;
        let conflict = if target.existing.is_none() {
            self.name_conflict(namespace)
        } else {
            None
        };
        conflict.or_else(|| self.missing_source(namespace, &desired.options))
    }

    /// Whether a BundleDeployment of another Bundle has the name of the deployment.
    fn name_conflict(&self, namespace: &str) -> Option<DeliveryBlocked> {
        let name = self.bundle.metadata.name.as_deref().unwrap_or_default();
        let found = self.context.stores.deployments.get(namespace, name)?;
        let message = match &*found {
            Decoded::Invalid { error, .. } => {
                format!("BundleDeployment {namespace}/{name} does not decode: {error}")
            }
            Decoded::Valid(_) => format!(
                "the cluster already has BundleDeployment {name} of a Bundle in another namespace; rename one of the Bundles"
            ),
        };
        Some(DeliveryBlocked::Retryable(DeliveryError::NameConflict(message)))
    }

    /// Whether a source that the options need is unavailable, or cannot be copied because of its name.
    fn missing_source(&self, namespace: &str, options: &BundleDeploymentOptions) -> Option<DeliveryBlocked> {
        let downstream = match downstream(options) {
            Ok(downstream) => downstream,
            Err(error) => return Some(DeliveryBlocked::UntilChange(error.to_string())),
        };
        for source in downstream.iter().chain(&sources::access(self.bundle)) {
            match self.sources.get(source) {
                Some(Ok(_)) => {}
                Some(Err(unavailable)) => return Some(unavailable.into()),
                None => return Some(DeliveryBlocked::UntilChange(format!("{source} was not read"))),
            }
        }
        let conflict = downstream
            .iter()
            .find_map(|source| self.copies().name_conflict(self.bundle, namespace, source));
        conflict.map(|message| DeliveryBlocked::Retryable(DeliveryError::NameConflict(message)))
    }

    /// Applies the next step of the rollout to a cluster.
    pub async fn deliver_to(&self, target: &Target<'_>, step: RolloutStep) -> Delivered {
        // Deployments that are up to date are handled without waiting, and there may be thousands with large values.
        tokio::task::yield_now().await;
        let mut delivered = Delivered::default();
        if let Err(error) = &target.desired {
            delivered.problem = Some(error.to_string());
        } else if let Err(error) =
            Box::pin(self.apply_to_cluster(target, step, &mut delivered.deployment)).await
        {
            if !error.is_benign() {
                delivered.problem = Some(error.to_string());
            }
            delivered.error = Some(error);
        }
        delivered
    }

    async fn apply_to_cluster(
        &self,
        target: &Target<'_>,
        step: RolloutStep,
        stored: &mut Option<BundleDeployment>,
    ) -> Result<(), DeliveryError> {
        if target.existing.is_some_and(is_terminating) {
            return Ok(());
        }
        let Some(DesiredDeployment { deployment, secret }) = self.desired_deployment(target, step).await?
        else {
            return Ok(());
        };
        let deployment = apply::merged(deployment, target.existing);
        let values = match &secret {
            DesiredSecret::Values(values) => Some(Copy::of_values(&deployment, values)),
            DesiredSecret::None | DesiredSecret::Untouched => None,
        };
        let copies = self.copies_for(&deployment);
        for copy in &copies {
            self.copies().ensure(copy, &deployment).await?;
        }
        let is_new = target.existing.is_none();
        if is_new && let Some(values) = &values {
            self.copies().ensure(values, &deployment).await?;
        }
        let mut deployment = apply::deployment(self.context, deployment, target.existing).await?;
        // The values follow the deployment, which has their hash. A new deployment can own its copies only now.
        let after_deployment = copies.iter().filter(|_| is_new).chain(&values);
        for copy in after_deployment {
            self.copies().ensure(copy, &deployment).await?;
        }
        let needed = needed(&deployment, copies.iter().chain(&values).map(reference), &secret);
        let pruned = self.copies().prune(&deployment, &needed).await;
        // The status of the Bundle does not need the options, and there may be thousands of deployments.
        deployment.spec.options = BundleDeploymentOptions::default();
        deployment.spec.staged_options = BundleDeploymentOptions::default();
        *stored = Some(deployment);
        pruned
    }

    /// The desired deployment. The Secret with its values is read only if the cache does not show what is in it.
    async fn desired_deployment(
        &self,
        target: &Target<'_>,
        step: RolloutStep,
    ) -> Result<Option<DesiredDeployment>, DeliveryError> {
        if step == RolloutStep::Wait {
            return Ok(None);
        }
        // The agent copies the downstream resources of the options that it deploys with now.
        let options = match (&target.desired, target.existing) {
            (Ok(desired), _) if step == RolloutStep::Promote => Some(&*desired.options),
            (_, existing) => existing.map(|existing| &existing.spec.options),
        };
        let downstream = match options {
            Some(options) => self.downstream(options, target.existing).await?,
            None => Vec::new(),
        };
        let is_intact = target
            .existing
            .is_some_and(|existing| self.has_current_values(existing));
        let observed = |secret| ObservedSecret {
            secret,
            is_intact,
            downstream: &downstream,
        };
        let desired = deployment(self.bundle, target, step, observed(None));
        match (&desired, target.existing) {
            (
                Some(DesiredDeployment {
                    secret: DesiredSecret::Untouched,
                    ..
                }),
                Some(existing),
            ) if !is_intact || existing.spec.waiting_for_values || is_waiting(desired.as_ref()) => {
                let secret = self.read_values(existing).await?;
                Ok(deployment(self.bundle, target, step, observed(secret.as_ref())))
            }
            _ => Ok(desired),
        }
    }

    /// The downstream resources of these options, and the state of the copy if the deployment does not record its version.
    async fn downstream(
        &self,
        options: &BundleDeploymentOptions,
        existing: Option<&BundleDeployment>,
    ) -> Result<Vec<DownstreamCopy>, DeliveryError> {
        let recorded = existing.and_then(recorded).unwrap_or_default();
        let mut found = Vec::new();
        for object in self.sources_of(downstream(options).unwrap_or_default()) {
            let source = format!("{} {}", object.kind(), object.version());
            let copy = match existing {
                Some(existing) if !recorded.contains(&*source) => {
                    let copy = Copy::of_downstream(existing, object);
                    Some(self.copies().state(&copy).await?)
                }
                _ => None,
            };
            found.push(DownstreamCopy { source, copy });
        }
        Ok(found)
    }

    /// The sources that are available.
    fn sources_of(&self, sources: impl IntoIterator<Item = SourceRef>) -> impl Iterator<Item = &Object> {
        let found = sources.into_iter().filter_map(|source| self.sources.get(&source));
        found.filter_map(|found| found.as_ref().ok())
    }

    /// Whether the cached Secret with a deployment's values is up to date.
    fn has_current_values(&self, existing: &BundleDeployment) -> bool {
        let known = self.copies.get(&values_reference(existing));
        known.is_some_and(|known| known.is_current(&existing.spec.values_hash, 2))
    }

    async fn read_values(&self, existing: &BundleDeployment) -> Result<Option<SecretValues>, DeliveryError> {
        let CopyRef { name, .. } = values_reference(existing);
        let api = Api::<Secret>::namespaced(self.context.client.clone(), &name.namespace);
        let secret = bounded(api.get_opt(&name.name)).await;
        let secret = secret.map_err(DeliveryError::api("read", format_args!("Secret {name}")))?;
        Ok(secret.as_ref().and_then(Copy::values_of))
    }

    /// The copies for the agent: the access Secret, and the downstream resources that it deploys with now or next.
    fn copies_for(&self, deployment: &BundleDeployment) -> Vec<Copy> {
        let access = sources::access(self.bundle).zip(access_secret(self.bundle));
        let access = access.and_then(|(source, name)| match self.sources.get(&source) {
            Some(Ok(Object::Secret(secret))) => Some(Copy::of_access(deployment, name, secret)),
            _ => None,
        });
        let downstream = self.sources_of(referenced_sources(deployment));
        let downstream = downstream.map(|object| Copy::of_downstream(deployment, object));
        access.into_iter().chain(downstream).collect()
    }

    const fn copies(&self) -> CopyManager<'_> {
        CopyManager {
            context: self.context,
            copies: self.copies,
        }
    }
}

fn is_waiting(desired: Option<&DesiredDeployment>) -> bool {
    desired.is_some_and(|desired| desired.deployment.spec.waiting_for_values)
}

/// The downstream resources of a deployment, current and staged.
pub fn referenced_sources(deployment: &BundleDeployment) -> BTreeSet<SourceRef> {
    let (current, staged) = (&deployment.spec.options, &deployment.spec.staged_options);
    [current, staged]
        .into_iter()
        .flat_map(|options| downstream(options).unwrap_or_default())
        .collect()
}

/// All copies that a deployment needs. Those whose source is missing are kept too.
fn needed(
    deployment: &BundleDeployment,
    copies: impl Iterator<Item = CopyRef>,
    secret: &DesiredSecret,
) -> BTreeSet<CopyRef> {
    let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
    let downstream = referenced_sources(deployment).into_iter();
    let downstream = downstream.map(|source| CopyRef {
        kind: source.kind,
        name: NamespacedName::new(namespace.clone(), source.name),
    });
    let values = (*secret == DesiredSecret::Untouched).then(|| values_reference(deployment));
    copies.chain(downstream).chain(values).collect()
}

/// The Secret with a deployment's values, which has the same name.
fn values_reference(deployment: &BundleDeployment) -> CopyRef {
    CopyRef::of(CopyKind::Secret, &deployment.metadata)
}
