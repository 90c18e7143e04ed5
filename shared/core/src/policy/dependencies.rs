//! Namespaces whose HelmOps and Bundles `lifecycle.dependsOn` may name.
//!
//! Messages show whether a dependency is ready, and an expression can read anything in its BundleDeployment. So one tenant would learn
//! of the releases of another one. The first rule that applies decides; the own namespace is always allowed:
//!
//! | Policies of the namespace | `lifecycle.dependsOn` may name |
//! |---|---|
//! | have `allowedDependencyNamespaces` | namespaces that an entry fully matches |
//! | restrict HelmOps in any other way | no other namespace |
//! | none of these | every namespace |
//!
//! Fleet's CRD of Policies lacks the field, and the API server prunes it if that CRD is installed. Then the other rules apply, which are
//! stricter.

use bounded_text::cut;
use helmops_api::Policy;

use super::{
    chart::PolicySubject,
    patterns::{MAX_SHOWN, Patterns},
};

/// The rules for namespaces of dependencies.
#[derive(Clone, Debug)]
pub struct Dependencies {
    /// `allowedDependencyNamespaces`.
    pub allowed: Patterns,
    /// The first Policy that restricts HelmOps.
    pub restricted_by: Option<String>,
}

impl Dependencies {
    /// Checks whether HelmOps and Bundles of another namespace may be named.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn check(&self, namespace: &str) -> Result<(), String> {
        match &self.restricted_by {
            Some(policy) if self.allowed.is_empty() => Err(format!(
                "disallowed dependency namespace {}: a dependency shows whether another release is ready, and Policy {policy:?} restricts \
                 this namespace; name a HelmOp or Bundle of this namespace, or have the other one added to allowedDependencyNamespaces of a \
                 Policy of this namespace",
                cut(namespace.to_owned(), MAX_SHOWN)
            )),
            _ => self.allowed.check(&PolicySubject {
                field: "namespace",
                text: namespace,
                candidates: Ok(vec![namespace.into()]),
            }),
        }
    }
}

/// Whether a Policy restricts HelmOps or Bundles. Defaults, and what applies to `GitRepos`, do not.
pub fn restricts(policy: &Policy) -> bool {
    let of_helm_ops = policy.helm_op.as_ref().is_some_and(|helm_op| {
        let lists = [
            &helm_op.allowed_helm_secret_names,
            &helm_op.allowed_helm_repo_patterns,
            &helm_op.allowed_chart_patterns,
        ];
        lists.iter().any(|list| !list.is_empty())
    });
    policy.require_service_account
        || !policy.allowed_service_accounts.is_empty()
        || !policy.allowed_downstream_resources.is_empty()
        || of_helm_ops
}
