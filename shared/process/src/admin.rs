//! The plain-HTTP port for Prometheus. It serves probes too, for humans; the kubelet has [a port of its own](super::probes).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus::Registry;

use super::health::Health;
use super::port::PortConfig;
use super::probes;
use super::scrape::{MetricsState, MetricsWriter, metrics};
use super::serve::Limits;

/// The port of the metrics.
pub const PORT: PortConfig = PortConfig {
    flag: "--metrics-bind-address",
    prefix: "helmops_admin",
    limits: Limits {
        // Enough for scrapers and an administrator; the remaining file descriptors are for work.
        connections: 64,
        // Prometheus aborts a scrape after 10 s. The response is in memory until it is read.
        request: Duration::from_secs(10),
        // A scrape takes milliseconds. The port stops only when the process does, and must not delay that.
        drain: Duration::from_secs(2),
        ..Limits::DEFAULT
    },
};

/// The routes of the port: the metrics of the registry and `more`, and the probes.
pub fn router(registry: Registry, more: Vec<Arc<MetricsWriter>>, health: Health) -> Router {
    let state = MetricsState::new(registry, more);
    probes::routes(health)
        .merge(Router::new().route("/metrics", get(metrics)).with_state(state))
        .fallback(not_found)
}

async fn not_found() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "not found; this port serves /metrics, /livez and /readyz\n",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry;
    use crate::{Port, Transport};
    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use axum::http::{Request, header};
    use http_body_util::BodyExt;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    async fn get_from(app: &Router, uri: &str) -> (StatusCode, Option<String>, String) {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let content_type = response
            .headers()
            .get(header::CONTENT_TYPE)
            .map(|v| v.to_str().unwrap().to_owned());
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, content_type, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stale_heartbeat_is_named_by_livez() {
        let health = Health::default();
        let app = router(registry().unwrap(), Vec::new(), health.clone());
        let _beat = health.heartbeat("helmop loop", Duration::from_secs(30));
        let (status, _, body) = get_from(&app, "/livez").await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "ok"));
        tokio::time::advance(Duration::from_secs(31)).await;
        let (status, _, body) = get_from(&app, "/livez").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            body,
            "[-]helmop loop failed: no heartbeat for 31 s, at most 30 s allowed\nlivez check failed\n"
        );
    }

    #[tokio::test]
    async fn a_closed_gate_is_named_by_readyz() {
        let health = Health::default();
        let app = router(registry().unwrap(), Vec::new(), health.clone());
        health.set_started();
        let (certificate, _cache) = (health.gate("certificate"), health.gate("cache"));
        certificate.open();
        let (status, _, body) = get_from(&app, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            body,
            "[+]running ok\n[+]certificate ok\n[-]cache failed: not ready yet\nreadyz check failed\n"
        );
    }

    #[tokio::test]
    async fn verbose_lists_every_check() {
        let health = Health::default();
        let app = router(registry().unwrap(), Vec::new(), health.clone());
        health.set_started();
        health.gate("certificate").open();
        for uri in ["/readyz?verbose", "/readyz?a=b&verbose=1"] {
            let (status, _, body) = get_from(&app, uri).await;
            assert_eq!(status, StatusCode::OK);
            assert_eq!(body, "[+]running ok\n[+]certificate ok\nreadyz check passed\n");
        }
        assert_eq!(get_from(&app, "/readyz?verbosely").await.2, "ok");
    }

    #[tokio::test]
    async fn metrics_are_in_prometheus_text_format_and_other_paths_get_a_hint() {
        let app = router(
            registry().unwrap(),
            vec![Arc::new(|text: &mut String| text.push_str("more 1\n"))],
            Health::default(),
        )
        .layer(MockConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        let (status, content_type, body) = get_from(&app, "/metrics").await;
        assert_eq!(
            (status, content_type.as_deref()),
            (StatusCode::OK, Some("text/plain; version=0.0.4"))
        );
        assert!(body.contains("helmops_build_info{"), "{body}");
        let (status, _, body) = get_from(&app, "/").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(body.contains("/readyz") && body.lines().count() == 1, "{body}");
    }

    #[tokio::test]
    async fn the_port_serves_until_stopped() {
        let (stop, registry) = (CancellationToken::new(), registry().unwrap());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let port = Port::bind(any, &registry, PORT).await.unwrap();
        let address = port.address;
        let app = router(registry, Vec::new(), Health::default());
        let requests = async {
            let mut peer = tokio::net::TcpStream::connect(address).await.unwrap();
            peer.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                .await
                .unwrap();
            let mut text = String::new();
            peer.read_to_string(&mut text).await.unwrap();
            assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
            assert!(text.contains("helmops_admin_open_connections 1"), "{text}");
            stop.cancel();
        };
        tokio::join!(port.serve(Transport::Plain, app, stop.clone()), requests);
    }

    #[tokio::test]
    async fn silent_connections_block_neither_probes_nor_scrapes() {
        let (stop, port) = (CancellationToken::new(), Port::local(PORT).await);
        let address = port.address;
        let app = router(registry().unwrap(), Vec::new(), Health::default());
        let requests = async {
            let mut silent = Vec::new();
            for _ in 0..384 {
                silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
            }
            let start = std::time::Instant::now();
            for path in ["/livez", "/metrics"] {
                let mut peer = tokio::net::TcpStream::connect(address).await.unwrap();
                let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
                peer.write_all(request.as_bytes()).await.unwrap();
                let mut text = String::new();
                peer.read_to_string(&mut text).await.unwrap();
                assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
                eprintln!(
                    "{path} after {} silent connections: {:?}",
                    silent.len(),
                    start.elapsed()
                );
            }
            assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
            stop.cancel();
        };
        tokio::join!(port.serve(Transport::Plain, app, stop.clone()), requests);
    }
}
