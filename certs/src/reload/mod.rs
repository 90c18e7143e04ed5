//! Watches the files of a pair for changes of their content.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::causes::with_causes;
use crate::pair::{PairContents, PairError, PairPaths, ServingPair, Validity};
use crate::resolver::CertResolver;

/// Shorter intervals would only waste CPU time, and the interval of a timer cannot be zero.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The default interval: the kubelet itself takes up to a minute to update a mounted Secret, so five seconds add little, and
/// two small reads cost little.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// The result of one check of the files.
#[derive(Clone, Copy, Debug)]
pub enum ReloadEvent<'a> {
    /// A new pair, served from now on.
    Loaded(&'a ServingPair),
    /// The files changed and cannot be served, or cannot be read; the last valid pair stays. Reported once for each distinct
    /// content.
    Refused(&'a PairError),
    /// No change since the last check.
    Unchanged,
}

/// Reads both files now and every `interval` (at least 10 ms), and passes each new valid pair to `resolver`. Returns only on
/// `stop`.
///
/// Contents are compared, not times or events: this detects the swap of the `..data` link in a Secret mount, writes in place,
/// and files replaced one after the other (the mismatch in between is rejected and checked again). `on_event` is called for
/// every check and must not block.
pub async fn watch(
    paths: PairPaths,
    resolver: Arc<CertResolver>,
    interval: Duration,
    stop: CancellationToken,
    mut on_event: impl FnMut(ReloadEvent<'_>) + Send,
) {
    let mut ticks = tokio::time::interval(interval.max(MIN_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_read = None;
    let mut logged = Validity::Valid;
    loop {
        let next = async {
            ticks.tick().await;
            paths.read().await
        };
        let Some(read) = stop.run_until_cancelled(next).await else {
            return;
        };
        match &check(read, &paths, &mut last_read) {
            CheckResult::Loaded(pair) => {
                log_loaded(pair);
                resolver.replace(Arc::clone(pair));
                logged = Validity::Valid;
                on_event(ReloadEvent::Loaded(pair));
            }
            CheckResult::Refused(error) => {
                log_refused(error, resolver.current().as_deref());
                on_event(ReloadEvent::Refused(error));
            }
            CheckResult::Unchanged => on_event(ReloadEvent::Unchanged),
        }
        if let Some(pair) = resolver.current() {
            logged = log_validity(&pair, logged, SystemTime::now());
        }
    }
}

enum CheckResult {
    Loaded(Arc<ServingPair>),
    Refused(PairError),
    Unchanged,
}

/// The result of the last read, to detect changes.
enum LastRead {
    Contents(PairContents),
    Failed(String),
}

fn check(
    read: Result<PairContents, PairError>,
    paths: &PairPaths,
    last_read: &mut Option<LastRead>,
) -> CheckResult {
    match (read, &last_read) {
        (Ok(contents), Some(LastRead::Contents(last))) if contents == *last => CheckResult::Unchanged,
        (Err(error), Some(LastRead::Failed(last))) if with_causes(&error) == *last => CheckResult::Unchanged,
        (Ok(contents), _) => {
            let parsed = contents.parse(paths);
            *last_read = Some(LastRead::Contents(contents));
            parsed.map_or_else(CheckResult::Refused, |pair| CheckResult::Loaded(Arc::new(pair)))
        }
        (Err(error), _) => {
            *last_read = Some(LastRead::Failed(with_causes(&error)));
            CheckResult::Refused(error)
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

/// Logs the validity if it differs from the last one that was `logged`, and returns it.
pub(crate) fn log_validity(pair: &ServingPair, logged: Validity, now: SystemTime) -> Validity {
    let validity = pair.validity(now);
    if validity == logged {
        return logged;
    }
    let (starts, expires) = (pair.starts(), pair.expires());
    match validity {
        Validity::NotYet => {
            tracing::warn!(%starts, "the serving certificate is not valid yet; check the clock of this node");
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
