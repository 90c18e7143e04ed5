//! Charts in Git repositories over SSH: which servers and keys are trusted, and what a poll exchanges.

use std::{
    borrow::Cow,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use helmops_model::reason::Reason;
use helmops_process::lock;
use russh::{
    Channel, ChannelId, Preferred, kex,
    keys::{Algorithm, PrivateKey, PublicKey, key::safe_rng, ssh_key::LineEnding},
    server::{self, Auth, ChannelOpenHandle, Msg, Session, VerifiedPublicKey},
};
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    fixture::{LONG_TIMEOUTS, TestResolver, anonymous},
    git::{Shared, assert_fails, changed, commit, of, web, with_charts},
};
use crate::{
    access::{Access, SshKeys},
    git::{GitPoll, KnownChart},
    http::{Addresses, Timeouts},
};

/// An SSH server for one repository and one user.
struct SshServer {
    port: u16,
    host_key: PrivateKey,
    user_key: PrivateKey,
    logins: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

/// A connection of a client.
struct Connection {
    git: Shared,
    user_key: PublicKey,
    logins: Arc<AtomicUsize>,
    accepts_env: bool,
    protocol: String,
    received: Vec<u8>,
}

fn key() -> PrivateKey {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
}

impl SshServer {
    async fn start(git: &Shared, accepts_env: bool) -> Self {
        Self::start_with(git, accepts_env, Preferred::DEFAULT).await
    }

    async fn start_with(git: &Shared, accepts_env: bool, preferred: Preferred) -> Self {
        let (host_key, user_key) = (key(), key());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = Arc::new(server::Config {
            keys: vec![host_key.clone()],
            auth_rejection_time: std::time::Duration::ZERO,
            preferred,
            ..server::Config::default()
        });
        let (git, allowed) = (Arc::clone(git), user_key.public_key().clone());
        let logins = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&logins);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let connection = Connection {
                    git: Arc::clone(&git),
                    user_key: allowed.clone(),
                    logins: Arc::clone(&counted),
                    accepts_env,
                    protocol: String::new(),
                    received: Vec::new(),
                };
                let config = Arc::clone(&config);
                connections.spawn(async move {
                    // Clients that do not trust the server end the connection.
                    if let Ok(session) = server::run_stream(config, stream, connection).await {
                        let _ = session.await;
                    }
                });
            }
        });
        Self {
            port,
            host_key,
            user_key,
            logins,
            _tasks: tasks,
        }
    }

    fn url(&self) -> String {
        format!("ssh://git@127.0.0.1:{}/g/n.git", self.port)
    }

    fn known_hosts(&self, key: &PrivateKey) -> String {
        format!(
            "[127.0.0.1]:{} {}\n",
            self.port,
            key.public_key().to_openssh().unwrap()
        )
    }

    fn access(&self) -> Access {
        with_keys(&self.user_key, self.known_hosts(&self.host_key))
    }
}

fn with_keys(identity: &PrivateKey, known_hosts: String) -> Access {
    let identity = identity.to_openssh(LineEnding::LF).unwrap().to_string();
    Access {
        ssh: Some(Arc::new(SshKeys {
            identity,
            known_hosts,
        })),
        ..Access::default()
    }
}

