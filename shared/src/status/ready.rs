//! Whether everything that a HelmOp asks for is deployed and ready.

use super::condition::State;
use crate::{
    api::{Bundle, HelmOp},
    reason::Reason,
};

/// Summarises a Bundle that was written for a HelmOp: ready only where at least one cluster is targeted, and all of them
/// have what the Bundle says now.
pub fn ready(helmop: &HelmOp, bundle: Option<&Bundle>) -> State {
    let namespace = helmop.metadata.namespace.as_deref().unwrap_or_default();
    let Some(status) = bundle.and_then(|bundle| bundle.status.as_ref()) else {
        return State::False(
            Reason::Progressing,
            "the Bundle is written; nothing has been deployed yet".to_owned(),
        );
    };
    if status.observed_generation != bundle.and_then(|bundle| bundle.metadata.generation) {
        return State::False(
            Reason::Progressing,
            "the Bundle has changed; the change is being rolled out".to_owned(),
        );
    }
    let counts = status.summary.clone().unwrap_or_default();
    let (ready, desired) = (
        counts.ready.unwrap_or_default(),
        counts.desired_ready.unwrap_or_default(),
    );
    if desired == 0 {
        return State::False(
            Reason::NoClusters,
            format!("no cluster is targeted: spec.targets match no Cluster in namespace {namespace}"),
        );
    }
    let told = status
        .conditions
        .iter()
        .find(|condition| condition.r#type == "Ready");
    match told {
        Some(told) if told.status == "False" || ready < desired => {
            let why = if told.message.is_empty() {
                String::new()
            } else {
                format!(": {}", told.message)
            };
            State::False(
                Reason::NotReady,
                format!("{ready} of {desired} clusters are ready{why}"),
            )
        }
        None if ready < desired => State::False(
            Reason::NotReady,
            format!("{ready} of {desired} clusters are ready"),
        ),
        _ => State::True(Reason::Ready),
    }
}
