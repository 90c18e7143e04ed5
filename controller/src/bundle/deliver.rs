//! One cluster: its copies, then its BundleDeployment.

use std::collections::BTreeSet;

use helmops_shared::{
    api::{Bundle, BundleDeployment, BundleDeploymentOptions, Decoded, NamespacedName},
    targeting::{
        RolloutStep, Target, TargetError,
        copies::{Copy, Kind, Object, Source, downstream},
        deployment::{
            DesiredDeployment, DownstreamCopy, ObservedSecret, Secret as Values, SecretValues, access_secret,
            deployment, recorded,
        },
        target::DesiredTarget,
    },
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    DeliveryError, apply,
    copies::{CopiesOf, reference},
    is_leaving,
    sources::{self, Missing, Sources},
};
use crate::{
    client::bounded,
    context::Context,
    memory::Failure,
    watch::{Copies, CopyRef},
};

/// What is the same for all clusters of a Bundle.
pub struct Delivery<'d> {
    /// The API server and so on.
    pub context: &'d Context,
    /// What is in the namespaces of clusters.
    pub copies: &'d Copies,
    /// The Bundle.
    pub bundle: &'d Bundle,
    /// What it passes on.
    pub sources: &'d Sources,
}

/// What came of one cluster.
#[derive(Default)]
pub struct Delivered {
    /// Its deployment as it was written, if it was.
    pub deployment: Option<BundleDeployment>,
    /// What keeps the cluster from getting what is wanted.
    pub problem: Option<String>,
    /// What went wrong, if it is to be tried again.
    pub failure: Option<DeliveryError>,
}

/// Why a cluster cannot be given what is wanted.
enum Trouble {
    /// Somebody must change something, which is seen.
    Problem(String),
    /// It is tried again.
    Failure(DeliveryError),
}

impl From<&Missing> for Trouble {
    fn from(missing: &Missing) -> Self {
        let problem = missing.problem.clone();
        if missing.is_unread {
            Self::Failure(DeliveryError::Unread(problem))
        } else {
            Self::Problem(problem)
        }
    }
}

