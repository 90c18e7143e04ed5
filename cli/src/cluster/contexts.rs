//! The contexts of workload clusters, which commands read beside the management cluster.

use std::collections::BTreeMap;

use super::ClusterArgs;
use crate::failure::Failure;

/// The contexts by the names of the Clusters.
#[derive(Debug)]
pub struct Contexts {
    current: ClusterArgs,
    named: BTreeMap<String, String>,
}

impl Contexts {
    /// Those of flags, such as `edge-1=edge`.
    ///
    /// # Errors
    /// If one is not `CLUSTER=CONTEXT`.
    pub fn parse(texts: &[String], current: &ClusterArgs) -> Result<Self, Failure> {
        let mut named = BTreeMap::new();
        for text in texts {
            let Some((name, context)) = text.split_once('=') else {
                return Err(Failure::unable(format!(
                    "--cluster-context {text:?} is not CLUSTER=CONTEXT"
                )));
            };
            named.insert(name.to_owned(), context.to_owned());
        }
        Ok(Self {
            current: current.clone(),
            named,
        })
    }

    /// Whether a context is named.
    pub fn are_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// The flags for a Cluster. Without any context all Clusters are taken for the current one.
    pub fn of(&self, cluster: &str) -> Option<ClusterArgs> {
        let mut args = self.current.clone();
        match self.named.get(cluster) {
            Some(context) => args.context = Some(context.clone()),
            None if self.named.is_empty() => {}
            None => return None,
        }
        Some(args)
    }
}
