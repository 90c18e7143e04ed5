//! HTTP clients, one for each way to trust and to be trusted.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_shared::runtime::{exit::with_causes, lock};
use reqwest::{Certificate, Client, Identity, redirect};

use super::{addresses::Addresses, body::LeastRate, fault::Fault, names::Names};
use crate::resolve::access::TlsConfig;

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the connection, TLS included.
    pub connect: Duration,
    /// For the next bytes.
    pub read: Duration,
    /// For the whole answer, redirects included.
    pub total: Duration,
    /// How slow a body may be before that.
    pub rate: LeastRate,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // A server that does not even accept a connection by then is down.
            connect: Duration::from_secs(10),
            // A server that sends nothing for this long will not send the rest.
            read: Duration::from_secs(30),
            // The largest index at a slow but honest pace.
            total: Duration::from_mins(2),
            rate: LeastRate {
                grace: Duration::from_secs(20),
                window: Duration::from_secs(10),
                // A telephone line is faster. At this rate less than 200 KiB come within the total time.
                bytes: 16 << 10,
            },
        }
    }
}

/// Clients that are kept, each with its connections. Making one costs some milliseconds, since it reads the system's
/// certificates.
const MAX_CLIENTS: usize = 64;
/// Servers that one client is used for. Another one takes its place then, and its idle connections end: there would be one
/// for each server that a HelmOp names, for as long as they are kept.
const MAX_ORIGINS: usize = 64;
/// Idle connections to one server: more than two are used in bursts alone.
const MAX_IDLE: usize = 2;
/// What an HTTP/2 server may send ahead of a slow reader, in bytes, for one answer and for a connection. At 100 ms from
/// here the largest index still comes in time.
const AHEAD: (u32, u32) = (256 << 10, 1 << 20);
/// How long an idle connection is kept: HelmOps that are polled every few seconds use it again.
const IDLE: Duration = Duration::from_secs(30);

/// The clients that are in use.
#[derive(Debug)]
pub struct Clients {
    timeouts: Timeouts,
    addresses: Arc<Addresses>,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    clients: HashMap<Arc<TlsConfig>, Used>,
    uses: u64,
}

#[derive(Debug)]
struct Used {
    client: Client,
    origins: HashSet<String>,
    last: u64,
}

impl Clients {
    /// None yet. Connections are made to these addresses alone.
    pub fn new(timeouts: Timeouts, addresses: Arc<Addresses>) -> Self {
        Self {
            timeouts,
            addresses,
            made: Mutex::default(),
        }
    }

    /// The client for a way of transport, for a request to a server.
    ///
    /// # Errors
    /// Where certificates or keys are of no use.
    pub fn get(&self, transport: &Arc<TlsConfig>, origin: &str) -> Result<Client, Fault> {
        let known = lock(&self.made).get(transport, origin);
        if let Some(client) = known {
            return Ok(client);
        }
        // Without the lock, which all requests take. Two that do this at the same time both have a good client.
        let names = Names(Arc::clone(&self.addresses));
        let client = build(transport, self.timeouts, names)?;
        let dropped = lock(&self.made).put(transport, origin, client.clone());
        drop(dropped);
        Ok(client)
    }
}

impl Made {
    /// The client, if there is one that may be used for this server.
    fn get(&mut self, transport: &Arc<TlsConfig>, origin: &str) -> Option<Client> {
        self.uses += 1;
        let used = self.clients.get_mut(transport)?;
        if !used.origins.contains(origin) {
            if used.origins.len() >= MAX_ORIGINS {
                return None;
            }
            used.origins.insert(origin.to_owned());
        }
        used.last = self.uses;
        Some(used.client.clone())
    }

    /// Keeps a client, and returns those whose place it takes, so that they end outside of the lock.
    fn put(&mut self, transport: &Arc<TlsConfig>, origin: &str, client: Client) -> [Option<Used>; 2] {
        let is_full = self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(transport);
        // Old passwords' and rotated certificates' clients are the first to go.
        let oldest = self.clients.iter().min_by_key(|(_, used)| used.last);
        let oldest = oldest.filter(|_| is_full).map(|(oldest, _)| Arc::clone(oldest));
        let evicted = oldest.and_then(|oldest| self.clients.remove(&oldest));
        let used = Used {
            client,
            origins: HashSet::from([origin.to_owned()]),
            last: self.uses,
        };
        [evicted, self.clients.insert(Arc::clone(transport), used)]
    }
}

fn build(transport: &TlsConfig, timeouts: Timeouts, names: Names) -> Result<Client, Fault> {
    let mut builder = Client::builder()
        .user_agent(concat!("helmops/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect)
        .read_timeout(timeouts.read)
        .timeout(timeouts.total)
        // It would tell the query, which may hold a token, to wherever a redirect leads.
        .referer(false)
        // Retries are the controller's, with its own pace.
        .retry(reqwest::retry::never())
        // They are followed one by one, each checked; see `redirects`.
        .redirect(redirect::Policy::none())
        .dns_resolver(names)
        .pool_max_idle_per_host(MAX_IDLE)
        .http2_initial_stream_window_size(AHEAD.0)
        .http2_initial_connection_window_size(AHEAD.1)
        .pool_idle_timeout(IDLE);
    for (pem, holder) in &transport.authorities {
        let certificates = Certificate::from_pem_bundle(pem).map_err(|_| Fault::CaCerts(holder))?;
        if certificates.is_empty() {
            return Err(Fault::CaCerts(holder));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some(pem) = &transport.identity {
        let identity = Identity::from_pem(pem).map_err(|error| Fault::Identity(with_causes(&error)))?;
        builder = builder.identity(identity);
    }
    if transport.insecure_skip_tls_verify {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    builder.build().map_err(|error| match &transport.identity {
        Some(_) => Fault::Identity(with_causes(&error)),
        None => Fault::Client(with_causes(&error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport(number: usize) -> Arc<TlsConfig> {
        Arc::new(TlsConfig {
            authorities: Vec::new(),
            identity: Some(number.to_string().into_bytes()),
            insecure_skip_tls_verify: false,
        })
    }

    #[test]
    fn the_least_recently_used_client_makes_room() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut made = Made::default();
        let client = Client::new();
        for number in 0..MAX_CLIENTS {
            made.put(&transport(number), "http://h", client.clone());
            made.uses += 1;
        }
        assert!(made.get(&transport(0), "http://h").is_some());
        made.put(&transport(MAX_CLIENTS), "http://h", client.clone());
        assert_eq!(made.clients.len(), MAX_CLIENTS);
        assert!(made.get(&transport(0), "http://h").is_some(), "used just now");
        assert!(made.get(&transport(1), "http://h").is_none());
        assert!(made.get(&transport(2), "http://h").is_some(), "all others stay");
    }

    #[test]
    fn a_client_is_used_for_a_bounded_number_of_servers() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut made = Made::default();
        made.put(&transport(0), "http://h0", Client::new());
        for number in 1..MAX_ORIGINS {
            assert!(made.get(&transport(0), &format!("http://h{number}")).is_some());
        }
        assert!(made.get(&transport(0), "http://one-more").is_none());
        assert!(made.get(&transport(0), "http://h0").is_some(), "the others go on");
        made.put(&transport(0), "http://one-more", Client::new());
        assert_eq!(made.clients[&transport(0)].origins.len(), 1);
        assert_eq!(made.clients.len(), 1);
    }
}
