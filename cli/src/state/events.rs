//! `events`: all Events about a HelmOp and what is made from it, each once.

use futures::StreamExt;
use helmops_api::{Decoded, HelmOp};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::runtime::watcher;

use super::{
    event_log::{self, EventReport, Subjects},
    read::{Parts, events_of, observed},
};
use crate::{
    cluster::{
        Cluster, ClusterArgs,
        selection::{Scope, helmop_name},
        watch::Change,
    },
    failure::Failure,
    output::{Format, OutputArgs, write_json, write_yaml},
    terminal::{
        Console, progress,
        table::{MoreRows, one_line},
    },
};

/// The arguments of `events`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What happened to a HelmOp, its Bundle and its BundleDeployments, the newest last
  kubectl helmop events web

  # And what happens from now on
  kubectl helmop events web --watch

An agent writes its Events on its own cluster, into the namespace of the release: kubectl events -n NAMESPACE there.")]
pub struct EventsArgs {
    /// Name of the HelmOp
    #[arg(value_parser = helmop_name)]
    pub name: String,
    /// Print new Events as they are written
    #[arg(short, long)]
    pub watch: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Prints the Events.
///
/// # Errors
/// If the HelmOp does not exist, or Events cannot be read.
pub async fn run(args: &EventsArgs, cluster: &ClusterArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let read = observed(&cluster, &args.name, Parts::All);
    let observed = progress::during(console, "Reading Events", read).await?;
    let subjects = Subjects::new(&cluster.namespace, &args.name, &observed.deployments);
    let log = event_log::log(&observed.events, &subjects);
    let format = args.output.output;
    for note in &observed.notes {
        writeln!(console.err, "{}", one_line(note))?;
    }
    if args.watch {
        if !matches!(format, Format::Table | Format::Wide) {
            return Err(Failure::unable("--watch prints a table only: leave -o out"));
        }
        let rows = event_log::table(&log, Timestamp::now()).begin(&mut console.out, console.styles)?;
        return watch(&cluster, &observed.helmop, subjects, &log, rows, console).await;
    }
    print(&log, format, console)
}

fn print(log: &[EventReport], format: Format, console: &mut Console<'_>) -> Result<(), Failure> {
    match format {
        Format::Json => Ok(write_json(&mut console.out, &log)?),
        Format::Yaml => Ok(write_yaml(&mut console.out, &log)?),
        Format::Name => Ok(log
            .iter()
            .try_for_each(|event| writeln!(console.out, "{}", one_line(&event.object)))?),
        Format::Table | Format::Wide if log.is_empty() => Ok(writeln!(
            console.err,
            "No Events found. The API server keeps them for an hour."
        )?),
        Format::Table | Format::Wide => {
            Ok(event_log::table(log, Timestamp::now()).write(&mut console.out, console.styles)?)
        }
    }
}

/// Prints each Event that is not among the known ones, or is counted further.
async fn watch(
    cluster: &Cluster,
    helmop: &HelmOp,
    subjects: Subjects,
    known: &[EventReport],
    mut rows: MoreRows,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    console.out.flush()?;
    let name = helmop.metadata.name.clone().unwrap_or_default();
    let config = watcher::Config::default().fields(&events_of(&name));
    let mut known = known.to_vec();
    let mut changes = std::pin::pin!(cluster.watch::<Event>(Scope::All, config));
    while let Some(change) = changes.next().await {
        let Change::Applied(Decoded::Valid(event)) = change? else {
            continue;
        };
        let Some(news) = news(&known, &event, &subjects) else {
            continue;
        };
        let cells = event_log::cells(&news, Timestamp::now());
        rows.row(&cells, &mut console.out, console.styles)?;
        console.out.flush()?;
        known.retain(|one| !news.is_repetition_of(one));
        known.push(news);
    }
    Ok(())
}

/// An Event that is new, or has happened again.
fn news(known: &[EventReport], event: &Event, subjects: &Subjects) -> Option<EventReport> {
    let report = event_log::log([event], subjects).pop()?;
    let before = known.iter().find(|one| report.is_repetition_of(one));
    before
        .is_none_or(|before| before.last < report.last)
        .then_some(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        state::fixture::{golden, now, rollout},
        terminal::style::Styles,
    };

    fn subjects() -> Subjects {
        Subjects::new("shop", "web", &rollout().deployments)
    }

    #[test]
    fn events_of_other_objects_are_left_out_and_equal_ones_are_counted() {
        let log = event_log::log(&rollout().events, &subjects());
        let text = event_log::table(&log, now()).text(Styles::new(false));
        golden("events.txt", &text);
    }

    #[test]
    fn a_watch_prints_an_event_again_only_if_it_happened_again() {
        let events = rollout().events;
        let known = event_log::log(&events, &subjects());
        for event in &events {
            assert_eq!(news(&known, event, &subjects()), None);
        }
        let mut again = events[0].clone();
        again.series.as_mut().unwrap().last_observed_time =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(now());
        assert!(news(&known, &again, &subjects()).is_some());
        assert!(news(&[], &events[1], &subjects()).is_some());
    }
}
