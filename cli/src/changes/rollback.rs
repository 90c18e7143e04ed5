//! `rollback`: back to an earlier version of the chart, on all clusters.

use helmops_api::{BundleDeployment, HelmOp, labels};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    observed::{Depth, Observed, observe},
    patch::{self, PatchArgs},
    selection::Target,
    verdict::{self, cluster_of},
    waiting::{self, Awaited, WaitArgs},
};
use crate::{
    cluster::{ClusterArgs, selection::helmop_name},
    failure::Failure,
    state::{
        history::{matches, no_such_cluster},
        next_command,
    },
    terminal::Console,
};

/// The arguments of `rollback`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The version is written into spec.helm.version, and rolled out as any other change: with maxUnavailable, and with the values that the
HelmOp has now. If the HelmOp is applied from Git, change the version there, too; the next apply replaces it otherwise.

Examples:
  # To the version that was deployed before the current one
  kubectl helmop rollback web

  # To a version
  kubectl helmop rollback web --to 1.2.3

  # To what a revision of `helm history` had
  kubectl helmop rollback web --to 4

  # Back to the range that the HelmOp had before
  kubectl helmop rollback web --undo")]
pub struct RollbackArgs {
    /// Name of the HelmOp
    #[arg(value_name = "NAME", value_parser = helmop_name)]
    name: String,
    /// Version of the chart, or revision of the release; by default the version that was deployed before the current one
    #[arg(long, value_name = "VERSION|REVISION", conflicts_with = "undo")]
    to: Option<String>,
    /// The cluster whose revisions count, NAME or NAMESPACE/NAME; by default all clusters, which have to agree
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Restore the version or range that the HelmOp had before it was rolled back
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    patch: PatchArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Writes the version, and waits until it is ready.
pub async fn run(
    args: &RollbackArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let cluster = cluster.connect().await?;
    let observed = observe(&cluster, &args.name, Depth::Deployments).await?;
    let change = if args.undo {
        undo(&observed.helmop)?
    } else {
        let to = target(&observed, args.to.as_deref(), args.cluster.as_deref())?;
        change(&observed.helmop, &to)?
    };
    let stored = patch::send(&cluster, &args.name, &change.patch, args.patch).await?;
    let Change { from, to, .. } = &change;
    let suffix = args.patch.suffix();
    let line = format!(
        "helmop {}: spec.helm.version is {to:?} now, {from:?} before{suffix}",
        args.name
    );
    args.patch.report(&line, stored, true, console)?;
    if args.wait.no_wait || args.patch.is_dry_run() {
        return Ok(());
    }
    let awaited = Awaited {
        target: &Target::named(&cluster, &args.name),
        depth: Depth::HelmOp,
        verdict: &|observed| {
            if args.undo {
                verdict::ready(observed)
            } else {
                verdict::ready_in_version(observed, to)
            }
        },
        has_output: args.patch.prints_objects(),
    };
    waiting::until(&awaited, args.wait.timeout, console).await
}

/// A change of the version.
#[derive(Debug, PartialEq)]
struct Change {
    from: String,
    to: String,
    patch: Value,
}

fn change(helmop: &HelmOp, to: &str) -> Result<Change, Failure> {
    let from = requested(helmop);
    if from == to {
        return Err(Failure::negative(format!("spec.helm.version is {to} already")));
    }
    // After several rollbacks, the range from before the first one counts.
    let kept = annotation(helmop).unwrap_or(&from);
    Ok(Change {
        patch: json!({
            "metadata": { "annotations": { labels::VERSION_BEFORE_ROLLBACK: kept } },
            "spec": { "helm": { "version": to } },
        }),
        to: to.to_owned(),
        from,
    })
}

fn undo(helmop: &HelmOp) -> Result<Change, Failure> {
    let Some(to) = annotation(helmop) else {
        return Err(Failure::negative(
            "the HelmOp was not rolled back by this command: it lacks the annotation",
        )
        .with_hint(format!(
            "the annotation is {}; set spec.helm.version yourself",
            labels::VERSION_BEFORE_ROLLBACK
        )));
    };
    Ok(Change {
        patch: json!({
            "metadata": { "annotations": { labels::VERSION_BEFORE_ROLLBACK: null } },
            "spec": { "helm": { "version": to } },
        }),
        from: requested(helmop),
        to: to.to_owned(),
    })
}

fn annotation(helmop: &HelmOp) -> Option<&str> {
    let annotations = helmop.metadata.annotations.as_ref()?;
    annotations
        .get(labels::VERSION_BEFORE_ROLLBACK)
        .map(String::as_str)
}

fn requested(helmop: &HelmOp) -> String {
    let helm = helmop.spec.bundle.options.helm.as_ref();
    helm.map(|helm| helm.version.clone()).unwrap_or_default()
}

/// The version that `to` names; without it, the one that was deployed before the current one.
fn target(observed: &Observed, to: Option<&str>, cluster: Option<&str>) -> Result<String, Failure> {
    if let Some(wanted) = cluster
        && !observed
            .deployments
            .iter()
            .any(|deployment| is_on(deployment, wanted))
    {
        let (namespace, name) = names(&observed.helmop);
        return Err(no_such_cluster(&namespace, &name, wanted));
    }
    match to {
        None => previous(observed, cluster),
        Some(to) => match to.parse::<i64>() {
            Ok(revision) => of_revision(observed, revision, cluster),
            Err(_) => Ok(to.to_owned()),
        },
    }
}

/// The newest version that was deployed successfully somewhere and is not the current one.
fn previous(observed: &Observed, cluster: Option<&str>) -> Result<String, Failure> {
    let status = observed.helmop.status.as_ref();
    let current = status.map_or("", |status| &status.version);
    let deployed = attempts(observed, cluster)
        .filter(|(_, attempt)| attempt.version != current && is_good(&attempt.outcome));
    let newest = deployed.max_by(|(_, a), (_, b)| a.time.cmp(&b.time));
    newest.map(|(_, attempt)| attempt.version.clone()).ok_or_else(|| {
        Failure::negative("no cluster reports an earlier version: the history has the last five attempts, with spec.lifecycle only")
            .with_hint(format!("name a version with --to; list them with: {}", command_of(observed, "versions")))
    })
}

/// Helm's statuses of a revision that has run.
fn is_good(outcome: &str) -> bool {
    matches!(outcome, "deployed" | "superseded")
}

fn of_revision(observed: &Observed, revision: i64, cluster: Option<&str>) -> Result<String, Failure> {
    let found: Vec<_> = attempts(observed, cluster)
        .filter(|(_, attempt)| attempt.revision == revision)
        .map(|(deployment, attempt)| (cluster_of(deployment), attempt.version.as_str()))
        .collect();
    let Some((_, version)) = found.first() else {
        return Err(Failure::negative(format!(
            "no cluster reports revision {revision} among its last five attempts"
        ))
        .with_hint(format!(
            "name a version with --to instead; see: {}",
            command_of(observed, "history")
        )));
    };
    if let Some((other, differs)) = found.iter().find(|(_, other)| other != version) {
        let (first, _) = found.first().copied().unwrap_or_default();
        return Err(Failure::negative(format!(
            "revision {revision} is version {version} on cluster {first}, and {differs} on cluster {other}"
        ))
        .with_hint("name the version with --to, or the cluster with --cluster"));
    }
    Ok((*version).to_owned())
}

/// Whether a deployment is on a cluster, which is named as `history` prints it, or without its namespace.
fn is_on(deployment: &BundleDeployment, wanted: &str) -> bool {
    let namespace = labels::of(&deployment.metadata, labels::CLUSTER_NAMESPACE).unwrap_or_default();
    matches(&format!("{namespace}/{}", cluster_of(deployment)), wanted)
}

fn names(helmop: &HelmOp) -> (String, String) {
    (helmop.namespace().unwrap_or_default(), helmop.name_any())
}

fn command_of(observed: &Observed, verb: &str) -> String {
    let (namespace, name) = names(&observed.helmop);
    next_command::about(verb, &namespace, &name)
}

fn attempts<'o>(
    observed: &'o Observed,
    cluster: Option<&'o str>,
) -> impl Iterator<Item = (&'o BundleDeployment, &'o helmops_api::lifecycle::ReleaseAttempt)> {
    let deployments = observed.deployments.iter();
    deployments
        .filter(move |deployment| cluster.is_none_or(|wanted| is_on(deployment, wanted)))
        .flat_map(|deployment| {
            let history = deployment
                .status
                .lifecycle
                .iter()
                .flat_map(|lifecycle| &lifecycle.history);
            history.map(move |attempt| (deployment, attempt))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helmop(version: &str, before: Option<&str>) -> HelmOp {
        let object = json!({
            "metadata": { "name": "web", "namespace": "shop", "annotations": { labels::VERSION_BEFORE_ROLLBACK: before } },
            "spec": { "helm": { "chart": "web", "version": version } },
            "status": { "version": "1.3.0" },
        });
        let mut object = object;
        if before.is_none() {
            object["metadata"]["annotations"] = json!({});
        }
        serde_json::from_value(object).unwrap()
    }

    /// Attempts as (revision, version, outcome), newest first.
    fn deployment(cluster: &str, attempts: &[(i64, &str, &str)]) -> BundleDeployment {
        let history: Vec<_> = attempts
            .iter()
            .map(|(revision, version, outcome)| {
                let time = format!("2026-01-01T00:00:{revision:02}Z");
                json!({ "revision": revision, "action": "upgrade", "chart": "web", "version": version, "outcome": outcome, "time": time })
            })
            .collect();
        let object = json!({
            "metadata": { "name": "web", "namespace": "c", "labels": { labels::CLUSTER: cluster, labels::CLUSTER_NAMESPACE: "fleet-default" } },
            "spec": {},
            "status": { "lifecycle": { "history": history } },
        });
        serde_json::from_value(object).unwrap()
    }

    fn observed() -> Observed {
        Observed {
            helmop: helmop("^1", None),
            deployments: vec![
                deployment(
                    "a",
                    &[
                        (4, "1.3.0", "deployed"),
                        (3, "1.2.5", "failed"),
                        (2, "1.2.0", "superseded"),
                    ],
                ),
                deployment("b", &[(3, "1.3.0", "deployed"), (1, "1.1.0", "superseded")]),
            ],
            ..Observed::default()
        }
    }

    #[test]
    fn the_target_is_a_version_a_revision_or_what_ran_before() {
        let observed = observed();
        for (to, cluster, expected) in [
            (None, None, Ok("1.2.0")),
            (None, Some("b"), Ok("1.1.0")),
            (None, Some("fleet-default/b"), Ok("1.1.0")),
            (
                None,
                Some("other/b"),
                Err(r#"HelmOp "web" in namespace "shop" has no BundleDeployment on cluster "other/b""#),
            ),
            (Some("0.9.1"), None, Ok("0.9.1")),
            (Some("2"), None, Ok("1.2.0")),
            (Some("3"), Some("a"), Ok("1.2.5")),
            (
                Some("3"),
                None,
                Err("revision 3 is version 1.2.5 on cluster a, and 1.3.0 on cluster b"),
            ),
            (
                Some("9"),
                None,
                Err("no cluster reports revision 9 among its last five attempts"),
            ),
        ] {
            let found = target(&observed, to, cluster);
            let found = found.as_deref().map_err(|failure| failure.message.as_str());
            assert_eq!(found, expected, "{to:?} {cluster:?}");
        }
        let hint = target(&observed, Some("9"), None).unwrap_err().hint;
        assert!(hint.ends_with("kubectl helmop history web -n shop"), "{hint}");
    }

    #[test]
    fn the_range_from_before_the_first_rollback_is_kept_and_restored() {
        let first = change(&helmop("^1", None), "1.2.0").unwrap();
        assert_eq!((first.from.as_str(), first.to.as_str()), ("^1", "1.2.0"));
        let kept = |change: &Change| {
            change.patch["metadata"]["annotations"][labels::VERSION_BEFORE_ROLLBACK].clone()
        };
        assert_eq!(kept(&first), "^1");
        let second = change(&helmop("1.2.0", Some("^1")), "1.1.0").unwrap();
        assert_eq!(kept(&second), "^1");
        let undone = undo(&helmop("1.1.0", Some("^1"))).unwrap();
        assert_eq!((undone.to.as_str(), kept(&undone)), ("^1", Value::Null));
        assert!(undo(&helmop("1.1.0", None)).is_err());
        assert!(change(&helmop("1.2.0", None), "1.2.0").is_err());
    }
}
