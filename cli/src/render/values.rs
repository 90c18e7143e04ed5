//! The values that a chart gets on a cluster, merged as the agent merges them.

use std::{error::Error, path::Path};

use helmops_api::BundleDeploymentOptions;
use helmops_helm::{
    values_files::ChartValuesFiles,
    values_from::{layers, read, sources},
};
use helmops_release::values::{self, ValuesLayer};
use serde_json::{Map, Value};

use super::Account;
use crate::failure::Failure;

/// How a release is deployed on a cluster, as far as that is about its values.
#[derive(Clone, Copy, Debug)]
pub struct ValuesOf<'r> {
    /// The name of the cluster, for messages.
    pub cluster: &'r str,
    pub options: &'r BundleDeploymentOptions,
    /// The values of the options for this cluster, as JSON; empty for none.
    pub own: &'r str,
    /// The namespace of the release.
    pub namespace: &'r str,
}

/// All values, in the order in which they override each other.
#[derive(Debug)]
pub struct ReleaseValues {
    cluster: String,
    layers: Vec<ValuesLayer>,
}

impl ReleaseValues {
    /// Reads them: the account reads what `valuesFrom` names, and the archive has the values files. Without them, those are left out.
    ///
    /// # Errors
    /// If some of them are missing or cannot be read.
    pub async fn read(
        of: ValuesOf<'_>,
        account: Option<&Account>,
        archive: Option<&Path>,
    ) -> Result<Self, Failure> {
        let ValuesOf {
            cluster,
            options,
            own,
            namespace,
        } = of;
        let lifecycle = options.lifecycle.as_deref();
        let mut all = Vec::new();
        if let Some(archive) = archive {
            let files = ChartValuesFiles::of(options, lifecycle);
            all = files.read(archive).map_err(|error| unknown(cluster, &error))?;
        }
        let mut referenced = Vec::new();
        if let Some(account) = account {
            let sources = sources(options, lifecycle, namespace);
            let read = read(&account.client, &sources).await;
            referenced = read.map_err(|error| unknown(cluster, &error))?;
        }
        let own = (!own.is_empty()).then(|| own.as_bytes().to_vec());
        all.extend(layers(own, referenced));
        Ok(Self {
            cluster: cluster.to_owned(),
            layers: all,
        })
    }

    /// The merged values.
    ///
    /// # Errors
    /// If some are no values. The message has no value.
    pub fn merged(&self) -> Result<Map<String, Value>, Failure> {
        values::merged(&self.layers).map_err(|error| unknown(&self.cluster, &error))
    }
}

fn unknown(cluster: &str, error: &dyn Error) -> Failure {
    Failure::because(format!("the values of cluster {cluster} are not known"), error)
}
