//! The server on a real socket, and peers that do not behave.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use bounded_text::hex;
use helmops_api::NamespacedName;
use helmops_notify::push::{Announcement, Entry, GOOGLE_KEYS, path_digest, webhook_path};
use helmops_process::{Limits, ServeMetrics, Transport, listen, serve};
use k8s_openapi::ByteString;
use prometheus::{Registry, TextEncoder};
use ring::hmac;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    limits::CONNECTIONS,
    recorder::{RecordError, Sink},
};

const TOKEN: &str = "0123456789abcdef";

#[derive(Clone, Default)]
struct Recorded {
    pushes: Arc<Mutex<Vec<(String, String)>>>,
    writes: Arc<AtomicU64>,
    fails: bool,
    takes: Duration,
}

impl Recorded {
    fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

impl Sink for Recorded {
    async fn record(
        &self,
        receiver: NamespacedName,
        announced: Vec<Announcement>,
    ) -> Result<(), RecordError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        sleep(self.takes).await;
        if self.fails {
            return Err(RecordError::Failed("the API server is not available".into()));
        }
        let pushes = announced
            .into_iter()
            .map(|announcement| (receiver.name.clone(), announcement.repository));
        self.pushes.lock().unwrap().extend(pushes);
        Ok(())
    }
}

struct Server {
    started: Instant,
    address: SocketAddr,
    sink: Recorded,
    registry: Registry,
    tasks: JoinSet<()>,
    table: SharedTable,
    stop: CancellationToken,
}

impl Server {
    async fn start() -> Self {
        Self::with(Recorded::default(), CONNECTIONS).await
    }

    async fn with(sink: Recorded, limits: Limits) -> Self {
        let (registry, table, stop) = (Registry::new(), SharedTable::new(None), CancellationToken::new());
        let data = ["generic", "generic-hmac", "distribution"]
            .map(|receiver_type| (digest(receiver_type), entry(receiver_type, false)));
        let data: BTreeMap<_, _> = data
            .into_iter()
            .chain([(digest("suspended"), entry("suspended", true))])
            .collect();
        table.send_replace(Some(Arc::new(Table::of(&data, &Table::default()))));
        let mut tasks = JoinSet::new();
        let (recorder, recording) = Recorder::new(sink.clone());
        tasks.spawn(recording);
        let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::register(&registry).unwrap();
        let app = router(AppState::new(table.clone(), recorder, metrics, Health::default()));
        let connections = ServeMetrics::register(&registry, "test").unwrap();
        let server = serve(listener, Transport::Plain, app, limits, connections, stop.clone());
        tasks.spawn(async {
            server.await;
        });
        Self {
            started: Instant::now(),
            address,
            sink,
            registry,
            tasks,
            table,
            stop,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and reads until the server closes the connection.
    async fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may have responded and closed before it has read all.
        let _ = stream.write_all(request).await;
        read_to_close(&mut stream).await
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
        self.exchange(&request("POST", path, headers, body)).await
    }

    /// The number of requests with these labels.
    fn count(&self, receiver_type: &str, result: &str) -> u64 {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap();
        let labels =
            format!("helmops_receiver_requests_total{{result=\"{result}\",type=\"{receiver_type}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&*labels));
        line.map_or(0, |count| count.parse().unwrap())
    }

    fn pushes(&self) -> Vec<(String, String)> {
        self.sink.pushes.lock().unwrap().clone()
    }
}

fn digest(name: &str) -> String {
    path_digest(TOKEN.as_bytes(), "default", name)
}

fn path(name: &str) -> String {
    webhook_path(&digest(name))
}

fn entry(name: &str, suspended: bool) -> ByteString {
    let receiver_type = if suspended { "generic" } else { name };
    ByteString(
        Entry {
            namespace: "default".into(),
            name: name.into(),
            r#type: receiver_type.into(),
            token: TOKEN.into(),
            suspended,
            ..Entry::default()
        }
        .encode(),
    )
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n{}",
        headers.concat()
    );
    [head.as_bytes(), b"\r\n", body].concat()
}

async fn read_to_close(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = timeout(Duration::from_secs(30), stream.read_to_end(&mut text));
    // A reset after the response, because the server has not read all that was sent, loses nothing here.
    let _ = read.await.expect("the server closes the connection");
    String::from_utf8_lossy(&text).into_owned()
}

fn status(response: &str) -> u16 {
    let status = response.split(' ').nth(1).unwrap_or_default();
    status
        .parse()
        .unwrap_or_else(|_| panic!("no response: {response:?}"))
}

const BEARER: (&str, &str) = ("Authorization", "Bearer 0123456789abcdef");

fn body(number: usize) -> Vec<u8> {
    format!(r#"{{"repository":"r.example/charts/web","tag":"1.0.{number}"}}"#).into_bytes()
}

#[tokio::test]
async fn a_push_with_a_proof_is_recorded_before_it_is_accepted() {
    let server = Server::start().await;
    let response = server.post(&path("generic"), &[BEARER], &body(1)).await;
    assert_eq!(status(&response), 202, "{response}");
    assert_eq!(
        server.pushes(),
        [("generic".into(), "r.example/charts/web".into())]
    );
    let signature = hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, TOKEN.as_bytes()), &body(2)).as_ref());
    let header = format!("sha256={signature}");
    assert_eq!(
        status(
            &server
                .post(&path("generic-hmac"), &[("X-Signature", &header)], &body(2))
                .await
        ),
        202
    );
    let pulled = br#"{"events":[{"action":"pull"}]}"#;
    assert_eq!(
        status(&server.post(&path("distribution"), &[BEARER], pulled).await),
        200
    );
    assert_eq!(server.pushes().len(), 2);
    assert_eq!(
        (
            server.count("generic", "accepted"),
            server.count("distribution", "ignored")
        ),
        (1, 1)
    );
}

