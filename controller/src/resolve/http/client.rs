//! HTTP clients, one for each way to trust and to be trusted.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use helmops_shared::{
    chart::url::redacted,
    runtime::{exit::with_causes, lock},
};
use reqwest::{Certificate, Client, Identity, redirect};

use super::fault::Fault;
use crate::resolve::access::Transport;

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the connection, TLS included.
    pub connect: Duration,
    /// For the next bytes.
    pub read: Duration,
    /// For the whole answer.
    pub total: Duration,
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
        }
    }
}

/// As many as Go's client follows.
const MAX_REDIRECTS: usize = 10;
/// Clients that are kept, each with its connections. Making one costs some milliseconds, since it reads the system's
/// certificates.
const MAX_CLIENTS: usize = 64;

/// The clients that are in use.
#[derive(Debug)]
pub struct Clients {
    timeouts: Timeouts,
    made: Mutex<HashMap<Arc<Transport>, Client>>,
}

impl Clients {
    /// None yet.
    pub fn new(timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            made: Mutex::default(),
        }
    }

    /// The client for a way of transport.
    ///
    /// # Errors
    /// Where certificates or keys are of no use.
    pub fn get(&self, transport: &Arc<Transport>) -> Result<Client, Fault> {
        let mut made = lock(&self.made);
        if let Some(client) = made.get(transport) {
            return Ok(client.clone());
        }
        let client = build(transport, self.timeouts)?;
        if made.len() >= MAX_CLIENTS {
            // Old passwords' and rotated certificates' clients among them; the others are made anew when needed.
            made.clear();
        }
        made.insert(Arc::clone(transport), client.clone());
        Ok(client)
    }
}

fn build(transport: &Transport, timeouts: Timeouts) -> Result<Client, Fault> {
    let mut builder = Client::builder()
        .user_agent(concat!("helmops/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect)
        .read_timeout(timeouts.read)
        .timeout(timeouts.total)
        // It would tell the query, which may hold a token, to wherever a redirect leads.
        .referer(false)
        // Retries are the controller's, with its own pace.
        .retry(reqwest::retry::never())
        .redirect(redirect::Policy::custom(follow));
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

/// The client itself drops credentials where a redirect leaves scheme, host or port.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let was_https = attempt
        .previous()
        .last()
        .is_some_and(|url| url.scheme() == "https");
    let to = redacted(attempt.url().as_str());
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(format!(
            "more than {MAX_REDIRECTS} redirects, one after the other, the last to {to}"
        ))
    } else if was_https && attempt.url().scheme() != "https" {
        attempt.error(format!(
            "a redirect from https to plain http is not followed: {to}"
        ))
    } else {
        attempt.follow()
    }
}
