//! Waits until something is reached, and prints each change of what is awaited.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    observed::{Depth, Observed, observe},
    verdict::Verdict,
};
use crate::{
    cluster::{Cluster, duration::timeout},
    failure::Failure,
    terminal::Console,
};

/// How often the objects are read.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long a command waits.
#[derive(Clone, Debug, clap::Args)]
pub struct WaitArgs {
    /// Do not wait for the result
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, such as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    pub timeout: Duration,
}

/// What is awaited.
pub struct Awaited<'a> {
    /// The name of the HelmOp.
    pub name: &'a str,
    /// Which objects `verdict` needs.
    pub depth: Depth,
    /// Whether it is reached.
    pub verdict: &'a dyn Fn(&Observed) -> Verdict,
}

/// Waits. A failure ends it immediately, the timeout with a failure that says what was awaited last.
pub async fn until(
    cluster: &Cluster,
    awaited: &Awaited<'_>,
    timeout: Duration,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let deadline = Instant::now() + timeout;
    let name = awaited.name;
    let mut last = String::new();
    loop {
        let pending = match (awaited.verdict)(&observe(cluster, name, awaited.depth).await?) {
            Verdict::Reached(text) => return Ok(writeln!(console.out, "helmop {name}: {text}")?),
            Verdict::Failed(text) => {
                return Err(Failure::negative(format!("helmop {name}: {text}"))
                    .with_hint(format!("see more with: kubectl helmop status {name}")));
            }
            Verdict::Pending(text) => text,
        };
        if pending != last {
            writeln!(console.out, "helmop {name}: waiting: {pending}")?;
            console.out.flush()?;
            last = pending;
        }
        if Instant::now() + INTERVAL > deadline {
            let seconds = timeout.as_secs();
            return Err(
                Failure::negative(format!("helmop {name}: not reached within {seconds} s: {last}"))
                    .with_hint(format!("see more with: kubectl helmop status {name}")),
            );
        }
        sleep(INTERVAL).await;
    }
}
