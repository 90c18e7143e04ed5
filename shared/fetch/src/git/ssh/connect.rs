//! A connection over SSH: the key of the host is one that the Secret has for it, and the user has the private key of the Secret.

use std::{
    borrow::Cow,
    str::FromStr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bounded_text::excerpt;
use helmops_git::wire::PROTOCOL;
use helmops_process::lock;
use russh::{
    Channel, Preferred,
    client::{self, Handle},
    kex,
    keys::{
        Algorithm, PrivateKey, PrivateKeyWithHashAlg, PublicKeyBase64, PublicKeyOrCertificate,
        decode_secret_key,
    },
};

use super::{
    GitError, SshSession,
    known_hosts::{self, HostKeyError},
};
use crate::{access::SshKeys, git::error::SshProblem, http::FetchErrorKind};

/// A server that sends nothing for this long will not send the rest.
const INACTIVITY: Duration = Duration::from_secs(30);
/// Bytes that a server may send ahead of a slow reader.
const WINDOW: u32 = 256 << 10;
/// Messages that are buffered.
const BUFFER: usize = 16;
/// How keys are exchanged. The server chooses one, and each connection computes it on a thread of all requests: those with large
/// finite fields take long enough to delay these.
const KEY_EXCHANGES: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];
/// The longest text of an error in a message, in bytes.
const MAX_TEXT: usize = 256;

/// A channel for a request.
pub struct Connected {
    /// Its messages.
    pub channel: Channel<client::Msg>,
    /// Without it the connection may end.
    _connection: Handle<HostKeyCheck>,
}

/// Checks the key of a host.
pub struct HostKeyCheck {
    keys: Arc<SshKeys>,
    host: String,
    port: u16,
    /// Why it is not trusted.
    problem: Arc<Mutex<Option<HostKeyError>>>,
}

impl client::Handler for HostKeyCheck {
    type Error = russh::Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        let checked = match key {
            PublicKeyOrCertificate::PublicKey { key, .. } => known_hosts::check(
                &self.keys.known_hosts,
                &self.host,
                self.port,
                &key.public_key_bytes(),
            ),
            PublicKeyOrCertificate::Certificate(_) => Err(HostKeyError::Unknown { port: self.port }),
        };
        let problem = checked.err();
        *lock(&self.problem) = problem;
        Ok(problem.is_none())
    }
}

/// Starts `git-upload-pack` on the server.
pub async fn connect(session: &SshSession<'_>) -> Result<Connected, GitError> {
    let SshSession { source, location } = session;
    let refused = |problem| GitError::Ssh {
        url: source.shown(),
        problem,
    };
    let keys = source
        .access
        .ssh
        .clone()
        .ok_or_else(|| refused(SshProblem::NoKeys))?;
    let identity = identity(&keys.identity).map_err(refused)?;
    let kinds = known_hosts::kinds(&keys.known_hosts, &location.host, location.port);
    if kinds.is_empty() {
        return Err(refused(SshProblem::HostKey(HostKeyError::Unknown {
            port: location.port,
        })));
    }
    let algorithms: Vec<_> = kinds
        .iter()
        .filter_map(|kind| Algorithm::from_str(kind).ok())
        .collect();
    let own = Preferred::DEFAULT
        .key
        .iter()
        .filter(|own| is_supported(own) && algorithms.contains(own));
    let offered: Vec<_> = own.cloned().collect();
    if offered.is_empty() {
        return Err(refused(SshProblem::HostKeyKind));
    }
    let config = client::Config {
        inactivity_timeout: Some(INACTIVITY),
        window_size: WINDOW,
        channel_buffer_size: BUFFER,
        preferred: Preferred {
            kex: Cow::Borrowed(KEY_EXCHANGES),
            key: Cow::Owned(offered),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    };
    let stream = source.http.connect(&location.host, location.port).await;
    let stream = stream.map_err(|kind| session.failed(kind))?;
    let problem = Arc::default();
    let check = HostKeyCheck {
        keys,
        host: location.host.clone(),
        port: location.port,
        problem: Arc::clone(&problem),
    };
    let failed = |error: russh::Error| {
        let text = excerpt(&error.to_string(), MAX_TEXT);
        session.failed(FetchErrorKind::Connection(format!("SSH: {text}")))
    };
    let connected = client::connect_stream(Arc::new(config), stream, check).await;
    let mut connection = connected.map_err(|error| match *lock(&problem) {
        Some(problem) => refused(SshProblem::HostKey(problem)),
        None => failed(error),
    })?;
    let key = PrivateKeyWithHashAlg::new(Arc::new(identity), None);
    let login = connection.authenticate_publickey(&location.user, key).await;
    if !login.map_err(failed)?.success() {
        return Err(refused(SshProblem::Login(location.user.clone())));
    }
    let channel = connection.channel_open_session().await.map_err(failed)?;
    // A server that does not accept it has an older protocol.
    channel
        .set_env(false, "GIT_PROTOCOL", PROTOCOL)
        .await
        .map_err(failed)?;
    // A location has no quotes.
    let command = format!("git-upload-pack '{}'", location.path);
    channel.exec(true, command).await.map_err(failed)?;
    Ok(Connected {
        channel,
        _connection: connection,
    })
}

/// Whether keys of this kind are used. RSA would need code that no other part of helmops needs.
fn is_supported(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Ed25519 | Algorithm::Ecdsa { .. })
}

/// The private key of the Secret.
fn identity(text: &str) -> Result<PrivateKey, SshProblem> {
    let key = decode_secret_key(text, None).map_err(|error| match error {
        russh::keys::Error::KeyIsEncrypted => SshProblem::Encrypted,
        _ => SshProblem::Identity,
    })?;
    if key.is_encrypted() {
        Err(SshProblem::Encrypted)
    } else if is_supported(&key.algorithm()) {
        Ok(key)
    } else {
        Err(SshProblem::IdentityKind)
    }
}
