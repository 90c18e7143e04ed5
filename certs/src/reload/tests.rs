use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::hot::server_config;
use crate::issue::{Ca, Leaf, issue_ca, issue_leaf};

const DAY: Duration = Duration::from_hours(24);

/// Far above what any of this takes, so that only a fault meets it.
const DEADLINE: Duration = Duration::from_secs(30);

/// What the watcher told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Loaded(Vec<String>),
    Refused(String),
}

/// A directory that is watched.
struct Stage {
    dir: TempDir,
    ca: Ca,
    hot: Arc<CertResolver>,
    stop: CancellationToken,
    told: mpsc::UnboundedReceiver<Told>,
    looks: mpsc::UnboundedReceiver<()>,
    watcher: JoinSet<()>,
}

fn stage() -> Stage {
    let dir = tempfile::tempdir().unwrap();
    let (hot, stop) = (CertResolver::empty(), CancellationToken::new());
    let (tell, told) = mpsc::unbounded_channel();
    let (look, looks) = mpsc::unbounded_channel();
    let paths = PairPaths {
        cert: dir.path().join("tls.crt"),
        key: dir.path().join("tls.key"),
    };
    let on_event = move |event: ReloadEvent<'_>| {
        let _ = look.send(());
        let _ = match event {
            ReloadEvent::Loaded(pair) => tell.send(Told::Loaded(pair.names().to_vec())),
            ReloadEvent::Refused(error) => tell.send(Told::Refused(error.to_string())),
            ReloadEvent::Unchanged => Ok(()),
        };
    };
    let mut watcher = JoinSet::new();
    watcher.spawn(watch(
        paths,
        Arc::clone(&hot),
        SHORTEST_INTERVAL,
        stop.clone(),
        on_event,
    ));
    let ca = issue_ca("test CA", SystemTime::now(), DAY).unwrap();
    Stage {
        dir,
        ca,
        hot,
        stop,
        told,
        looks,
        watcher,
    }
}

impl Stage {
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn issue(&self, name: &str) -> Leaf {
        issue_leaf(
            &self.ca,
            &[name.to_owned(), "localhost".to_owned()],
            &[],
            SystemTime::now(),
            DAY / 2,
        )
        .unwrap()
    }

    async fn next(&mut self) -> Told {
        timeout(DEADLINE, self.told.recv())
            .await
            .expect("the watcher says something")
            .unwrap()
    }

    async fn expect_loaded(&mut self, name: &str) {
        loop {
            match self.next().await {
                Told::Loaded(names) if names.first().is_some_and(|first| first == name) => return,
                // A look may fall between two writes.
                Told::Loaded(_) | Told::Refused(_) => {}
            }
        }
    }

    async fn expect_refused(&mut self, part: &str) {
        loop {
            match self.next().await {
                Told::Refused(why) if why.contains(part) => return,
                // A look may fall between two writes, and what it reads then may even be whole: the old
                // text and the tail of the new.
                Told::Loaded(_) | Told::Refused(_) => {}
            }
        }
    }

    /// Waits for looks that began after now, and asserts that they told nothing.
    async fn expect_silence(&mut self) {
        while self.looks.try_recv().is_ok() {}
        for _ in 0..3 {
            timeout(DEADLINE, self.looks.recv())
                .await
                .expect("the watcher looks")
                .unwrap();
        }
        assert_eq!(self.told.try_recv().ok(), None);
    }

    fn serving(&self) -> Option<String> {
        self.hot.current().and_then(|pair| pair.names().first().cloned())
    }
}

fn write(dir: &Path, leaf: &Leaf) {
    fs::write(dir.join("tls.key"), &leaf.key_pem).unwrap();
    fs::write(dir.join("tls.crt"), &leaf.cert_pem).unwrap();
}

/// Lays out a Secret mount as the kubelet does: `tls.crt -> ..data/tls.crt`, `..data -> ..VERSION`.
fn mount(dir: &Path, version: &str, leaf: &Leaf) {
    let fresh = dir.join(format!("..{version}"));
    fs::create_dir(&fresh).unwrap();
    write(&fresh, leaf);
    symlink(format!("..{version}"), dir.join("..data_tmp")).unwrap();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        if !dir.join(name).exists() {
            symlink(format!("..data/{name}"), dir.join(name)).unwrap();
        }
    }
}

/// Answers each byte on every TLS connection with itself.
async fn echo(listener: TcpListener, acceptor: TlsAcceptor) {
    let mut connections = JoinSet::new();
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let Ok(mut tls) = acceptor.accept(tcp).await else {
                return;
            };
            while let Ok(byte) = tls.read_u8().await {
                tls.write_u8(byte).await.unwrap();
                tls.flush().await.unwrap();
            }
        });
    }
}

async fn connect(ca: &Ca, address: std::net::SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.cert_pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("localhost").unwrap(), tcp)
        .await
}

