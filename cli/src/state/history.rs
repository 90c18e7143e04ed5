//! `history`: the attempts to deploy a HelmOp on each cluster.

use std::collections::BTreeMap;

use helmops_api::{Bundle, BundleDeployment, Condition, ResolvedChart, lifecycle::ReleaseAttempt};
use helmops_core::{
    status::{Deployment, ObservedDeployment, by_cluster},
    targeting::chart_record::recorded_in,
};
use helmops_model::{chart::source::ChartSource, deployment_state::DeploymentState};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    read::{Observed, Parts, observed},
    revisions::Revisions,
    style,
    summary::HelmOpSummary,
    times::relative,
};
use crate::{
    charts::report::commit_of,
    cluster::{ClusterArgs, contexts::Contexts, selection::helmop_name},
    failure::Failure,
    output::{Format, OutputArgs, write_json, write_yaml},
    terminal::{
        Console, progress,
        style::Style,
        table::{Cell, Table, one_line},
    },
};

/// The arguments of `history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The attempts on all clusters, newest first
  kubectl helmop history web

  # Those on one cluster, with whole error messages
  kubectl helmop history web --cluster fleet-default/edge-1 -o wide

  # Of a release without spec.lifecycle, on the cluster of another context
  kubectl helmop history web --cluster edge-1 --cluster-context edge-1=edge

The agent lists the last five attempts of a release with spec.lifecycle in the status. Without it, they are read from Helm's
records, which are on the cluster; column FROM says so.")]
pub struct HistoryArgs {
    /// Name of the HelmOp
    #[arg(value_parser = helmop_name)]
    pub name: String,
    /// Only this cluster: NAME, or NAMESPACE/NAME
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Context of a Cluster, to read the records of Helm there; by default the current context, if it is about one cluster
    #[arg(long, value_name = "CLUSTER=CONTEXT")]
    pub cluster_context: Vec<String>,
    /// How many attempts are shown at most
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    pub limit: usize,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `history` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryReport {
    pub namespace: String,
    pub name: String,
    /// The versions that were resolved, as the Bundle records them.
    pub resolved: Vec<ResolvedVersion>,
    /// The attempts, newest first.
    pub attempts: Vec<AttemptReport>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedVersion {
    /// The chart, with its repository.
    pub chart: String,
    /// The version or range that was requested.
    pub range: String,
    pub version: String,
    /// The digest of its archive or manifest; empty if it is not known.
    pub digest: String,
    /// The commit of the Git repository that it is in; empty in other repositories.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub commit: String,
}

/// An attempt on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptReport {
    /// The cluster, as `namespace/name`.
    pub cluster: String,
    /// When it was made, or when its outcome was written; empty if it is not known.
    pub time: String,
    /// Revision of the release; empty if it is not known.
    pub revision: String,
    /// `install`, `upgrade` or `rollback`; empty if it is not known.
    pub action: String,
    pub chart: String,
    pub version: String,
    /// The status as in `helm history`; without a life cycle, the state of the BundleDeployment.
    pub outcome: String,
    /// `status` of the BundleDeployment, or Helm's `records` on the cluster.
    pub from: String,
    /// Why it failed.
    pub message: String,
}

const STATUS: &str = "status";
const RECORDS: &str = "records";

impl HistoryReport {
    /// The history on all clusters, or on one.
    ///
    /// # Errors
    /// If there is no such cluster among them.
    pub fn of(observed: &Observed, cluster: Option<&str>, revisions: &Revisions) -> Result<Self, Failure> {
        let summary = HelmOpSummary::of(&observed.helmop, observed.bundle.as_ref(), Timestamp::UNIX_EPOCH);
        let all: Vec<_> = observed.deployments.iter().collect();
        let deployments = by_cluster(&all);
        let is_selected = |deployment: &&Deployment<'_>| {
            cluster.is_none_or(|wanted| matches(&deployment.name.to_string(), wanted))
        };
        let selected: Vec<_> = deployments.iter().filter(is_selected).collect();
        if let (Some(cluster), true) = (cluster, selected.is_empty()) {
            return Err(no_such_cluster(&summary.namespace, &summary.name, cluster));
        }
        let attempts = |deployment| attempts(deployment, &revisions.by_cluster);
        let mut attempts: Vec<_> = selected.into_iter().flat_map(attempts).collect();
        attempts.sort_by(|one, other| (&other.time, &one.cluster).cmp(&(&one.time, &other.cluster)));
        Ok(Self {
            resolved: observed.bundle.as_ref().map(resolved).unwrap_or_default(),
            attempts,
            notes: [&*observed.notes, &*revisions.notes].concat(),
            namespace: summary.namespace,
            name: summary.name,
        })
    }

