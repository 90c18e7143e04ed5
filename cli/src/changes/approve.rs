//! `approve`: lets a partition of a rollout begin.

use helmops_api::{
    Bundle,
    bundle::{APPROVAL, GATE, RolloutStatus},
    labels,
    rollout::Partition,
};

use super::{
    observed::{Depth, observe},
    patch::{self, PatchArgs},
};
use crate::{
    cluster::{ClusterArgs, selection::helmop_name},
    failure::Failure,
    state::next_command,
    terminal::Console,
};

/// The arguments of `approve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
An approval is for what is rolled out now. It does not count for a later version or change, and opens no gate.

Examples:
  # Let the partition begin that waits for approval
  kubectl helmop approve web

  # Approve all partitions up to one, before they wait
  kubectl helmop approve web --partition europe

  # Approve all partitions
  kubectl helmop approve web --all")]
pub struct ApproveArgs {
    /// Name of the HelmOp
    #[arg(value_parser = helmop_name)]
    name: String,
    /// The last partition that is approved; by default the one that waits
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Approve all partitions
    #[arg(long, conflicts_with = "partition")]
    all: bool,
    #[command(flatten)]
    patch: PatchArgs,
}

/// Writes the annotation.
pub async fn run(
    args: &ApproveArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let observed = observe(&cluster, &args.name, Depth::Bundle).await?;
    let scope = match (&args.partition, args.all) {
        (_, true) => Scope::All,
        (Some(partition), _) => Scope::UpTo(partition),
        (None, false) => Scope::Waiting,
    };
    let approval = approval(observed.bundle.as_ref(), scope).map_err(|failure| {
        let hint = next_command::about("rollout status", &cluster.namespace, &args.name);
        failure.with_hint(format!("see: {hint}"))
    })?;
    let annotation = patch::annotation(labels::APPROVED_ROLLOUT, &approval.value);
    let stored = patch::send(&cluster, &args.name, &annotation, args.patch).await?;
    let (name, suffix) = (&args.name, args.patch.suffix());
    let line = format!("helmop {name}: {}{suffix}", approval.text);
    args.patch.report(&line, stored, true, console)
}

/// What is approved.
#[derive(Clone, Copy, Debug)]
enum Scope<'a> {
    Waiting,
    UpTo(&'a str),
    All,
}

/// An approval, and the text about it.
#[derive(Debug, PartialEq, Eq)]
struct Approval {
    value: String,
    text: String,
}

fn approval(bundle: Option<&Bundle>, scope: Scope<'_>) -> Result<Approval, Failure> {
    let negative = |message: &str| Err(Failure::negative(message));
    let Some(bundle) = bundle else {
        return negative("the HelmOp has no Bundle yet, so nothing is rolled out");
    };
    let status = bundle.status.as_deref();
    let current = status.filter(|status| status.observed_generation == bundle.metadata.generation);
    let Some(rollout) = current.and_then(|status| status.rollout.as_ref()) else {
        return negative(if needing_approval(bundle).next().is_none() {
            "no partition of spec.rolloutStrategy has approval: Manual"
        } else {
            "the controller has not planned the rollout of the last change yet; try again"
        });
    };
    let RolloutStatus { id, .. } = rollout;
    let up_to = |partition: &str| Approval {
        value: format!("{id}/{partition}"),
        text: format!("rollout {id} is approved up to partition {partition:?}"),
    };
    match scope {
        Scope::All => Ok(Approval {
            value: id.clone(),
            text: format!("rollout {id} is approved for all partitions"),
        }),
        Scope::Waiting if rollout.waits_for == APPROVAL => Ok(up_to(&rollout.partition)),
        Scope::Waiting if rollout.waits_for == GATE => Err(Failure::negative(format!(
            "partition {:?} waits for its gate, which an approval does not open; to go on without it, remove `gate` from the partition in \
             spec.rolloutStrategy of the HelmOp",
            rollout.partition
        ))),
        Scope::Waiting => {
            negative("no partition waits for approval; name one with --partition to approve it before")
        }
        Scope::UpTo(partition) if needing_approval(bundle).any(|known| known.name == partition) => {
            Ok(up_to(partition))
        }
        Scope::UpTo(partition) => {
            let known: Vec<_> = needing_approval(bundle).map(|known| &*known.name).collect();
            negative(&format!(
                "no partition {partition:?} needs an approval; those that do: {}",
                known.join(", ")
            ))
        }
    }
}

fn needing_approval(bundle: &Bundle) -> impl Iterator<Item = &Partition> {
    let strategy = bundle.spec.rollout_strategy.iter();
    strategy
        .flat_map(|strategy| &strategy.partitions)
        .filter(|partition| partition.needs_approval())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(status: &Value) -> Bundle {
        let partitions = json!([{ "name": "first" }, { "name": "eu", "approval": "Manual" }, { "name": "us", "approval": "Manual" }]);
        let object = json!({
            "metadata": { "name": "web", "generation": 2 },
            "spec": { "rolloutStrategy": { "partitions": partitions } }, "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_is_rolled_out_now_is_approved() {
        let status = |waits_for: &str, partition: &str, generation: i64| {
            let rollout = json!({ "id": "abc", "waitsFor": waits_for, "partition": partition });
            bundle(&json!({ "observedGeneration": generation, "rollout": rollout }))
        };
        let waiting = status("Approval", "eu", 2);
        for (bundle, scope, expected) in [
            (&waiting, Scope::Waiting, Ok("abc/eu")),
            (&waiting, Scope::UpTo("us"), Ok("abc/us")),
            (&waiting, Scope::All, Ok("abc")),
            (
                &waiting,
                Scope::UpTo("first"),
                Err("no partition \"first\" needs an approval; those that do: eu, us"),
            ),
            (
                &status("Soak", "eu", 2),
                Scope::Waiting,
                Err("no partition waits for approval"),
            ),
            (&status("Soak", "eu", 2), Scope::UpTo("eu"), Ok("abc/eu")),
            (
                &status("Gate", "eu", 2),
                Scope::Waiting,
                Err("partition \"eu\" waits for its gate, which an approval does not open"),
            ),
            (
                &status("Approval", "eu", 1),
                Scope::Waiting,
                Err("the controller has not planned"),
            ),
        ] {
            let approval = approval(Some(bundle), scope);
            match (approval, expected) {
                (Ok(approval), Ok(expected)) => assert_eq!(approval.value, expected),
                (Err(failure), Err(expected)) => {
                    assert!(failure.message.starts_with(expected), "{}", failure.message);
                }
                (approval, _) => panic!("{scope:?}: {approval:?}"),
            }
        }
        assert!(approval(None, Scope::All).is_err());
        let mut none = waiting;
        none.spec.rollout_strategy = None;
        none.status = None;
        let failure = approval(Some(&none), Scope::Waiting).unwrap_err();
        assert_eq!(
            failure.message,
            "no partition of spec.rolloutStrategy has approval: Manual"
        );
    }
}
