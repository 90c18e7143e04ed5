//! Follow the files of a pair, whatever way they change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::causes::with_causes;
use crate::hot::CertResolver;
use crate::pair::{PairContents, PairError, PairPaths, ServingPair, Validity};

/// Shorter intervals would only burn CPU, and a timer cannot tick every zero seconds.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// How often to look when nothing else is said: the kubelet itself takes up to a minute to bring a changed
/// Secret, so five seconds add nothing to speak of, and two small reads cost nothing.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// What one look at the files found.
#[derive(Clone, Copy, Debug)]
pub enum ReloadEvent<'a> {
    /// A new pair, served from now on.
    Loaded(&'a ServingPair),
    /// The files changed and cannot be served, or cannot be read; the last good pair stays. Told once for
    /// each distinct content.
    Refused(&'a PairError),
    /// As at the last look.
    Unchanged,
}

/// Reads both files now and every `interval` (10 ms at least), and puts a pair that is new and good into
/// `hot`. Ends only on `stop`.
///
/// Contents are compared, not times or events: so it sees the swap of a Secret mount's `..data` link, writes in
/// place, and files replaced one after the other (the mismatch in between is refused and looked at again).
/// `on_event` hears of every look and must not block.
pub async fn watch(
    paths: PairPaths,
    hot: Arc<CertResolver>,
    interval: Duration,
    stop: CancellationToken,
    mut on_event: impl FnMut(ReloadEvent<'_>) + Send,
) {
    let mut ticks = tokio::time::interval(interval.max(SHORTEST_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = None;
    let mut told = Validity::Valid;
    loop {
        let look = async {
            ticks.tick().await;
            paths.read().await
        };
        let Some(read) = stop.run_until_cancelled(look).await else {
            return;
        };
        let looked = look_at(read, &paths, &mut seen);
        match &looked {
            Look::Loaded(pair) => {
                log_loaded(pair);
                hot.replace(Arc::clone(pair));
                told = Validity::Valid;
                on_event(ReloadEvent::Loaded(pair));
            }
            Look::Refused(error) => {
                log_refused(error, hot.current().as_deref());
                on_event(ReloadEvent::Refused(error));
            }
            Look::Unchanged => on_event(ReloadEvent::Unchanged),
        }
        if let Some(pair) = hot.current() {
            told = tell_validity(&pair, told, SystemTime::now());
        }
    }
}

enum Look {
    Loaded(Arc<ServingPair>),
    Refused(PairError),
    Unchanged,
}

/// What the last look saw, to tell a new sight from the same again.
enum Seen {
    Contents(PairContents),
    Unreadable(String),
}

fn look_at(read: Result<PairContents, PairError>, paths: &PairPaths, seen: &mut Option<Seen>) -> Look {
    match (read, &seen) {
        (Ok(contents), Some(Seen::Contents(last))) if contents == *last => Look::Unchanged,
        (Err(error), Some(Seen::Unreadable(last))) if with_causes(&error) == *last => Look::Unchanged,
        (Ok(contents), _) => {
            let parsed = contents.parse(paths);
            *seen = Some(Seen::Contents(contents));
            parsed.map_or_else(Look::Refused, |pair| Look::Loaded(Arc::new(pair)))
        }
        (Err(error), _) => {
            *seen = Some(Seen::Unreadable(with_causes(&error)));
            Look::Refused(error)
        }
    }
}

fn log_loaded(pair: &ServingPair) {
    tracing::info!(names = ?pair.names(), expires = %pair.expires(), "loaded serving certificate");
    if pair.names().is_empty() {
        tracing::warn!(
            "the serving certificate has no subject alternative name and the API server will refuse it; \
             issue it with the DNS name SERVICE.NAMESPACE.svc"
        );
    }
}

fn log_refused(error: &PairError, current: Option<&ServingPair>) {
    let reason = with_causes(error);
    if let Some(pair) = current {
        let expires = pair.expires();
        tracing::warn!(%expires, "failed to reload the serving certificate; keeping the previous one: {reason}");
    } else {
        tracing::warn!("no serving certificate yet; TLS handshakes fail until there is one: {reason}");
    }
}

/// Warns when the validity differs from what was last `told`, and returns what is told now.
pub(crate) fn tell_validity(pair: &ServingPair, told: Validity, now: SystemTime) -> Validity {
    let validity = pair.validity(now);
    if validity == told {
        return told;
    }
    let (begins, expires) = (pair.begins(), pair.expires());
    match validity {
        Validity::NotYet => {
            tracing::warn!(%begins, "the serving certificate is not valid yet; check the clock of this node");
        }
        Validity::Valid => tracing::info!(%expires, "the serving certificate is valid now"),
        Validity::Expired => tracing::warn!(
            %expires,
            "the serving certificate has expired and the API server will refuse it; issue a new one"
        ),
    }
    validity
}

#[cfg(test)]
mod tests;
