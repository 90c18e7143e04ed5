//! A load balancer like a Service: new connections go to the ready replicas, and stay there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use helmops_bed::probe;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Between readiness probes of a replica; in the manifests, the kubelet probes every 2 s.
const PERIOD: Duration = Duration::from_millis(200);

/// A replica.
#[derive(Clone)]
struct Backend {
    https: SocketAddr,
    admin: String,
    is_ready: bool,
}

type Backends = Arc<Mutex<BTreeMap<String, Backend>>>;

/// Stops when dropped.
pub struct Balancer {
    pub address: SocketAddr,
    backends: Backends,
    _tasks: JoinSet<()>,
}

impl Balancer {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let backends = Backends::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&backends)));
        tasks.spawn(probe_readiness(Arc::clone(&backends)));
        Ok(Self {
            address,
            backends,
            _tasks: tasks,
        })
    }

    pub fn add(&self, name: &str, https: SocketAddr, admin: &str) {
        let backend = Backend {
            https,
            admin: admin.to_owned(),
            is_ready: false,
        };
        lock(&self.backends).insert(name.to_owned(), backend);
    }

    pub fn remove(&self, name: &str) {
        lock(&self.backends).remove(name);
    }

    pub fn ready(&self) -> usize {
        lock(&self.backends)
            .values()
            .filter(|backend| backend.is_ready)
            .count()
    }
}

fn lock(backends: &Backends) -> std::sync::MutexGuard<'_, BTreeMap<String, Backend>> {
    backends.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn probe_readiness(backends: Backends) {
    let client = probe::client(None).unwrap();
    loop {
        let known: Vec<_> = lock(&backends).clone().into_iter().collect();
        for (name, backend) in known {
            let is_ready = probe::get(&client, &format!("{}/readyz", backend.admin))
                .await
                .is_ok();
            if let Some(backend) = lock(&backends).get_mut(&name) {
                backend.is_ready = is_ready;
            }
        }
        sleep(PERIOD).await;
    }
}

async fn accept(listener: TcpListener, backends: Backends) {
    let mut connections = JoinSet::new();
    let mut counter = 0_usize;
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((mut client, _)) = listener.accept().await else {
            continue;
        };
        counter = counter.wrapping_add(1);
        let ready: Vec<_> = lock(&backends)
            .values()
            .filter(|backend| backend.is_ready)
            .map(|backend| backend.https)
            .collect();
        if ready.is_empty() {
            continue;
        }
        let address = ready[counter % ready.len()];
        connections.spawn(async move {
            if let Ok(mut backend) = TcpStream::connect(address).await {
                // An error closes both connections.
                let _ = copy_bidirectional(&mut client, &mut backend).await;
            }
        });
    }
}
