//! `tree`: a HelmOp, its Bundle, its clusters, and the objects on each.

use bounded_text::numbered;
use clap::ValueEnum;
use helmops_api::{ObjectName, status::NonReadyStatus};
use helmops_core::status::{
    Deployment, ObservedDeployment, by_cluster,
    objects::{self, READY, Row},
};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    clusters::{self, ClusterReport},
    read::{Observed, Parts, observed},
    style,
    summary::HelmOpSummary,
};
use crate::{
    cluster::{ClusterArgs, selection::helmop_name},
    failure::Failure,
    output::{Format, OutputArgs, write_json, write_yaml},
    terminal::{
        Console, progress,
        style::Style,
        table::{Cell, Table, one_line},
    },
};

/// With more clusters, only those that are not ready are shown by default.
const MANY_CLUSTERS: usize = 10;

/// The arguments of `tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # With more than 10 clusters, only those that are not ready
  kubectl helmop tree web

  # All clusters, but no objects
  kubectl helmop tree web --clusters all --limit 0")]
pub struct TreeArgs {
    /// Name of the HelmOp
    #[arg(value_parser = helmop_name)]
    pub name: String,
    /// Which clusters are shown; by default all, or only those that are not ready if there are more than 10
    #[arg(
        long,
        value_enum,
        value_name = "WHICH",
        default_value = "auto",
        hide_default_value = true
    )]
    pub clusters: WhichClusters,
    /// How many clusters, and how many objects of each, are shown at most
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub limit: usize,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Clusters of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WhichClusters {
    /// All if there are few, otherwise those that are not ready
    #[default]
    #[value(hide = true)]
    Auto,
    /// All
    All,
    /// Those that are not ready
    NotReady,
    /// None
    None,
}

/// An object in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeNode {
    /// The object, such as `Bundle shop/web`.
    pub object: String,
    pub state: String,
    /// Details, such as a version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What it consists of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Self>,
    /// What is not shown below it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub folded: String,
}

/// What is shown of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Fold {
    pub clusters: WhichClusters,
    /// How many clusters, and objects of each.
    pub limit: usize,
}

/// The tree of a HelmOp.
pub fn tree(observed: &Observed, fold: Fold, now: Timestamp) -> TreeNode {
    let summary = HelmOpSummary::of(&observed.helmop, observed.bundle.as_ref(), now);
    let ready = |ready: i64, desired: i64| format!("{ready}/{desired} clusters");
    let id = format!("{}/{}", summary.namespace, summary.name);
    let bundle = observed.bundle.as_ref().map(|bundle| {
        let display = bundle.status.as_ref().and_then(|status| status.display.as_ref());
        let display = display.cloned().unwrap_or_default();
        let mut node = TreeNode {
            object: format!("Bundle {id}"),
            state: if display.state.is_empty() {
                READY.to_owned()
            } else {
                display.state
            },
            detail: format!("{} clusters", display.ready_clusters),
            ..TreeNode::default()
        };
        add_clusters(&mut node, observed, fold);
        node
    });
    TreeNode {
        object: format!("HelmOp {id}"),
        state: summary.state,
        detail: ready(summary.ready_clusters, summary.desired_ready_clusters),
        message: summary.message,
        folded: if bundle.is_none() {
            "no Bundle yet".to_owned()
        } else {
            String::new()
        },
        children: bundle.into_iter().collect(),
    }
}

