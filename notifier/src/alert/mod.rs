//! Alerts: from the states of the objects that they select to messages.
//!
//! ```text
//! outbox ─► record what was delivered ─► plan ─► write the status ─► hand the next messages over
//! ```
//!
//! Only the reconciliation of an Alert writes its status, and it hands the next messages over when the previous ones are recorded. So a
//! crash repeats one message at most; or one batch, of a format whose receivers recognize a repetition.

mod standing;
mod status;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use helmops_api::{
    Alert, Decoded,
    notifications::AlertStatus,
    timestamp::{timestamp, until},
};
use helmops_kube::{key, name_of};
use helmops_notify::{
    alert::{Memory, Message, Observed, Plan, Reported, Rules, State, batch_size, plan},
    message_format::Format,
    source::ObjectId,
};
use helmops_process::lock;
use helmops_runtime::{
    client::CallError,
    metrics::{Controller, ReconcileMetrics},
    reconciler::Reconciler,
    retry_state::{Done, RetryState},
    workers::WorkerPermit,
};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, api::ObjectMeta};
use tracing::Span;

use self::{standing::Standing, status::Observation};
use crate::{
    context::{Context, MANAGER},
    failures::Subject,
    metrics,
    outbox::{Job, Slot},
    work::{AlertKey, ProviderKey},
};

/// When a message is handed over again, if there was no room for it.
const NO_ROOM: Duration = Duration::from_secs(1);

/// The reconciler of Alerts.
pub struct Alerts<'c> {
    pub context: &'c Context,
}

impl Reconciler for Alerts<'_> {
    type Object = Alert;
    type Error = CallError;
    const CONTROLLER: Controller = metrics::ALERTS;

    fn get(&self, key: &AlertKey) -> Option<Arc<Decoded<Alert>>> {
        self.context.stores.alerts.get(key)
    }

    fn retry_state(&self) -> &RetryState<AlertKey> {
        &self.context.retries.alerts
    }

    fn metrics(&self) -> &ReconcileMetrics {
        &self.context.metrics.reconciles
    }

    fn span(&self, key: &AlertKey, _: Option<&ObjectMeta>) -> Span {
        tracing::error_span!("reconcile", alert = name_of(key).to_string())
    }

    fn forget(&self, key: &AlertKey) {
        let context = self.context;
        context.outbox.clear(key);
        context.failures.forget(&Subject::Alert(key.clone()));
        context.metrics.undelivered(key, 0);
        lock(&context.memories).remove(key);
    }

    async fn reconcile(
        &self,
        key: &AlertKey,
        alert: &Alert,
        _: &mut WorkerPermit,
    ) -> Result<Done, CallError> {
        let context = self.context;
        let now = Timestamp::now();
        let mut next = alert.status.clone().unwrap_or_default();
        let mut reported = Reported::of(&next.reported);
        let slot = context.outbox.slot(key, &context.leadership);
        if let Slot::Delivered(messages) = &slot {
            for message in messages.iter() {
                if message.is_refresh() {
                    self.refreshed(key, message);
                }
            }
            record_all(messages, &mut next, &mut reported, now);
        }
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let objects = context
            .stores
            .objects
            .selected(alert, namespace, &context.privileged);
        let known = objects.values().filter(|object| object.state != State::NotStored);
        let standing = standing::of(context, key, alert, known.count());
        let (plan, messages) = match standing.format() {
            Some(format) => {
                let can_send = matches!(standing, Standing::Sending { .. });
                self.plan(key, alert, (format, can_send), &objects, &mut reported, now)
            }
            None => (Plan::default(), Vec::new()),
        };
        let observation = Observation {
            standing: &standing,
            plan: &plan,
            reported: &reported,
            generation: alert.metadata.generation,
            now,
        };
        status::fill(&mut next, &observation);
        self.write(key, alert, &next).await?;
        context.metrics.undelivered(key, next.undelivered);
        if matches!(slot, Slot::Delivered(_)) {
            context.outbox.clear(key);
        }
        // Not too early: a plan that is made some microseconds before would be made again.
        let mut requeue_after = plan.due.map(|due| until(now, due) + Duration::from_millis(1));
        if slot != Slot::Busy && !messages.is_empty() {
            let wait = self.hand_over(key, &standing, messages);
            requeue_after = requeue_after.into_iter().chain(wait).min();
        }
        Ok(Done {
            requeue_after,
            ..Done::UNTIL_CHANGE
        })
    }
}

