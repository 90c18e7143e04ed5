//! The reconcile loop: observe, plan, act.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, Stream};
use helmops_process::{Gate, Health, Heartbeat};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::api::{CallError, DEADLINE};
use super::args::Settings;
use super::changes::changes_for;
use super::inject::Injector;
use super::metrics::{Action, ActionResult, ManagedMetrics};
use super::observed::{Configuration, ConfigurationKind, Now, Observed, PerKind};
use super::plan::{Desired, Plan, Step};
use super::rate_limiter::RateLimiter;
use super::store::{Store, data};
use super::stored::{Leaf, Stored};
use super::transition_log::{TransitionLog, Watched};
use crate::reload::ReloadEvent;
use crate::resolver::CertResolver;

/// Longest time between two heartbeats: a wait, and the API calls of one reconciliation, each with its deadline.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(30 + 6 * DEADLINE.as_secs());

/// Longest delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// An event of a watch.
enum Event {
    Secret(Box<watcher::Result<Option<Secret>>>),
    Configuration(ConfigurationKind, watcher::Result<Option<Configuration>>),
}

/// Manages the certificate that all replicas share.
pub struct CertificateManager {
    store: Store,
    injector: Injector,
    desired: Desired,
    observed: Observed,
    /// As last observed: updates apply to this resource version only.
    secret: Option<Secret>,
    resolver: Arc<CertResolver>,
    metrics: ManagedMetrics,
    injected: Gate,
    heartbeat: Heartbeat,
    step_limiter: RateLimiter,
    injection_limiters: PerKind<RateLimiter>,
    log: TransitionLog,
}

impl CertificateManager {
    /// Serves certificates with `resolver`, and opens the gate `caBundle` of `health` when the API server trusts them.
    pub fn new(
        client: Client,
        settings: &Settings,
        resolver: Arc<CertResolver>,
        metrics: ManagedMetrics,
        health: &Health,
    ) -> Self {
        let Settings {
            namespace,
            secret,
            configuration,
            desired,
        } = settings.clone();
        let max_delay = desired.lifetimes.settle().min(MAX_DELAY);
        Self {
            store: Store::new(client.clone(), &namespace, &secret),
            injector: Injector::new(client, &configuration),
            log: TransitionLog::new(format!("{namespace}/{secret}"), configuration),
            desired,
            observed: Observed::default(),
            secret: None,
            resolver,
            metrics,
            injected: health.gate("caBundle"),
            heartbeat: health.heartbeat("certificate manager", HEARTBEAT_TIMEOUT),
            step_limiter: RateLimiter::new(max_delay),
            injection_limiters: PerKind {
                mutating: RateLimiter::new(max_delay),
                validating: RateLimiter::new(max_delay),
            },
        }
    }

