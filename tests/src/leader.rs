//! Which replica of the controller leads.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::helmops;
use crate::kubectl::Kubectl;
use crate::wait::eventually;

/// The Lease of those who work on no shard; that of a shard has `-` and its name behind it.
pub const LEASE: &str = "fleet-helmops-leader-election-shard";

/// The holder of a Lease: the name of the replica, `_` and a word by chance. Empty where it was given back.
///
/// # Errors
/// Where there is no such Lease.
pub async fn holder(kubectl: &Kubectl, lease: &str) -> Result<String> {
    let kubectl = kubectl.in_namespace(helmops::NAMESPACE);
    let lease = kubectl.get(&format!("lease/{lease}")).await?;
    let lease = lease.context("there is no Lease")?;
    let holder = lease.pointer("/spec/holderIdentity");
    Ok(holder
        .and_then(|holder| holder.as_str())
        .unwrap_or_default()
        .to_owned())
}

/// Waits until a replica holds the Lease, and gives the time that it took.
///
/// # Errors
/// At the deadline, with the one who holds it then.
pub async fn until_holder(kubectl: &Kubectl, name: &str, deadline: Duration) -> Result<Duration> {
    let start = Instant::now();
    eventually("the Lease", deadline, async || {
        let holder = holder(kubectl, LEASE).await?;
        ensure!(
            holder.starts_with(&format!("{name}_")),
            "its holder is {holder:?}"
        );
        Ok(start.elapsed())
    })
    .await
}
