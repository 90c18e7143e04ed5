//! The loop: look, plan, act.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, Stream};
use helmops_shared::runtime::{Gate, Health, Heartbeat};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::api::{DEADLINE, Failure};
use super::args::Settings;
use super::inject::Injector;
use super::metrics::{Action, ManagedMetrics, Outcome};
use super::mint::mint;
use super::pace::Pace;
use super::plan::{Plan, Step, Wanted};
use super::sight::{Configuration, Each, Kind, Now, Observed};
use super::store::{Store, data};
use super::stored::{Leaf, Stored};
use super::telling::{Telling, Watched};
use crate::hot::CertResolver;
use crate::reload::ReloadEvent;

/// Longest time without a sign of life: a wait, and the calls of a round, none of which takes longer than its deadline.
const SILENCE: Duration = Duration::from_secs(30 + 6 * DEADLINE.as_secs());

/// Longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a watch tells.
enum Event {
    Secret(Box<watcher::Result<Option<Secret>>>),
    Configuration(Kind, watcher::Result<Option<Configuration>>),
}

/// A replica's care for the certificate that all of them share.
pub struct CertificateManager {
    store: Store,
    injector: Injector,
    wanted: Wanted,
    sight: Observed,
    /// As it was last seen: a change is made of this one or not at all.
    secret: Option<Secret>,
    hot: Arc<CertResolver>,
    metrics: ManagedMetrics,
    injected: Gate,
    heartbeat: Heartbeat,
    steps: Pace,
    injections: Each<Pace>,
    telling: Telling,
}

impl CertificateManager {
    /// Puts certificates into `hot`, and opens the gate `caBundle` of `health` when callers trust them.
    pub fn new(
        client: Client,
        settings: &Settings,
        hot: Arc<CertResolver>,
        metrics: ManagedMetrics,
        health: &Health,
    ) -> Self {
        let Settings {
            namespace,
            secret,
            configuration,
            wanted,
        } = settings.clone();
        let longest = wanted.lifetimes.settle().min(LONGEST_PAUSE);
        Self {
            store: Store::new(client.clone(), &namespace, &secret),
            injector: Injector::new(client, &configuration),
            telling: Telling::new(format!("{namespace}/{secret}"), configuration),
            wanted,
            sight: Observed::default(),
            secret: None,
            hot,
            metrics,
            injected: health.gate("caBundle"),
            heartbeat: health.heartbeat("certificate keeper", SILENCE),
            steps: Pace::new(longest),
            injections: Each {
                mutating: Pace::new(longest),
                validating: Pace::new(longest),
            },
        }
    }