    /// Reconciles the Secret, `caBundle` and the served certificate until `stop`. Every failure is retried without limit, and
    /// the loaded certificate is served meanwhile. `on_event` is called with every certificate that is served from then on, and
    /// must not block.
    pub async fn run(mut self, stop: CancellationToken, mut on_event: impl FnMut(ReloadEvent<'_>) + Send) {
        let mut events = pin!(self.events());
        loop {
            let next = async {
                let next_plan = self.reconcile(&mut on_event).await;
                tokio::select! {
                    event = events.next() => event,
                    () = sleep_until(next_plan) => None,
                }
            };
            match stop.run_until_cancelled(next).await {
                None => return,
                Some(None) => {}
                Some(Some(event)) => self.handle(event),
            }
        }
    }

    fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        let secrets = self.store.watch().map(Box::new).map(Event::Secret).boxed();
        let configurations = ConfigurationKind::ALL.map(|kind| {
            let configurations = self.injector.watch(kind);
            configurations
                .map(move |configuration| Event::Configuration(kind, configuration))
                .boxed()
        });
        stream::select_all([secrets].into_iter().chain(configurations))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Secret(secret) => match *secret {
                Ok(secret) => {
                    self.log.watch_succeeded(Watched::Secret);
                    self.observe_secret(secret);
                }
                Err(error) => self.log.watch_failed(Watched::Secret, &error),
            },
            Event::Configuration(kind, Ok(configuration)) => {
                self.log.watch_succeeded(Watched::Configuration(kind));
                self.observe_configuration(kind, configuration);
            }
            Event::Configuration(kind, Err(error)) => {
                self.log.watch_failed(Watched::Configuration(kind), &error);
            }
        }
    }

    fn observe_secret(&mut self, secret: Option<Secret>) {
        let version = |secret: &Option<Secret>| secret.as_ref().and_then(ResourceExt::resource_version);
        let is_same = secret.is_some() && version(&secret) == version(&self.secret);
        if !is_same {
            let stored = secret
                .as_ref()
                .map(|secret| Arc::new(Stored::read(&data(secret))));
            if let Some(leaf) = stored.as_ref().and_then(|stored| stored.leaf.as_ref().ok()) {
                self.metrics.set_ca_expiry(leaf.authority.not_after());
            }
            self.observed.set_secret(stored, Instant::now());
            self.secret = secret;
        }
    }

    fn observe_configuration(&mut self, kind: ConfigurationKind, configuration: Option<Configuration>) {
        self.log.configuration(kind, configuration.as_ref());
        self.observed
            .set_configuration(kind, configuration, Instant::now());
    }

    /// Does everything that is due, and returns when to plan again.
    async fn reconcile(&mut self, on_event: &mut (impl FnMut(ReloadEvent<'_>) + Send)) -> Instant {
        loop {
            self.heartbeat.beat();
            let now = now();
            let plan = self.observed.plan(&self.desired, now);
            if let Some(leaf) = &plan.serve {
                self.serve(leaf.clone(), on_event);
            }
            if plan.is_injected {
                self.injected.open();
            }
            self.log.validity(self.observed.served(), now.wall);
            self.log.retain_due(plan.step.is_some(), &plan.inject);
            match &plan.step {
                Some((step, why)) if self.step_limiter.wait_until(now.monotonic).is_none() => {
                    self.step(step, why).await;
                }
                Some(_) | None if self.inject_all(&plan, now.monotonic).await => {}
                Some(_) | None => return self.next_plan(&plan, now.monotonic),
            }
        }
    }

    /// When to plan again, unless an event comes first.
    fn next_plan(&self, plan: &Plan, now: Instant) -> Instant {
        let step = plan.step.as_ref().and_then(|_| self.step_limiter.wait_until(now));
        let injections = plan
            .inject
            .iter()
            .filter_map(|kind| self.injection_limiters.of(*kind).wait_until(now));
        injections.chain(step).fold(plan.recheck_at, Instant::min)
    }

    fn serve(&mut self, leaf: Leaf, on_event: &mut (impl FnMut(ReloadEvent<'_>) + Send)) {
        self.log.loaded(&leaf);
        self.resolver.replace(Arc::clone(&leaf.pair));
        on_event(ReloadEvent::Loaded(&leaf.pair));
        self.observed.set_served(leaf);
    }

    /// Changes the Secret.
    async fn step(&mut self, step: &Step, why: &str) {
        self.step_limiter.record_attempt(Instant::now());
        let written = self.write(step).await;
        let action = Action::from(step);
        self.metrics.record(action, action_result(&written));
        match written {
            Ok(secret) => {
                self.log.step_succeeded(action, why);
                self.observe_secret(Some(secret));
            }
            Err(CallError::Conflict) => {
                self.log.conflict(action);
                self.read_secret().await;
            }
            Err(error) => self.log.step_failed(action, why, &error),
        }
    }

    async fn write(&self, step: &Step) -> Result<Secret, CallError> {
        let stored = self.observed.secret().get().map(AsRef::as_ref);
        let changes = changes_for(step, stored, &self.desired, SystemTime::now());
        let changes = changes.map_err(|error| CallError::Failed(error.to_string()))?;
        self.store.write(self.secret.as_ref(), changes).await
    }

    /// Reads the Secret without waiting for the event of the watch.
    async fn read_secret(&mut self) {
        match self.store.read().await {
            Ok(secret) => self.observe_secret(secret),
            Err(error) => self.log.read_failed(&error),
        }
    }

    /// Injects the bundle into the configurations without it, and returns whether there was an attempt.
    async fn inject_all(&mut self, plan: &Plan, now: Instant) -> bool {
        let Some(bundle) = &plan.bundle else { return false };
        let mut is_attempted = false;
        for kind in &plan.inject {
            let Some(configuration) = self.observed.configuration(*kind).get().cloned() else {
                continue;
            };
            let limiter = self.injection_limiters.of_mut(*kind);
            if limiter.wait_until(now).is_none() {
                limiter.record_attempt(now);
                is_attempted = true;
                self.inject(*kind, &configuration, bundle).await;
            }
        }
        is_attempted
    }

    async fn inject(&mut self, kind: ConfigurationKind, observed: &Configuration, bundle: &str) {
        let applied = self.injector.apply(kind, observed, bundle).await;
        self.metrics.record(Action::Inject, action_result(&applied));
        match applied {
            Ok(applied) => {
                self.log.injected(kind);
                self.observe_configuration(kind, Some(applied));
            }
            // The watch delivers the current state.
            Err(CallError::Conflict) => self.log.conflict(Action::Inject),
            Err(error) => self.log.injection_failed(kind, &error),
        }
    }
}

fn action_result<T>(result: &Result<T, CallError>) -> ActionResult {
    match result {
        Ok(_) => ActionResult::Success,
        Err(CallError::Conflict) => ActionResult::Conflict,
        Err(CallError::Failed(_)) => ActionResult::Error,
    }
}

fn now() -> Now {
    Now {
        wall: SystemTime::now(),
        monotonic: Instant::now(),
    }
}
