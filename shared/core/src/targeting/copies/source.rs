//! Which objects are copied to a cluster: what a Bundle and its deployments name.

use std::{collections::BTreeSet, fmt};

use helmops_api::{Bundle, BundleDeployment, BundleDeploymentOptions, options::DownstreamResource};

/// Kind of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyKind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl fmt::Display for CopyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

/// Kind and name of an object to copy, in the namespace of the Bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceRef {
    /// Its kind.
    pub kind: CopyKind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// A downstream resource is neither a Secret nor a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported kind for object to copy to downstream: {0:?}; use Secret or ConfigMap")]
pub struct UnsupportedKind(pub String);

/// The objects that the options of a deployment copy into the cluster.
///
/// # Errors
/// If one of them is neither a Secret nor a ConfigMap.
pub fn downstream(options: &BundleDeploymentOptions) -> Result<Vec<SourceRef>, UnsupportedKind> {
    options.downstream_resources.iter().map(source).collect()
}

/// The downstream resources of a deployment, current and staged.
pub fn referenced_sources(deployment: &BundleDeployment) -> BTreeSet<SourceRef> {
    [&deployment.spec.options, &deployment.spec.staged_options]
        .into_iter()
        .flat_map(|options| downstream(options).unwrap_or_default())
        .collect()
}

/// The access Secret of a Bundle, if it has one.
pub fn access_source(bundle: &Bundle) -> Option<SourceRef> {
    let options = bundle.spec.helm_op_options.as_ref()?;
    (!options.secret_name.is_empty()).then(|| SourceRef {
        kind: CopyKind::Secret,
        name: options.secret_name.clone(),
    })
}

fn source(resource: &DownstreamResource) -> Result<SourceRef, UnsupportedKind> {
    let kind = [CopyKind::Secret, CopyKind::ConfigMap]
        .into_iter()
        .find(|kind| kind.to_string().eq_ignore_ascii_case(&resource.kind));
    Ok(SourceRef {
        kind: kind.ok_or_else(|| UnsupportedKind(resource.kind.clone()))?,
        name: resource.name.clone(),
    })
}
