//! What can go wrong with a Bundle.

use std::{fmt, time::Duration};

use helmops_shared::{
    api::Bundle, chart::version::Version, policy::Policies, reason::Reason, targeting::template::Exceeded,
};
use thiserror::Error;

use crate::{backoff::Pace, client::ApiError, memory::Failure, workers::Interrupted};

/// Why a Bundle could not be brought to its clusters, or not to all of them.
#[derive(Debug, Error)]
pub enum DeliveryError {
    /// Policies have not been seen yet.
    #[error("the Policy cache is not synced yet")]
    UnknownPolicies,
    /// The process stops, or leads no more.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Something that is passed on could not be read.
    #[error("{0}")]
    Unread(String),
    /// A name is taken by something of somebody else's, whose end is not seen.
    #[error("{0}")]
    Taken(String),
    /// Values took too long, so that not every cluster has its own. The machine may be less busy later.
    #[error("{0}")]
    Overtime(Exceeded),
    /// What is seen of an object is not what it is now.
    #[error("{0} is seen as it was before")]
    Behind(String),
    /// An object could not be read or written.
    #[error("could not {doing} {what}: {source}")]
    Api {
        /// What was tried, in a verb.
        doing: &'static str,
        /// The object.
        what: String,
        /// Why.
        source: ApiError,
    },
}

impl Failure for DeliveryError {
    fn reason(&self) -> Reason {
        match self {
            Self::UnknownPolicies | Self::Interrupted(_) | Self::Behind(_) => Reason::Progressing,
            Self::Taken(_) => Reason::BundleConflict,
            Self::Overtime(_) => Reason::NotReady,
            Self::Unread(_) | Self::Api { .. } => Reason::APIError,
        }
    }

    fn pace(&self) -> Option<Pace> {
        match self {
            Self::UnknownPolicies | Self::Interrupted(Interrupted::Stopping) => None,
            Self::Interrupted(Interrupted::LeadershipLost) | Self::Behind(_) => Some(Pace::CONFLICT),
            Self::Taken(_) => Some(Pace::SLOW),
            // Each further try takes as long again.
            Self::Overtime(_) => Some(Pace::SLOW.at_least(Duration::from_mins(1))),
            Self::Api { .. } if self.is_benign() => Some(Pace::CONFLICT),
            Self::Unread(_) | Self::Api { .. } => Some(Pace::TRANSIENT),
        }
    }

    fn is_benign(&self) -> bool {
        match self {
            Self::UnknownPolicies | Self::Interrupted(_) | Self::Behind(_) => true,
            Self::Unread(_) | Self::Taken(_) | Self::Overtime(_) => false,
            Self::Api { source, .. } => source.is_benign(),
        }
    }
}

impl DeliveryError {
    /// One of a call. To be given a verb and the object.
    pub fn of(doing: &'static str, what: impl fmt::Display) -> impl FnOnce(ApiError) -> Self {
        move |source| Self::Api {
            doing,
            what: what.to_string(),
            source,
        }
    }

    /// How much it says: of several, the one that must be told of and is tried again first.
    pub fn weight(&self) -> u8 {
        match self {
            Self::UnknownPolicies | Self::Interrupted(_) => 0,
            Self::Taken(_) => 1,
            _ if self.is_benign() => 3,
            _ => 2,
        }
    }
}

/// Why a Bundle is not brought to any cluster before somebody changes it. Clusters keep what they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In a word.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
}

impl Refusal {
    /// One with an error's words.
    pub fn new(reason: Reason, error: &impl fmt::Display) -> Self {
        Self {
            reason,
            message: error.to_string(),
        }
    }
}

/// Refuses Bundles that Policies forbid, that lack a version, and that are not made from a chart.
pub fn check(bundle: &Bundle, policies: &Policies) -> Result<(), Refusal> {
    policies
        .check_bundle(bundle)
        .map_err(|errors| Refusal::new(Reason::PolicyViolation, &errors))?;
    if !bundle.spec.resources.is_empty() {
        let message = "spec.resources: this Bundle carries files, which helmops does not deploy; use a HelmOp, or \
                       Fleet's own controller";
        return Err(Refusal::new(Reason::UnsupportedBundle, &message));
    }
    let helm = bundle
        .spec
        .options
        .helm
        .as_ref()
        .filter(|_| bundle.spec.helm_op_options.is_some());
    match helm.map(|helm| &*helm.version) {
        Some(version) if !version.is_empty() && !is_exact(version) => {
            let message = format!(
                "chart version cannot be deployed; check HelmOp status for more details: spec.helm.version: Invalid value: \
                 {version:?}: a Bundle names one version, such as 1.2.3"
            );
            Err(Refusal::new(Reason::InvalidVersion, &message))
        }
        _ => Ok(()),
    }
}

fn is_exact(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    Version::parse_strict(version).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(spec: &Value) -> Option<Refusal> {
        let object = json!({ "metadata": { "name": "web", "namespace": "fleet" }, "spec": spec });
        let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
        check(&bundle, &Policies::default()).err()
    }

    #[test]
    fn only_one_version_can_be_deployed() {
        for version in ["1.2.3", "v1.2.3", "1.2.3-rc.1+b", ""] {
            let spec = json!({ "helmOpOptions": {}, "helm": { "chart": "web", "version": version } });
            assert_eq!(refused(&spec), None, "{version}");
        }
        for version in ["1.x.x", "1.2", "^1", "vv1.2.3"] {
            let spec = json!({ "helmOpOptions": {}, "helm": { "chart": "web", "version": version } });
            let refusal = refused(&spec).unwrap();
            assert_eq!(refusal.reason, Reason::InvalidVersion);
            assert!(
                refusal.message.contains("version cannot be deployed"),
                "{}",
                refusal.message
            );
            assert!(refusal.message.contains(version), "{}", refusal.message);
        }
        assert_eq!(
            refused(&json!({ "helm": { "chart": "web", "version": "1.x" } })),
            None,
            "no HelmOp's"
        );
    }

    #[test]
    fn files_are_somebody_elses() {
        let refusal = refused(&json!({ "resources": [{ "name": "a.yaml" }] })).unwrap();
        assert_eq!(refusal.reason, Reason::UnsupportedBundle);
    }
}
