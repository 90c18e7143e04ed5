//! The plain-HTTP port of the kubelet's probes.
//!
//! Apart from the metrics, because the kubelet comes from anywhere: whoever may not reach the metrics cannot keep it
//! out there, and a scrape that takes long does not delay it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;
use prometheus::Registry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::health::{Health, Report};
use super::serve::{Limits, ServeMetrics, Transport, listen, serve};

/// The kubelet opens one connection for each probe and closes it.
const CONNECTIONS: usize = 64;

/// The kubelet sends its request at once. Its own timeout is one second unless a probe has another.
const FIRST_REQUEST: Duration = Duration::from_secs(2);

/// An answer takes less than a millisecond. The port stops only when the process does, and must not hold that up.
const DRAIN: Duration = Duration::from_secs(1);

/// Why the port of the probes could not be opened.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on --health-probe-bind-address {address}; is the port taken, or the address not this host's?"
    )]
    Bind {
        /// The address as given.
        address: SocketAddr,
        /// What the operating system says.
        #[source]
        source: io::Error,
    },
    /// The port's own metrics are already in the registry.
    #[error("cannot register the metrics of the probe port")]
    Metrics(#[source] prometheus::Error),
}

/// The port of the probes, bound and not yet serving.
pub struct ProbeServer {
    listener: TcpListener,
    health: Health,
    metrics: ServeMetrics,
}

impl ProbeServer {
    /// Binds the port and registers its connection metrics as `helmops_probe_*`.
    ///
    /// # Errors
    /// The address cannot be bound, or a second probe server uses the same registry.
    pub async fn bind(address: SocketAddr, registry: &Registry, health: Health) -> Result<Self, ProbeError> {
        let metrics = ServeMetrics::register(registry, "helmops_probe").map_err(ProbeError::Metrics)?;
        let listener = listen(address)
            .await
            .map_err(|source| ProbeError::Bind { address, source })?;
        Ok(Self {
            listener,
            health,
            metrics,
        })
    }

    /// The address it listens on, of use where port 0 was asked for.
    ///
    /// # Errors
    /// The operating system cannot tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let limits = Limits {
            connections: CONNECTIONS,
            first_request: FIRST_REQUEST,
            drain: DRAIN,
            ..Limits::default()
        };
        let app = routes(self.health)
            .fallback(|| async { (StatusCode::NOT_FOUND, "this port serves /livez and /readyz\n") });
        serve(self.listener, Transport::Plain, app, limits, self.metrics, stop).await;
    }
}

/// `/livez` and `/readyz`, without a socket.
pub(super) fn routes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
}

async fn livez(State(health): State<Health>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    answer("livez", &health.live(), verbose(query.as_deref()))
}

async fn readyz(State(health): State<Health>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    answer("readyz", &health.ready(), verbose(query.as_deref()))
}

/// How much a probe tells when all is well; a failing one tells everything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Brief,
    Full,
}

fn verbose(query: Option<&str>) -> Detail {
    let asked = query
        .unwrap_or_default()
        .split('&')
        .any(|p| p == "verbose" || p.starts_with("verbose="));
    if asked { Detail::Full } else { Detail::Brief }
}

/// The API server's own form of a probe's answer, which admins know how to read.
fn answer(probe: &str, report: &Report, detail: Detail) -> (StatusCode, String) {
    let (status, verdict) = match report.ok() {
        true if detail == Detail::Brief => return (StatusCode::OK, "ok".to_owned()),
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let lines = report.0.iter().map(|check| match &check.failure {
        None => format!("[+]{} ok\n", check.name),
        Some(why) => format!("[-]{} failed: {why}\n", check.name),
    });
    let text = lines.chain([format!("{probe} check {verdict}\n")]).collect();
    (status, text)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;
    use crate::runtime::metrics::registry;

    async fn get_from(address: SocketAddr, path: &str) -> String {
        let mut peer = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        peer.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        peer.read_to_string(&mut text).await.unwrap();
        text
    }

    async fn bound() -> ProbeServer {
        let (any, registry) = ("127.0.0.1:0".parse().unwrap(), registry().unwrap());
        ProbeServer::bind(any, &registry, Health::default())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_probe_is_answered_within_a_second_behind_silent_connections() {
        let (stop, probes) = (CancellationToken::new(), bound().await);
        let address = probes.local_addr().unwrap();
        let asking = async {
            let mut silent = Vec::new();
            for _ in 0..384 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let start = Instant::now();
            let answer = timeout(Duration::from_mins(2), get_from(address, "/livez")).await;
            let took = start.elapsed();
            eprintln!("a probe behind {} silent connections took {took:?}", silent.len());
            assert!(answer.unwrap().ends_with("ok"));
            assert!(took < Duration::from_secs(1), "{took:?}");
            stop.cancel();
        };
        tokio::join!(probes.run(stop.clone()), asking);
    }

    #[tokio::test]
    async fn it_serves_probes_and_no_metrics() {
        let (stop, probes) = (CancellationToken::new(), bound().await);
        let address = probes.local_addr().unwrap();
        let asking = async {
            assert!(get_from(address, "/livez").await.starts_with("HTTP/1.1 200"));
            assert!(
                get_from(address, "/readyz?verbose")
                    .await
                    .contains("[+]not stopping ok")
            );
            assert!(get_from(address, "/metrics").await.starts_with("HTTP/1.1 404"));
            stop.cancel();
        };
        tokio::join!(probes.run(stop.clone()), asking);
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_the_flag_and_the_address() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = ProbeServer::bind(address, &registry().unwrap(), Health::default()).await;
        let text = error.err().unwrap().to_string();
        assert!(
            text.contains("--health-probe-bind-address") && text.contains(&address.to_string()),
            "{text}"
        );
    }
}
