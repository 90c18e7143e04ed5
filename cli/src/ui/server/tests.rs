//! The server on a real socket, and clients that mean no good.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use super::*;
use crate::ui::hub::fixture::Fixed;

/// Longer than any limit that a test waits for.
const DEADLINE: Duration = Duration::from_secs(30);

struct Running {
    address: SocketAddr,
    session: Arc<Session>,
    source: Fixed,
    _server: JoinSet<Result<(), Failure>>,
}

async fn running() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let session = Arc::new(Session::new(address).unwrap());
    let source = Fixed::new("<script>alert(1)</script>");
    let mut server = JoinSet::new();
    let hub = Hub::new(source.clone());
    server.spawn(serve(
        listener,
        Arc::clone(&session),
        hub,
        CancellationToken::new(),
    ));
    Running {
        address,
        session,
        source,
        _server: server,
    }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a head, with `{host}`, `{origin}`, `{cookie}` and `{key}` replaced, and reads until the server closes or is quiet.
    async fn exchange(&self, request: &str) -> String {
        let mut connection = self.connect().await;
        connection
            .write_all(self.filled(request).as_bytes())
            .await
            .unwrap();
        read(&mut connection).await
    }

    fn filled(&self, request: &str) -> String {
        let (cookie, key) = self.session.credentials();
        request
            .replace("{host}", &self.session.host())
            .replace("{origin}", &self.session.origin())
            .replace("{cookie}", &cookie)
            .replace("{key}", &key)
            .replace("{link}", self.session.key())
    }
}

