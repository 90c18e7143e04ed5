//! The election loop: reads and writes the Lease.

use std::{pin::pin, time::Duration};

use helmops_process::{Health, Heartbeat};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Leadership, LeaseMetrics, LeaseName,
    args::Timing,
    elector::{Action, Elector},
    error::LeaseError,
    leadership::LeadershipSender,
    transition_log::TransitionLog,
};

/// The timeout for the release of the Lease when the process stops: its remaining grace period may be short. Without a
/// release, another replica waits for the lease duration.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// The pause between attempts to release it.
const RELEASE_RETRY: Duration = Duration::from_millis(200);

/// The election, with this process as a candidate.
pub struct Election {
    api: Api<Lease>,
    /// With the field manager of this process.
    write_params: PostParams,
    lease: LeaseName,
    timing: Timing,
    elector: Elector,
    leadership: LeadershipSender,
    log: TransitionLog,
    metrics: LeaseMetrics,
    heartbeat: Heartbeat,
    /// The error of the last attempt.
    error: Option<LeaseError>,
    has_tried: bool,
}

impl Election {
    /// A candidate, and its leadership for the rest of the process. `client` must not be guarded by this leadership.
    /// `field_manager` is the name under which it writes the Lease.
    pub fn new(
        client: Client,
        field_manager: &str,
        lease: LeaseName,
        identity: String,
        timing: Timing,
        metrics: LeaseMetrics,
        health: &Health,
    ) -> (Self, Leadership) {
        let (sender, leadership) = Leadership::elected();
        let election = Self {
            api: Api::namespaced(client, &lease.namespace),
            write_params: PostParams {
                field_manager: Some(field_manager.to_owned()),
                ..PostParams::default()
            },
            elector: Elector::new(identity.clone(), timing),
            log: TransitionLog::new(lease.clone(), identity),
            lease,
            timing,
            leadership: sender,
            metrics,
            heartbeat: health.deferred_heartbeat("leader election", timing.heartbeat_timeout()),
            error: None,
            has_tried: false,
        };
        (election, leadership)
    }

    /// Takes part until `stop`, then renews until `drained`, and releases the Lease so that another replica need not wait. Errors
    /// are retried forever.
    pub async fn run(mut self, stop: CancellationToken, drained: impl Future<Output = ()>) {
        let mut done = pin!(async {
            stop.cancelled().await;
            drained.await;
        });
        loop {
            self.publish();
            let delay = {
                let mut attempt = pin!(self.attempt());
                tokio::select! {
                    biased;
                    delay = &mut attempt => delay,
                    () = &mut done => {
                        // A write in progress may acquire the Lease: its result must be known.
                        let _ = timeout(RELEASE_TIMEOUT, attempt).await;
                        break;
                    }
                }
            };
            self.publish();
            tokio::select! {
                biased;
                () = &mut done => break,
                () = sleep(delay) => {}
            }
        }
        self.shut_down().await;
    }

    /// Publishes the state: heartbeat, leadership, metrics and log.
    fn publish(&mut self) {
        let now = Instant::now();
        self.heartbeat.beat();
        let until = self.elector.valid_until();
        self.leadership.set(until);
        self.metrics.leads(self.elector.leads(now));
        let remaining = until.map(|until| until.saturating_duration_since(now));
        let state = self.elector.state(now);
        if self.has_tried {
            self.log.record(state, remaining, self.error.as_ref());
        }
    }

    /// One attempt to acquire or renew the Lease. Returns the delay before the next one.
    async fn attempt(&mut self) -> Duration {
        let mut result = self.try_acquire_or_renew().await;
        if result.as_ref().is_err_and(LeaseError::is_conflict) {
            result = self.try_acquire_or_renew().await.map_err(LeaseError::repeated);
        }
        self.has_tried = true;
        let now = Instant::now();
        let random = fastrand::f64();
        let delay = self.timing.retry_after(random);
        match result {
            Ok(None) => {
                self.error = None;
                self.timing.renew_after(random)
            }
            Ok(Some(until)) => {
                self.error = None;
                until.saturating_duration_since(now).min(delay)
            }
            Err(error) => {
                self.error = Some(error);
                match self.elector.valid_until() {
                    // To publish the loss of leadership in time.
                    Some(until) if now < until => delay.min(until - now),
                    _ => delay,
                }
            }
        }
    }

    /// Reads the Lease if necessary, and acquires or renews it if possible. Returns the time until which there is nothing to
    /// do.
    async fn try_acquire_or_renew(&mut self) -> Result<Option<Instant>, LeaseError> {
        if self.elector.must_read() {
            let read = self.bounded(self.api.get_opt(&self.lease.name)).await?;
            self.elector.observe(read, Instant::now());
            // A loss is published before anything else is done.
            self.leadership.set(self.elector.valid_until());
            self.heartbeat.beat();
        }
        let sent = Instant::now();
        let params = &self.write_params;
        let written = match self.elector.next(sent, &wall()) {
            Action::Wait(until) => return Ok(Some(until)),
            Action::Create(spec) => {
                let lease = self.lease(spec);
                self.bounded(self.api.create(params, &lease)).await
            }
            Action::Replace(mut lease) => {
                lease.metadata.managed_fields = None;
                self.bounded(self.api.replace(&self.lease.name, params, &lease))
                    .await
            }
        };
        match written {
            Ok(lease) => {
                self.elector.write_succeeded(lease, sent);
                Ok(None)
            }
            Err(error) => {
                self.elector.write_failed();
                Err(error)
            }
        }
    }

    /// Limits the time of a request, so that one that hangs leaves time to renew the Lease.
    async fn bounded<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
        let now = Instant::now();
        let request_timeout = self.timing.request_timeout();
        let limit = match self.elector.valid_until() {
            Some(until) if now < until => request_timeout.min(until - now),
            _ => request_timeout,
        };
        match timeout(limit, call).await {
            Ok(response) => Ok(response?),
            Err(_) => Err(LeaseError::Timeout(limit)),
        }
    }

    /// Ends leadership, and releases the Lease if this process still holds it.
    async fn shut_down(mut self) {
        self.elector.step_down();
        self.leadership.set(None);
        self.metrics.leads(false);
        let LeaseName { namespace, name } = self.lease.clone();
        match timeout(RELEASE_TIMEOUT, self.release()).await {
            Ok(true) => tracing::info!(namespace, name, "released the Lease"),
            Ok(false) => {}
            Err(_) => tracing::warn!(
                namespace,
                name,
                "failed to release the Lease; another replica acquires it after it expires"
            ),
        }
    }

    /// Releases the Lease. Returns whether this process held it.
    async fn release(&mut self) -> bool {
        if !self.elector.may_hold() {
            return false;
        }
        loop {
            if let Ok(lease) = self.api.get_opt(&self.lease.name).await {
                self.elector.observe(lease, Instant::now());
                let Some(mut lease) = self.elector.release(&wall()) else {
                    return false;
                };
                lease.metadata.managed_fields = None;
                if self
                    .api
                    .replace(&self.lease.name, &self.write_params, &lease)
                    .await
                    .is_ok()
                {
                    return true;
                }
            }
            sleep(RELEASE_RETRY).await;
        }
    }

    fn lease(&self, spec: LeaseSpec) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(self.lease.name.clone()),
                namespace: Some(self.lease.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        }
    }
}

/// The time of the wall clock.
fn wall() -> MicroTime {
    MicroTime(Timestamp::now())
}

#[cfg(test)]
mod tests;