    fn table(&self, format: Format, limit: usize, now: Timestamp) -> Table {
        let mut table = Table::new(&[
            "CLUSTER", "WHEN", "REVISION", "ACTION", "CHART", "VERSION", "OUTCOME", "FROM", "MESSAGE",
        ]);
        for attempt in self.attempts.iter().take(limit) {
            table.row([
                Cell::from(&*attempt.cluster),
                relative(&attempt.time, now).into(),
                (&*attempt.revision).into(),
                (&*attempt.action).into(),
                (&*attempt.chart).into(),
                (&*attempt.version).into(),
                style::state(&attempt.outcome),
                (&*attempt.from).into(),
                Cell::or_blank(shortened(&attempt.message, format)),
            ]);
        }
        table
    }

    fn write(
        &self,
        console: &mut Console<'_>,
        format: Format,
        limit: usize,
        now: Timestamp,
    ) -> Result<(), Failure> {
        for resolved in &self.resolved {
            let named = |name: &str, text: &str| match text {
                "" => String::new(),
                text => format!(", {name} {text}"),
            };
            let (commit, digest) = (
                named("commit", &resolved.commit),
                named("digest", &resolved.digest),
            );
            let text = format!(
                "{} {} is resolved for {:?}{commit}{digest}",
                resolved.chart, resolved.version, resolved.range
            );
            writeln!(console.out, "{}", one_line(&text))?;
        }
        if !self.resolved.is_empty() {
            writeln!(console.out)?;
        }
        self.table(format, limit, now)
            .write(&mut console.out, console.styles)?;
        let hidden = self.attempts.len().saturating_sub(limit);
        if hidden > 0 {
            writeln!(
                console.err,
                "{hidden} older attempts are not shown; see --limit and --cluster."
            )?;
        }
        for note in &self.notes {
            let note = console.styles.paint(Style::Faint, &one_line(note));
            writeln!(console.err, "{note}")?;
        }
        Ok(())
    }
}

/// Prints the history.
///
/// # Errors
/// If the HelmOp or the cluster does not exist, or objects cannot be read.
pub async fn run(
    args: &HistoryArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let contexts = Contexts::parse(&args.cluster_context, cluster)?;
    let cluster = cluster.connect().await?;
    let read = observed(&cluster, &args.name, Parts::WithoutEvents);
    let observed = progress::during(console, "Reading the HelmOp", read).await?;
    let only = args.cluster.as_deref();
    let read = Revisions::read(&observed.deployments, only, &contexts);
    let revisions = progress::during(console, "Reading the records", read).await;
    let report = HistoryReport::of(&observed, only, &revisions)?;
    match args.output.output {
        Format::Json => Ok(write_json(&mut console.out, &report)?),
        Format::Yaml => Ok(write_yaml(&mut console.out, &report)?),
        Format::Name => Ok(writeln!(console.out, "helmop.fleet.cattle.io/{}", report.name)?),
        format @ (Format::Table | Format::Wide) => {
            report.write(console, format, args.limit, Timestamp::now())
        }
    }
}

/// Whether a cluster is the wanted one, with or without its namespace.
pub fn matches(cluster: &str, wanted: &str) -> bool {
    cluster == wanted || cluster.split_once('/').is_some_and(|(_, name)| name == wanted)
}

/// The failure for a cluster to which a HelmOp is not deployed.
pub fn no_such_cluster(namespace: &str, name: &str, cluster: &str) -> Failure {
    Failure::negative(format!(
        "HelmOp {name:?} in namespace {namespace:?} has no BundleDeployment on cluster {cluster:?}"
    ))
    .with_hint(format!(
        "see its clusters with: kubectl helmop tree {name} -n {namespace} --clusters all"
    ))
}

fn resolved(bundle: &Bundle) -> Vec<ResolvedVersion> {
    let records = recorded_in(bundle).unwrap_or_default().into_iter();
    let version = |record: ResolvedChart| ResolvedVersion {
        chart: if record.chart.is_empty() {
            record.repo
        } else {
            format!("{} of {}", record.chart, record.repo)
        },
        commit: commit_of(&record.url).unwrap_or_default().to_owned(),
        range: record.constraint,
        version: record.version,
        digest: record.digest,
    };
    records.map(version).collect()
}

/// The attempts on a cluster: those that the status lists, or the records. Without both there is one: what the agent reports.
fn attempts(
    deployment: &Deployment<'_>,
    records: &BTreeMap<String, Vec<ReleaseAttempt>>,
) -> Vec<AttemptReport> {
    let cluster = deployment.name.to_string();
    let ObservedDeployment::Decoded(object) = deployment.observed else {
        return vec![AttemptReport {
            cluster,
            outcome: deployment.state.as_str().to_owned(),
            from: STATUS.to_owned(),
            message: deployment.message(),
            ..AttemptReport::default()
        }];
    };
    let listed = object.status.lifecycle.as_deref();
    let listed = listed.map(|lifecycle| &*lifecycle.history).unwrap_or_default();
    let records = records.get(&cluster);
    let mut reports = Vec::new();
    // What keeps a deployment from being ready may have left no record.
    if listed.is_empty() && (records.is_none() || deployment.state != DeploymentState::Ready) {
        reports.push(reported(cluster.clone(), deployment, object));
    }
    let (from, history) = records.map_or((STATUS, listed), |records| (RECORDS, &**records));
    let report = |attempt: &ReleaseAttempt| AttemptReport {
        cluster: cluster.clone(),
        time: attempt.time.clone(),
        revision: attempt.revision.to_string(),
        action: attempt.action.clone(),
        chart: attempt.chart.clone(),
        version: attempt.version.clone(),
        outcome: attempt.outcome.clone(),
        from: from.to_owned(),
        message: attempt.message.clone(),
    };
    reports.extend(history.iter().map(report));
    reports
}

