//! `outdated`: the HelmOps whose charts have newer versions.

pub mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::{StreamExt, stream};
use helm_index::ChartFilter;
use helmops_api::{Bundle, Decoded, HelmOp};
use helmops_core::{
    admit::ValidHelmOp, bundle::RequestedCharts, policy::Policies, poll::Due, status::timestamp,
};
use helmops_fetch::{ChartExplanation, normalized_index_url};
use helmops_model::chart::{resolved::ChartVersion, source::ChartSource};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::{
    candidates::{newest, selected},
    fetcher::{FetchArgs, FetchFailure, Fetcher, Session},
    report::{ChartId, Problem},
    subject::{Origin, ca_certificates, own_bundle, policies},
    uptake::UptakeInput,
};
use crate::{
    cluster::{Cluster, ClusterArgs, objects::report_nothing, selection::SelectionArgs},
    failure::Failure,
    output::OutputArgs,
    terminal::{Console, progress},
};

/// How many HelmOps are resolved at a time.
const CONCURRENT: usize = 32;

/// The arguments of `outdated`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # All HelmOps with a chart that has a newer version
  kubectl helmop outdated -A

  # Also those that are up to date, with the reason for each
  kubectl helmop outdated -A --all -o wide

  # In a pipeline: fail if there is any
  kubectl helmop outdated -l team=shop --exit-code")]
pub struct OutdatedArgs {
    /// Which HelmOps.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Also list charts that are up to date
    #[arg(long)]
    pub all: bool,
    /// Exit with code 1 if a chart has a newer version
    #[arg(long)]
    pub exit_code: bool,
    /// How they are printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// How requests are sent.
    #[command(flatten)]
    pub fetch: FetchArgs,
}

/// A chart of a HelmOp, and its newer versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartState {
    /// Namespace of the HelmOp.
    pub namespace: String,
    /// Name of the HelmOp.
    pub name: String,
    /// The chart; `None` if the HelmOp is invalid.
    #[serde(flatten)]
    pub chart: Option<ChartId>,
    /// The recorded version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The version that would be selected now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_range: Option<String>,
    /// The newest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
    /// Whether there is a newer version than the current one.
    pub outdated: bool,
    /// What keeps the HelmOp from the newest version; empty if it has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Why the versions are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// Lists the HelmOps whose charts have newer versions.
///
/// # Errors
/// If HelmOps cannot be listed; with `--exit-code`, if a chart has a newer version.
pub async fn run(
    args: &OutdatedArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let found = Found::read(args, &cluster, console).await?;
    if found.helmops.is_empty() {
        return report_nothing::<HelmOp>(
            console,
            args.selection.scope(&cluster),
            args.selection.selector.as_deref(),
        );
    }
    let fetcher = Fetcher::new(&args.fetch)?;
    let what = format!(
        "Reading the versions of the charts of {} HelmOps",
        found.helmops.len()
    );
    let states = progress::during(console, &what, found.states(&cluster, &fetcher, Timestamp::now())).await;
    let outdated = states.iter().filter(|state| state.outdated).count();
    let shown: Vec<_> = states
        .into_iter()
        .filter(|state| args.all || state.outdated || state.problem.is_some())
        .collect();
    table::write(&shown, args.output.output, args.selection.all_namespaces, console)?;
    if args.exit_code && outdated > 0 {
        return Err(Failure::negative(format!(
            "{outdated} charts have a newer version"
        )));
    }
    Ok(())
}

/// HelmOps, and what their versions depend on.
struct Found {
    helmops: Vec<Decoded<HelmOp>>,
    bundles: HashMap<(String, String), Bundle>,
    policies: BTreeMap<String, Policies>,
}

