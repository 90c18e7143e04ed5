//! Connections without HTTP, by the same rules: to allowed addresses only, and not while the host backs off.

use std::{net::SocketAddr, time::Duration};

use bounded_text::cut;
use helmops_process::exit::with_causes;
use helmops_runtime::{
    error_class::{ClassifiedError, Scope},
    metrics::GaugeGuard,
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{
    FetchErrorKind, HttpClient,
    addresses::{AddressError, Addresses},
    readers::Threads,
};
use crate::metrics::{RequestKind, RequestOutcome};

/// Longest text of an error of the system that a message quotes, in bytes.
const MAX_CAUSE: usize = 256;

impl HttpClient {
    /// A connection to one of the allowed addresses of a host. No proxy is used.
    ///
    /// # Errors
    /// If there is none.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, FetchErrorKind> {
        let key = self.backoffs.key(("tcp", host, port));
        self.backoffs.check(key)?;
        let connected = timeout(self.timeouts.connect, connect(&self.addresses, host, port));
        let connected = connected.await.unwrap_or(Err(FetchErrorKind::NotAccepted));
        match &connected {
            Ok(_) => self.backoffs.responded(key),
            Err(kind) if kind.class().scope() == Scope::Host => self.backoffs.failed(key, kind),
            Err(_) => {}
        }
        connected
    }

    /// Threads for what reads from such a connection.
    pub fn threads(&self) -> Threads {
        self.readers.threads()
    }

    /// Maximum time for what is read from one.
    pub fn total_timeout(&self) -> Duration {
        self.timeouts.total
    }

    /// Counts a request over one until the value is dropped.
    pub fn in_flight(&self) -> GaugeGuard {
        self.fetches.in_flight()
    }

    /// Records a request over one.
    pub fn record(&self, kind: RequestKind, failure: Option<&FetchErrorKind>, bytes: u64, took: Duration) {
        let outcome = failure.map_or(RequestOutcome::Success, |kind| {
            RequestOutcome::Failed(kind.reason())
        });
        self.fetches.record(kind, outcome, bytes, took);
    }
}

async fn connect(addresses: &Addresses, host: &str, port: u16) -> Result<TcpStream, FetchErrorKind> {
    let found = lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found
        .map_err(|error| FetchErrorKind::Dns(cut(with_causes(&error), MAX_CAUSE)))?
        .collect();
    let is_resolved = !found.is_empty();
    let mut last = FetchErrorKind::Dns("the name has no address".to_owned());
    if is_resolved {
        last = AddressError::name(host).into();
    }
    for address in found {
        if addresses.check(address.ip()).is_err() {
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                last = FetchErrorKind::ConnectionRefused;
            }
            Err(error) => last = FetchErrorKind::Unreachable(cut(with_causes(&error), MAX_CAUSE)),
        }
    }
    Err(last)
}