async fn echoes(tls: &mut TlsStream<TcpStream>) -> bool {
    let sent = async {
        tls.write_u8(7).await?;
        tls.flush().await?;
        tls.read_u8().await
    };
    timeout(DEADLINE, sent)
        .await
        .expect("an echo")
        .is_ok_and(|byte| byte == 7)
}

fn presented(tls: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    tls.get_ref().1.peer_certificates().unwrap()[0]
        .clone()
        .into_owned()
}

fn der(leaf: &Leaf) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(leaf.cert_pem.as_bytes()).unwrap()
}

#[tokio::test]
async fn a_secrets_data_swap_is_seen_and_open_connections_stay() {
    let mut stage = stage();
    let (old, new) = (stage.issue("old"), stage.issue("new"));
    mount(stage.dir.path(), "2026_1", &old);
    stage.expect_loaded("old").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = server_config(Arc::clone(&stage.hot)).unwrap();
    let mut server = JoinSet::new();
    server.spawn(echo(listener, TlsAcceptor::from(Arc::new(config))));
    let mut before = connect(&stage.ca, address).await.unwrap();
    assert_eq!(presented(&before), der(&old));

    mount(stage.dir.path(), "2026_2", &new);
    fs::remove_dir_all(stage.path("..2026_1")).unwrap();
    stage.expect_loaded("new").await;
    assert!(echoes(&mut before).await, "the old connection lives");
    let mut after = connect(&stage.ca, address).await.unwrap();
    assert_eq!(presented(&after), der(&new));
    assert!(echoes(&mut after).await);
}

#[tokio::test]
async fn files_written_in_place_are_seen() {
    let mut stage = stage();
    for name in ["first", "second"] {
        write(stage.dir.path(), &stage.issue(name));
        stage.expect_loaded(name).await;
        assert_eq!(stage.serving().as_deref(), Some(name));
    }
}

#[tokio::test]
async fn a_mismatched_pair_keeps_the_last_good_is_told_once_and_heals() {
    let mut stage = stage();
    write(stage.dir.path(), &stage.issue("good"));
    stage.expect_loaded("good").await;
    let next = stage.issue("next");
    fs::write(stage.path("tls.crt"), &next.cert_pem).unwrap();
    stage.expect_refused("is not that of the first certificate").await;
    stage.expect_silence().await;
    assert_eq!(stage.serving().as_deref(), Some("good"));
    fs::write(stage.path("tls.key"), &next.key_pem).unwrap();
    stage.expect_loaded("next").await;
    assert_eq!(stage.serving().as_deref(), Some("next"));
}

#[tokio::test]
async fn a_truncated_file_keeps_the_last_good() {
    let mut stage = stage();
    let good = stage.issue("good");
    write(stage.dir.path(), &good);
    stage.expect_loaded("good").await;
    fs::write(stage.path("tls.crt"), &good.cert_pem[..good.cert_pem.len() / 2]).unwrap();
    stage.expect_refused("damaged PEM block").await;
    assert_eq!(stage.serving().as_deref(), Some("good"));
    stage.expect_silence().await;
    fs::write(stage.path("tls.crt"), &good.cert_pem).unwrap();
    stage.expect_loaded("good").await;
}

#[tokio::test]
async fn files_that_vanish_keep_the_last_good_and_come_back() {
    let mut stage = stage();
    stage.expect_refused("cannot read").await;
    assert_eq!(stage.serving(), None, "nothing to serve yet");
    write(stage.dir.path(), &stage.issue("first"));
    stage.expect_loaded("first").await;
    fs::remove_file(stage.path("tls.crt")).unwrap();
    fs::remove_file(stage.path("tls.key")).unwrap();
    // A look in between may miss the key alone.
    stage.expect_refused("tls.crt; is the Secret mounted").await;
    stage.expect_silence().await;
    assert_eq!(stage.serving().as_deref(), Some("first"));
    write(stage.dir.path(), &stage.issue("second"));
    stage.expect_loaded("second").await;
}

#[tokio::test]
async fn without_a_pair_handshakes_fail_and_with_one_they_work() {
    let mut stage = stage();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = server_config(Arc::clone(&stage.hot)).unwrap();
    let mut server = JoinSet::new();
    server.spawn(echo(listener, TlsAcceptor::from(Arc::new(config))));
    assert!(connect(&stage.ca, address).await.is_err());
    write(stage.dir.path(), &stage.issue("first"));
    stage.expect_loaded("first").await;
    assert!(echoes(&mut connect(&stage.ca, address).await.unwrap()).await);
}

#[tokio::test]
async fn the_watch_ends_on_stop_and_not_before() {
    let mut stage = stage();
    stage.expect_refused("cannot read").await;
    stage.expect_silence().await;
    assert!(stage.watcher.try_join_next().is_none());
    stage.stop.cancel();
    timeout(DEADLINE, stage.watcher.join_next())
        .await
        .expect("ends on stop")
        .unwrap()
        .unwrap();
}