/// The keys come with the Secret: the process fetches nothing.
#[tokio::test]
async fn a_token_of_google_is_verified_with_the_keys_of_the_secret() {
    const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/notify/src/push");
    let server = Server::start().await;
    let entry = Entry {
        namespace: "default".into(),
        name: "gcr".into(),
        r#type: "gcr".into(),
        token: TOKEN.into(),
        email: "pubsub@my-project.iam.gserviceaccount.com".into(),
        audience: "https://hooks.example/charts".into(),
        ..Entry::default()
    };
    let read = |file: &str| std::fs::read(format!("{TESTDATA}/{file}")).unwrap();
    let tokens: BTreeMap<String, String> =
        serde_json::from_slice(&read("testdata/google-tokens.json")).unwrap();
    let body = read("body/testdata/gcr.json");
    let mut data = BTreeMap::from([(digest("gcr"), ByteString(entry.encode()))]);
    let post = async |case: &str| {
        let header = format!("Bearer {}", tokens[case]);
        status(
            &server
                .post(&path("gcr"), &[("Authorization", &header)], &body)
                .await,
        )
    };
    server
        .table
        .send_replace(Some(Arc::new(Table::of(&data, &Table::default()))));
    assert_eq!(post("valid").await, 401, "no keys yet");
    data.insert(
        GOOGLE_KEYS.to_owned(),
        ByteString(read("testdata/google-keys.json")),
    );
    server
        .table
        .send_replace(Some(Arc::new(Table::of(&data, &Table::default()))));
    assert_eq!(post("valid").await, 202);
    for case in [
        "expired",
        "other audience",
        "signed with another key",
        "without signature",
    ] {
        assert_eq!(post(case).await, 401, "{case}");
    }
    assert_eq!(
        server.pushes(),
        [(
            "gcr".into(),
            "us-east1-docker.pkg.dev/my-project/charts/web".into()
        )]
    );
}

#[tokio::test]
async fn a_failed_record_is_503_and_the_repeated_request_is_no_replay() {
    let server = Server::with(
        Recorded {
            fails: true,
            ..Recorded::default()
        },
        CONNECTIONS,
    )
    .await;
    for _ in 0..2 {
        let response = server.post(&path("generic"), &[BEARER], &body(1)).await;
        assert_eq!(status(&response), 503, "{response}");
        assert!(
            response.contains("retry-after: 5\r\n") && !response.contains("API server"),
            "{response}"
        );
    }
    assert_eq!(
        (
            server.count("generic", "failed"),
            server.count("generic", "replayed")
        ),
        (2, 0)
    );
}

