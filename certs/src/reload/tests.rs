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
use crate::issue::{Ca, Leaf, issue_ca, issue_leaf};
use crate::resolver::server_config;

const DAY: Duration = Duration::from_hours(24);

/// Far above the usual times: reached only in case of an error.
const DEADLINE: Duration = Duration::from_secs(30);

/// An event of the watcher, by value.
#[derive(Debug, PartialEq, Eq)]
enum Reported {
    Loaded(Vec<String>),
    Refused(String),
}

struct WatchedDirectory {
    dir: TempDir,
    ca: Ca,
    resolver: Arc<CertResolver>,
    stop: CancellationToken,
    reported: mpsc::UnboundedReceiver<Reported>,
    checks: mpsc::UnboundedReceiver<()>,
    watcher: JoinSet<()>,
}

fn watch_directory() -> WatchedDirectory {
    let dir = tempfile::tempdir().unwrap();
    let (resolver, stop) = (CertResolver::empty(), CancellationToken::new());
    let (report, reported) = mpsc::unbounded_channel();
    let (checked, checks) = mpsc::unbounded_channel();
    let paths = PairPaths {
        cert: dir.path().join("tls.crt"),
        key: dir.path().join("tls.key"),
    };
    let on_event = move |event: ReloadEvent<'_>| {
        let _ = checked.send(());
        let _ = match event {
            ReloadEvent::Loaded(pair) => report.send(Reported::Loaded(pair.names().to_vec())),
            ReloadEvent::Refused(error) => report.send(Reported::Refused(error.to_string())),
            ReloadEvent::Unchanged => Ok(()),
        };
    };
    let mut watcher = JoinSet::new();
    watcher.spawn(watch(
        paths,
        Arc::clone(&resolver),
        MIN_INTERVAL,
        stop.clone(),
        on_event,
    ));
    let ca = issue_ca("test CA", SystemTime::now(), DAY).unwrap();
    WatchedDirectory {
        dir,
        ca,
        resolver,
        stop,
        reported,
        checks,
        watcher,
    }
}

impl WatchedDirectory {
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

    async fn next(&mut self) -> Reported {
        timeout(DEADLINE, self.reported.recv())
            .await
            .expect("an event of the watcher")
            .unwrap()
    }

    async fn expect_loaded(&mut self, name: &str) {
        loop {
            match self.next().await {
                Reported::Loaded(names) if names.first().is_some_and(|first| first == name) => return,
                // A check may fall between two writes.
                Reported::Loaded(_) | Reported::Refused(_) => {}
            }
        }
    }

    async fn expect_refused(&mut self, part: &str) {
        loop {
            match self.next().await {
                Reported::Refused(error) if error.contains(part) => return,
                // A check may fall between two writes, and may even read valid content: the old text and the
                // end of the new one.
                Reported::Loaded(_) | Reported::Refused(_) => {}
            }
        }
    }

    /// Waits for checks that start after now, and asserts that they report nothing.
    async fn expect_silence(&mut self) {
        while self.checks.try_recv().is_ok() {}
        for _ in 0..3 {
            timeout(DEADLINE, self.checks.recv())
                .await
                .expect("a check of the watcher")
                .unwrap();
        }
        assert_eq!(self.reported.try_recv().ok(), None);
    }

    fn serving(&self) -> Option<String> {
        self.resolver
            .current()
            .and_then(|pair| pair.names().first().cloned())
    }
}

fn write(dir: &Path, leaf: &Leaf) {
    fs::write(dir.join("tls.key"), &leaf.key_pem).unwrap();
    fs::write(dir.join("tls.crt"), &leaf.cert_pem).unwrap();
}

/// Creates a Secret mount as the kubelet does: `tls.crt -> ..data/tls.crt`, `..data -> ..VERSION`.
fn mount(dir: &Path, version: &str, leaf: &Leaf) {
    let new = dir.join(format!("..{version}"));
    fs::create_dir(&new).unwrap();
    write(&new, leaf);
    symlink(format!("..{version}"), dir.join("..data_tmp")).unwrap();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        if !dir.join(name).exists() {
            symlink(format!("..data/{name}"), dir.join(name)).unwrap();
        }
    }
}