/// Reads what arrives until nothing more does for a moment.
async fn read(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let mut patience = DEADLINE;
    while let Ok(Ok(length @ 1..)) = timeout(patience, connection.read(&mut buffer)).await {
        bytes.extend_from_slice(&buffer[..length]);
        patience = Duration::from_millis(200);
    }
    String::from_utf8(bytes).unwrap()
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn requests_get_the_status_of_the_first_rule_that_they_violate() {
    let server = running().await;
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n", "200"),
        ("GET /assets/main.js HTTP/1.1\r\nHost: {host}\r\n\r\n", "200"),
        ("GET /assets/none.js HTTP/1.1\r\nHost: {host}\r\n\r\n", "404"),
        (
            "GET /assets/../../Cargo.toml HTTP/1.1\r\nHost: {host}\r\n\r\n",
            "404",
        ),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        ("GET / HTTP/1.0\r\n\r\n", "421"),
        ("GET http://evil.example/ HTTP/1.1\r\nHost: {host}\r\n\r\n", "421"),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: {host}\r\n\r\n", "421"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "none"),
        ("\u{16}\u{3}\u{1}", "none"),
        (
            "GET /stream/helmops HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n",
            "401",
        ),
        (
            "GET /stream/helmops?key={link} HTTP/1.1\r\nHost: {host}\r\n\r\n",
            "401",
        ),
        (
            "GET /stream/helmops HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {link}\r\n\r\n",
            "401",
        ),
        (
            "GET /stream/helmops HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nX-Helmop-Page-Key: {key}\r\nOrigin: http://evil.example\r\n\r\n",
            "403",
        ),
        (
            "GET /stream/helmops HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nX-Helmop-Page-Key: {key}\r\n\r\n",
            "200",
        ),
        (
            "POST /session HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Length: 5\r\n\r\nwrong",
            "401",
        ),
        (
            "POST /session HTTP/1.1\r\nHost: {host}\r\nContent-Length: 43\r\n\r\n{link}",
            "403",
        ),
        (
            "POST /session HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Length: 43\r\n\r\n{link}",
            "200",
        ),
        (
            "PUT /helmops/shop/web HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
    ] {
        let response = server.exchange(request).await;
        let found = if response.is_empty() || response.starts_with("HTTP/1.1 400") {
            "none"
        } else {
            status(&response)
        };
        assert_eq!(found, expected, "{request}: {response}");
    }
}

#[tokio::test]
async fn every_response_has_the_headers_that_protect_it() {
    let server = running().await;
    for (path, is_page) in [
        ("/", true),
        ("/assets/style.css", true),
        ("/nothing", false),
        ("/stream/helmops", false),
    ] {
        let response = server
            .exchange(&format!("GET {path} HTTP/1.1\r\nHost: {{host}}\r\n\r\n"))
            .await;
        assert_eq!(response.starts_with("HTTP/1.1 200"), is_page, "{response}");
        for (name, value) in HEADERS {
            assert!(
                response.contains(&format!("{name}: {value}\r\n")),
                "{path} {name}: {response}"
            );
        }
        assert!(!response.to_lowercase().contains("access-control-"), "{response}");
    }
    let wrong = server
        .exchange("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        .await;
    assert!(wrong.contains("default-src 'none'"), "{wrong}");
}

#[tokio::test]
async fn the_key_of_the_link_opens_a_stream_with_the_view_as_data() {
    let server = running().await;
    let link = server.filled(
        "POST /session HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Length: 43\r\n\r\n{link}",
    );
    let response = server.exchange(&link).await;
    let cookie = response
        .split("set-cookie: ")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let page_key = response
        .split("\"pageKey\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let stream = server
        .exchange(&format!(
            "GET /stream/helmops HTTP/1.1\r\nHost: {{host}}\r\nCookie: {cookie}\r\nX-Helmop-Page-Key: {page_key}\r\n\r\n"
        ))
        .await;
    assert!(stream.contains("content-type: text/event-stream\r\n"), "{stream}");
    assert!(
        stream.contains("event: view\ndata: \"<script>alert(1)</script>\"\n\n"),
        "{stream}"
    );
}

#[tokio::test]
async fn large_heads_and_bodies_are_refused() {
    let server = running().await;
    let huge = "x".repeat(20 << 10);
    let head = format!("GET / HTTP/1.1\r\nHost: {{host}}\r\nX: {huge}\r\n\r\n");
    assert_eq!(status(&server.exchange(&head).await), "431");
    let url = format!("GET /{huge}{huge}{huge}{huge} HTTP/1.1\r\nHost: {{host}}\r\n\r\n");
    assert_ne!(status(&server.exchange(&url).await), "200");
    for headers in ["Content-Length: 20480", "Transfer-Encoding: chunked"] {
        let chunk = if headers.starts_with('T') {
            format!("5000\r\n{huge}\r\n0\r\n\r\n")
        } else {
            huge.clone()
        };
        let body = format!(
            "POST /session HTTP/1.1\r\nHost: {{host}}\r\nOrigin: {{origin}}\r\n{headers}\r\n\r\n{chunk}"
        );
        assert_eq!(status(&server.exchange(&body).await), "413", "{headers}");
    }
}

#[tokio::test]
async fn a_body_that_never_comes_is_given_up() {
    let server = running().await;
    let started = Instant::now();
    let response = server
        .exchange("POST /session HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Length: 43\r\n\r\nx")
        .await;
    assert_eq!(status(&response), "408");
    assert!(started.elapsed() >= BODY_TIMEOUT);
}

#[tokio::test]
async fn silent_and_slow_connections_neither_exhaust_the_server_nor_end_streams() {
    let server = running().await;
    let mut stream = server.connect().await;
    let open = "GET /stream/helmops HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nX-Helmop-Page-Key: {key}\r\n\r\n";
    stream.write_all(server.filled(open).as_bytes()).await.unwrap();
    assert!(read(&mut stream).await.contains("event: view"));
    // Twice as many as the server keeps: half of them silent, half of them with half a head.
    let mut hostile = Vec::new();
    for number in 0..LIMITS.connections * 2 {
        let mut connection = server.connect().await;
        if number % 2 == 0 {
            connection.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
        }
        hostile.push(connection);
    }
    let response = server.exchange("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").await;
    assert_eq!(status(&response), "200");
    server.source.view.send_replace("still here".to_owned());
    assert!(read(&mut stream).await.contains("still here"));
}

#[tokio::test]
async fn streams_are_limited_and_closed_ones_are_counted_no_more() {
    let server = running().await;
    let open = "GET /stream/helmops HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nX-Helmop-Page-Key: {key}\r\n\r\n";
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut stream = server.connect().await;
        stream.write_all(server.filled(open).as_bytes()).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        streams.push(stream);
    }
    let response = server.exchange(open).await;
    assert_eq!(status(&response), "503");
    assert!(response.contains("Too many pages are open"), "{response}");
    assert_eq!(
        server.source.started.load(std::sync::atomic::Ordering::SeqCst),
        1,
        "one feed for all"
    );
    streams.clear();
    let again = timeout(DEADLINE, async {
        while status(&server.exchange(open).await) != "200" {
            sleep(Duration::from_millis(20)).await;
        }
    });
    again.await.unwrap();
}
