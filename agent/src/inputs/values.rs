//! The values of a release: those of the BundleDeployment, and those of `valuesFrom`.

use std::path::Path;

use go_formats::json;
use helmops_api::BundleDeployment;
use helmops_core::targeting::identity::values_hash;
use helmops_helm::{
    Failure, FailureReason,
    outcome::SecretTexts,
    values_files::ChartValuesFiles,
    values_from::{digest, layers, read, secret_texts, sources},
};
use helmops_release::{
    names::name_of,
    report::Blocked,
    values::{self, ValuesLayer},
};
use helmops_runtime::client::{CallError, bounded};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::task::spawn_blocking;

use crate::{
    charts::has_files_of_bundle,
    error::{AgentError, Lacking},
};

/// The values of a release, besides those of files of its chart.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// In the order in which they override each other.
    pub layers: Vec<ValuesLayer>,
    /// The digest of those of references; empty if there are none.
    pub digest: String,
    /// The texts of those that come from Secrets.
    pub secrets: SecretTexts,
}

/// The values of a release.
///
/// `upstream` reads the Secret of the BundleDeployment, and `deployer` the objects of `valuesFrom`, with the permissions of the
/// deployment.
///
/// # Errors
/// If some of them are missing or cannot be read.
pub async fn values(
    upstream: &Client,
    deployer: &Client,
    deployment: &BundleDeployment,
    release_namespace: &str,
) -> Result<Values, AgentError> {
    let own = own_values(upstream, deployment).await?;
    let (options, lifecycle) = (&deployment.spec.options, deployment.spec.lifecycle.as_deref());
    let sources = sources(options, lifecycle, release_namespace);
    let referenced = read(deployer, &sources).await?;
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
    let secrets = secret_texts(&referenced, &names);
    Ok(Values {
        digest: if sources.is_empty() {
            String::new()
        } else {
            digest(&referenced)
        },
        layers: layers(own, referenced),
        secrets,
    })
}

/// All values of a release.
#[derive(Clone, Debug, Default)]
pub struct MergedValues {
    /// As JSON.
    pub json: Vec<u8>,
    /// The digest of those of references; empty if there are none.
    pub digest: String,
    /// The texts of those that come from Secrets.
    pub secrets: SecretTexts,
}

/// The merged values, with those of files of the chart.
///
/// # Errors
/// If some are no values, or the chart does not have a file.
pub async fn merged(
    deployment: &BundleDeployment,
    archive: &Path,
    values: Values,
) -> Result<MergedValues, AgentError> {
    let Values {
        layers,
        digest,
        secrets,
    } = values;
    let (options, lifecycle) = (&deployment.spec.options, deployment.spec.lifecycle.as_deref());
    // Those of a Bundle with files are in its values already.
    let files = if has_files_of_bundle(deployment) {
        ChartValuesFiles::default()
    } else {
        ChartValuesFiles::of(options, lifecycle)
    };
    let archive = archive.to_owned();
    let merged = spawn_blocking(move || {
        let files = files.read(&archive).map_err(|error| error.to_string())?;
        let all: Vec<_> = files.into_iter().chain(layers).collect();
        // The error has no value.
        values::merged(&all).map_err(|error| error.to_string())
    });
    let merged = merged.await.map_err(|error| error.to_string()).flatten();
    let merged = merged.map_err(|error| Failure::new(FailureReason::ValuesUnusable, error))?;
    Ok(MergedValues {
        json: json::encode(&merged.into()).into_bytes(),
        digest,
        secrets,
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
