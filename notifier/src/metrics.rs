//! The metrics of the notifier.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use helmops_kube::lease::Leadership;
use helmops_model::reason::Reason;
use helmops_notify::message_format::Format;
use helmops_process::{lock, metrics::registered};
use helmops_runtime::metrics::{Controller, ReconcileMetrics};
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use tokio_util::sync::CancellationToken;

use crate::work::AlertKey;

/// The loop of Alerts.
pub const ALERTS: Controller = Controller {
    label: "alert",
    failures: || vec![Reason::APIError],
};
/// The loop of AlertProviders.
pub const PROVIDERS: Controller = Controller {
    label: "alertprovider",
    failures: || vec![Reason::APIError],
};
/// The loop of Receivers.
pub const RECEIVERS: Controller = Controller {
    label: "receiver",
    failures: || {
        vec![
            Reason::APIError,
            Reason::InvalidNotification,
            Reason::InvalidName,
            Reason::InvalidSelector,
            Reason::LimitExceeded,
            Reason::NamespaceForbidden,
            Reason::SecretNotFound,
            Reason::InvalidSecret,
        ]
    },
};

/// From 5 ms to the longest timeout.
const BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0,
];

/// The result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The endpoint accepted the message.
    Delivered,
    /// It failed, and is sent again.
    Retried,
    /// It was rejected, and waits for a change.
    Rejected,
}

impl Delivery {
    const ALL: [Self; 3] = [Self::Delivered, Self::Retried, Self::Rejected];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::Rejected => "rejected",
        }
    }
}

/// The metrics of the notifier.
#[derive(Debug)]
pub struct Metrics {
    /// The metrics of the reconciliations of all loops.
    pub reconciles: ReconcileMetrics,
    pushes: IntCounter,
    polls: IntCounter,
    google_keys: IntCounterVec,
    messages: IntCounterVec,
    duration: Histogram,
    undelivered: IntGauge,
    waiting: Mutex<Waiting>,
}

/// The messages that wait.
#[derive(Debug, Default)]
struct Waiting {
    of: HashMap<AlertKey, i64>,
    is_leader: bool,
}

impl Waiting {
    /// What this replica has to deliver. Another one may have delivered what it knows of, since it is the leader.
    fn number(&self) -> i64 {
        if self.is_leader { self.of.values().sum() } else { 0 }
    }
}

impl Metrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the
    /// first event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let messages = Opts::new(
            "helmops_alert_messages_total",
            "Messages of Alerts that were sent, by type of the AlertProvider and result (delivered, retried, rejected).",
        );
        let messages = registered(registry, IntCounterVec::new(messages, &["type", "result"])?)?;
        for format in Format::ALL {
            for result in Delivery::ALL {
                messages.with_label_values(&[format.as_str(), result.as_str()]);
            }
        }
        let duration = HistogramOpts::new(
            "helmops_alert_delivery_duration_seconds",
            "Duration of the request for a message of an Alert.",
        );
        let undelivered = IntGauge::new(
            "helmops_alert_undelivered",
            "Messages of Alerts that wait because their endpoint fails, is missing or is suspended; 0 for replicas that are not the leader.",
        )?;
        let pushes = IntCounter::new(
            "helmops_notifier_pushes_total",
            "Pushes to repositories that were handled.",
        )?;
        let polls = IntCounter::new(
            "helmops_notifier_requested_polls_total",
            "Polls of HelmOps that were requested for pushes.",
        )?;
        let google_keys = Opts::new(
            "helmops_notifier_google_key_fetches_total",
            "Attempts to fetch and publish the keys of Google, for Receivers of type gcr, by result (success, error).",
        );
        let google_keys = registered(registry, IntCounterVec::new(google_keys, &["result"])?)?;
        for is_success in [true, false] {
            google_keys.with_label_values(&[fetched(is_success)]);
        }
        Ok(Self {
            google_keys,
            pushes: registered(registry, pushes)?,
            polls: registered(registry, polls)?,
            reconciles: ReconcileMetrics::register(registry, &[ALERTS, PROVIDERS, RECEIVERS])?,
            messages,
            duration: registered(
                registry,
                Histogram::with_opts(duration.buckets(BUCKETS.to_vec()))?,
            )?,
            undelivered: registered(registry, undelivered)?,
            waiting: Mutex::default(),
        })
    }

    /// Counts pushes that were handled, and the polls that were requested for them.
    pub fn handled(&self, pushes: usize, polls: usize) {
        self.pushes.inc_by(pushes.try_into().unwrap_or(u64::MAX));
        self.polls.inc_by(polls.try_into().unwrap_or(u64::MAX));
    }

    /// Counts an attempt to fetch the keys of Google.
    pub fn fetched_google_keys(&self, is_success: bool) {
        self.google_keys.with_label_values(&[fetched(is_success)]).inc();
    }

    /// Counts a message that was sent.
    pub fn sent(&self, format: Format, result: Delivery, took: Duration) {
        self.messages
            .with_label_values(&[format.as_str(), result.as_str()])
            .inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// Sets the number of messages of an Alert that wait. An Alert without any is forgotten.
    pub fn undelivered(&self, alert: &AlertKey, number: i64) {
        let mut waiting = lock(&self.waiting);
        if number > 0 {
            waiting.of.insert(alert.clone(), number);
        } else {
            waiting.of.remove(alert);
        }
        self.undelivered.set(waiting.number());
    }

    /// Shows messages that wait only while this replica is the leader, until `stop`.
    pub async fn follow(&self, leadership: &Leadership, stop: CancellationToken) {
        let follow = async {
            while leadership.wait_until_held().await.is_ok() {
                self.set_leader(true);
                leadership.until_lost().await;
                self.set_leader(false);
            }
            // The process ends.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow => {}
        }
    }

    fn set_leader(&self, is_leader: bool) {
        let mut waiting = lock(&self.waiting);
        waiting.is_leader = is_leader;
        self.undelivered.set(waiting.number());
    }
}

const fn fetched(is_success: bool) -> &'static str {
    if is_success { "success" } else { "error" }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helmops_kube::key;
    use tokio::{task::JoinSet, time::Instant};

    use super::*;
    use crate::testing::{sum_of, until};

    /// Otherwise the alert about messages that wait would fire for a replica that delivers none.
    #[tokio::test]
    async fn a_replica_that_is_not_the_leader_has_no_message_that_waits() {
        let registry = Registry::new();
        let metrics = Arc::new(Metrics::register(&registry).unwrap());
        let (sender, leadership) = Leadership::elected();
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (of_task, stopped) = (Arc::clone(&metrics), stop.clone());
        tasks.spawn(async move { of_task.follow(&leadership, stopped).await });
        let is = async |number: f64| {
            let value = || sum_of(&registry, "helmops_alert_undelivered");
            let is = || ((value() - number).abs() < 0.5).then_some(());
            until(&format!("{number} messages"), is).await;
        };
        metrics.undelivered(&key("a", "one"), 3);
        is(0.0).await;
        sender.set(Some(Instant::now() + Duration::from_hours(1)));
        is(3.0).await;
        sender.set(None);
        is(0.0).await;
        // A reconciliation that was in progress.
        metrics.undelivered(&key("a", "two"), 4);
        is(0.0).await;
        sender.set(Some(Instant::now() + Duration::from_hours(1)));
        is(7.0).await;
        stop.cancel();
        tasks.join_next().await.unwrap().unwrap();
    }
}
