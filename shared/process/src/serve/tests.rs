use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Mutex;

use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::metrics::HandshakeFailure;
use super::test_client::{
    DEADLINE, GET, GET_SLOW, PEER, SLOW, Tls, app, exchange, metrics, read_done, read_to_close,
};
use super::*;

/// An in-memory listener that returns the connections and errors that the test sends.
struct FakeListener(mpsc::UnboundedReceiver<io::Result<DuplexStream>>);

impl Accept for FakeListener {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(result) => result.map(|stream| (stream, PEER)),
            None => std::future::pending().await,
        }
    }
}

/// A server that runs concurrently with the test.
struct TestServer {
    offer: mpsc::UnboundedSender<io::Result<DuplexStream>>,
    metrics: ServeMetrics,
    stop_token: CancellationToken,
    task: JoinSet<Drained>,
}

fn start_server(transport: Transport, limits: Limits) -> TestServer {
    let (offer, offered) = mpsc::unbounded_channel();
    let (metrics, stop) = (metrics(), CancellationToken::new());
    let mut task = JoinSet::new();
    task.spawn(serve(
        FakeListener(offered),
        transport,
        app(),
        limits,
        metrics.clone(),
        stop.clone(),
    ));
    TestServer {
        offer,
        metrics,
        stop_token: stop,
        task,
    }
}

impl TestServer {
    /// Adds a connection to the queue of the listener.
    fn connect(&self) -> DuplexStream {
        let (server, peer) = duplex(1 << 16);
        self.offer.send(Ok(server)).unwrap();
        peer
    }