impl server::Handler for Connection {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        self.logins.fetch_add(1, Ordering::SeqCst);
        let is_allowed = user == "git" && key.public_key.key_data() == self.user_key.key_data();
        Ok(if is_allowed { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn env_request(
        &mut self,
        _: ChannelId,
        name: &str,
        value: &str,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.accepts_env && name == "GIT_PROTOCOL" {
            value.clone_into(&mut self.protocol);
        }
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)?;
        if command == b"git-upload-pack '/g/n.git'" {
            let greeting = lock(&self.git).respond("info/refs?service=git-upload-pack", &self.protocol, &[]);
            session.data(channel, greeting.unwrap())?;
        } else {
            session.extended_data(channel, 1, b"ERROR: Repository not found.\n".to_vec())?;
            session.eof(channel)?;
            session.close(channel)?;
        }
        Ok(())
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.received.extend_from_slice(data);
        let is_new = self.protocol == helmops_git::wire::PROTOCOL;
        let end: &[u8] = if is_new || self.received == b"0000" {
            b"0000"
        } else {
            b"0009done\n"
        };
        if self.received.ends_with(end) {
            let response = lock(&self.git).respond("git-upload-pack", &self.protocol, &self.received);
            session.data(channel, response.unwrap_or_default())?;
            session.eof(channel)?;
            session.close(channel)?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_chart_is_read_over_ssh() {
    for accepts_env in [true, false] {
        let shared = with_charts();
        let server = SshServer::start(&shared, accepts_env).await;
        let (resolver, chart) = (TestResolver::new(), of(&server.url(), "charts/web"));
        let poll = resolver.git(&server.access(), &chart, None).await.unwrap();
        let GitPoll::Changed(selected, packed) = poll else {
            panic!("{poll:?}")
        };
        assert_eq!(packed.version, "1.0.0");
        let known = KnownChart {
            commit: selected.commit,
            content: &packed.content,
        };
        let poll = resolver.git(&server.access(), &chart, Some(known)).await;
        assert_eq!(poll.unwrap(), GitPoll::SameCommit);
        commit(&shared, &web("1.1.0"));
        let poll = resolver.git(&server.access(), &chart, Some(known)).await;
        assert_eq!(changed(poll).version, "1.1.0");
        assert_eq!(resolver.requests("references", "success"), 3);
        // The folders, and then the files, of each version; an older server sends them together.
        assert_eq!(
            resolver.requests("pack", "success"),
            if accepts_env { 4 } else { 2 }
        );
    }
}

#[tokio::test]
async fn only_known_servers_and_keys_are_used() {
    let shared = with_charts();
    let server = SshServer::start(&shared, true).await;
    let chart = of(&server.url(), "charts/web");
    let rsa = "[127.0.0.1]:PORT ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==\n"
        .replace("PORT", &server.port.to_string());
    let own = || server.known_hosts(&server.host_key);
    let broken = Access {
        ssh: Some(Arc::new(SshKeys {
            identity: "geheim".to_owned(),
            known_hosts: own(),
        })),
        ..Access::default()
    };
    for (access, reason, expected) in [
        (
            anonymous(),
            Reason::InvalidSecret,
            "keys identity (a private key) and known_hosts",
        ),
        (
            broken,
            Reason::InvalidSecret,
            "key identity of the Secret is not a private key",
        ),
        (
            with_keys(&server.user_key, String::new()),
            Reason::CertificateError,
            "has no key of this host",
        ),
        (
            with_keys(&server.user_key, rsa),
            Reason::InvalidSecret,
            "Ed25519 or ECDSA key of the server",
        ),
        (
            with_keys(&server.user_key, server.known_hosts(&key())),
            Reason::CertificateError,
            "REMOTE HOST IDENTIFICATION",
        ),
        (
            with_keys(&key(), own()),
            Reason::Unauthorized,
            "refuses key identity of the Secret for user \"git\"",
        ),
    ] {
        let poll = TestResolver::new().git(&access, &chart, None).await;
        assert_fails(poll, reason, &[expected, "ssh://127.0.0.1"]);
    }
}

#[tokio::test]
async fn what_the_server_says_is_reported() {
    let server = SshServer::start(&with_charts(), true).await;
    let url = server.url().replace("/g/n.git", "/g/other.git");
    let poll = TestResolver::new()
        .git(&server.access(), &of(&url, ""), None)
        .await;
    assert_fails(
        poll,
        Reason::RepositoryError,
        &["the Git server responds: ERROR: Repository not found."],
    );
}

#[tokio::test]
async fn addresses_and_outages_are_those_of_other_requests() {
    let server = SshServer::start(&with_charts(), true).await;
    let chart = of(&server.url(), "");
    let denied = TestResolver::with_addresses(Addresses::default());
    let poll = denied.git(&server.access(), &chart, None).await;
    assert_fails(poll, Reason::ConnectionFailed, &["does not connect to"]);
    // Nothing listens on a port that was just free.
    let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let known_hosts = server
        .known_hosts(&server.host_key)
        .replace(&server.port.to_string(), &free.to_string());
    let chart = of(&format!("ssh://git@127.0.0.1:{free}/g/n.git"), "");
    let poll = TestResolver::new()
        .git(&with_keys(&server.user_key, known_hosts), &chart, None)
        .await;
    assert_fails(poll, Reason::ConnectionFailed, &["connection refused"]);
}

/// Many servers block the address of a client after some refused logins.
#[tokio::test]
async fn a_refused_login_is_not_repeated_by_each_poll() {
    let server = SshServer::start(&with_charts(), true).await;
    let (resolver, chart) = (TestResolver::new(), of(&server.url(), "charts/web"));
    let wrong = with_keys(&key(), server.known_hosts(&server.host_key));
    for _ in 0..5 {
        let poll = resolver.git(&wrong, &chart, None).await;
        assert_fails(poll, Reason::Unauthorized, &["refuses key identity"]);
    }
    assert_eq!(server.logins.load(Ordering::SeqCst), 1);
    // Another key is tried immediately.
    changed(resolver.git(&server.access(), &chart, None).await);
}

#[tokio::test]
async fn a_server_that_accepts_nothing_within_the_time_backs_off() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let short = std::time::Duration::from_millis(300);
    let resolver = TestResolver::with_timeouts(Timeouts {
        total: short,
        ..LONG_TIMEOUTS
    });
    let (own, host) = (key(), key());
    let known_hosts = format!("[127.0.0.1]:{port} {}\n", host.public_key().to_openssh().unwrap());
    let access = with_keys(&own, known_hosts);
    let chart = of(&format!("ssh://git@127.0.0.1:{port}/g/n.git"), "");
    for _ in 0..3 {
        let poll = resolver.git(&access, &chart, None).await;
        assert_fails(poll, Reason::Timeout, &["does not respond"]);
    }
    let mut connections = 0;
    while let Ok(Ok(_)) = tokio::time::timeout(short, listener.accept()).await {
        connections += 1;
    }
    assert_eq!(connections, 1);
}

/// The server chooses, and large finite fields would keep the threads of all requests busy.
#[tokio::test]
async fn expensive_key_exchanges_are_not_offered() {
    for offered in [kex::DH_G18_SHA512, kex::DH_GEX_SHA256, kex::DH_G14_SHA256] {
        let preferred = Preferred {
            kex: Cow::Owned(vec![offered]),
            ..Preferred::DEFAULT
        };
        let server = SshServer::start_with(&with_charts(), true, preferred).await;
        let poll = TestResolver::new()
            .git(&server.access(), &of(&server.url(), "charts/web"), None)
            .await;
        assert_fails(poll, Reason::ConnectionFailed, &["SSH: "]);
    }
}

/// A large pack needs the whole window several times.
#[tokio::test]
async fn a_large_pack_arrives() {
    let shared = with_charts();
    let mut files = web("1.0.0");
    let noise: String = (0..1_000_000_u32)
        .map(|n| char::from(b' ' + (n.wrapping_mul(2_654_435_761) >> 25) as u8 % 90))
        .collect();
    files.push(("charts/web/ci.txt", noise));
    files.push(("charts/web/.helmignore", "ci.txt\n".to_owned()));
    commit(&shared, &files);
    lock(&shared).has_filter = false;
    let server = SshServer::start(&shared, true).await;
    let poll = TestResolver::new()
        .git(&server.access(), &of(&server.url(), "charts/web"), None)
        .await;
    assert_eq!(changed(poll).version, "1.0.0");
}
