//! Why workloads of a release are not ready: what their pods show.
//!
//! ```text
//! workloads that are not ready ─► due? ─► find: pods by selector and owner ─► worst cause ─► Events, end of a log ─► messages
//! ```
//!
//! A container without a readiness probe is ready as soon as it runs, so also for a moment at each restart of a crash loop. A workload with
//! such containers that is waited for is ready when it has been so for 5 seconds; one that is known to crash, for 15 seconds.
//!
//! A workload that is not ready for a moment costs no request. Others are looked at after 5 seconds, and then less and less often.
//! Everything is read as the account that deploys, so that nothing is shown that this account cannot read.

mod causes;
mod find;
pub mod log;

use std::{fmt::Display, time::Duration};

use helmops_release::deployed::RevisionId;
use kube::Client;
use tokio::time::timeout;

use self::causes::Start;
pub use self::causes::{PodCauses, STEADY_AFTER_CRASH};
use crate::{
    live::{Kinds, Objects},
    monitor::Monitored,
};

/// The longest time of all looks in a reconciliation, which waits for them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the objects of the revision are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The release does not wait.
    Never,
    /// They were ready.
    Done,
    Now,
    /// The time is over: what is not ready fails now.
    Over,
}

/// What is looked at.
#[derive(Clone, Copy)]
pub struct LookAt<'l> {
    pub kinds: &'l Kinds,
    /// The revision that runs.
    pub revision: &'l RevisionId,
    pub wait: Wait,
    /// Whether the end of the log of a container that crashes is shown.
    pub shows_logs: bool,
}

/// Adds to the objects of a release why they are not ready. `deployer` is the cluster as the account that deploys; it is only needed
/// if something is looked at.
///
/// What cannot be read is logged: the release does not depend on it.
pub async fn explain<E: Display>(
    causes: &mut PodCauses,
    monitored: &mut Monitored,
    look_at: LookAt<'_>,
    deployer: impl AsyncFnOnce() -> Result<Client, E>,
) {
    let is_awaited = matches!(look_at.wait, Wait::Now | Wait::Over);
    for (id, start) in causes.starts(look_at.revision, monitored.started(), is_awaited) {
        match start {
            Start::Steady => monitored.show_ready(&id),
            Start::Recent => {}
            Start::Crashing(health) => monitored.show(&id, health),
        }
    }
    let mut unready = monitored.unready(look_at.wait != Wait::Never);
    unready.retain(|(id, _)| find::has_pods(id));
    let due = causes.due(look_at.revision, &unready, look_at.wait == Wait::Over);
    if !due.is_empty() {
        let looks = async {
            let client = deployer().await.map_err(|error| error.to_string())?;
            let objects = Objects {
                kinds: look_at.kinds,
                client: &client,
            };
            for id in &due {
                let known = causes.get(id);
                let look = find::cause(objects, id, known, look_at.shows_logs).await;
                causes.found(id, look.map_err(|error| error.to_string())?);
            }
            Ok(())
        };
        let ended = timeout(TIMEOUT, looks).await;
        if let Err(error) = ended.unwrap_or_else(|_| Err(format!("not done within {} s", TIMEOUT.as_secs())))
        {
            tracing::info!(error, "cannot find out why objects are not ready");
        }
        causes.looked_at(&due);
    }
    for object in &monitored.objects.objects {
        if !object.health.is_ready() {
            causes.shows(&object.id, &object.health);
        }
    }
    for (id, cause) in causes.known() {
        monitored.add_cause(id, cause);
    }
}
