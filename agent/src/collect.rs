//! Garbage collection: releases whose BundleDeployment was deleted while the agent was away, or has another name for its release now.

use std::{collections::BTreeSet, time::Duration};

use helmops_process::exit::with_causes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{context::Context, error::AgentError, reconcile};

/// After a pass that failed.
const RETRY: Duration = Duration::from_mins(1);

/// Enqueues the BundleDeployments whose releases are to be removed, immediately and then at an interval, until `stop`.
///
/// It starts after the first list of the BundleDeployments is complete. An error of one release is retried by its own backoff and
/// delays no other.
pub async fn run(
    context: &Context,
    orphans: mpsc::Sender<String>,
    interval: Duration,
    stop: CancellationToken,
) {
    loop {
        let wait = match pass(context, &orphans).await {
            // All agents that were started together do not collect together.
            Ok(()) => interval.mul_f64(1.0 + fastrand::f64()),
            Err(error) => {
                tracing::warn!(
                    error = with_causes(&error),
                    "cannot look for releases without a BundleDeployment"
                );
                RETRY
            }
        };
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
    }
}

async fn pass(context: &Context, orphans: &mpsc::Sender<String>) -> Result<(), AgentError> {
    let owned = context.records.by_owner().await?;
    let exists = |name: &str| context.deployments.get(&context.key(name)).is_some();
    if owned.is_empty() || owned.keys().any(|name| exists(name)) {
        context.guard.remember().await?;
    }
    let missing: BTreeSet<&String> = owned.keys().filter(|name| !exists(name)).collect();
    for name in missing {
        if orphans.send(name.clone()).await.is_err() {
            return Ok(());
        }
    }
    for (name, releases) in &owned {
        if let Some(deployment) = context.deployments.get(&context.key(name))
            && let Some(deployment) = deployment.valid()
            && reconcile::is_renamed(deployment, releases)
        {
            let release = context.releases.of(name);
            // While it is being deployed, which may take long: that removes them too, or the next pass does.
            let Ok(_locked) = release.try_lock() else {
                continue;
            };
            reconcile::remove_renamed(context, deployment, releases).await;
        }
    }
    Ok(())
}