impl Found {
    async fn read(
        args: &OutdatedArgs,
        cluster: &Cluster,
        console: &mut Console<'_>,
    ) -> Result<Self, Failure> {
        let scope = args.selection.scope(cluster);
        let helmops = cluster
            .list::<HelmOp>(scope, args.selection.selector.as_deref())
            .await?;
        if helmops.is_empty() {
            return Ok(Self {
                helmops,
                bundles: HashMap::new(),
                policies: BTreeMap::new(),
            });
        }
        let bundles = match cluster.list::<Bundle>(scope, None).await {
            Ok(bundles) => bundles,
            Err(failure) => {
                writeln!(
                    console.err,
                    "note: recorded versions are those of the status: {}",
                    failure.message
                )?;
                Vec::new()
            }
        };
        let bundles = bundles.iter().filter_map(own_bundle);
        let mut by_namespace = BTreeMap::<_, Vec<_>>::new();
        for policy in policies(cluster, scope, console).await? {
            by_namespace
                .entry(policy.namespace().unwrap_or_default())
                .or_default()
                .push(policy);
        }
        let policies = by_namespace.into_iter();
        Ok(Self {
            helmops,
            bundles: bundles.map(|bundle| (key(&bundle), bundle)).collect(),
            policies: policies
                .map(|(namespace, policies)| (namespace, Policies::of_watched(&policies)))
                .collect(),
        })
    }

    /// The charts of all HelmOps, in the order of the HelmOps. Repositories are requested once each, for all that have the same
    /// credentials.
    async fn states(&self, cluster: &Cluster, fetcher: &Fetcher, now: Timestamp) -> Vec<ChartState> {
        let none = Policies::default();
        let completed: Vec<_> = self
            .helmops
            .iter()
            .filter_map(Decoded::valid)
            .map(|helmop| {
                let namespace = helmop.namespace().unwrap_or_default();
                let policies = self.policies.get(&namespace).unwrap_or(&none);
                (policies, policies.apply_defaults(helmop))
            })
            .collect();
        let accepted: Vec<_> = completed
            .iter()
            .map(|(policies, helmop)| (helmop, policies.accept(helmop)))
            .collect();
        let interest = interest(accepted.iter().filter_map(|(_, valid)| valid.as_ref().ok()));
        let interest = |index: &str, _: Option<&str>| interest.get(index).cloned().unwrap_or_default();
        let states = accepted.iter().map(|(helmop, valid)| async {
            let key = key(&***helmop);
            match valid {
                Ok(valid) => {
                    let bundle = self.bundles.get(&key);
                    let session = Session {
                        client: &cluster.client,
                        ca_certificates: &ca_certificates(bundle, &helmop.spec.ca_bundle),
                        interest: &interest,
                    };
                    charts_of(valid, bundle, fetcher, session, now).await
                }
                Err(errors) => vec![ChartState::refused(
                    key,
                    errors.reason().map_or("", |reason| reason.as_str()),
                    errors.to_string(),
                )],
            }
        });
        let states: Vec<Vec<_>> = stream::iter(states).buffered(CONCURRENT).collect().await;
        let undecoded = self.helmops.iter().filter_map(|helmop| match helmop {
            Decoded::Valid(_) => None,
            Decoded::Invalid { error, .. } => {
                Some(ChartState::refused(key(helmop), "DecodeError", error.to_string()))
            }
        });
        states.into_iter().flatten().chain(undecoded).collect()
    }
}

fn key(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The charts of each repository, so that its index is read once.
fn interest<'v>(valid: impl Iterator<Item = &'v ValidHelmOp<'v>>) -> BTreeMap<String, ChartFilter> {
    let mut charts = BTreeMap::<String, BTreeSet<String>>::new();
    for request in valid.flat_map(|valid| std::iter::once(&valid.chart).chain(valid.targets.iter().flatten()))
    {
        if let ChartSource::Repository { repo, chart } = request.source()
            && let Some(index) = normalized_index_url(repo)
        {
            charts.entry(index).or_default().insert(chart.to_owned());
        }
    }
    charts
}