#[tokio::test]
async fn a_wrong_proof_is_401_and_costs_the_owner_of_the_token_nothing() {
    let server = Server::start().await;
    for index in 0..100 {
        let wrong = format!("Bearer 0123456789abcde{index}");
        let response = server
            .post(&path("generic"), &[("Authorization", &wrong)], &body(index))
            .await;
        assert_eq!(status(&response), 401, "{response}");
        assert!(!response.contains("0123456789"), "{response}");
    }
    assert_eq!(status(&server.post(&path("generic"), &[], &body(1)).await), 401);
    assert_eq!(
        status(&server.post(&path("generic"), &[BEARER, BEARER], &body(1)).await),
        401
    );
    assert_eq!(server.count("generic", "unauthorized"), 102);
    assert_eq!(
        status(&server.post(&path("generic"), &[BEARER], &body(1)).await),
        202
    );
}

#[tokio::test]
async fn another_method_path_or_state_is_refused() {
    let server = Server::start().await;
    for method in ["GET", "PUT", "HEAD", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
        let response = server
            .exchange(&request(method, &path("generic"), &[BEARER], b""))
            .await;
        assert_eq!(status(&response), 405, "{response}");
        assert!(response.contains("allow: POST"), "{response}");
    }
    let generic = path("generic");
    for path in [
        "/",
        "/hook/",
        "/metrics",
        &generic[1..],
        &format!("{generic}/"),
        &format!("/x{generic}"),
        &path("other"),
        &generic.to_uppercase(),
        "/hook/../hook/",
    ] {
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}x")
        };
        assert_eq!(
            status(&server.post(&path, &[BEARER], &body(1)).await),
            404,
            "{path}"
        );
    }
    assert_eq!(
        (
            server.count("none", "method"),
            server.count("none", "unknown_path")
        ),
        (7, 9)
    );
    let response = server.post(&path("suspended"), &[BEARER], &body(1)).await;
    assert_eq!(
        (status(&response), server.count("generic", "suspended")),
        (503, 1)
    );
    server.table.send_replace(None);
    assert_eq!(
        (
            status(&server.post(&generic, &[BEARER], &body(1)).await),
            server.count("none", "starting")
        ),
        (503, 1)
    );
    assert_eq!(server.pushes(), []);
}

#[tokio::test]
async fn a_replay_is_not_recorded_again() {
    let server = Server::start().await;
    assert_eq!(
        status(&server.post(&path("generic"), &[BEARER], &body(1)).await),
        202
    );
    for _ in 0..100 {
        let response = server.post(&path("generic"), &[BEARER], &body(1)).await;
        assert!(
            status(&response) == 200 && response.contains("already handled"),
            "{response}"
        );
    }
    assert_eq!(
        (server.pushes().len(), server.count("generic", "replayed")),
        (1, 100)
    );
    // Without a tag, equal bodies are different pushes.
    let without_tag = br#"{"repository":"r.example/charts/web"}"#;
    for _ in 0..2 {
        assert_eq!(
            status(&server.post(&path("generic"), &[BEARER], without_tag).await),
            202
        );
    }
}

/// The same body with another signed time is another push, and with the same one a replay.
#[tokio::test]
async fn an_equal_body_with_another_signed_time_is_another_push() {
    let server = Server::start().await;
    let post = async |time: i64| {
        let (time, body) = (time.to_string(), body(1));
        let message = [time.as_bytes(), b".", &body].concat();
        let key = hmac::Key::new(hmac::HMAC_SHA256, TOKEN.as_bytes());
        let signature = format!("sha256={}", hex(hmac::sign(&key, &message).as_ref()));
        let headers = [
            ("X-Helmops-Timestamp", &*time),
            ("X-Helmops-Signature", &*signature),
        ];
        status(&server.post(&path("generic-hmac"), &headers, &body).await)
    };
    let now = Timestamp::now().as_second();
    let statuses = [post(now - 60).await, post(now).await, post(now).await];
    assert_eq!(statuses, [202, 202, 200]);
    assert_eq!(server.pushes().len(), 2);
}