    async fn stop(&mut self) -> Drained {
        self.stop_token.cancel();
        timeout(DEADLINE, self.task.join_next())
            .await
            .expect("the server ends")
            .unwrap()
            .unwrap()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn accepting_survives_a_lack_of_file_descriptors() {
    const EMFILE: i32 = 24;
    let mut server = start_server(Transport::Plain, Limits::default());
    let start = Instant::now();
    for _ in 0..3 {
        server
            .offer
            .send(Err(io::Error::from_raw_os_error(EMFILE)))
            .unwrap();
    }
    exchange(&mut server.connect()).await;
    assert_eq!(start.elapsed(), 3 * ACCEPT_PAUSE);
    assert_eq!(server.metrics.accept_errors(), 3);
    assert_eq!(server.stop().await, Drained { cut_off: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_disconnects_in_the_queue_does_not_pause_accepting() {
    let server = start_server(Transport::Plain, Limits::default());
    let start = Instant::now();
    server
        .offer
        .send(Err(io::ErrorKind::ConnectionAborted.into()))
        .unwrap();
    exchange(&mut server.connect()).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(server.metrics.accept_errors(), 0);
}

#[tokio::test(start_paused = true)]
async fn silent_peers_do_not_block_other_clients() {
    let server = start_server(
        Transport::Plain,
        Limits {
            connections: 8,
            ..Limits::default()
        },
    );
    let mut used = server.connect();
    exchange(&mut used).await;
    let mut silent: Vec<_> = (0..100).map(|_| server.connect()).collect();
    let start = Instant::now();
    exchange(&mut server.connect()).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(server.metrics.evictions(Evicted::Old), 94);
    assert!(server.metrics.open_now() <= 8, "{}", server.metrics.open_now());
    let oldest = silent.first_mut().unwrap();
    assert!(read_to_close(oldest).await.is_empty());
    assert_eq!(
        start.elapsed(),
        Duration::ZERO,
        "the oldest is closed immediately"
    );
    exchange(&mut used).await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_has_as_many_requests_in_flight_as_there_are_connections() {
    let server = start_server(Transport::Plain, Limits::default());
    let mut burst: Vec<_> = (0..Limits::default().connections)
        .map(|_| server.connect())
        .collect();
    for peer in &mut burst {
        peer.write_all(GET_SLOW).await.unwrap();
    }
    for peer in &mut burst {
        read_done(peer).await;
    }
    assert_eq!(server.metrics.evictions(Evicted::Old), 0);
    assert_eq!(server.metrics.evictions(Evicted::New), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_evicted_and_a_request_in_flight_is_not() {
    let server = start_server(
        Transport::Plain,
        Limits {
            connections: 2,
            ..Limits::default()
        },
    );
    let (mut idle, mut busy) = (server.connect(), server.connect());
    exchange(&mut idle).await;
    exchange(&mut busy).await;
    busy.write_all(GET_SLOW).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let mut third = server.connect();
    third.write_all(GET_SLOW).await.unwrap();
    assert!(read_to_close(&mut idle).await.is_empty());
    sleep(Duration::from_secs(1)).await;
    let mut rejected = server.connect();
    assert!(read_to_close(&mut rejected).await.is_empty());
    assert_eq!(server.metrics.evictions(Evicted::New), 1);
    read_done(&mut busy).await;
    read_done(&mut third).await;
}

#[tokio::test(start_paused = true)]
async fn closed_connections_free_their_slots() {
    let server = start_server(
        Transport::Plain,
        Limits {
            connections: 1,
            ..Limits::default()
        },
    );
    for _ in 0..50 {
        exchange(&mut server.connect()).await;
        // Only the gauge shows the end of the connection.
        while server.metrics.open_now() > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(server.metrics.evictions(Evicted::Old), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_ends_its_connection_and_not_the_server() {
    let server = start_server(
        Transport::Plain,
        Limits {
            connections: 1,
            ..Limits::default()
        },
    );
    for _ in 0..3 {
        let mut peer = server.connect();
        peer.write_all(b"GET /panic HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        assert!(read_to_close(&mut peer).await.is_empty());
    }
    exchange(&mut server.connect()).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_completes_requests_in_flight_and_rejects_new_connections() {
    let limits = Limits {
        drain: SLOW + seconds(1),
        ..Limits::default()
    };
    let mut server = start_server(Transport::Plain, limits);
    let (mut busy, mut idle) = (server.connect(), server.connect());
    busy.write_all(GET_SLOW).await.unwrap();
    exchange(&mut idle).await;
    let (start, offer) = (Instant::now(), server.offer.clone());
    let (drained, ()) = tokio::join!(server.stop(), async {
        assert!(read_to_close(&mut idle).await.is_empty());
        assert_eq!(
            start.elapsed(),
            Duration::ZERO,
            "idle connections are closed first"
        );
        assert!(offer.is_closed(), "the listener is closed");
        read_done(&mut busy).await;
    });
    assert_eq!(drained, Drained { cut_off: 0 });
    assert_eq!(start.elapsed().as_secs(), SLOW.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_limited_in_time() {
    let mut server = start_server(
        Transport::Plain,
        Limits {
            drain: seconds(5),
            ..Limits::default()
        },
    );
    let mut stuck = server.connect();
    stuck
        .write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    exchange(&mut server.connect()).await;
    let start = Instant::now();
    assert_eq!(server.stop().await, Drained { cut_off: 1 });
    assert_eq!(start.elapsed(), seconds(5));
    assert_eq!(server.metrics.open_now(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_silent_before_tls_is_cut_off_and_counted() {
    let server = start_server(Tls::new().transport, Limits::default());
    let start = Instant::now();
    let mut silent = server.connect();
    let mut stalling = server.connect();
    // The beginning of a ClientHello.
    stalling.write_all(&[0x16, 3, 1, 2]).await.unwrap();
    assert!(read_to_close(&mut silent).await.is_empty());
    assert!(read_to_close(&mut stalling).await.is_empty());
    assert_eq!(start.elapsed(), Limits::default().handshake);
    assert_eq!(server.metrics.handshake_failures(HandshakeFailure::Timeout), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_handshakes_are_counted_by_reason() {
    let server = start_server(Tls::new().transport, Limits::default());
    let mut plain = server.connect();
    plain.write_all(GET).await.unwrap();
    read_to_close(&mut plain).await;
    assert_eq!(server.metrics.handshake_failures(HandshakeFailure::Tls), 1);
    let mut closed = server.connect();
    closed.shutdown().await.unwrap();
    read_to_close(&mut closed).await;
    assert_eq!(server.metrics.handshake_failures(HandshakeFailure::Io), 1);
    assert_eq!(server.metrics.handshake_failures(HandshakeFailure::Timeout), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_silent_after_tls_is_closed() {
    let tls = Tls::new();
    let server = start_server(tls.transport.clone(), Limits::default());
    let first_request = Limits::default().first_request;
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\nhost:"] {
        let mut peer = tls.connect(server.connect()).await;
        let start = Instant::now();
        peer.write_all(bytes).await.unwrap();
        peer.flush().await.unwrap();
        read_to_close(&mut peer).await;
        let took = start.elapsed();
        assert!(
            took >= first_request && took <= first_request + seconds(3),
            "{bytes:?}: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_handshake_does_not_shorten_the_time_for_the_first_request() {
    let tls = Tls::new();
    let server = start_server(tls.transport.clone(), Limits::default());
    let stream = server.connect();
    sleep(Limits::default().handshake * 9 / 10).await;
    let mut peer = tls.connect(stream).await;
    let start = Instant::now();
    read_to_close(&mut peer).await;
    assert!(start.elapsed() >= Limits::default().first_request);
}

#[tokio::test(start_paused = true)]
async fn http2_is_not_served() {
    let server = start_server(Transport::Plain, Limits::default());
    let mut peer = server.connect();
    peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let response = read_to_close(&mut peer).await;
    assert!(
        response.is_empty() || response.starts_with(b"HTTP/1.1 400 "),
        "{response:?}"
    );
}

/// A TCP listener that records the `TCP_NODELAY` option of the sockets that it accepts.
struct RecordingListener(TcpListener, Arc<Mutex<VecDeque<bool>>>);

impl Accept for RecordingListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = Accept::accept(&mut self.0).await?;
        self.1.lock().unwrap().push_back(accepted.0.nodelay()?);
        Ok(accepted)
    }
}

#[tokio::test]
async fn accepted_sockets_have_nodelay_and_connections_after_stop_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tls, stop, nodelay) = (Tls::new(), CancellationToken::new(), Arc::default());
    let recording = RecordingListener(listener, Arc::clone(&nodelay));
    let server = serve(
        recording,
        tls.transport.clone(),
        app(),
        Limits::default(),
        metrics(),
        stop.clone(),
    );
    let requests = async {
        let peer = TcpStream::connect(address).await.unwrap();
        exchange(&mut tls.connect(peer).await).await;
        stop.cancel();
    };
    let (drained, ()) = tokio::join!(server, requests);
    assert_eq!(drained, Drained { cut_off: 0 });
    assert_eq!(nodelay.lock().unwrap().pop_front(), Some(true));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn the_unspecified_ipv6_address_accepts_ipv4_clients() {
    let mut listener = listen("[::]:0".parse().unwrap()).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _peer = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (_, from) = Accept::accept(&mut listener).await.unwrap();
    assert_eq!(from.ip().to_string(), "127.0.0.1");
    let second = listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)).await;
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}