impl Delivery<'_> {
    /// Looks for what keeps a cluster from being given what is wanted, and notes it as its obstacle. Gives what is to be tried
    /// again.
    pub fn check(&self, target: &mut Target<'_>) -> Option<DeliveryError> {
        let wanted = target.wanted.as_ref().ok()?;
        let trouble = self.trouble(target, wanted)?;
        let (problem, failure) = match trouble {
            Trouble::Problem(problem) => (problem, None),
            Trouble::Failure(failure) => (failure.to_string(), Some(failure)),
        };
        target.wanted = Err(TargetError::Missing(problem));
        failure
    }

    fn trouble(&self, target: &Target<'_>, wanted: &DesiredTarget) -> Option<Trouble> {
        // Without a namespace it waits for one.
        let namespace = target.namespace()?;
        let foreign = if target.existing.is_none() {
            self.foreign(namespace)
        } else {
            None
        };
        foreign.or_else(|| self.unavailable(namespace, &wanted.options))
    }

    /// Something else has the name of the deployment.
    fn foreign(&self, namespace: &str) -> Option<Trouble> {
        let name = self.bundle.metadata.name.as_deref().unwrap_or_default();
        let found = self.context.stores.deployments.get(namespace, name)?;
        let problem = match &*found {
            Decoded::Invalid { error, .. } => {
                format!("BundleDeployment {namespace}/{name} cannot be read: {error}")
            }
            Decoded::Valid(_) => format!(
                "the cluster has BundleDeployment {name} of a Bundle of another namespace already; rename one of them"
            ),
        };
        Some(Trouble::Failure(DeliveryError::Taken(problem)))
    }

    /// Something that the options need is not to be had.
    fn unavailable(&self, namespace: &str, options: &BundleDeploymentOptions) -> Option<Trouble> {
        let downstream = match downstream(options) {
            Ok(downstream) => downstream,
            Err(error) => return Some(Trouble::Problem(error.to_string())),
        };
        for source in downstream.iter().chain(&sources::access(self.bundle)) {
            match self.sources.get(source) {
                Some(Ok(_)) => {}
                Some(Err(missing)) => return Some(missing.into()),
                None => return Some(Trouble::Problem(format!("{source} was not looked for"))),
            }
        }
        let taken = downstream
            .iter()
            .find_map(|source| self.copies().taken(self.bundle, namespace, source));
        taken.map(|taken| Trouble::Failure(DeliveryError::Taken(taken)))
    }

    /// Brings a cluster what it is its turn for.
    pub async fn to(&self, target: &Target<'_>, turn: RolloutStep) -> Delivered {
        // Deployments that are as they should be need no wait, and there may be thousands with large values.
        tokio::task::yield_now().await;
        let mut delivered = Delivered::default();
        if let Err(obstacle) = &target.wanted {
            delivered.problem = Some(obstacle.to_string());
        } else if let Err(failure) = Box::pin(self.bring(target, turn, &mut delivered.deployment)).await {
            if !failure.is_benign() {
                delivered.problem = Some(failure.to_string());
            }
            delivered.failure = Some(failure);
        }
        delivered
    }

    async fn bring(
        &self,
        target: &Target<'_>,
        turn: RolloutStep,
        stored: &mut Option<BundleDeployment>,
    ) -> Result<(), DeliveryError> {
        if target.existing.is_some_and(is_leaving) {
            return Ok(());
        }
        let Some(DesiredDeployment { deployment, secret }) = self.written(target, turn).await? else {
            return Ok(());
        };
        let deployment = apply::merged(deployment, target.existing);
        let values = match &secret {
            Values::Holds(values) => Some(Copy::of_values(&deployment, values)),
            Values::None | Values::Untouched => None,
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
        // After the deployment, which tells what the values are of. Where it is new, only now is there an owner.
        let late = copies.iter().filter(|_| is_new).chain(&values);
        for copy in late {
            self.copies().ensure(copy, &deployment).await?;
        }
        let needed = needed(&deployment, copies.iter().chain(&values).map(reference), &secret);
        let cleared = self.copies().clear(&deployment, &needed).await;
        // The status of the Bundle has no use for them, and there may be thousands of deployments.
        deployment.spec.options = BundleDeploymentOptions::default();
        deployment.spec.staged_options = BundleDeploymentOptions::default();
        *stored = Some(deployment);
        cleared
    }

    /// The deployment as it is to be. Its Secret is read only where what is in it is not known otherwise.
    async fn written(
        &self,
        target: &Target<'_>,
        turn: RolloutStep,
    ) -> Result<Option<DesiredDeployment>, DeliveryError> {
        if turn == RolloutStep::Wait {
            return Ok(None);
        }
        // What its agent is to copy is what it is to deploy with now.
        let options = match (&target.wanted, target.existing) {
            (Ok(wanted), _) if turn == RolloutStep::Promote => Some(&*wanted.options),
            (_, existing) => existing.map(|existing| &existing.spec.options),
        };
        let downstream = match options {
            Some(options) => self.downstream(options, target.existing).await?,
            None => Vec::new(),
        };
        let is_intact = target.existing.is_some_and(|existing| self.has_values(existing));
        let around = |secret| ObservedSecret {
            secret,
            is_intact,
            downstream: &downstream,
        };
        let written = deployment(self.bundle, target, turn, around(None));
        match (&written, target.existing) {
            (
                Some(DesiredDeployment {
                    secret: Values::Untouched,
                    ..
                }),
                Some(existing),
            ) if !is_intact || existing.spec.waiting_for_values || is_waiting(written.as_ref()) => {
                let secret = self.read_values(existing).await?;
                Ok(deployment(self.bundle, target, turn, around(secret.as_ref())))
            }
            _ => Ok(written),
        }
    }

    /// The downstream resources of these options, with the copies of those whose version the deployment has no record of.
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

    /// Those sources that are there.
    fn sources_of(&self, sources: impl IntoIterator<Item = Source>) -> impl Iterator<Item = &Object> {
        let found = sources.into_iter().filter_map(|source| self.sources.get(&source));
        found.filter_map(|found| found.as_ref().ok())
    }

    /// Whether the Secret with a deployment's values is seen to be the right one.
    fn has_values(&self, existing: &BundleDeployment) -> bool {
        let known = self.copies.get(&values_reference(existing));
        known.is_some_and(|known| known.is(&existing.spec.values_hash, 2))
    }

    async fn read_values(&self, existing: &BundleDeployment) -> Result<Option<SecretValues>, DeliveryError> {
        let CopyRef { name, .. } = values_reference(existing);
        let api = Api::<Secret>::namespaced(self.context.client.clone(), &name.namespace);
        let secret = bounded(api.get_opt(&name.name)).await;
        let secret = secret.map_err(DeliveryError::of("read", format_args!("Secret {name}")))?;
        Ok(secret.as_ref().and_then(Copy::values_of))
    }

    /// What is copied for the agent: access to the chart, and everything downstream that it deploys with now or next.
    fn copies_for(&self, deployment: &BundleDeployment) -> Vec<Copy> {
        let access = sources::access(self.bundle).zip(access_secret(self.bundle));
        let access = access.and_then(|(source, name)| match self.sources.get(&source) {
            Some(Ok(Object::Secret(secret))) => Some(Copy::of_access(deployment, name, secret)),
            _ => None,
        });
        let downstream = self.sources_of(named(deployment));
        let downstream = downstream.map(|object| Copy::of_downstream(deployment, object));
        access.into_iter().chain(downstream).collect()
    }

    const fn copies(&self) -> CopiesOf<'_> {
        CopiesOf {
            context: self.context,
            copies: self.copies,
        }
    }
}

fn is_waiting(written: Option<&DesiredDeployment>) -> bool {
    written.is_some_and(|written| written.deployment.spec.waiting_for_values)
}

/// Downstream resources that a deployment names, now or next.
pub fn named(deployment: &BundleDeployment) -> BTreeSet<Source> {
    let (now, next) = (&deployment.spec.options, &deployment.spec.staged_options);
    [now, next]
        .into_iter()
        .flat_map(|options| downstream(options).unwrap_or_default())
        .collect()
}

/// Where everything is that a deployment needs: copies whose source is missing stay.
fn needed(
    deployment: &BundleDeployment,
    copies: impl Iterator<Item = CopyRef>,
    secret: &Values,
) -> BTreeSet<CopyRef> {
    let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
    let downstream = named(deployment).into_iter();
    let downstream = downstream.map(|source| CopyRef {
        kind: source.kind,
        name: NamespacedName::new(namespace.clone(), source.name),
    });
    let values = (*secret == Values::Untouched).then(|| values_reference(deployment));
    copies.chain(downstream).chain(values).collect()
}

/// The Secret with a deployment's values has its name.
fn values_reference(deployment: &BundleDeployment) -> CopyRef {
    CopyRef::of(Kind::Secret, &deployment.metadata)
}
