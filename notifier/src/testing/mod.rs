//! What component tests need: the context of the process, an API server that keeps objects, and endpoints that misbehave.

mod api;
mod endpoint;

use std::{
    num::NonZeroU16,
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_api::NamespacedName;
use helmops_fetch::{Addresses, Poster};
use helmops_kube::lease::Leadership;
use helmops_notify::{push::SECRET, source::Privileged};
use helmops_runtime::{store_budget::StoreBudget, workers::Workers};
use kube::runtime::watcher::Event;
use prometheus::{Registry, TextEncoder};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    api::FakeApi,
    endpoint::{Endpoint, Reply},
};
use crate::{
    context::{Context, Retries},
    failures::Failures,
    metrics::Metrics,
    permits::Permits,
    published::Published,
    send::{self, Sender},
    watch::Stores,
    work::Work,
};

/// Far above the duration of anything here, so that only a bug reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

/// The process without its watches: tests fill the caches.
pub struct Parts {
    /// What the loops share. Writes to the API server reach the caches.
    pub context: Arc<Context>,
    /// The task that sends.
    pub sender: Sender,
    /// The objects to reconcile because a message was sent.
    pub sent: mpsc::Receiver<Work>,
    pub registry: Registry,
}

/// The process, with this API server.
pub fn parts(api: &FakeApi, stop: CancellationToken) -> Parts {
    // Without a default provider the first client would panic. Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stores = Stores::new(StoreBudget::new("notifier", 1 << 30));
    let (registry, leadership) = (Registry::new(), Leadership::always());
    // Empty, and complete.
    stores.alerts.apply(0, Event::InitDone);
    stores.providers.apply(0, Event::InitDone);
    stores.receivers.apply(0, Event::InitDone);
    stores.objects.helmops.apply(0, Event::InitDone);
    api.feed(stores.clone());
    // As the manifests create it.
    api.secret("system", SECRET, &Value::Null);
    let (outbox, sender, sent) = send::outbox();
    let workers = Workers::new(NonZeroU16::new(10).unwrap(), leadership.clone(), stop);
    workers.open();
    let context = Context {
        client: api.client(),
        published: Published::new(api.client(), "system".to_owned(), stores.receivers.clone()),
        workers,
        metrics: Metrics::register(&registry).unwrap(),
        retries: Retries::default(),
        privileged: Privileged::new(["system".to_owned()]),
        leadership,
        instance: "test".to_owned(),
        poster: Poster::new(Addresses {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            deny: Vec::new(),
        }),
        outbox,
        failures: Failures::default(),
        sends: Permits::default(),
        memories: Mutex::default(),
        polled_all: Mutex::default(),
        stores,
    };
    Parts {
        context: Arc::new(context),
        sender,
        sent,
        registry,
    }
}

/// An object, from its JSON.
pub fn object<K: DeserializeOwned>(json: &Value) -> K {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// The name of an object in the namespace of the tests.
pub fn named(name: &str) -> NamespacedName {
    NamespacedName::new("a", name)
}

/// The sum of the samples whose line starts with this.
pub fn sum_of(registry: &Registry, start: &str) -> f64 {
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let lines = text.lines().filter(|line| line.starts_with(start));
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

/// Waits until there is a value.
pub async fn until<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(Instant::now() < end, "timed out waiting for {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
