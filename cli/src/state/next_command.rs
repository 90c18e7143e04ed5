//! The command to run next.

use helmops_model::{deployment_state::DeploymentState, reason::Reason};
use serde::Serialize;

use super::{clusters::ClusterReport, conditions::ConditionReport, summary::HelmOpSummary};

/// A command, and what it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NextCommand {
    /// The command.
    pub command: String,
    /// What it shows or does.
    pub purpose: &'static str,
}

/// A command about a HelmOp, as a hint has it.
pub fn about(command: &str, namespace: &str, name: &str) -> String {
    format!("kubectl helmop {command} {name} -n {namespace}")
}

/// What to run next, if anything is worth it.
pub fn next(
    summary: &HelmOpSummary,
    conditions: &[ConditionReport],
    clusters: &[ClusterReport],
) -> Option<NextCommand> {
    let of = |command: &str, purpose| {
        Some(NextCommand {
            command: about(command, &summary.namespace, &summary.name),
            purpose,
        })
    };
    let with_status = |name: &str, status: &str| {
        conditions
            .iter()
            .find(|condition| condition.r#type == name && condition.status == status)
    };
    if let Some(refused) = with_status("Accepted", "False").or_else(|| with_status("Polled", "False")) {
        return match group(&refused.reason) {
            Some(reasons) if reasons == Reason::RESOLUTION => {
                of("resolve", "shows the versions, and why each is rejected")
            }
            _ => Some(NextCommand {
                command: format!("kubectl helmop explain {}", refused.reason),
                purpose: "explains the reason",
            }),
        };
    }
    if summary.reason == Reason::AgentSilent.as_str() || summary.reason == Reason::NoClusters.as_str() {
        return Some(NextCommand {
            command: "kubectl helmop cluster list -A".to_owned(),
            purpose: "shows the clusters and when their agents last reported",
        });
    }
    if summary.state == "Suspended" {
        return of("resume", "deploys again");
    }
    let failed = |cluster: &&ClusterReport| {
        cluster.state == DeploymentState::ErrApplied.as_str() || cluster.failures > 0
    };
    if let Some(failed) = clusters.iter().find(failed) {
        return Some(NextCommand {
            command: format!(
                "{} --cluster {}",
                about("history", &summary.namespace, &summary.name),
                failed.cluster
            ),
            purpose: "shows the attempts on this cluster and their errors",
        });
    }
    if summary.state == DeploymentState::Modified.as_str()
        || summary.state == DeploymentState::NotReady.as_str()
    {
        return of("tree", "shows the objects that are not ready");
    }
    if summary.state != "Ready" {
        return of("status --watch", "shows each change");
    }
    None
}

fn group(reason: &str) -> Option<&'static [Reason]> {
    let groups = Reason::GROUPS.iter().map(|(_, reasons)| *reasons);
    groups
        .into_iter()
        .find(|reasons| reasons.iter().any(|known| known.as_str() == reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_follows_from_the_state() {
        let condition = |r#type: &str, status: &str, reason: &str| ConditionReport {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            ..ConditionReport::default()
        };
        let failed = ClusterReport {
            cluster: "edge/c1".to_owned(),
            state: "ErrApplied".to_owned(),
            ..ClusterReport::default()
        };
        for (state, reason, conditions, clusters, expected) in [
            ("Ready", "", vec![], vec![], None),
            (
                "Stalled",
                "NoMatchingVersion",
                vec![condition("Accepted", "False", "NoMatchingVersion")],
                vec![],
                Some("kubectl helmop resolve web -n shop"),
            ),
            (
                "Stalled",
                "InvalidVersion",
                vec![condition("Accepted", "False", "InvalidVersion")],
                vec![],
                Some("kubectl helmop explain InvalidVersion"),
            ),
            (
                "Ready",
                "Timeout",
                vec![condition("Polled", "False", "Timeout")],
                vec![],
                Some("kubectl helmop resolve web -n shop"),
            ),
            (
                "NotReady",
                "NoClusters",
                vec![],
                vec![],
                Some("kubectl helmop cluster list -A"),
            ),
            (
                "Suspended",
                "",
                vec![],
                vec![],
                Some("kubectl helmop resume web -n shop"),
            ),
            (
                "ErrApplied",
                "NotReady",
                vec![],
                vec![failed],
                Some("kubectl helmop history web -n shop --cluster edge/c1"),
            ),
            (
                "NotReady",
                "NotReady",
                vec![],
                vec![],
                Some("kubectl helmop tree web -n shop"),
            ),
            (
                "WaitApplied",
                "Progressing",
                vec![],
                vec![],
                Some("kubectl helmop status --watch web -n shop"),
            ),
        ] {
            let summary = HelmOpSummary {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                state: state.to_owned(),
                reason: reason.to_owned(),
                ..HelmOpSummary::default()
            };
            let next = next(&summary, &conditions, &clusters);
            assert_eq!(
                next.as_ref().map(|next| &*next.command),
                expected,
                "{state} {reason}"
            );
        }
    }
}
