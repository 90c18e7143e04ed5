//! The values of a release: those of the BundleDeployment, and those of `valuesFrom`.

use helmops_api::BundleDeployment;
use helmops_core::targeting::identity::values_hash;
use helmops_helm::{
    outcome::SecretTexts,
    values_from::{secret_texts, values_from},
};
use helmops_release::{names::name_of, report::Blocked};
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::error::{AgentError, Lacking};

/// The values of a release.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// In the order in which Helm merges them.
    pub documents: Vec<Vec<u8>>,
    /// The texts of those that come from Secrets.
    pub secrets: SecretTexts,
}

/// The values in the order in which Helm merges them: later ones override earlier ones.
///
/// `upstream` reads the Secret of the BundleDeployment, and `deployer` the objects of `valuesFrom`, with the permissions of the
/// deployment.
///
/// # Errors
/// If one of them is missing or cannot be read.
pub async fn values(
    upstream: &Client,
    deployer: &Client,
    deployment: &BundleDeployment,
    release_namespace: &str,
) -> Result<Values, AgentError> {
    let own = own_values(upstream, deployment).await?;
    let referenced = values_from(deployer, &deployment.spec.options, release_namespace).await?;
    let names = [
        release_namespace,
        name_of(deployment),
        deployment
            .spec
            .options
            .helm
            .as_ref()
            .map_or("", |helm| &helm.release_name),
    ];
    Ok(Values {
        secrets: secret_texts(&referenced, &names),
        documents: own
            .into_iter()
            .chain(referenced.into_iter().map(|values| values.document))
            .collect(),
    })
}

/// The values of the BundleDeployment: in its Secret, or in itself.
async fn own_values(upstream: &Client, deployment: &BundleDeployment) -> Result<Option<Vec<u8>>, AgentError> {
    let spec = &deployment.spec;
    if spec.values_hash.is_empty() {
        let helm = spec.options.helm.as_ref();
        let values = helm.and_then(|helm| helm.values.as_ref());
        return Ok(values.map(|values| values.as_str().as_bytes().to_vec()));
    }
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    let name = name_of(deployment);
    let api = Api::<Secret>::namespaced(upstream.clone(), namespace);
    let found = bounded(api.get_opt(name)).await;
    let found = found.map_err(CallError::of("read", format_args!("Secret {namespace}/{name}")))?;
    let Some(secret) = found else {
        return Err(Lacking::Blocked(Blocked::ValuesMissing {
            secret: name.to_owned(),
        })
        .into());
    };
    let data = secret.data.unwrap_or_default();
    let key = |key| data.get(key).map_or(&[][..], |value| &value.0);
    let actual = values_hash(key("values"), key("stagedValues"));
    if actual != spec.values_hash {
        let expected = spec.values_hash.clone();
        return Err(Lacking::Blocked(Blocked::ValuesChanged { actual, expected }).into());
    }
    Ok(Some(key("values").to_vec()))
}
