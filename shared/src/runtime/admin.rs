//! The plain-HTTP port for Prometheus. It answers probes too, for people; the kubelet has [a port of its own](super::probes).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus::Registry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::health::Health;
use super::probes;
use super::scrape::{Exposed, metrics};
use super::serve::{Limits, ServeMetrics, Transport, listen, serve};

/// Scrapers and a curious admin need no more; the rest of the file descriptors are for work.
const CONNECTIONS: usize = 64;

/// A scrape takes milliseconds. The port stops only when the process does, and must not hold that up.
const DRAIN: Duration = Duration::from_secs(2);

/// Why the admin port could not be opened.
#[derive(Debug, Error)]
pub enum AdminError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on --metrics-bind-address {address}; is the port taken, or the address not this host's?"
    )]
    Bind {
        /// The address as given.
        address: SocketAddr,
        /// What the operating system says.
        #[source]
        source: io::Error,
    },
    /// The port's own metrics are already in the registry.
    #[error("cannot register the metrics of the admin port")]
    Metrics(#[source] prometheus::Error),
}

/// The admin port, bound and not yet serving.
pub struct AdminServer {
    listener: TcpListener,
    registry: Registry,
    health: Health,
    more: Vec<Arc<Expose>>,
    metrics: ServeMetrics,
}

/// Writes further metrics in Prometheus' text format when they are asked for: for those of which there are as many as there
/// are objects, so that they are not kept twice.
pub type Expose = dyn Fn(&mut String) + Send + Sync;

impl AdminServer {
    /// Binds the port and registers its connection metrics as `helmops_admin_*`.
    ///
    /// # Errors
    /// The address cannot be bound, or a second admin server uses the same registry.
    pub async fn bind(address: SocketAddr, registry: &Registry, health: Health) -> Result<Self, AdminError> {
        let metrics = ServeMetrics::register(registry, "helmops_admin").map_err(AdminError::Metrics)?;
        let listener = listen(address)
            .await
            .map_err(|source| AdminError::Bind { address, source })?;
        Ok(Self {
            listener,
            registry: registry.clone(),
            health,
            more: Vec::new(),
            metrics,
        })
    }

    /// Has these metrics among those of the registry.
    #[must_use]
    pub fn exposing(mut self, more: Arc<Expose>) -> Self {
        self.more.push(more);
        self
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
            drain: DRAIN,
            ..Limits::default()
        };
        serve(
            self.listener,
            Transport::Plain,
            router(self.registry, self.more, self.health),
            limits,
            self.metrics,
            stop,
        )
        .await;
    }
}

/// The routes of the admin port, without a socket.
pub fn router(registry: Registry, more: Vec<Arc<Expose>>, health: Health) -> Router {
    let exposed = Exposed::new(registry, more);
    probes::routes(health)
        .merge(Router::new().route("/metrics", get(metrics)).with_state(exposed))
        .fallback(elsewhere)
}

async fn elsewhere() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "not found; this port serves /metrics, /livez and /readyz\n",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics::registry;
    use axum::body::Body;
    use axum::http::{Request, header};
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
            "[-]helmop loop failed: no sign of life for 31 s, at most 30 s allowed\nlivez check failed\n"
        );
    }

    #[tokio::test]
    async fn a_closed_gate_is_named_by_readyz() {
        let health = Health::default();
        let app = router(registry().unwrap(), Vec::new(), health.clone());
        let (certificate, _cache) = (health.gate("certificate"), health.gate("cache"));
        certificate.open();
        let (status, _, body) = get_from(&app, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            body,
            "[+]not stopping ok\n[+]certificate ok\n[-]cache failed: not ready yet\nreadyz check failed\n"
        );
    }

    #[tokio::test]
    async fn verbose_lists_every_check() {
        let health = Health::default();
        let app = router(registry().unwrap(), Vec::new(), health.clone());
        health.gate("certificate").open();
        for uri in ["/readyz?verbose", "/readyz?a=b&verbose=1"] {
            let (status, _, body) = get_from(&app, uri).await;
            assert_eq!(status, StatusCode::OK);
            assert_eq!(
                body,
                "[+]not stopping ok\n[+]certificate ok\nreadyz check passed\n"
            );
        }
        assert_eq!(get_from(&app, "/readyz?verbosely").await.2, "ok");
    }

    #[tokio::test]
    async fn metrics_come_in_prometheus_text_and_other_paths_get_a_hint() {
        let app = router(
            registry().unwrap(),
            vec![Arc::new(|text: &mut String| text.push_str("more 1\n"))],
            Health::default(),
        );
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
    async fn it_serves_on_a_real_port_until_stopped() {
        let stop = CancellationToken::new();
        let registry = registry().unwrap();
        let admin = AdminServer::bind("127.0.0.1:0".parse().unwrap(), &registry, Health::default())
            .await
            .unwrap();
        let address = admin.local_addr().unwrap();
        let asking = async {
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
        tokio::join!(admin.run(stop.clone()), asking);
    }

    #[tokio::test]
    async fn silent_connections_keep_neither_probes_nor_scrapes_out() {
        let (stop, registry) = (CancellationToken::new(), registry().unwrap());
        let admin = AdminServer::bind("127.0.0.1:0".parse().unwrap(), &registry, Health::default())
            .await
            .unwrap();
        let address = admin.local_addr().unwrap();
        let asking = async {
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
                    "{path} behind {} silent connections: {:?}",
                    silent.len(),
                    start.elapsed()
                );
            }
            assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
            stop.cancel();
        };
        tokio::join!(admin.run(stop.clone()), asking);
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_the_flag_and_the_address() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = AdminServer::bind(address, &registry().unwrap(), Health::default())
            .await
            .err()
            .unwrap();
        let text = error.to_string();
        assert!(
            text.contains("--metrics-bind-address") && text.contains(&address.to_string()),
            "{text}"
        );
    }
}
