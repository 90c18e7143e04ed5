//! Allowed downstream resources: Secrets and ConfigMaps that are copied to clusters.
//!
//! Agents copy them with their own permissions into the namespace of the release, over an object of the same name, whichever
//! ServiceAccount deploys the release. So `downstreamResources` can move any Secret of the namespace to a cluster, and can
//! replace a ConfigMap such as `coredns` there. The first rule that applies decides:
//!
//! | Policies of the namespace | what `downstreamResources` may name |
//! |---|---|
//! | have `allowedDownstreamResources` | what an entry fully matches, as `Secret/name` or `ConfigMap/name` |
//! | require a ServiceAccount | nothing |
//! | have `helmOp.allowedHelmSecretNames` | every ConfigMap, and Secrets of these names |
//! | none of these | everything |
//!
//! Fleet's CRD of Policies lacks `allowedDownstreamResources`, and the API server prunes the field if that CRD is installed.
//! Then the other rules apply, which are stricter.

use bounded_text::cut;
use helmops_api::options::DownstreamResource;

use super::{
    chart::PolicySubject,
    names::Names,
    patterns::{MAX_SHOWN, Patterns},
};

/// The rules for downstream resources.
pub struct Rules<'p> {
    /// `allowedDownstreamResources`.
    pub allowed: &'p Patterns,
    /// The Policy that requires a ServiceAccount.
    pub requires_service_account: Option<&'p str>,
    /// Allowed names of access Secrets.
    pub secrets: &'p Names,
}

impl Rules<'_> {
    /// Checks whether a resource may be copied to clusters.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn check(&self, resource: &DownstreamResource) -> Result<(), String> {
        let kind = canonical(&resource.kind);
        let text = format!("{kind}/{}", resource.name);
        if !self.allowed.is_empty() {
            return self.allowed.check(&PolicySubject {
                field: "name",
                text: &text,
                candidates: Ok(vec![text.as_str().into()]),
            });
        }
        let shown = cut(text, MAX_SHOWN);
        if let Some(policy) = self.requires_service_account {
            return Err(format!(
                "disallowed downstream resource {shown}: agents copy it with their own permissions, not with those of the \
                 ServiceAccount that requireServiceAccount of Policy {policy:?} demands; remove it, or have it added to \
                 allowedDownstreamResources of a Policy of this namespace"
            ));
        }
        if kind == CONFIG_MAP || self.secrets.allows(&resource.name) {
            return Ok(());
        }
        let (set, location) = (
            self.secrets.allowed.allowed_set(),
            self.secrets.allowed.location(),
        );
        Err(format!(
            "disallowed downstream resource {shown}: {} not in allowed set {set}; use one of these, or have it added to \
             {location}, or to allowedDownstreamResources of a Policy of this namespace",
            cut(resource.name.clone(), MAX_SHOWN)
        ))
    }
}

const SECRET: &str = "Secret";
const CONFIG_MAP: &str = "ConfigMap";

/// A kind as Kubernetes spells it. Agents ignore its case, and reject other kinds.
fn canonical(kind: &str) -> &str {
    [SECRET, CONFIG_MAP]
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(kind))
        .unwrap_or(kind)
}
