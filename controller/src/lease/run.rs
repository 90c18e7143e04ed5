//! The election itself: reads and writes of the Lease, again and again.

use std::{
    hash::{BuildHasher, RandomState},
    pin::pin,
    time::Duration,
};

use helmops_shared::runtime::{Health, Heartbeat};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{Api, Client, api::ObjectMeta};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Leadership, LeaseMetrics, LeaseName,
    args::{JITTER, Timing},
    elector::{Elector, Next},
    leadership::LeadershipSender,
    telling::{Failure, Telling},
};
use crate::writes;

/// Longest time to give the Lease back when the process stops: what is left of its time to stop may be short, and without
/// it another replica waits for the lease duration.
const FAREWELL: Duration = Duration::from_secs(3);

/// Between tries to give it back.
const FAREWELL_PAUSE: Duration = Duration::from_millis(200);

/// This process' part in the election.
pub struct Election {
    api: Api<Lease>,
    lease: LeaseName,
    timing: Timing,
    elector: Elector,
    seat: LeadershipSender,
    telling: Telling,
    metrics: LeaseMetrics,
    heartbeat: Heartbeat,
    failure: Option<Failure>,
    chance: RandomState,
    tries: u64,
}

impl Election {
    /// A candidate, and what the rest of the process knows of it. `client` must not be one that writes only while this
    /// process leads.
    pub fn new(
        client: Client,
        lease: LeaseName,
        identity: String,
        timing: Timing,
        metrics: LeaseMetrics,
        health: &Health,
    ) -> (Self, Leadership) {
        let (seat, leadership) = Leadership::elected();
        let election = Self {
            api: Api::namespaced(client, &lease.namespace),
            elector: Elector::new(identity.clone(), timing),
            telling: Telling::new(lease.clone(), identity),
            lease,
            timing,
            seat,
            metrics,
            heartbeat: health.heartbeat("leader election", timing.silence()),
            failure: None,
            chance: RandomState::new(),
            tries: 0,
        };
        (election, leadership)
    }

    /// Takes part until `stop`, then renews until `drained`, and gives the Lease back so that another replica need not
    /// wait. Whatever goes wrong is tried again, for ever.
    pub async fn run(mut self, stop: CancellationToken, drained: impl Future<Output = ()>) {
        let mut done = pin!(async {
            stop.cancelled().await;
            drained.await;
        });
        loop {
            self.settle();
            let pause = {
                let mut round = pin!(self.round());
                tokio::select! {
                    biased;
                    pause = &mut round => pause,
                    () = &mut done => {
                        // A write that is under way may take the Lease: what came of it must be known.
                        let _ = timeout(FAREWELL, round).await;
                        break;
                    }
                }
            };
            self.settle();
            tokio::select! {
                biased;
                () = &mut done => break,
                () = sleep(pause) => {}
            }
        }
        self.leave().await;
    }

    /// Tells everybody how things stand.
    fn settle(&mut self) {
        let now = Instant::now();
        self.heartbeat.beat();
        let until = self.elector.valid_until();
        self.seat.set(until);
        self.metrics.leads(self.elector.leads(now));
        let remaining = until.map(|until| until.saturating_duration_since(now));
        let standing = self.elector.standing(now);
        if self.failure.is_some() || self.tries > 0 {
            self.telling.tell(standing, remaining, self.failure.as_ref());
        }
    }

    /// One try. Gives the time to wait before the next.
    async fn round(&mut self) -> Duration {
        let mut outcome = self.step().await;
        if outcome.as_ref().is_err_and(Failure::is_conflict) {
            outcome = self.step().await.map_err(Failure::again);
        }
        self.tries += 1;
        let now = Instant::now();
        let pause = self.pause();
        match outcome {
            Ok(wait) => {
                self.failure = None;
                let until = wait.map(|until| until.saturating_duration_since(now));
                until.map_or(pause, |until| until.min(pause))
            }
            Err(failure) => {
                self.failure = Some(failure);
                match self.elector.valid_until() {
                    // To stop, and to say so, in time.
                    Some(until) if now < until => pause.min(until - now),
                    _ => pause,
                }
            }
        }
    }

    /// Looks at the Lease if it must be, and does what is to be done about it. Gives the time until which there is
    /// nothing to do.
    async fn step(&mut self) -> Result<Option<Instant>, Failure> {
        if self.elector.must_read() {
            let read = self.bounded(self.api.get_opt(&self.lease.name)).await?;
            self.elector.observed(read, Instant::now());
            // Of a loss the others hear before anything else is done.
            self.seat.set(self.elector.valid_until());
            self.heartbeat.beat();
        }
        let sent = Instant::now();
        let params = writes::post();
        let written = match self.elector.next(sent, &wall()) {
            Next::Wait(until) => return Ok(Some(until)),
            Next::Create(spec) => {
                let lease = self.lease(spec);
                self.bounded(self.api.create(&params, &lease)).await
            }
            Next::Replace(mut lease) => {
                lease.metadata.managed_fields = None;
                self.bounded(self.api.replace(&self.lease.name, &params, &lease))
                    .await
            }
        };
        match written {
            Ok(lease) => {
                self.elector.written(lease, sent);
                Ok(None)
            }
            Err(failure) => {
                self.elector.failed();
                Err(failure)
            }
        }
    }

    /// Bounds a request, so that one that hangs does not use up the time in which the Lease can be renewed.
    async fn bounded<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        let now = Instant::now();
        let share = self.timing.request();
        let limit = match self.elector.valid_until() {
            Some(until) if now < until => share.min(until - now),
            _ => share,
        };
        match timeout(limit, call).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::NoAnswer(limit)),
        }
    }

    /// Leads no more, and says so in the Lease if it is still this process' own.
    async fn leave(mut self) {
        self.elector.step_down();
        self.seat.set(None);
        self.metrics.leads(false);
        let LeaseName { namespace, name } = self.lease.clone();
        match timeout(FAREWELL, self.release()).await {
            Ok(true) => tracing::info!(namespace, name, "released the Lease"),
            Ok(false) => {}
            Err(_) => tracing::warn!(
                namespace,
                name,
                "failed to release the Lease; another replica acquires it after it expires"
            ),
        }
    }

    /// Whether there was anything to give back.
    async fn release(&mut self) -> bool {
        if !self.elector.may_hold() {
            return false;
        }
        loop {
            if let Ok(lease) = self.api.get_opt(&self.lease.name).await {
                self.elector.observed(lease, Instant::now());
                let Some(mut lease) = self.elector.release(&wall()) else {
                    return false;
                };
                lease.metadata.managed_fields = None;
                if self
                    .api
                    .replace(&self.lease.name, &writes::post(), &lease)
                    .await
                    .is_ok()
                {
                    return true;
                }
            }
            sleep(FAREWELL_PAUSE).await;
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

    /// The retry period and up to a fifth of it.
    fn pause(&self) -> Duration {
        let chance = u32::try_from(self.chance.hash_one(self.tries) % 256).unwrap_or_default();
        self.timing.retry + self.timing.retry / JITTER / 256 * chance
    }
}

fn wall() -> MicroTime {
    MicroTime(Timestamp::now())
}

#[cfg(test)]
mod tests;
