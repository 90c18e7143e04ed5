//! The objects that show what has become of a change.

use helmops_api::{Bundle, BundleDeployment, HelmOp};

use crate::{
    cluster::{
        Cluster,
        selection::{Scope, deployments_of},
    },
    failure::Failure,
};

/// A HelmOp with all that follows from it.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub helmop: HelmOp,
    /// Its Bundle, if there is one.
    pub bundle: Option<Bundle>,
    /// The deployments to clusters.
    pub deployments: Vec<BundleDeployment>,
}

/// Which objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The HelmOp alone.
    HelmOp,
    /// The HelmOp and its Bundle.
    Bundle,
    /// The HelmOp and the deployments to clusters.
    Deployments,
}

/// Reads the objects.
pub async fn observe(cluster: &Cluster, name: &str, depth: Depth) -> Result<Observed, Failure> {
    let namespace = &cluster.namespace;
    let mut observed = Observed {
        helmop: cluster.get(namespace, name).await?,
        ..Observed::default()
    };
    match depth {
        Depth::HelmOp => {}
        Depth::Bundle => observed.bundle = cluster.find(namespace, name).await?,
        Depth::Deployments => observed.deployments = deployments(cluster, name).await?,
    }
    Ok(observed)
}

/// The deployments of a HelmOp, in the namespaces of all clusters.
async fn deployments(cluster: &Cluster, name: &str) -> Result<Vec<BundleDeployment>, Failure> {
    let selector = deployments_of(&cluster.namespace, name);
    let list = cluster
        .list::<BundleDeployment>(Scope::All, Some(&selector))
        .await?;
    // One that does not decode is reported by the controller; it cannot be waited for.
    Ok(list.iter().filter_map(|item| item.valid().cloned()).collect())
}
