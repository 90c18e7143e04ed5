//! HTTP clients, one for each TLS configuration and proxy.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_process::{exit::with_causes, lock};
use reqwest::{Certificate, Client, Identity, redirect};

use super::{addresses::Addresses, dns::DnsResolver, error::FetchErrorKind, tls::Connection};

/// Timeouts of requests.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the connection, including TLS.
    pub connect: Duration,
    /// For the next bytes.
    pub read: Duration,
    /// For the whole response, including redirects.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // A server that does not accept a connection within this time is down.
            connect: Duration::from_secs(10),
            // A server that sends nothing for this long will not send the rest.
            read: Duration::from_secs(30),
            // Enough for the largest index over a slow connection.
            total: Duration::from_mins(2),
        }
    }
}

/// Cached clients, each with its connections. Creating one takes some milliseconds, because it reads the certificates of the
/// system.
const MAX_CLIENTS: usize = 64;
/// Servers that one client is used for. Then another client replaces it, which closes its idle connections: otherwise there
/// would be one for each server that a HelmOp names, for as long as they are kept.
const MAX_ORIGINS: usize = 64;
/// Idle connections to one server: more than two are used only in bursts.
const MAX_IDLE_CONNECTIONS: usize = 2;
/// HTTP/2 flow control windows, in bytes, of a stream and of a connection: what a server may send ahead of a slow reader. With
/// a latency of 100 ms the largest index still arrives in time.
const HTTP2_WINDOWS: (u32, u32) = (256 << 10, 1 << 20);
/// How long an idle connection is kept: HelmOps that are polled every few seconds reuse it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The clients in use.
#[derive(Debug)]
pub struct Clients {
    timeouts: Timeouts,
    addresses: Arc<Addresses>,
    cache: Mutex<ClientCache>,
}

#[derive(Debug, Default)]
struct ClientCache {
    clients: HashMap<Connection, CachedClient>,
    uses: u64,
}

#[derive(Debug)]
struct CachedClient {
    client: Client,
    origins: HashSet<String>,
    last_use: u64,
}

impl Clients {
    /// Creates an empty set of clients, which connect to these addresses only.
    pub fn new(timeouts: Timeouts, addresses: Arc<Addresses>) -> Self {
        Self {
            timeouts,
            addresses,
            cache: Mutex::default(),
        }
    }

    /// The client for a request to a server.
    ///
    /// # Errors
    /// If certificates or keys are invalid.
    pub fn get(&self, key: &Connection, origin: &str) -> Result<Client, FetchErrorKind> {
        let cached = lock(&self.cache).get(key, origin);
        if let Some(client) = cached {
            return Ok(client);
        }
        // Without the lock, which all requests take. Two requests that do this concurrently both get a valid client.
        let dns_resolver = DnsResolver(Arc::clone(&self.addresses));
        let client = build(key, self.timeouts, dns_resolver)?;
        let dropped = lock(&self.cache).put(key, origin, client.clone());
        drop(dropped);
        Ok(client)
    }
}

impl ClientCache {
    /// The cached client, if there is one that may be used for this server.
    fn get(&mut self, key: &Connection, origin: &str) -> Option<Client> {
        self.uses += 1;
        let cached = self.clients.get_mut(key)?;
        if !cached.origins.contains(origin) {
            if cached.origins.len() >= MAX_ORIGINS {
                return None;
            }
            cached.origins.insert(origin.to_owned());
        }
        cached.last_use = self.uses;
        Some(cached.client.clone())
    }

    /// Caches a client, and returns those that it replaces, so that they are dropped outside of the lock.
    fn put(&mut self, key: &Connection, origin: &str, client: Client) -> [Option<CachedClient>; 2] {
        let is_full = self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(key);
        // Clients with rotated certificates are evicted first.
        let oldest = self.clients.iter().min_by_key(|(_, cached)| cached.last_use);
        let oldest = oldest.filter(|_| is_full).map(|(oldest, _)| oldest.clone());
        let evicted = oldest.and_then(|oldest| self.clients.remove(&oldest));
        let cached = CachedClient {
            client,
            origins: HashSet::from([origin.to_owned()]),
            last_use: self.uses,
        };
        [evicted, self.clients.insert(key.clone(), cached)]
    }
}

