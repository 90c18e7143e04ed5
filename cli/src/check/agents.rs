//! The agents of clusters: those that are silent, or have never reported.

use std::time::Duration;

use helmops_api::{Cluster, Decoded};
use helmops_process::build_info::VERSION;
use jiff::Timestamp;
use kube::{Api, Client, api::ListParams};

use super::finding::{Finding, Group};
use crate::{cluster::api_error, clusters::list::ClusterRow, terminal::age};

/// How many clusters are listed; the rest is counted.
const NAMED: usize = 20;

/// Checks the agents of all clusters. `limit` is --agent-timeout of the controller.
pub async fn check(client: &Client, limit: Duration, now: Timestamp) -> Vec<Finding> {
    match Api::<Decoded<Cluster>>::all(client.clone())
        .list(&ListParams::default())
        .await
    {
        Ok(found) => judge_all(
            found
                .items
                .iter()
                .map(|cluster| ClusterRow::of_listed(cluster, limit, now)),
            now,
        ),
        Err(error) if api_error::is_forbidden(&error) => {
            vec![Finding::skipped(
                Group::Agents,
                "you may not list Clusters of all namespaces",
            )]
        }
        Err(error) if api_error::is_not_found(&error) => Vec::new(),
        Err(error) => vec![Finding::error(Group::Agents, api_error::text(&error), "")],
    }
}

fn judge_all(rows: impl Iterator<Item = ClusterRow>, now: Timestamp) -> Vec<Finding> {
    let (mut reporting, mut all) = (0, 0);
    let mut findings = Vec::new();
    for row in rows {
        all += 1;
        match judge(&row, now) {
            Some(finding) => findings.push(finding),
            None => reporting += 1,
        }
    }
    let rest = findings.len().saturating_sub(NAMED);
    findings.truncate(NAMED);
    if rest > 0 {
        let fix = "list them with: kubectl helmop cluster list --all-namespaces";
        findings.push(Finding::warning(
            Group::Agents,
            format!("{rest} more clusters like these"),
            fix,
        ));
    }
    if reporting > 0 || findings.is_empty() {
        findings.insert(
            0,
            Finding::ok(Group::Agents, format!("{reporting} of {all} agents report")),
        );
    }
    findings
}

/// `None` if the agent reports.
fn judge(row: &ClusterRow, now: Timestamp) -> Option<Finding> {
    let name = format!("Cluster {}/{}", row.namespace, row.name);
    let logs = "on that cluster: kubectl helmop logs agent --context CONTEXT; if its token has expired, join it again";
    if !row.is_valid() {
        let fix = "check that its CRD and this program are of the same release: kubectl helmop version";
        return Some(Finding::warning(
            Group::Agents,
            format!("{name} does not decode: {}", row.message),
            fix,
        ));
    }
    if row.is_silent {
        let since = row
            .last_seen
            .parse()
            .map_or_else(|_| "a time".to_owned(), |last| age::age(last, now));
        return Some(Finding::warning(
            Group::Agents,
            format!("{name}: its agent is silent for {since}"),
            logs,
        ));
    }
    if !row.is_joined() {
        let fix = format!(
            "kubectl helmop cluster join {} --namespace {} --to-context CONTEXT",
            row.name, row.namespace
        );
        return Some(Finding::warning(
            Group::Agents,
            format!("{name}: no agent has reported yet"),
            fix,
        ));
    }
    if !row.agent_version.is_empty() && row.agent_version != VERSION {
        let message = format!(
            "{name}: its agent is version {}; this program is {VERSION}",
            row.agent_version
        );
        let fix = format!(
            "kubectl helmop cluster join {} --namespace {} --to-context CONTEXT --image IMAGE",
            row.name, row.namespace
        );
        return Some(Finding::warning(Group::Agents, message, fix));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::Level;
    use serde_json::{Value, json};

    fn row(name: &str, seen: &str, version: &str) -> ClusterRow {
        listed(
            name,
            &json!({ "agent": { "lastSeen": seen, "version": version } }),
        )
    }

    fn listed(name: &str, status: &Value) -> ClusterRow {
        let cluster = serde_json::from_value(
            json!({ "metadata": { "name": name, "namespace": "a" }, "status": status }),
        );
        ClusterRow::of_listed(&cluster.unwrap(), Duration::from_mins(45), now())
    }

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn agents_that_are_silent_or_have_never_reported_are_named() {
        let recent = "2026-01-01T11:50:00Z";
        let rows = [
            row("a", recent, VERSION),
            row("b", recent, ""),
            row("c", "2026-01-01T09:00:00Z", VERSION),
            row("d", "", ""),
            row("e", recent, "0.0.1"),
            listed("f", &json!({ "readyHelmOps": "many" })),
        ];
        let findings = judge_all(rows.into_iter(), now());
        let texts: Vec<_> = findings.iter().map(|finding| &*finding.message).collect();
        assert_eq!(texts.len(), 5, "{texts:?}");
        assert!(texts[0].starts_with("2 of 6 agents report"));
        assert_eq!(texts[1], "Cluster a/c: its agent is silent for 3h");
        assert_eq!(texts[2], "Cluster a/d: no agent has reported yet");
        assert!(texts[3].contains("is version 0.0.1"));
        assert!(
            texts[4].starts_with("Cluster a/f does not decode: "),
            "{}",
            texts[4]
        );
        assert!(
            findings[1..]
                .iter()
                .all(|finding| finding.level == Level::Warning && !finding.fix.is_empty())
        );
    }

    #[test]
    fn many_silent_agents_are_counted() {
        let rows = (0..30).map(|number| row(&number.to_string(), "", ""));
        let findings = judge_all(rows, now());
        assert_eq!(findings.len(), NAMED + 1);
        assert!(findings[NAMED].message.starts_with("10 more"));
    }
}
