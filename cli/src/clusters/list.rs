//! `cluster list`: the clusters of a workspace, as their agents last reported them.

use std::{collections::BTreeMap, time::Duration};

use helmops_api::{Cluster, Condition, Decoded, cluster::ClusterStatus};
use helmops_core::{
    agents::{AGENT_TIMEOUT, Contact, Patience},
    status::{is_silent, last_seen},
};
use helmops_model::reason::Reason;
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    cluster::{ClusterArgs, duration::duration, objects::undecoded, selection::Scope},
    failure::Failure,
    output::{self, Format, OutputArgs},
    terminal::{
        Console, age,
        style::Style,
        table::{Cell, Table, one_line},
    },
};

/// The arguments of `cluster list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The clusters of the workspace fleet-default
  kubectl helmop cluster list -n fleet-default

  # Those of all workspaces with a label, with more columns
  kubectl helmop cluster list -A -l env=prod -o wide")]
pub struct ListArgs {
    /// The clusters of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only clusters with these labels, such as env=prod,zone!=eu
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Time without a report after which an agent counts as silent: --agent-timeout of the controller
    #[arg(long, value_name = "DURATION", default_value = AGENT_TIMEOUT, value_parser = duration)]
    pub agent_timeout: Duration,
    /// The format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The status of a Cluster that does not decode.
pub const INVALID: &str = "Invalid";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// Its namespace: the workspace.
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// The version of its agent; empty if that does not report it, as Fleet's.
    pub agent_version: String,
    pub agent_namespace: String,
    /// When its agent last reported, RFC 3339; empty if it never has.
    pub last_seen: String,
    /// Whether it has not reported for too long: then the counts are those of the last report.
    pub is_silent: bool,
    /// HelmOps that are ready on it, and all that target it.
    pub helm_ops: Counts,
    /// BundleDeployments that are ready on it, and all that it has.
    pub bundle_deployments: Counts,
    /// The reason of the condition `Ready`, that the agent is silent, or [`INVALID`].
    pub status: String,
    /// The message of the condition `Ready`, or why it does not decode.
    pub message: String,
    /// The namespace of its BundleDeployments.
    pub deployment_namespace: String,
    /// Its Schedules, and until when they let it be changed or not; empty if it has none.
    pub window: String,
}

/// How many are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub ready: i64,
    /// All.
    pub total: i64,
}

impl ClusterRow {
    /// A cluster at a time.
    pub fn of(cluster: &Cluster, limit: Duration, now: Timestamp) -> Self {
        let (metadata, status) = (&cluster.metadata, &cluster.status);
        // Reports could arrive at any time: this process only reads.
        let patience = Patience {
            limit,
            since: Timestamp::MIN,
        };
        let contact = Contact::of(last_seen(status), is_silent(status), patience, now);
        let is_silent = matches!(contact, Contact::Silent(_));
        let ready = Condition::find(&status.conditions, "Ready");
        let reason = ready.map(|ready| ready.reason.clone()).unwrap_or_default();
        let agent = status.agent.clone().unwrap_or_default();
        let summary = status.summary.clone().unwrap_or_default();
        let counts = |ready: Option<i64>, total: Option<i64>| Counts {
            ready: ready.unwrap_or_default(),
            total: total.unwrap_or_default(),
        };
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            agent_version: agent.version,
            agent_namespace: agent.namespace,
            last_seen: agent.last_seen,
            is_silent,
            helm_ops: counts(status.ready_helm_ops, status.desired_ready_helm_ops),
            bundle_deployments: counts(summary.ready, summary.desired_ready),
            status: if is_silent {
                Reason::AgentSilent.as_str().to_owned()
            } else {
                reason
            },
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
            deployment_namespace: status.namespace.clone(),
            window: window(status),
        }
    }

    /// A cluster of a list. Of one that does not decode there is only the name, and in the message why.
    pub fn of_listed(cluster: &Decoded<Cluster>, limit: Duration, now: Timestamp) -> Self {
        match cluster {
            Decoded::Valid(cluster) => Self::of(cluster, limit, now),
            Decoded::Invalid { metadata, error } => {
                let nothing = Cluster {
                    metadata: (**metadata).clone(),
                    ..Cluster::default()
                };
                Self {
                    status: INVALID.to_owned(),
                    message: error.to_string(),
                    ..Self::of(&nothing, limit, now)
                }
            }
        }
    }

    /// Whether it decodes.
    pub fn is_valid(&self) -> bool {
        self.status != INVALID
    }

    /// Whether its agent has reported at all.
    pub fn is_joined(&self) -> bool {
        !self.last_seen.is_empty()
    }
}

/// Its Schedules, and until when they let it be changed or not. Without the fields of helmops, only whether.
fn window(status: &ClusterStatus) -> String {
    if !status.scheduled {
        return String::new();
    }
    let state = if status.active_schedule { "open" } else { "closed" };
    let Some(window) = &status.window else {
        return state.to_owned();
    };
    let until = match &*window.until {
        "" => String::new(),
        until => format!(" until {until}"),
    };
    format!("{state}{until} ({})", window.schedules.join(", "))
}

