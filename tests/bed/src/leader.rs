//! The leader among the replicas of the controller.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::helmops;
use crate::kubectl::Kubectl;
use crate::wait::eventually;

/// The Lease of replicas without a shard; that of a shard has the suffix `-` and its name.
pub const LEASE: &str = "fleet-helmops-leader-election-shard";

/// The holder of a Lease: the name of the replica, `_` and a random suffix. Empty if it was released.
///
/// # Errors
/// If the Lease does not exist.
pub async fn holder(kubectl: &Kubectl, lease: &str) -> Result<String> {
    let kubectl = kubectl.in_namespace(helmops::NAMESPACE);
    let lease = kubectl.get(&format!("lease/{lease}")).await?;
    let lease = lease.context("the Lease does not exist")?;
    let holder = lease.pointer("/spec/holderIdentity");
    Ok(holder
        .and_then(|holder| holder.as_str())
        .unwrap_or_default()
        .to_owned())
}

/// Waits until a replica holds the Lease, and returns the elapsed time.
///
/// # Errors
/// At the deadline, with the current holder.
pub async fn until_holder(kubectl: &Kubectl, name: &str, deadline: Duration) -> Result<Duration> {
    let start = Instant::now();
    eventually("the replica to hold the Lease", deadline, async || {
        let holder = holder(kubectl, LEASE).await?;
        ensure!(
            holder.starts_with(&format!("{name}_")),
            "the holder is {holder:?}"
        );
        Ok(start.elapsed())
    })
    .await
}