fn add_clusters(bundle: &mut TreeNode, observed: &Observed, fold: Fold) {
    let status = observed.helmop.status.as_ref();
    let counted = status.and_then(|status| status.base.summary.as_ref());
    let reports = clusters::clusters(&observed.deployments, counted);
    let all: Vec<_> = observed.deployments.iter().collect();
    let deployments = by_cluster(&all);
    let which = match fold.clusters {
        WhichClusters::Auto if reports.len() > MANY_CLUSTERS => WhichClusters::NotReady,
        WhichClusters::Auto => WhichClusters::All,
        which => which,
    };
    let is_shown = |report: &&ClusterReport| match which {
        WhichClusters::All | WhichClusters::Auto => true,
        WhichClusters::NotReady => !report.is_ready(),
        WhichClusters::None => false,
    };
    let shown: Vec<_> = reports
        .iter()
        .filter(is_shown)
        .take(fold.limit_of_clusters())
        .collect();
    let hidden: Vec<_> = reports
        .iter()
        .filter(|report| shown.iter().all(|shown| shown.cluster != report.cluster))
        .collect();
    bundle.folded = folded_clusters(&hidden);
    bundle.children = shown
        .into_iter()
        .map(|report| {
            let mut deployments = deployments.iter();
            let deployment = deployments.find(|deployment| deployment.name.to_string() == report.cluster);
            cluster(report, deployment, fold)
        })
        .collect();
}

impl Fold {
    /// Without objects there is still something to show.
    const fn limit_of_clusters(self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit }
    }
}

fn folded_clusters(hidden: &[&ClusterReport]) -> String {
    let ready = hidden.iter().filter(|cluster| cluster.is_ready()).count();
    let others = hidden.len() - ready;
    match (ready, others) {
        (0, 0) => String::new(),
        (ready, 0) => format!("{} (--clusters all)", numbered(ready, "ready cluster")),
        (0, others) => format!("{} not ready (--limit)", numbered(others, "cluster")),
        (ready, others) => format!(
            "{} and {} not ready (--clusters, --limit)",
            numbered(ready, "ready cluster"),
            numbered(others, "cluster")
        ),
    }
}

fn cluster(report: &ClusterReport, deployment: Option<&Deployment<'_>>, fold: Fold) -> TreeNode {
    let mut node = TreeNode {
        object: format!("Cluster {}", report.cluster),
        state: if report.suspended {
            "Suspended".to_owned()
        } else {
            report.state.clone()
        },
        detail: if report.runs.is_empty() {
            report.version.clone()
        } else {
            format!("runs {}", report.runs)
        },
        message: report.message.clone(),
        ..TreeNode::default()
    };
    let Some(deployment) = deployment else {
        return node;
    };
    let mut rows = objects::rows(std::slice::from_ref(deployment));
    // What is not ready comes first, so that it is never folded before something that is.
    rows.sort_by_key(|row| {
        let key = row.key;
        (
            row.state() == READY,
            key.namespace,
            key.kind,
            key.name,
            key.api_version,
        )
    });
    node.children = rows
        .iter()
        .take(fold.limit)
        .map(|row| object(row, deployment))
        .collect();
    let hidden = rows.len().saturating_sub(fold.limit);
    if hidden > 0 {
        node.folded = format!("{} (--limit)", numbered(hidden, "object"));
    }
    node
}

fn object(row: &Row<'_>, deployment: &Deployment<'_>) -> TreeNode {
    let key = row.key;
    TreeNode {
        object: ObjectName {
            api_version: key.api_version,
            kind: key.kind,
            namespace: key.namespace,
            name: key.name,
        }
        .to_string(),
        state: row.state().to_owned(),
        message: why(row, deployment).unwrap_or_default(),
        ..TreeNode::default()
    }
}

/// Why an object is not ready, as the agent reports it.
fn why(row: &Row<'_>, deployment: &Deployment<'_>) -> Option<String> {
    let ObservedDeployment::Decoded(object) = deployment.observed else {
        return None;
    };
    let key = row.key;
    let status = &object.status;
    let modified = status.modified_status.iter().find(|one| {
        (&*one.kind, &*one.api_version, &*one.namespace, &*one.name)
            == (key.kind, key.api_version, key.namespace, key.name)
    });
    if let Some(modified) = modified {
        return Some(modified.patch.clone());
    }
    let is_same = |one: &&NonReadyStatus| {
        (&*one.kind, &*one.api_version, &*one.namespace, &*one.name)
            == (key.kind, key.api_version, key.namespace, key.name)
    };
    let not_ready = status.non_ready_status.iter().find(is_same)?;
    Some(not_ready.summary.as_ref()?.messages())
}