fn reported(cluster: String, deployment: &Deployment<'_>, object: &BundleDeployment) -> AttemptReport {
    let status = &object.status;
    let helm = object.spec.options.helm.as_ref();
    let chart = helm.map(|helm| match ChartSource::of(&helm.repo, &helm.chart) {
        ChartSource::Oci { repo } => repo.rsplit('/').next().unwrap_or_default().to_owned(),
        _ => helm.chart.clone(),
    });
    let written =
        Condition::find(&status.conditions, "Deployed").map(|deployed| deployed.last_update_time.clone());
    let is_desired = status.applied_deployment_id == object.spec.deployment_id;
    let revision = status.release.rsplit_once(':').map(|(_, revision)| revision);
    AttemptReport {
        cluster,
        time: written.unwrap_or_default(),
        // Otherwise it is that of an earlier deployment.
        revision: revision.filter(|_| is_desired).unwrap_or_default().to_owned(),
        action: String::new(),
        chart: chart.unwrap_or_default(),
        version: helm.map(|helm| helm.version.clone()).unwrap_or_default(),
        outcome: if deployment.state == DeploymentState::Ready {
            "deployed".to_owned()
        } else {
            deployment.state.as_str().to_owned()
        },
        from: STATUS.to_owned(),
        message: deployment.message(),
    }
}

/// The first part of a long message: `-o wide` shows all of it.
fn shortened(message: &str, format: Format) -> String {
    const MAX: usize = 80;
    if format == Format::Wide || message.chars().count() <= MAX {
        return message.to_owned();
    }
    let first: String = message.chars().take(MAX).collect();
    format!("{first}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        state::fixture::{golden, now, rollout},
        terminal::buffers::Buffers,
    };

    fn text(cluster: Option<&str>, format: Format, limit: usize) -> (String, String) {
        let mut buffers = Buffers::default();
        let mut console = buffers.console();
        let report = HistoryReport::of(&rollout(), cluster, &Revisions::default()).unwrap();
        report.write(&mut console, format, limit, now()).unwrap();
        (buffers.out(), buffers.err())
    }

    #[test]
    fn attempts_on_all_clusters_are_sorted_by_time() {
        let (out, _) = text(None, Format::Table, 50);
        golden("history.txt", &out);
    }

    #[test]
    fn one_cluster_is_selected_by_its_name_with_or_without_namespace() {
        let (short, _) = text(Some("c2"), Format::Wide, 50);
        golden("history-wide.txt", &short);
        assert_eq!(text(Some("shop/c2"), Format::Wide, 50).0, short);
        let failure = HistoryReport::of(&rollout(), Some("c9"), &Revisions::default()).unwrap_err();
        assert_eq!(failure.code, crate::failure::NEGATIVE);
        assert!(failure.message.contains("\"c9\""), "{}", failure.message);
    }

    #[test]
    fn records_are_shown_where_the_status_lists_no_attempt() {
        let revision = ReleaseAttempt {
            revision: 3,
            ..ReleaseAttempt::default()
        };
        let records = ["shop/c1", "shop/c3"].map(|cluster| (cluster.to_owned(), vec![revision.clone()]));
        let revisions = Revisions {
            by_cluster: records.into(),
            notes: vec!["a note".to_owned()],
        };
        let shown = |cluster| {
            let report = HistoryReport::of(&rollout(), Some(cluster), &revisions).unwrap();
            assert_eq!(report.notes, ["a note"]);
            let from = report.attempts.iter().map(|attempt| attempt.from.clone());
            from.collect::<Vec<_>>()
        };
        assert_eq!(shown("c1"), ["records"]);
        assert_eq!(
            shown("c3"),
            ["status", "records"],
            "it is not ready, which no record shows"
        );
        assert_eq!(shown("c2"), ["status"; 5]);
    }

    #[test]
    fn the_number_of_attempts_is_limited() {
        let (out, err) = text(Some("c2"), Format::Table, 2);
        assert_eq!(out.lines().count(), 5, "{out}");
        assert_eq!(
            err,
            "3 older attempts are not shown; see --limit and --cluster.\n"
        );
    }
}
