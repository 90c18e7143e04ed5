//! What a person sees while something takes longer than a second.

use std::time::Duration;

use tokio::time::{Instant, interval_at};

use super::{Console, writer::Control};

/// What takes less long needs no explanation.
const PATIENCE: Duration = Duration::from_secs(1);
/// So long that a slow terminal or a recording is not flooded.
const STEP: Duration = Duration::from_millis(250);
const FRAMES: [char; 4] = ['|', '/', '-', '\\'];

/// Awaits `work`. After a second, a terminal shows what happens and for how long, such as "Reading the index of …", in a line that
/// is cleared at the end.
pub async fn during<T>(console: &mut Console<'_>, what: &str, work: impl Future<Output = T>) -> T {
    if !console.is_interactive {
        return work.await;
    }
    let started = Instant::now();
    let mut ticks = interval_at(started + PATIENCE, STEP);
    let mut work = std::pin::pin!(work);
    let mut is_shown = false;
    for frame in FRAMES.iter().cycle() {
        tokio::select! {
            biased;
            result = &mut work => {
                if is_shown {
                    // Progress that cannot be shown is no reason to fail.
                    let _ = console.err.control(Control::ClearLine);
                }
                return result;
            }
            _ = ticks.tick() => {
                let _ = console.err.control(Control::ClearLine);
                let _ = write!(console.err, "{frame} {what} ({} s)", started.elapsed().as_secs());
                let _ = console.err.flush();
                is_shown = true;
            }
        }
    }
    work.await
}