    /// Keeps the Secret, `caBundle` and what is served until `stop`. Whatever goes wrong is tried again, for ever, and what
    /// is served is served meanwhile. `on_event` hears of every certificate that is taken into use, and must not block.
    pub async fn run(mut self, stop: CancellationToken, mut on_event: impl FnMut(ReloadEvent<'_>) + Send) {
        let mut events = pin!(self.events());
        loop {
            let round = async {
                let again = self.round(&mut on_event).await;
                tokio::select! {
                    event = events.next() => event,
                    () = sleep_until(again) => None,
                }
            };
            match stop.run_until_cancelled(round).await {
                None => return,
                Some(None) => {}
                Some(Some(event)) => self.take(event),
            }
        }
    }

    fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        let secrets = self.store.watch().map(Box::new).map(Event::Secret).boxed();
        let configurations = Kind::ALL.map(|kind| {
            let seen = self.injector.watch(kind);
            seen.map(move |seen| Event::Configuration(kind, seen)).boxed()
        });
        stream::select_all([secrets].into_iter().chain(configurations))
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Secret(secret) => match *secret {
                Ok(secret) => {
                    self.telling.watch_works(Watched::Secret);
                    self.secret_is(secret);
                }
                Err(error) => self.telling.watch_fails(Watched::Secret, &error),
            },
            Event::Configuration(kind, Ok(seen)) => {
                self.telling.watch_works(Watched::Configuration(kind));
                self.configuration_is(kind, seen);
            }
            Event::Configuration(kind, Err(error)) => {
                self.telling.watch_fails(Watched::Configuration(kind), &error);
            }
        }
    }

    fn secret_is(&mut self, secret: Option<Secret>) {
        let version = |secret: &Option<Secret>| secret.as_ref().and_then(ResourceExt::resource_version);
        let is_same = secret.is_some() && version(&secret) == version(&self.secret);
        if !is_same {
            let stored = secret
                .as_ref()
                .map(|secret| Arc::new(Stored::read(&data(secret))));
            if let Some(leaf) = stored.as_ref().and_then(|stored| stored.leaf.as_ref().ok()) {
                self.metrics.authority_expires(leaf.authority.not_after());
            }
            self.sight.secret_is(stored, Instant::now());
            self.secret = secret;
        }
    }

    fn configuration_is(&mut self, kind: Kind, seen: Option<Configuration>) {
        self.telling.configuration(kind, seen.as_ref());
        self.sight.configuration_is(kind, seen, Instant::now());
    }

    /// Does what is to be done now, and gives the time to look again.
    async fn round(&mut self, on_event: &mut (impl FnMut(ReloadEvent<'_>) + Send)) -> Instant {
        loop {
            self.heartbeat.beat();
            let now = now();
            let plan = self.sight.plan(&self.wanted, now);
            if let Some(leaf) = &plan.serve {
                self.serve(leaf.clone(), on_event);
            }
            if plan.is_injected {
                self.injected.open();
            }
            self.telling.validity(self.sight.served(), now.wall);
            self.telling.due(plan.step.is_some(), &plan.inject);
            match &plan.step {
                Some((step, why)) if self.steps.wait(now.steady).is_none() => self.step(step, why).await,
                Some(_) | None if self.injects(&plan, now.steady).await => {}
                Some(_) | None => return self.again(&plan, now.steady),
            }
        }
    }

    /// When to look again, if nothing is told before.
    fn again(&self, plan: &Plan, now: Instant) -> Instant {
        let step = plan.step.as_ref().and_then(|_| self.steps.wait(now));
        let injections = plan
            .inject
            .iter()
            .filter_map(|kind| self.injections.of(*kind).wait(now));
        injections.chain(step).fold(plan.again, Instant::min)
    }

    fn serve(&mut self, leaf: Leaf, on_event: &mut (impl FnMut(ReloadEvent<'_>) + Send)) {
        self.telling.serves(&leaf);
        self.hot.replace(Arc::clone(&leaf.pair));
        on_event(ReloadEvent::Loaded(&leaf.pair));
        self.sight.serves(leaf);
    }

    /// Changes the Secret.
    async fn step(&mut self, step: &Step, why: &str) {
        self.steps.tried(Instant::now());
        let written = self.write(step).await;
        let action = Action::from(step);
        self.metrics.acted(action, outcome(&written));
        match written {
            Ok(secret) => {
                self.telling.stepped(action, why);
                self.secret_is(Some(secret));
            }
            Err(Failure::Overtaken) => {
                self.telling.overtaken(action);
                self.look().await;
            }
            Err(failure) => self.telling.step_fails(action, why, &failure),
        }
    }

    async fn write(&self, step: &Step) -> Result<Secret, Failure> {
        let stored = self.sight.secret().get().map(AsRef::as_ref);
        let changes = mint(step, stored, &self.wanted, SystemTime::now());
        let changes = changes.map_err(|error| Failure::Failed(error.to_string()))?;
        self.store.write(self.secret.as_ref(), changes).await
    }

    /// Reads the Secret, without waiting for the watch to tell of it.
    async fn look(&mut self) {
        match self.store.read().await {
            Ok(secret) => self.secret_is(secret),
            Err(failure) => self.telling.look_fails(&failure),
        }
    }

    /// Gives the bundle to the configurations that lack it, and tells whether anything was tried.
    async fn injects(&mut self, plan: &Plan, now: Instant) -> bool {
        let Some(bundle) = &plan.bundle else { return false };
        let mut is_tried = false;
        for kind in &plan.inject {
            let Some(seen) = self.sight.configuration(*kind).get().cloned() else {
                continue;
            };
            let pace = self.injections.of_mut(*kind);
            if pace.wait(now).is_none() {
                pace.tried(now);
                is_tried = true;
                self.inject(*kind, &seen, bundle).await;
            }
        }
        is_tried
    }

    async fn inject(&mut self, kind: Kind, seen: &Configuration, bundle: &str) {
        let applied = self.injector.apply(kind, seen, bundle).await;
        self.metrics.acted(Action::Inject, outcome(&applied));
        match applied {
            Ok(applied) => {
                self.telling.injected(kind);
                self.configuration_is(kind, Some(applied));
            }
            // The watch will tell how it is now.
            Err(Failure::Overtaken) => self.telling.overtaken(Action::Inject),
            Err(failure) => self.telling.injection_fails(kind, &failure),
        }
    }
}

fn outcome<T>(result: &Result<T, Failure>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(Failure::Overtaken) => Outcome::Overtaken,
        Err(Failure::Failed(_)) => Outcome::Failed,
    }
}

fn now() -> Now {
    Now {
        wall: SystemTime::now(),
        steady: Instant::now(),
    }
}
