use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Mutex;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::metrics::HandshakeFailure;
use super::peer::{
    DEADLINE, GET, GET_SLOW, PEER, SLOW, Tls, app, exchange, metrics, read_done, read_to_close,
};
use super::*;

/// A listener in memory: hands out what the test sends, errors included.
struct Offered(mpsc::UnboundedReceiver<io::Result<DuplexStream>>);

impl Accept for Offered {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(offered) => offered.map(|stream| (stream, PEER)),
            None => std::future::pending().await,
        }
    }
}

/// A server that runs beside the test.
struct Stage {
    offer: mpsc::UnboundedSender<io::Result<DuplexStream>>,
    metrics: ServeMetrics,
    stop: CancellationToken,
    server: JoinSet<Drained>,
}

fn stage(transport: Transport, limits: Limits) -> Stage {
    let (offer, offered) = mpsc::unbounded_channel();
    let (metrics, stop) = (metrics(), CancellationToken::new());
    let mut server = JoinSet::new();
    server.spawn(serve(
        Offered(offered),
        transport,
        app(),
        limits,
        metrics.clone(),
        stop.clone(),
    ));
    Stage {
        offer,
        metrics,
        stop,
        server,
    }
}

impl Stage {
    /// Connects as far as the kernel's queue.
    fn connect(&self) -> DuplexStream {
        let (server, peer) = duplex(1 << 16);
        self.offer.send(Ok(server)).unwrap();
        peer
    }

