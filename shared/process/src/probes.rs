//! The plain-HTTP port of the kubelet's probes.
//!
//! It is separate from the port of the metrics, because the kubelet may connect from any address. So a client that is not
//! allowed to scrape cannot exhaust this port, and a slow scrape does not delay a probe.

use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::routing::get;

use super::health::{Health, Report};
use super::port::PortConfig;
use super::serve::Limits;

/// The port of the probes.
pub const PORT: PortConfig = PortConfig {
    flag: "--health-probe-bind-address",
    prefix: "helmops_probe",
    limits: Limits {
        // The kubelet opens one connection for each probe and closes it.
        connections: 64,
        // The kubelet sends its request immediately. Its own timeout is one second unless a probe has another.
        first_request: Duration::from_secs(2),
        // A response takes less than a millisecond. The port stops only when the process does, and must not delay that.
        drain: Duration::from_secs(1),
        ..Limits::DEFAULT
    },
};

/// The routes of the port.
pub fn router(health: Health) -> Router {
    routes(health).fallback(|| async { (StatusCode::NOT_FOUND, "this port serves /livez and /readyz\n") })
}

/// `/livez` and `/readyz`.
pub(super) fn routes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
}

async fn livez(State(health): State<Health>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    respond("livez", &health.live(), verbose(query.as_deref()))
}

async fn readyz(State(health): State<Health>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    respond("readyz", &health.ready(), verbose(query.as_deref()))
}

/// How much a passing probe reports. A failing one reports every check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Brief,
    Full,
}

fn verbose(query: Option<&str>) -> Detail {
    let is_verbose = query
        .unwrap_or_default()
        .split('&')
        .any(|p| p == "verbose" || p.starts_with("verbose="));
    if is_verbose { Detail::Full } else { Detail::Brief }
}

/// A probe's response in the format of the API server's own probes, which administrators know.
fn respond(probe: &str, report: &Report, detail: Detail) -> (StatusCode, String) {
    let (status, result) = match report.ok() {
        true if detail == Detail::Brief => return (StatusCode::OK, "ok".to_owned()),
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    let lines = report.0.iter().map(|check| match &check.failure {
        None => format!("[+]{} ok\n", check.name),
        Some(failure) => format!("[-]{} failed: {failure}\n", check.name),
    });
    let text = lines.chain([format!("{probe} check {result}\n")]).collect();
    (status, text)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Port, Transport};

    async fn get_from(address: SocketAddr, path: &str) -> String {
        let mut peer = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        peer.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        peer.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_probe_gets_a_response_within_a_second_despite_silent_connections() {
        let (stop, port) = (CancellationToken::new(), Port::local(PORT).await);
        let address = port.address;
        let requests = async {
            let mut silent = Vec::new();
            for _ in 0..384 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let start = Instant::now();
            let response = timeout(Duration::from_mins(2), get_from(address, "/livez")).await;
            let took = start.elapsed();
            eprintln!("a probe after {} silent connections took {took:?}", silent.len());
            assert!(response.unwrap().ends_with("ok"));
            assert!(took < Duration::from_secs(1), "{took:?}");
            stop.cancel();
        };
        tokio::join!(
            port.serve(Transport::Plain, router(Health::default()), stop.clone()),
            requests
        );
    }

    #[tokio::test]
    async fn the_port_serves_probes_and_no_metrics() {
        let (stop, port) = (CancellationToken::new(), Port::local(PORT).await);
        let address = port.address;
        let requests = async {
            assert!(get_from(address, "/livez").await.starts_with("HTTP/1.1 200"));
            assert!(
                get_from(address, "/readyz?verbose")
                    .await
                    .contains("[-]running failed: the process is starting")
            );
            assert!(get_from(address, "/metrics").await.starts_with("HTTP/1.1 404"));
            stop.cancel();
        };
        tokio::join!(
            port.serve(Transport::Plain, router(Health::default()), stop.clone()),
            requests
        );
    }
}