async fn charts_of(
    valid: &ValidHelmOp<'_>,
    bundle: Option<&Bundle>,
    fetcher: &Fetcher,
    session: Session<'_>,
    now: Timestamp,
) -> Vec<ChartState> {
    let charts = RequestedCharts::of(valid, bundle);
    let uptake = UptakeInput {
        origin: Origin::Cluster,
        valid,
        bundle,
        repo: charts.first_repo(),
        now,
    };
    let next_poll = uptake.next_poll();
    let mut fetcher = fetcher.helmop(session, valid);
    let mut states = Vec::new();
    for chart in charts.as_slice() {
        let recorded = chart.version.as_ref().map(|version| version.version.clone());
        let id = ChartId::of(chart, &charts, valid, Origin::Cluster);
        if chart.request.packed.is_some() {
            let selection = fetcher.explain(chart.request).await;
            let selected = selection.and_then(|selection| {
                let selected = selection.selected;
                selected.map_err(|error| FetchFailure::Resolve(Box::new(error)))
            });
            states.push(state_of_git(
                key(valid.helmop),
                id,
                recorded,
                selected.as_ref(),
                next_poll,
            ));
            continue;
        }
        let list = fetcher.list(chart.request).await;
        states.push(state(key(valid.helmop), id, recorded, list.as_ref(), next_poll));
    }
    states
}

/// The state of a chart in a Git repository: the commit that is requested is the newest one.
pub fn state_of_git(
    key: (String, String),
    chart: ChartId,
    current: Option<String>,
    selected: Result<&ChartVersion, &FetchFailure>,
    next_poll: Due,
) -> ChartState {
    let mut state = ChartState::unknown(key, chart, current);
    match selected {
        Err(error) => state.problem = Some(error.into()),
        Ok(selected) => {
            state.in_range = Some(selected.version.clone());
            state.newest.clone_from(&state.in_range);
            state.outdated = state.is_behind();
            if state.outdated {
                state.why = when(next_poll);
            }
        }
    }
    state
}

pub fn state(
    key: (String, String),
    chart: ChartId,
    current: Option<String>,
    list: Result<&ChartExplanation, &FetchFailure>,
    next_poll: Due,
) -> ChartState {
    let mut state = ChartState::unknown(key, chart, current);
    let list = match list {
        Ok(list) => list,
        Err(error) => {
            state.problem = Some(error.into());
            return state;
        }
    };
    let version = |at: usize| {
        list.list
            .versions
            .get(at)
            .map(|judged| judged.listed.version.clone())
    };
    let (selected, newest) = (selected(list), newest(list));
    state.in_range = selected.and_then(version);
    state.newest = newest.and_then(version);
    let is_beyond_range = newest < selected || (selected.is_none() && newest.is_some());
    let is_behind = state.is_behind();
    state.outdated = is_beyond_range || is_behind;
    let mut why = Vec::new();
    if is_behind {
        why.push(when(next_poll));
    }
    if is_beyond_range {
        why.push("the range excludes the newest version".to_owned());
    }
    state.why = why.join("; ");
    state
}

/// When the selected version is taken.
fn when(next_poll: Due) -> String {
    match next_poll {
        Due::Never => "polling is off".to_owned(),
        Due::Now { .. } => "a poll is due".to_owned(),
        Due::At(time) | Due::First(time) => format!("next poll {}", timestamp(time)),
    }
}

impl ChartState {
    /// Before its versions are known.
    fn unknown((namespace, name): (String, String), chart: ChartId, current: Option<String>) -> Self {
        Self {
            namespace,
            name,
            chart: Some(chart),
            current,
            in_range: None,
            newest: None,
            outdated: false,
            why: String::new(),
            problem: None,
        }
    }

    /// Whether another version than the recorded one would be selected.
    fn is_behind(&self) -> bool {
        self.current.is_some() && self.in_range.is_some() && self.current != self.in_range
    }

    fn refused((namespace, name): (String, String), reason: &'static str, message: String) -> Self {
        Self {
            namespace,
            name,
            chart: None,
            current: None,
            in_range: None,
            newest: None,
            outdated: false,
            why: String::new(),
            problem: Some(Problem { reason, message }),
        }
    }
}