    async fn stopped(&mut self) -> Drained {
        self.stop.cancel();
        timeout(DEADLINE, self.server.join_next())
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
    let mut stage = stage(Transport::Plain, Limits::default());
    let start = Instant::now();
    for _ in 0..3 {
        stage
            .offer
            .send(Err(io::Error::from_raw_os_error(EMFILE)))
            .unwrap();
    }
    exchange(&mut stage.connect()).await;
    assert_eq!(start.elapsed(), 3 * ACCEPT_PAUSE);
    assert_eq!(stage.metrics.accept_pauses(), 3);
    assert_eq!(stage.stopped().await, Drained { cut_off: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_left_the_queue_does_not_pause_accepting() {
    let stage = stage(Transport::Plain, Limits::default());
    let start = Instant::now();
    stage
        .offer
        .send(Err(io::ErrorKind::ConnectionAborted.into()))
        .unwrap();
    exchange(&mut stage.connect()).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(stage.metrics.accept_pauses(), 0);
}

#[tokio::test(start_paused = true)]
async fn silent_peers_keep_nobody_out() {
    let stage = stage(
        Transport::Plain,
        Limits {
            connections: 8,
            ..Limits::default()
        },
    );
    let mut used = stage.connect();
    exchange(&mut used).await;
    let mut silent: Vec<_> = (0..100).map(|_| stage.connect()).collect();
    let start = Instant::now();
    exchange(&mut stage.connect()).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(stage.metrics.displaced_so_far(Displaced::Old), 94);
    assert!(stage.metrics.open_now() <= 8, "{}", stage.metrics.open_now());
    let oldest = silent.first_mut().unwrap();
    assert!(read_to_close(oldest).await.is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO, "the oldest is closed at once");
    exchange(&mut used).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_gives_way_and_a_request_under_way_does_not() {
    let stage = stage(
        Transport::Plain,
        Limits {
            connections: 2,
            ..Limits::default()
        },
    );
    let (mut idle, mut busy) = (stage.connect(), stage.connect());
    exchange(&mut idle).await;
    exchange(&mut busy).await;
    busy.write_all(GET_SLOW).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let mut third = stage.connect();
    third.write_all(GET_SLOW).await.unwrap();
    assert!(read_to_close(&mut idle).await.is_empty());
    sleep(Duration::from_secs(1)).await;
    let mut refused = stage.connect();
    assert!(read_to_close(&mut refused).await.is_empty());
    assert_eq!(stage.metrics.displaced_so_far(Displaced::New), 1);
    read_done(&mut busy).await;
    read_done(&mut third).await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_ended_leave_no_trace() {
    let stage = stage(
        Transport::Plain,
        Limits {
            connections: 1,
            ..Limits::default()
        },
    );
    for _ in 0..50 {
        exchange(&mut stage.connect()).await;
    }
    // Nothing observable marks the end of the last one but its gauge.
    while stage.metrics.open_now() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_ends_its_connection_and_not_the_server() {
    let stage = stage(
        Transport::Plain,
        Limits {
            connections: 1,
            ..Limits::default()
        },
    );
    for _ in 0..3 {
        let mut peer = stage.connect();
        peer.write_all(b"GET /panic HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        assert!(read_to_close(&mut peer).await.is_empty());
    }
    exchange(&mut stage.connect()).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_answers_what_is_under_way_and_refuses_new_connections() {
    let limits = Limits {
        drain: SLOW + seconds(1),
        ..Limits::default()
    };
    let mut stage = stage(Transport::Plain, limits);
    let (mut busy, mut idle) = (stage.connect(), stage.connect());
    busy.write_all(GET_SLOW).await.unwrap();
    exchange(&mut idle).await;
    let (start, offer) = (Instant::now(), stage.offer.clone());
    let (drained, ()) = tokio::join!(stage.stopped(), async {
        assert!(read_to_close(&mut idle).await.is_empty());
        assert_eq!(start.elapsed(), Duration::ZERO, "idle connections go first");
        assert!(offer.is_closed(), "the listener is closed");
        read_done(&mut busy).await;
    });
    assert_eq!(drained, Drained { cut_off: 0 });
    assert_eq!(start.elapsed().as_secs(), SLOW.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_drain_is_bounded() {
    let mut stage = stage(
        Transport::Plain,
        Limits {
            drain: seconds(5),
            ..Limits::default()
        },
    );
    let mut stuck = stage.connect();
    stuck
        .write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    exchange(&mut stage.connect()).await;
    let start = Instant::now();
    assert_eq!(stage.stopped().await, Drained { cut_off: 1 });
    assert_eq!(start.elapsed(), seconds(5));
    assert_eq!(stage.metrics.open_now(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_silent_before_tls_is_cut_off_and_counted() {
    let stage = stage(Tls::new().transport, Limits::default());
    let start = Instant::now();
    let mut silent = stage.connect();
    let mut halting = stage.connect();
    // The beginning of a ClientHello.
    halting.write_all(&[0x16, 3, 1, 2]).await.unwrap();
    assert!(read_to_close(&mut silent).await.is_empty());
    assert!(read_to_close(&mut halting).await.is_empty());
    assert_eq!(start.elapsed(), Limits::default().handshake);
    assert_eq!(stage.metrics.handshake_failures(HandshakeFailure::Timeout), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_handshakes_are_counted_by_reason() {
    let stage = stage(Tls::new().transport, Limits::default());
    let mut plain = stage.connect();
    plain.write_all(GET).await.unwrap();
    read_to_close(&mut plain).await;
    assert_eq!(stage.metrics.handshake_failures(HandshakeFailure::Tls), 1);
    let mut gone = stage.connect();
    gone.shutdown().await.unwrap();
    read_to_close(&mut gone).await;
    assert_eq!(stage.metrics.handshake_failures(HandshakeFailure::Io), 1);
    assert_eq!(stage.metrics.handshake_failures(HandshakeFailure::Timeout), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_silent_after_tls_is_closed_in_either_protocol() {
    let tls = Tls::new();
    let stage = stage(tls.transport.clone(), Limits::default());
    let first_request = Limits::default().first_request;
    for (protocol, said) in [
        ("http/1.1", &b""[..]),
        ("http/1.1", b"GET / HTTP/1.1\r\nhost:"),
        ("h2", b""),
        ("h2", b"PRI * HTTP/2.0\r\n"),
    ] {
        let mut peer = tls.connect(stage.connect(), protocol).await;
        let start = Instant::now();
        peer.write_all(said).await.unwrap();
        peer.flush().await.unwrap();
        read_to_close(&mut peer).await;
        let took = start.elapsed();
        assert!(
            took >= first_request && took <= first_request + seconds(3),
            "{protocol} {said:?}: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_handshake_takes_no_time_from_the_first_request() {
    let tls = Tls::new();
    let stage = stage(tls.transport.clone(), Limits::default());
    for protocol in ["http/1.1", "h2"] {
        let stream = stage.connect();
        sleep(Limits::default().handshake * 9 / 10).await;
        let mut peer = tls.connect(stream, protocol).await;
        let start = Instant::now();
        read_to_close(&mut peer).await;
        assert!(start.elapsed() >= Limits::default().first_request, "{protocol}");
    }
}

#[tokio::test(start_paused = true)]
async fn alpn_chooses_the_protocol() {
    let tls = Tls::new();
    let stage = stage(tls.transport.clone(), Limits::default());
    exchange(&mut tls.connect(stage.connect(), "http/1.1").await).await;

    let peer = TokioIo::new(tls.connect(stage.connect(), "h2").await);
    let (mut send, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), peer)
        .await
        .unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    for _ in 0..3 {
        let request = Request::get("https://localhost/").body(Body::empty()).unwrap();
        let answer = send.send_request(request).await.unwrap();
        assert_eq!(answer.version(), hyper::Version::HTTP_2);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    }
}

/// Notes the options of the sockets that a real listener accepts.
struct Noting(TcpListener, Arc<Mutex<VecDeque<bool>>>);

impl Accept for Noting {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = Accept::accept(&mut self.0).await?;
        self.1.lock().unwrap().push_back(accepted.0.nodelay()?);
        Ok(accepted)
    }
}

#[tokio::test]
async fn over_real_sockets_it_answers_without_delay_and_refuses_after_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tls, stop, nodelay) = (Tls::new(), CancellationToken::new(), Arc::default());
    let noting = Noting(listener, Arc::clone(&nodelay));
    let server = serve(
        noting,
        tls.transport.clone(),
        app(),
        Limits::default(),
        metrics(),
        stop.clone(),
    );
    let asking = async {
        let peer = TcpStream::connect(address).await.unwrap();
        exchange(&mut tls.connect(peer, "http/1.1").await).await;
        stop.cancel();
    };
    let (drained, ()) = tokio::join!(server, asking);
    assert_eq!(drained, Drained { cut_off: 0 });
    assert_eq!(nodelay.lock().unwrap().pop_front(), Some(true));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn who_listens_at_no_address_takes_callers_of_both_families() {
    let mut listener = listen("[::]:0".parse().unwrap()).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _peer = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (_, from) = Accept::accept(&mut listener).await.unwrap();
    assert_eq!(from.ip().to_string(), "127.0.0.1");
    let taken = listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)).await;
    assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}