/// The tree as a table: the lines of the tree are a part of the first column.
fn table(root: &TreeNode) -> Table {
    let mut table = Table::new(&["OBJECT", "STATE", "DETAIL", "MESSAGE"]);
    add(&mut table, root, "", "");
    table
}

/// `own` leads to the node, `below` to what follows it.
fn add(table: &mut Table, node: &TreeNode, own: &str, below: &str) {
    let object = Cell::from(format!("{own}{}", node.object));
    table.row([
        object,
        style::state(&node.state),
        Cell::or_blank(&*node.detail),
        Cell::or_blank(&*node.message),
    ]);
    let has_folded = !node.folded.is_empty();
    let last = node.children.len().saturating_sub(1);
    for (index, child) in node.children.iter().enumerate() {
        let (branch, rest) = if index == last && !has_folded {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        add(
            table,
            child,
            &format!("{below}{branch}"),
            &format!("{below}{rest}"),
        );
    }
    if has_folded {
        table.row([Cell::styled(Style::Faint, format!("{below}└─ … {}", node.folded))]);
    }
}

/// Prints the tree.
///
/// # Errors
/// If the HelmOp does not exist, or objects cannot be read.
pub async fn run(args: &TreeArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let read = observed(&cluster, &args.name, Parts::WithoutEvents);
    let observed = progress::during(console, "Reading the HelmOp", read).await?;
    let fold = Fold {
        clusters: args.clusters,
        limit: args.limit,
    };
    let tree = tree(&observed, fold, Timestamp::now());
    match args.output.output {
        Format::Json => write_json(&mut console.out, &tree)?,
        Format::Yaml => write_yaml(&mut console.out, &tree)?,
        Format::Name => names(&tree, console)?,
        Format::Table | Format::Wide => table(&tree).write(&mut console.out, console.styles)?,
    }
    for note in &observed.notes {
        writeln!(console.err, "{}", one_line(note))?;
    }
    Ok(())
}

fn names(node: &TreeNode, console: &mut Console<'_>) -> Result<(), Failure> {
    writeln!(console.out, "{}", one_line(&node.object))?;
    node.children.iter().try_for_each(|child| names(child, console))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        state::fixture::{deployment, golden, helmop, now, rollout},
        terminal::style::Styles,
    };

    fn text(observed: &Observed, clusters: WhichClusters, limit: usize) -> String {
        let tree = tree(observed, Fold { clusters, limit }, now());
        table(&tree).text(Styles::new(false))
    }

    #[test]
    fn a_tree_leads_from_the_helmop_to_the_objects_on_each_cluster() {
        let text = text(&rollout(), WhichClusters::Auto, 20);
        golden("tree.txt", &text);
    }

    #[test]
    fn objects_that_are_not_ready_come_first_and_others_are_folded() {
        let text = text(&rollout(), WhichClusters::NotReady, 1);
        golden("tree-folded.txt", &text);
    }

    #[test]
    fn of_many_clusters_only_those_that_are_not_ready_are_shown() {
        let mut deployments: Vec<_> = (0..1000)
            .map(|number| deployment(&format!("c{number}"), &json!({})))
            .collect();
        deployments.push(deployment("late", &crate::state::fixture::not_ready()));
        let observed = Observed {
            helmop: helmop(&json!({})),
            bundle: rollout().bundle,
            deployments,
            ..Observed::default()
        };
        let auto = text(&observed, WhichClusters::Auto, 20);
        assert_eq!(auto.lines().count(), 7, "{auto}");
        assert!(
            auto.contains("Cluster shop/late") && auto.contains("… 1000 ready clusters (--clusters all)"),
            "{auto}"
        );
        let all = text(&observed, WhichClusters::All, 20);
        assert!(
            all.contains("… 980 ready clusters and 1 cluster not ready (--clusters, --limit)"),
            "{all}"
        );
        let none = text(&observed, WhichClusters::None, 20);
        assert_eq!(none.lines().count(), 4, "{none}");
    }
}
