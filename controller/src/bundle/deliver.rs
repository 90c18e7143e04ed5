//! One cluster: its copies, then its BundleDeployment.

use std::collections::BTreeSet;

use helmops_shared::{
    api::{Bundle, BundleDeployment},
    targeting::{
        Target, Turn,
        copies::{Copy, Kind, Object, Source, downstream},
        deployment::{Around, Secret as Values, SecretValues, Written, access_secret, deployment},
    },
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    DeliveryError, apply,
    copies::{CopiesOf, CopyError, place},
    sources::{self, Missing, Sources},
};
use crate::{
    client::bounded,
    context::Context,
    watch::{Copies, Place},
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

/// Why a cluster does not get what is wanted.
enum Trouble {
    /// Somebody must change something.
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
    /// Brings a cluster what it is its turn for.
    pub async fn to(&self, target: &Target<'_>, turn: Turn) -> Delivered {
        let mut delivered = Delivered::default();
        match Box::pin(self.bring(target, turn, &mut delivered.deployment)).await {
            Ok(()) => {}
            Err(Trouble::Problem(problem)) => delivered.problem = Some(problem),
            Err(Trouble::Failure(failure)) => {
                if !failure.is_passing() {
                    delivered.problem = Some(failure.to_string());
                }
                delivered.failure = Some(failure);
            }
        }
        delivered
    }

    async fn bring(
        &self,
        target: &Target<'_>,
        turn: Turn,
        stored: &mut Option<BundleDeployment>,
    ) -> Result<(), Trouble> {
        if let Some(leaving) = target
            .existing
            .filter(|existing| existing.metadata.deletion_timestamp.is_some())
        {
            // It is made anew when it is gone.
            return apply::withdraw_one(self.context, leaving)
                .await
                .map_err(Trouble::Failure);
        }
        let wanted = match &target.wanted {
            Ok(wanted) => wanted,
            Err(error) => return Err(Trouble::Problem(error.to_string())),
        };
        if target.namespace().is_none() {
            return Err(Trouble::Problem("the Cluster has no namespace yet".to_owned()));
        }
        let downstream = downstream(&wanted.options).map_err(|error| Trouble::Problem(error.to_string()))?;
        let downstream = self.found(downstream)?;
        let access = self.found(sources::access(self.bundle))?;
        let Some(Written { deployment, secret }) = self.written(target, turn, &downstream).await? else {
            return Ok(());
        };
        let copies = self.copies_for(&deployment, &secret, &access, &downstream);
        let deployment = apply::merged(deployment, target.existing);
        for copy in &copies {
            self.ensure(copy, &deployment).await?;
        }
        let is_new = target.existing.is_none();
        let deployment = apply::deployment(self.context, deployment, target.existing).await;
        let deployment = deployment.map_err(Trouble::Failure)?;
        if is_new {
            // Only now is there an owner.
            for copy in &copies {
                self.ensure(copy, &deployment).await?;
            }
        }
        let mut needed: BTreeSet<Place> = copies.iter().map(place).collect();
        if secret == Values::Untouched {
            needed.insert(place_of_values(&deployment));
        }
        let cleared = self.copies().clear(&deployment, &needed).await;
        *stored = Some(deployment);
        cleared.map_err(Trouble::Failure)
    }

    /// What the sources hold.
    fn found(&self, sources: impl IntoIterator<Item = Source>) -> Result<Vec<&Object>, Trouble> {
        let mut objects = Vec::new();
        for source in sources {
            match self.sources.get(&source) {
                Some(Ok(object)) => objects.push(object),
                Some(Err(missing)) => return Err(missing.into()),
                None => return Err(Trouble::Problem(format!("{source} was not looked for"))),
            }
        }
        Ok(objects)
    }

    /// The deployment as it is to be. Its Secret is read only where what is in it is not known otherwise.
    async fn written(
        &self,
        target: &Target<'_>,
        turn: Turn,
        downstream: &[&Object],
    ) -> Result<Option<Written>, Trouble> {
        let mut versions: Vec<_> = downstream
            .iter()
            .map(|object| format!("{} {}", object.kind(), object.version()))
            .collect();
        versions.sort();
        let copied = versions.join(", ");
        let around = |secret| Around {
            secret,
            copied: &copied,
        };
        let written = deployment(self.bundle, target, turn, around(None));
        match (&written, target.existing) {
            (
                Some(Written {
                    secret: Values::Untouched,
                    ..
                }),
                Some(existing),
            ) => {
                let secret = self.read_values(existing).await.map_err(Trouble::Failure)?;
                Ok(deployment(self.bundle, target, turn, around(secret.as_ref())))
            }
            _ => Ok(written),
        }
    }

    async fn read_values(&self, existing: &BundleDeployment) -> Result<Option<SecretValues>, DeliveryError> {
        let (_, namespace, name) = place_of_values(existing);
        let api = Api::<Secret>::namespaced(self.context.client.clone(), &namespace);
        let secret = bounded(api.get_opt(&name)).await;
        let secret = secret.map_err(DeliveryError::of(
            "read",
            format_args!("Secret {namespace}/{name}"),
        ))?;
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let text = |key: &str| {
            data.get(key)
                .and_then(|bytes| String::from_utf8(bytes.0.clone()).ok())
        };
        Ok(text("values")
            .zip(text("stagedValues"))
            .map(|(values, staged)| SecretValues { values, staged }))
    }

    fn copies_for(
        &self,
        deployment: &BundleDeployment,
        secret: &Values,
        access: &[&Object],
        downstream: &[&Object],
    ) -> Vec<Copy> {
        let values = match secret {
            Values::Holds(values) => Some(Copy::of_values(deployment, values)),
            Values::None | Values::Untouched => None,
        };
        let access = access
            .iter()
            .filter_map(|object| match (object, access_secret(self.bundle)) {
                (Object::Secret(source), Some(name)) => Some(Copy::of_access(deployment, name, source)),
                _ => None,
            });
        let downstream = downstream
            .iter()
            .map(|object| Copy::of_downstream(deployment, object));
        values.into_iter().chain(access).chain(downstream).collect()
    }

    async fn ensure(&self, copy: &Copy, deployment: &BundleDeployment) -> Result<(), Trouble> {
        self.copies()
            .ensure(copy, deployment)
            .await
            .map_err(|error| match error {
                CopyError::Taken(problem) => Trouble::Problem(problem),
                CopyError::Failed(error) => Trouble::Failure(error),
            })
    }

    const fn copies(&self) -> CopiesOf<'_> {
        CopiesOf {
            context: self.context,
            copies: self.copies,
        }
    }
}

/// The Secret with a deployment's values has its name.
fn place_of_values(deployment: &BundleDeployment) -> Place {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    (
        Kind::Secret,
        text(&deployment.metadata.namespace),
        text(&deployment.metadata.name),
    )
}