/// A registry that does not repeat a request: its pushes become few writes, each of them names the repository, and none is refused.
#[tokio::test]
async fn a_burst_of_pushes_is_few_writes_of_the_repository() {
    const PUSHES: usize = 60;
    let server = Server::start().await;
    let posts = (0..PUSHES).map(|number| {
        let server = &server;
        async move { server.post(&path("generic"), &[BEARER], &body(number)).await }
    });
    for response in futures::future::join_all(posts).await {
        assert_eq!(status(&response), 202, "{response}");
    }
    let recorded = server.pushes();
    let seconds = server.started.elapsed().as_secs() + 1;
    assert!(server.sink.writes() <= seconds + 1, "{recorded:?}");
    assert!(
        recorded
            .iter()
            .all(|(_, repository)| repository == "r.example/charts/web"),
        "{recorded:?}"
    );
    // Repeated, each of them is known.
    for number in [0, PUSHES / 2, PUSHES - 1] {
        let response = server.post(&path("generic"), &[BEARER], &body(number)).await;
        assert_eq!(status(&response), 200, "{response}");
    }
    assert_eq!(server.count("generic", "replayed"), 3);
}

/// More requests than connections, all valid and to one Receiver: another Receiver has its push recorded meanwhile.
#[tokio::test]
async fn a_flood_to_one_receiver_keeps_no_push_of_another_out() {
    // So that those of the flood stay: none has a response before the push to the other Receiver.
    let slow = Recorded {
        takes: Duration::from_secs(2),
        ..Recorded::default()
    };
    let server = Server::with(slow, CONNECTIONS).await;
    let pushed = br#"{"events":[{"action":"push","target":{"mediaType":"application/vnd.oci.image.manifest.v1+json","repository":"web","tag":"1"}}]}"#;
    let mut flood = JoinSet::new();
    for number in 0..CONNECTIONS.connections + 44 {
        let request = request("POST", &path("generic"), &[BEARER], &body(number));
        let address = server.address;
        flood.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The server closes connections that are too many.
            let _ = stream.write_all(&request).await;
            read_to_close(&mut stream).await
        });
    }
    // The others wait for a write.
    let busy = timeout(Duration::from_secs(30), async {
        while server.count("generic", "busy") < 100 {
            sleep(Duration::from_millis(5)).await;
        }
    });
    busy.await.expect("most of them do not wait");
    let response = server.post(&path("distribution"), &[BEARER], pushed).await;
    assert_eq!(status(&response), 202, "{response}");
    let responses = flood.join_all().await;
    let with = |code: u16| {
        responses
            .iter()
            .filter(move |text| !text.is_empty() && status(text) == code)
    };
    assert!(with(202).count() > 0 && with(503).count() > 100);
    assert!(with(503).all(|text| text.contains("retry-after: 5\r\n")));
    assert_eq!(server.count("generic", "failed"), 0);
}

/// A push of a burst is accepted when it is recorded, as any other.
#[tokio::test]
async fn pushes_of_a_burst_that_are_not_recorded_are_503() {
    let fails = Recorded {
        fails: true,
        ..Recorded::default()
    };
    let server = Server::with(fails, CONNECTIONS).await;
    let posts = (0..50).map(|index| {
        let server = &server;
        async move { server.post(&path("generic"), &[BEARER], &body(index)).await }
    });
    for response in futures::future::join_all(posts).await {
        assert_eq!(status(&response), 503, "{response}");
    }
    assert_eq!(
        (
            server.count("generic", "failed"),
            server.count("generic", "accepted")
        ),
        (50, 0)
    );
}

