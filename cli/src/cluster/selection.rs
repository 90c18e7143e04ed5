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

/// The name of a HelmOp in an argument: alone, or with its type as kubectl and `-o name` print it.
///
/// # Errors
/// If it is empty, or names another type.
pub fn helmop_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) if is_helmop(prefix) => name,
        Some((prefix, _)) => {
            return Err(format!(
                "{prefix:?} is not a HelmOp; name it as NAME or helmop/NAME"
            ));
        }
    };
    match name {
        "" => Err("must have a name".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// As kubectl takes types: in the singular or plural, with or without version and group.
fn is_helmop(r#type: &str) -> bool {
    let (name, group) = r#type.split_once('.').unwrap_or((r#type, ""));
    matches!(name.to_ascii_lowercase().as_str(), "helmop" | "helmops")
        && ["", "fleet.cattle.io", "v1alpha1.fleet.cattle.io"].contains(&group)
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    All,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_with_its_type() {
        for (text, expected) in [
            ("web", Some("web")),
            ("helmop/web", Some("web")),
            ("HelmOps/web", Some("web")),
            ("helmop.fleet.cattle.io/web", Some("web")),
            ("helmops.v1alpha1.fleet.cattle.io/web", Some("web")),
            ("bundle/web", None),
            ("helmop.example.com/web", None),
            ("helmop/", None),
            ("", None),
        ] {
            assert_eq!(helmop_name(text).ok().as_deref(), expected, "{text}");
        }
    }
}