impl Alerts<'_> {
    /// What is to be sent, and the next messages of it.
    fn plan(
        &self,
        key: &AlertKey,
        alert: &Alert,
        (format, can_send): (Format, bool),
        objects: &BTreeMap<ObjectId, Arc<Observed>>,
        reported: &mut Reported,
        now: Timestamp,
    ) -> (Plan, Vec<Message>) {
        reported.forget_gone(|id| objects.contains_key(id));
        let generation = alert.metadata.generation;
        let (mut memory, rules) = {
            let mut memories = lock(&self.context.memories);
            let memory = memories.entry(key.clone()).or_default();
            let known = memory
                .rules
                .as_ref()
                .filter(|(of, as_format, _)| (*of, *as_format) == (generation, format));
            let rules = known.map_or_else(
                || Arc::new(Rules::of(&alert.spec, format)),
                |(_, _, rules)| Arc::clone(rules),
            );
            memory.rules = Some((generation, format, Arc::clone(&rules)));
            (memory.plan.clone(), rules)
        };
        if !can_send {
            memory.round = None;
        }
        // Without the lock: this takes milliseconds for thousands of objects.
        let mut plan = plan(&rules, objects, reported, &mut memory, now);
        let mut memories = lock(&self.context.memories);
        let kept = memories.entry(key.clone()).or_default();
        // Another message may have been rejected meanwhile.
        let rejected = std::mem::take(&mut kept.plan.rejected);
        kept.plan = Memory { rejected, ..memory };
        if !plan.refresh.is_empty() {
            kept.refresh = std::mem::take(&mut plan.refresh).into();
        }
        if format != Format::Alertmanager {
            // The type of the AlertProvider has changed.
            kept.refresh.clear();
        }
        kept.refresh
            .retain_mut(|message| message.retain_current(reported));
        let rejected = &mut kept.plan.rejected;
        rejected.retain_in(&plan.all().chain(&kept.refresh).collect::<Vec<_>>());
        let size = batch_size(format, reported.bytes());
        let mut messages: Vec<_> = plan.next().take(size).cloned().collect();
        if messages.is_empty() {
            let mut refresh = kept.refresh.iter();
            messages.extend(refresh.find(|message| !rejected.holds(message, now)).cloned());
        }
        (plan, messages)
    }

    /// Hands messages over, if their endpoint does not fail. Returns when to try again.
    fn hand_over(&self, key: &AlertKey, standing: &Standing, messages: Vec<Message>) -> Option<Duration> {
        let (format, provider) = match standing {
            Standing::Failing { wait, .. } if !wait.is_zero() => return Some(*wait),
            Standing::Sending { format, provider } | Standing::Failing { format, provider, .. } => {
                (*format, provider)
            }
            Standing::Blocked { .. } | Standing::Invalid(_) => return None,
        };
        let job = Job {
            alert: key.clone(),
            provider: provider.clone(),
            format,
            messages: messages.into(),
        };
        (!self.context.outbox.send(job)).then_some(NO_ROOM)
    }

    /// Drops a message that repeats others after it was delivered: one that was not is sent again after the backoff.
    fn refreshed(&self, key: &AlertKey, message: &Message) {
        if let Some(memory) = lock(&self.context.memories).get_mut(key) {
            memory.refresh.retain(|next| !message.is_about_all_of(next));
        }
    }

    async fn write(&self, key: &AlertKey, alert: &Alert, next: &AlertStatus) -> Result<(), CallError> {
        let before = alert.status.clone().unwrap_or_default();
        let (client, pending_writes) = (&self.context.client, &self.context.retries.alerts.pending_writes);
        let written = MANAGER
            .write_status(client, pending_writes, alert, &before, next)
            .await?;
        let Some(written) = written else {
            return Ok(());
        };
        // The next message need not wait for the watch.
        let written = Arc::new(Decoded::Valid(Arc::new(written)));
        self.context.stores.alerts.wrote(name_of(key), written);
        Ok(())
    }
}

/// Records messages that were delivered.
fn record_all(messages: &[Message], next: &mut AlertStatus, reported: &mut Reported, now: Timestamp) {
    for message in messages {
        message.delivered(reported);
        if !message.is_refresh() {
            next.delivered = next.delivered.saturating_add(1);
            next.last_delivered = timestamp(now);
        }
    }
}

/// Forgets the failures of an Alert: something has changed that may be the cause.
pub fn forget_failures(context: &Context, key: &AlertKey) {
    context.failures.forget(&Subject::Alert(key.clone()));
    if let Some(memory) = lock(&context.memories).get_mut(key) {
        memory.plan.rejected.clear();
    }
}

/// The key of the AlertProvider of an Alert.
fn provider_key(alert: &Alert) -> ProviderKey {
    let namespace = alert.meta().namespace.as_deref().unwrap_or_default();
    key(namespace, &alert.spec.provider_ref.name)
}

/// Records what was delivered, at the end of the process: nothing is reconciled any more. The cache has what this process wrote last. If
/// another client has changed the Alert meanwhile, the next process repeats the messages.
pub async fn record(context: &Context, key: &AlertKey) {
    let Slot::Delivered(messages) = context.outbox.slot(key, &context.leadership) else {
        return;
    };
    if messages.iter().all(Message::is_refresh) {
        context.outbox.clear(key);
        return;
    }
    let alert = context.stores.alerts.get(key);
    let Some(alert) = alert.as_ref().and_then(|alert| alert.valid()) else {
        return;
    };
    let mut next = alert.status.clone().unwrap_or_default();
    let mut reported = Reported::of(&next.reported);
    record_all(&messages, &mut next, &mut reported, Timestamp::now());
    next.reported = reported.to_status();
    match (Alerts { context }).write(key, alert, &next).await {
        Ok(()) => context.outbox.clear(key),
        Err(error) => {
            tracing::warn!(alert = name_of(key).to_string(), %error, "cannot record delivered messages");
        }
    }
}