#[tokio::test]
async fn a_body_that_is_too_large_is_413_whether_or_not_it_says_so() {
    let server = Server::start().await;
    let large = vec![b'x'; (1 << 20) + 1];
    assert_eq!(
        status(&server.post(&path("generic"), &[BEARER], &large).await),
        413
    );
    // A length that was announced, and none of it sent.
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\n",
        path("generic")
    );
    assert_eq!(status(&server.exchange(head.as_bytes()).await), 413);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
        path("generic")
    );
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
    let chunked = [head.as_bytes(), &chunk.repeat(17)].concat();
    assert_eq!(status(&server.exchange(&chunked).await), 413);
    assert_eq!(server.count("generic", "too_large"), 3);
}

#[tokio::test]
async fn lies_about_the_length_are_refused() {
    let server = Server::start().await;
    let path = path("generic");
    for head in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "content-length: -5\r\n",
        "content-length: 99999999999999999999999999\r\n",
        "transfer-encoding: gzip\r\n",
    ] {
        let request = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{head}\r\nhello");
        let response = server.exchange(request.as_bytes()).await;
        assert!(
            response.starts_with("HTTP/1.1 4") || response.is_empty(),
            "{head}: {response}"
        );
        assert!(!response.starts_with("HTTP/1.1 2"), "{head}: {response}");
    }
    // A chunk that is longer than it says, and one whose length is no number.
    for chunks in [
        "5\r\nhello world\r\n0\r\n\r\n",
        "zz\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nhello\r\n",
    ] {
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
        let response = server.exchange(request.as_bytes()).await;
        assert!(
            response.starts_with("HTTP/1.1 400") || response.is_empty(),
            "{chunks}: {response}"
        );
    }
    // Less than announced, and then the end.
    let mut stream = server.connect().await;
    stream
        .write_all(format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhello").as_bytes())
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let response = read_to_close(&mut stream).await;
    assert!(response.is_empty() || status(&response) == 400, "{response}");
    assert_eq!(server.pushes(), []);
}

#[tokio::test]
async fn a_slow_header_is_cut_off_and_a_slow_body_is_408_while_others_are_served() {
    let limits = Limits {
        first_request: Duration::from_secs(1),
        ..CONNECTIONS
    };
    let server = Server::with(Recorded::default(), limits).await;
    let mut slow_header = server.connect().await;
    let mut slow_body = server.connect().await;
    slow_header.write_all(b"POST /hook/").await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: 1000\r\n\r\n{{",
        path("generic")
    );
    slow_body.write_all(head.as_bytes()).await.unwrap();
    let start = Instant::now();
    assert_eq!(
        status(&server.post(&path("generic"), &[BEARER], &body(1)).await),
        202
    );
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let trickle = async {
        while slow_header.write_all(b"0").await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let (cut_off, response) = tokio::join!(
        timeout(Duration::from_secs(10), trickle),
        read_to_close(&mut slow_body)
    );
    assert!(cut_off.is_ok(), "a header that never ends is cut off");
    assert_eq!(status(&response), 408, "{response}");
    assert!(response.contains("connection: close"), "{response}");
    assert_eq!(server.count("generic", "slow"), 1);
}

#[tokio::test]
async fn silent_connections_keep_no_push_out() {
    let limits = Limits {
        connections: 16,
        ..CONNECTIONS
    };
    let server = Server::with(Recorded::default(), limits).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(server.connect().await);
    }
    assert_eq!(
        status(&server.post(&path("generic"), &[BEARER], &body(1)).await),
        202
    );
}

#[tokio::test]
async fn a_changed_token_changes_the_path_immediately() {
    let mut server = Server::start().await;
    let (old, new) = (
        path("generic"),
        path_digest(b"another token of 16", "default", "generic"),
    );
    let data = BTreeMap::from([(new.clone(), entry("generic", false))]);
    let previous = server.table.borrow().clone().unwrap();
    server
        .table
        .send_replace(Some(Arc::new(Table::of(&data, &previous))));
    assert_eq!(status(&server.post(&old, &[BEARER], &body(1)).await), 404);
    assert_eq!(
        status(&server.post(&webhook_path(&new), &[BEARER], &body(1)).await),
        202
    );
    server.stop.cancel();
    while let Some(ended) = timeout(Duration::from_secs(10), server.tasks.join_next())
        .await
        .unwrap()
    {
        ended.unwrap();
    }
}