fn build(
    Connection { tls, proxy }: &Connection,
    timeouts: Timeouts,
    dns_resolver: DnsResolver,
) -> Result<Client, FetchErrorKind> {
    let mut builder = Client::builder()
        .user_agent(concat!("helmops/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect)
        .read_timeout(timeouts.read)
        .timeout(timeouts.total)
        // It would send the query, which may contain a token, to the target of a redirect.
        .referer(false)
        // The controller retries, with its own backoff.
        .retry(reqwest::retry::never())
        // Redirects are followed one by one, and each is checked; see `redirects`.
        .redirect(redirect::Policy::none())
        .dns_resolver(dns_resolver)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .http2_initial_stream_window_size(HTTP2_WINDOWS.0)
        .http2_initial_connection_window_size(HTTP2_WINDOWS.1)
        .pool_idle_timeout(IDLE_TIMEOUT);
    for (pem, source) in &tls.ca_certificates {
        let certificates =
            Certificate::from_pem_bundle(pem).map_err(|_| FetchErrorKind::CaCertificates(source))?;
        if certificates.is_empty() {
            return Err(FetchErrorKind::CaCertificates(source));
        }
        builder = if tls.is_exclusive {
            builder.tls_certs_only(certificates)
        } else {
            builder.tls_certs_merge(certificates)
        };
    }
    if let Some(proxy) = proxy {
        builder = builder.proxy(
            proxy
                .to_reqwest()
                .map_err(|error| FetchErrorKind::Client(with_causes(&error)))?,
        );
    }
    if let Some(pem) = &tls.identity {
        let identity = Identity::from_pem(pem)
            .map_err(|error| FetchErrorKind::ClientCertificate(with_causes(&error)))?;
        builder = builder.identity(identity);
    }
    if tls.insecure_skip_tls_verify {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    builder.build().map_err(|error| match &tls.identity {
        Some(_) => FetchErrorKind::ClientCertificate(with_causes(&error)),
        None => FetchErrorKind::Client(with_causes(&error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::TlsConfig;

    fn tls(number: usize) -> Connection {
        let tls = Arc::new(TlsConfig {
            identity: Some(number.to_string().into_bytes()),
            ..TlsConfig::default()
        });
        Connection { tls, proxy: None }
    }

    #[test]
    fn the_least_recently_used_client_is_evicted() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut cache = ClientCache::default();
        let client = Client::new();
        for number in 0..MAX_CLIENTS {
            cache.put(&tls(number), "http://h", client.clone());
            cache.uses += 1;
        }
        assert!(cache.get(&tls(0), "http://h").is_some());
        cache.put(&tls(MAX_CLIENTS), "http://h", client.clone());
        assert_eq!(cache.clients.len(), MAX_CLIENTS);
        assert!(cache.get(&tls(0), "http://h").is_some(), "used just now");
        assert!(cache.get(&tls(1), "http://h").is_none());
        assert!(cache.get(&tls(2), "http://h").is_some(), "all others stay");
    }

    #[test]
    fn a_client_is_used_for_a_bounded_number_of_servers() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut cache = ClientCache::default();
        cache.put(&tls(0), "http://h0", Client::new());
        for number in 1..MAX_ORIGINS {
            assert!(cache.get(&tls(0), &format!("http://h{number}")).is_some());
        }
        assert!(cache.get(&tls(0), "http://one-more").is_none());
        assert!(
            cache.get(&tls(0), "http://h0").is_some(),
            "servers that are already assigned stay"
        );
        cache.put(&tls(0), "http://one-more", Client::new());
        assert_eq!(cache.clients[&tls(0)].origins.len(), 1);
        assert_eq!(cache.clients.len(), 1);
    }
}