/// Echoes each byte on every TLS connection.
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
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // As Go's client.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
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
async fn a_swap_of_the_secret_mount_is_detected_and_open_connections_stay() {
    let mut watched = watch_directory();
    let (old, new) = (watched.issue("old"), watched.issue("new"));
    mount(watched.dir.path(), "2026_1", &old);
    watched.expect_loaded("old").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = server_config(Arc::clone(&watched.resolver)).unwrap();
    let mut server = JoinSet::new();
    server.spawn(echo(listener, TlsAcceptor::from(Arc::new(config))));
    let mut before = connect(&watched.ca, address).await.unwrap();
    assert_eq!(presented(&before), der(&old));
    assert_eq!(before.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));

    mount(watched.dir.path(), "2026_2", &new);
    fs::remove_dir_all(watched.path("..2026_1")).unwrap();
    watched.expect_loaded("new").await;
    assert!(echoes(&mut before).await, "the old connection is open");
    let mut after = connect(&watched.ca, address).await.unwrap();
    assert_eq!(presented(&after), der(&new));
    assert!(echoes(&mut after).await);
}

#[tokio::test]
async fn files_written_in_place_are_detected() {
    let mut watched = watch_directory();
    for name in ["first", "second"] {
        write(watched.dir.path(), &watched.issue(name));
        watched.expect_loaded(name).await;
        assert_eq!(watched.serving().as_deref(), Some(name));
    }
}

#[tokio::test]
async fn a_mismatched_pair_is_reported_once_and_the_last_valid_one_is_served() {
    let mut watched = watch_directory();
    write(watched.dir.path(), &watched.issue("good"));
    watched.expect_loaded("good").await;
    let next = watched.issue("next");
    fs::write(watched.path("tls.crt"), &next.cert_pem).unwrap();
    watched
        .expect_refused("is not that of the first certificate")
        .await;
    watched.expect_silence().await;
    assert_eq!(watched.serving().as_deref(), Some("good"));
    fs::write(watched.path("tls.key"), &next.key_pem).unwrap();
    watched.expect_loaded("next").await;
    assert_eq!(watched.serving().as_deref(), Some("next"));
}

#[tokio::test]
async fn the_last_valid_pair_is_served_after_a_file_is_truncated() {
    let mut watched = watch_directory();
    let good = watched.issue("good");
    write(watched.dir.path(), &good);
    watched.expect_loaded("good").await;
    fs::write(watched.path("tls.crt"), &good.cert_pem[..good.cert_pem.len() / 2]).unwrap();
    watched.expect_refused("damaged PEM block").await;
    assert_eq!(watched.serving().as_deref(), Some("good"));
    watched.expect_silence().await;
    fs::write(watched.path("tls.crt"), &good.cert_pem).unwrap();
    watched.expect_loaded("good").await;
}

#[tokio::test]
async fn the_last_valid_pair_is_served_while_the_files_are_missing() {
    let mut watched = watch_directory();
    watched.expect_refused("cannot read").await;
    assert_eq!(watched.serving(), None, "no pair yet");
    write(watched.dir.path(), &watched.issue("first"));
    watched.expect_loaded("first").await;
    fs::remove_file(watched.path("tls.crt")).unwrap();
    fs::remove_file(watched.path("tls.key")).unwrap();
    // A check in between may miss only the key.
    watched.expect_refused("tls.crt; is the Secret mounted").await;
    watched.expect_silence().await;
    assert_eq!(watched.serving().as_deref(), Some("first"));
    write(watched.dir.path(), &watched.issue("second"));
    watched.expect_loaded("second").await;
}

#[tokio::test]
async fn handshakes_fail_until_there_is_a_pair() {
    let mut watched = watch_directory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = server_config(Arc::clone(&watched.resolver)).unwrap();
    let mut server = JoinSet::new();
    server.spawn(echo(listener, TlsAcceptor::from(Arc::new(config))));
    assert!(connect(&watched.ca, address).await.is_err());
    write(watched.dir.path(), &watched.issue("first"));
    watched.expect_loaded("first").await;
    assert!(echoes(&mut connect(&watched.ca, address).await.unwrap()).await);
}

#[tokio::test]
async fn the_watch_ends_only_on_stop() {
    let mut watched = watch_directory();
    watched.expect_refused("cannot read").await;
    watched.expect_silence().await;
    assert!(watched.watcher.try_join_next().is_none());
    watched.stop.cancel();
    timeout(DEADLINE, watched.watcher.join_next())
        .await
        .expect("ends on stop")
        .unwrap()
        .unwrap();
}