/// Lists the clusters.
///
/// # Errors
/// If they cannot be read.
pub async fn run(args: &ListArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let connected = cluster.connect().await?;
    let scope = if args.all_namespaces {
        Scope::All
    } else {
        Scope::Namespace(&connected.namespace)
    };
    let found = connected.list::<Cluster>(scope, args.selector.as_deref()).await?;
    let now = Timestamp::now();
    let rows: Vec<_> = found
        .iter()
        .map(|cluster| ClusterRow::of_listed(cluster, args.agent_timeout, now))
        .collect();
    if rows.is_empty() && matches!(args.output.output, Format::Table | Format::Wide) {
        let within = if args.all_namespaces {
            "any namespace".to_owned()
        } else {
            format!("namespace {}", connected.namespace)
        };
        writeln!(
            console.err,
            "No clusters found in {within}; join one with: kubectl helmop cluster join NAME --to-context CONTEXT"
        )?;
        return Ok(());
    }
    render(&rows, args, now, console)?;
    if args.output.output == Format::Table {
        // -o wide has the messages, and the other formats are for programs.
        for note in undecoded(&found) {
            writeln!(console.err, "{}", one_line(&note))?;
        }
    }
    Ok(())
}

fn render(
    rows: &[ClusterRow],
    args: &ListArgs,
    now: Timestamp,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    match args.output.output {
        Format::Json => output::write_json(&mut console.out, &rows)?,
        Format::Yaml => output::write_yaml(&mut console.out, &rows)?,
        Format::Name => {
            for row in rows {
                writeln!(console.out, "cluster.fleet.cattle.io/{}", row.name)?;
            }
        }
        format => {
            let is_wide = format == Format::Wide;
            table(rows, args.all_namespaces, is_wide, now).write(&mut console.out, console.styles)?;
        }
    }
    Ok(())
}

fn table(rows: &[ClusterRow], has_namespaces: bool, is_wide: bool, now: Timestamp) -> Table {
    let mut headings = vec![
        "NAME",
        "AGENT",
        "LAST-SEEN",
        "HELMOPS",
        "DEPLOYMENTS",
        "STATUS",
        "LABELS",
    ];
    if has_namespaces {
        headings.insert(0, "NAMESPACE");
    }
    if is_wide {
        headings.extend(["CLUSTER-NAMESPACE", "AGENT-NAMESPACE", "WINDOW", "MESSAGE"]);
    }
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells: Vec<Cell> = vec![
            row.name.as_str().into(),
            agent(row),
            seen(row, now),
            counts(row, row.helm_ops),
            counts(row, row.bundle_deployments),
            status(row),
            labels(&row.labels).into(),
        ];
        if has_namespaces {
            cells.insert(0, row.namespace.as_str().into());
        }
        if is_wide {
            cells.extend(
                [
                    &row.deployment_namespace,
                    &row.agent_namespace,
                    &row.window,
                    &row.message,
                ]
                .map(|text| Cell::from(text.as_str())),
            );
        }
        table.row(cells);
    }
    table
}

fn unknown() -> Cell {
    Cell::styled(Style::Faint, "unknown")
}

fn agent(row: &ClusterRow) -> Cell {
    // Fleet's agent, or one from before it reported its version.
    let has_no_version = row.is_joined() && row.agent_version.is_empty();
    if has_no_version || !row.is_valid() {
        return unknown();
    }
    row.agent_version.as_str().into()
}

fn seen(row: &ClusterRow, now: Timestamp) -> Cell {
    match row.last_seen.parse::<Timestamp>() {
        Ok(last) if row.is_silent => Cell::styled(Style::Bad, age::age(last, now)),
        Ok(last) => age::age(last, now).into(),
        Err(_) if !row.is_valid() => unknown(),
        Err(_) => Cell::styled(Style::Pending, "never"),
    }
}

fn counts(row: &ClusterRow, counts: Counts) -> Cell {
    if row.is_valid() { counts.cell() } else { unknown() }
}

fn status(row: &ClusterRow) -> Cell {
    let style = match row.status.as_str() {
        "Ready" => Style::Good,
        "" => return "".into(),
        INVALID => Style::Bad,
        _ if row.is_silent => Style::Bad,
        _ => Style::Pending,
    };
    Cell::styled(style, row.status.as_str())
}

fn labels(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}

