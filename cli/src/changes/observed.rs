//! The objects that show what has become of a change.

use helmops_api::{Bundle, BundleDeployment, Decoded, HelmOp, labels};
use kube::{Api, api::ListParams};

use super::patch::failure;
use crate::{cluster::Cluster, failure::Failure};

/// A HelmOp with all that follows from it.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The HelmOp.
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
    let (client, namespace) = (&cluster.client, &cluster.namespace);
    let helmop = Api::<HelmOp>::namespaced(client.clone(), namespace)
        .get(name)
        .await;
    let helmop = helmop.map_err(|error| failure(&error, name, namespace))?;
    let mut observed = Observed {
        helmop,
        ..Observed::default()
    };
    match depth {
        Depth::HelmOp => {}
        Depth::Bundle => {
            let bundle = Api::<Bundle>::namespaced(client.clone(), namespace)
                .get_opt(name)
                .await;
            observed.bundle = bundle.map_err(|error| {
                Failure::because(format!("cannot read Bundle {namespace}/{name}"), &error)
            })?;
        }
        Depth::Deployments => observed.deployments = deployments(cluster, name).await?,
    }
    Ok(observed)
}

/// The deployments of a HelmOp, in the namespaces of all clusters.
async fn deployments(cluster: &Cluster, name: &str) -> Result<Vec<BundleDeployment>, Failure> {
    let selector = format!(
        "{}={name},{}={}",
        labels::HELM_NAME,
        labels::BUNDLE_NAMESPACE,
        cluster.namespace
    );
    let list = Api::<Decoded<BundleDeployment>>::all(cluster.client.clone())
        .list(&ListParams::default().labels(&selector))
        .await;
    let list = list.map_err(|error| {
        Failure::because("cannot list the BundleDeployments of all clusters", &error)
            .with_hint("add --no-wait if you may not read the namespaces of clusters")
    })?;
    // One that does not decode is reported by the controller; it cannot be waited for.
    Ok(list
        .items
        .iter()
        .filter_map(|item| item.valid().cloned())
        .collect())
}
