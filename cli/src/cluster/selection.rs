//! Which objects a command is about: `-A` and `-l`, as in kubectl.

use std::fmt;

use helmops_api::labels;

use super::Cluster;

/// The labels of the BundleDeployments of a HelmOp, which are in the namespaces of its clusters.
pub fn deployments_of(namespace: &str, name: &str) -> String {
    format!(
        "{}={namespace},{}={name}",
        labels::BUNDLE_NAMESPACE,
        labels::BUNDLE_NAME
    )
}

/// The flags that select objects of a list.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SelectionArgs {
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only objects whose labels match, such as app=web or tier!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
}

impl SelectionArgs {
    /// The namespaces that are selected. `-A` takes precedence over `-n`, as in kubectl.
    pub fn scope<'c>(&self, cluster: &'c Cluster) -> Scope<'c> {
        if self.all_namespaces {
            Scope::All
        } else {
            Scope::Namespace(&cluster.namespace)
        }
    }
}

/// Namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// All.
    All,
    /// One.
    Namespace(&'a str),
}

impl Scope<'_> {
    /// The flag that selects them in another command.
    pub fn flag(self) -> String {
        match self {
            Self::All => "-A".to_owned(),
            Self::Namespace(namespace) => format!("-n {namespace}"),
        }
    }
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("any namespace"),
            Self::Namespace(namespace) => write!(f, "namespace {namespace:?}"),
        }
    }
}