impl Counts {
    fn cell(self) -> Cell {
        let text = format!("{}/{}", self.ready, self.total);
        if self.ready < self.total {
            Cell::styled(Style::Pending, text)
        } else {
            text.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::style::Styles;
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn row(name: &str, status: &Value) -> ClusterRow {
        let metadata =
            json!({ "name": name, "namespace": "fleet-default", "labels": { "env": "prod", "zone": "eu" } });
        let cluster = serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap();
        ClusterRow::of(&cluster, Duration::from_mins(45), NOW.parse().unwrap())
    }

    fn rows() -> Vec<ClusterRow> {
        let ready =
            |status: &str, reason: &str| json!([{ "type": "Ready", "status": status, "reason": reason }]);
        let agent = |seen: &str, version: &str| json!({ "lastSeen": seen, "namespace": "cattle-fleet-system", "version": version });
        vec![
            row(
                "edge-1",
                &json!({
                    "namespace": "cluster-edge-1", "agent": agent("2026-01-01T11:56:00Z", "0.1.0"), "conditions": ready("True", "Ready"),
                    "readyHelmOps": 2, "desiredReadyHelmOps": 2, "summary": { "ready": 3, "desiredReady": 3 },
                }),
            ),
            row(
                "edge-2",
                &json!({
                    "namespace": "cluster-edge-2", "agent": agent("2026-01-01T09:00:00Z", ""), "conditions": ready("True", "Ready"),
                    "readyHelmOps": 1, "desiredReadyHelmOps": 2, "summary": { "ready": 1, "desiredReady": 2 },
                }),
            ),
            row(
                "new",
                &json!({ "namespace": "cluster-new", "conditions": ready("False", "Progressing") }),
            ),
        ]
    }

    fn printed(table: &Table) -> String {
        table.text(Styles::new(false))
    }

    #[test]
    fn clusters_are_listed_with_their_agents_and_silent_ones_are_marked() {
        assert_eq!(
            printed(&table(&rows(), false, false, NOW.parse().unwrap())),
            "\
NAME     AGENT     LAST-SEEN   HELMOPS   DEPLOYMENTS   STATUS        LABELS
edge-1   0.1.0     4m          2/2       3/3           Ready         env=prod,zone=eu
edge-2   unknown   3h          1/2       1/2           AgentSilent   env=prod,zone=eu
new      <none>    never       0/0       0/0           Progressing   env=prod,zone=eu
"
        );
    }

    #[test]
    fn a_cluster_that_does_not_decode_hides_no_other() {
        let cluster = |name: &str, status: &Value| -> Decoded<Cluster> {
            let metadata = json!({ "name": name, "namespace": "fleet-default" });
            serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
        };
        let listed = [
            cluster(
                "edge-1",
                &json!({ "agent": { "lastSeen": "2026-01-01T11:56:00Z" } }),
            ),
            cluster("edge-2", &json!({ "readyHelmOps": "many" })),
        ];
        let now = NOW.parse().unwrap();
        let rows = listed.map(|cluster| ClusterRow::of_listed(&cluster, Duration::from_mins(45), now));
        assert_eq!(
            printed(&table(&rows, false, false, now)),
            "\
NAME     AGENT     LAST-SEEN   HELMOPS   DEPLOYMENTS   STATUS    LABELS
edge-1   unknown   4m          0/0       0/0           <none>    <none>
edge-2   unknown   unknown     unknown   unknown       Invalid   <none>
"
        );
        assert!(rows[1].message.contains("readyHelmOps"), "{}", rows[1].message);
    }

    #[test]
    fn wide_output_has_the_namespaces() {
        let printed = printed(&table(&rows()[..1], true, true, NOW.parse().unwrap()));
        let mut lines = printed.lines();
        assert!(
            lines
                .next()
                .unwrap()
                .ends_with("CLUSTER-NAMESPACE   AGENT-NAMESPACE       WINDOW   MESSAGE"),
            "{printed}"
        );
        assert!(
            lines.next().unwrap().starts_with("fleet-default   edge-1"),
            "{printed}"
        );
    }

    #[test]
    fn a_cluster_with_schedules_has_its_window() {
        let night = json!({ "schedules": ["night", "noon"], "until": "2026-12-01T02:00:00Z" });
        for (status, expected) in [
            (json!({}), ""),
            (json!({ "scheduled": true }), "closed"),
            (
                json!({ "scheduled": true, "window": night }),
                "closed until 2026-12-01T02:00:00Z (night, noon)",
            ),
            (
                json!({ "scheduled": true, "activeSchedule": true, "window": night }),
                "open until 2026-12-01T02:00:00Z (night, noon)",
            ),
            (
                json!({ "scheduled": true, "window": { "schedules": ["last"] } }),
                "closed (last)",
            ),
        ] {
            let status: ClusterStatus = serde_json::from_value(status).unwrap();
            assert_eq!(window(&status), expected);
        }
    }

    #[test]
    fn json_has_the_counts_and_whether_the_agent_is_silent() {
        let json = serde_json::to_value(rows()).unwrap();
        assert_eq!(json[1]["isSilent"], true);
        assert_eq!(json[1]["helmOps"], json!({ "ready": 1, "total": 2 }));
    }
}
