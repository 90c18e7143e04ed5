//! Waits until something is reached, and prints each change of what is awaited.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    observed::{Depth, Observed, observe},
    selection::Target,
    verdict::Verdict,
};
use crate::{cluster::duration::timeout, failure::Failure, state::next_command, terminal::Console};

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

pub struct Awaited<'a> {
    /// The HelmOp.
    pub target: &'a Target,
    /// Which objects `verdict` needs.
    pub depth: Depth,
    /// Whether it is reached.
    pub verdict: &'a dyn Fn(&Observed) -> Verdict,
    /// Whether the lines go to standard error, since standard output has objects.
    pub has_output: bool,
}

/// Waits. A failure ends it immediately, the timeout with a failure that says what was awaited last.
pub async fn until(
    awaited: &Awaited<'_>,
    timeout: Duration,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let deadline = Instant::now() + timeout;
    let Target { cluster, name, title } = awaited.target;
    let out = if awaited.has_output {
        &mut console.err
    } else {
        &mut console.out
    };
    let failed = |text: String| {
        let status = next_command::about("status", &cluster.namespace, name);
        Failure::negative(format!("helmop {title}: {text}")).with_hint(format!("see more with: {status}"))
    };
    let mut last = String::new();
    loop {
        let pending = match (awaited.verdict)(&observe(cluster, name, awaited.depth).await?) {
            Verdict::Reached(text) => return Ok(writeln!(out, "helmop {title}: {text}")?),
            Verdict::Failed(text) => return Err(failed(text)),
            Verdict::Pending(text) => text,
        };
        if pending != last {
            writeln!(out, "helmop {title}: waiting: {pending}")?;
            out.flush()?;
            last = pending;
        }
        if Instant::now() + INTERVAL > deadline {
            return Err(failed(format!(
                "not reached within {} s: {last}",
                timeout.as_secs()
            )));
        }
        sleep(INTERVAL).await;
    }
}
