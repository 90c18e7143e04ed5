//! `wait`: until HelmOps are ready, or have a version or a condition.

use std::time::Duration;

use super::{
    observed::{Depth, Observed},
    selection::Selection,
    verdict::{self, Verdict},
    waiting::{self, Awaited},
};
use crate::{
    cluster::{ClusterArgs, duration::timeout},
    failure::Failure,
    terminal::Console,
};

/// The arguments of `wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Until the HelmOp is ready on all clusters, in the generation that is stored
  kubectl helmop wait web

  # Until version 1.4.0 is ready
  kubectl helmop wait web --for=version=1.4.0 --timeout=10m

  # Until a condition is True
  kubectl helmop wait web --for=condition=Accepted

Exit codes: 0 when it is reached, 1 when it cannot be reached or not in time, 2 when it cannot be observed.")]
pub struct WaitForArgs {
    #[command(flatten)]
    selection: Selection,
    /// What to wait for: ready, version=VERSION or condition=TYPE
    #[arg(long = "for", value_name = "WHAT", default_value = "ready", value_parser = goal)]
    goal: Goal,
    /// How long to wait for each HelmOp, such as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Duration,
}

/// What is awaited.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Goal {
    Ready,
    Version(String),
    Condition(String),
}

fn goal(text: &str) -> Result<Goal, String> {
    match text.split_once('=') {
        None if text.eq_ignore_ascii_case("ready") => Ok(Goal::Ready),
        Some(("version", version)) if !version.is_empty() => Ok(Goal::Version(version.into())),
        Some(("condition", name)) if !name.is_empty() => Ok(Goal::Condition(name.into())),
        _ => Err("must be ready, version=VERSION or condition=TYPE".into()),
    }
}

impl Goal {
    fn verdict(&self, observed: &Observed) -> Verdict {
        match self {
            Self::Ready => verdict::ready(observed),
            Self::Version(version) => verdict::ready_in_version(observed, version),
            Self::Condition(name) => verdict::condition_is_true(observed, name),
        }
    }
}

/// Waits for each HelmOp.
pub async fn run(
    args: &WaitForArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    for target in args.selection.targets(&cluster).await? {
        let awaited = Awaited {
            target: &target,
            depth: Depth::HelmOp,
            verdict: &|observed| args.goal.verdict(observed),
            has_output: false,
        };
        waiting::until(&awaited, args.timeout, console).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_parsed() {
        for (text, expected) in [
            ("ready", Some(Goal::Ready)),
            ("version=1.2.3", Some(Goal::Version("1.2.3".into()))),
            ("condition=Polled", Some(Goal::Condition("Polled".into()))),
            ("version=", None),
            ("deleted", None),
        ] {
            assert_eq!(goal(text).ok(), expected, "{text}");
        }
    }
}
