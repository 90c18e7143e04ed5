//! Whether a request may take a Cluster over that has an agent already.
//!
//! A cluster that has lost its credential registers again with the same client ID, and Fleet grants that. But so may everyone with any token
//! of the workspace who knows the client ID of another cluster. What distinguishes them is the agent that the Cluster has: one that still works
//! reports at an interval. So a Cluster is taken over when its agent has not reported for one interval. Fleet's agent waits for twice as long.

use std::time::Duration;

use helmops_api::{Cluster, ClusterRegistration, labels, timestamp::until};
use k8s_openapi::jiff::Timestamp;

use crate::{agents::Patience, status::last_seen};

/// A report may be late, and clocks differ.
const TOLERANCE: Duration = Duration::from_mins(1);

/// Whether an agent may get the Cluster of its client ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// The Cluster never had an agent that reported, and no other request of its client is granted.
    New,
    /// Its agent has last reported at this time, if ever, and is not at work any more, or a person has confirmed the takeover.
    Allowed(Option<Timestamp>),
    /// Its agent has last reported at this time, and may still work; to decide again after this long.
    Wait(Timestamp, Duration),
}

/// Decides about the Cluster as it was just read. `replaces`: whether another request of its client is granted.
pub fn takeover(
    cluster: &Cluster,
    request: &ClusterRegistration,
    replaces: bool,
    patience: Patience,
    now: Timestamp,
) -> Takeover {
    let Ok(last) = last_seen(&cluster.status).parse::<Timestamp>() else {
        return if replaces {
            Takeover::Allowed(None)
        } else {
            Takeover::New
        };
    };
    let confirmed = labels::annotation(&cluster.metadata, labels::TAKEOVER_BY);
    // By the UID: names are free again when a request is deleted, and its author chooses them.
    if confirmed.is_some_and(|uid| Some(uid) == request.metadata.uid.as_deref()) {
        return Takeover::Allowed(Some(last));
    }
    let quiet = last.saturating_add(patience.interval() + TOLERANCE);
    match until(now, quiet.unwrap_or(Timestamp::MAX)) {
        Duration::ZERO => Takeover::Allowed(Some(last)),
        wait => Takeover::Wait(last, wait),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decide(last_seen: &str, confirmed: &str, replaces: bool) -> Takeover {
        let cluster = json!({
            "metadata": { "name": "c", "annotations": { labels::TAKEOVER_BY: confirmed } },
            "status": { "agent": { "lastSeen": last_seen } },
        });
        let request = json!({ "metadata": { "name": "request-a", "uid": "u-a" } });
        let patience = Patience {
            limit: Duration::from_mins(45),
            since: Timestamp::UNIX_EPOCH,
        };
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        takeover(
            &serde_json::from_value(cluster).unwrap(),
            &serde_json::from_value(request).unwrap(),
            replaces,
            patience,
            now,
        )
    }

    #[test]
    fn a_cluster_is_taken_over_when_its_agent_is_quiet_or_a_person_confirms_it() {
        let at = |time: &str| format!("2026-01-01T{time}Z").parse::<Timestamp>().unwrap();
        let wait = |time, minutes| Takeover::Wait(at(time), Duration::from_mins(minutes));
        for (last_seen, confirmed, expected) in [
            ("", "", Takeover::New),
            ("yesterday", "", Takeover::New),
            (
                "2026-01-01T11:44:00Z",
                "",
                Takeover::Allowed(Some(at("11:44:00"))),
            ),
            ("2026-01-01T11:45:00Z", "", wait("11:45:00", 1)),
            ("2026-01-01T12:00:00Z", "", wait("12:00:00", 16)),
            // The clock of the agent is ahead.
            ("2026-01-01T12:10:00Z", "", wait("12:10:00", 26)),
            ("2026-01-01T12:00:00Z", "u-b", wait("12:00:00", 16)),
            // The author of a request chooses its name.
            ("2026-01-01T12:00:00Z", "request-a", wait("12:00:00", 16)),
            (
                "2026-01-01T12:00:00Z",
                "u-a",
                Takeover::Allowed(Some(at("12:00:00"))),
            ),
        ] {
            assert_eq!(
                decide(last_seen, confirmed, false),
                expected,
                "{last_seen} {confirmed}"
            );
        }
    }

    /// Otherwise the end of the access before would not be visible.
    #[test]
    fn an_agent_that_has_never_reported_is_taken_over_too() {
        assert_eq!(decide("", "", true), Takeover::Allowed(None));
        assert_eq!(decide("yesterday", "", true), Takeover::Allowed(None));
    }
}
