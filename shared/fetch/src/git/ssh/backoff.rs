//! Backoff of logins: a server that hangs, is not the expected one or refuses a key is not bothered by each HelmOp that needs it. Some
//! block the address of a client after a few refused logins.

use std::time::{Duration, Instant};

use helmops_fair::{ExponentialBackoff, KeyedBackoff};

use super::{GitError, SshSession};
use crate::git::error::SshProblem;

/// Maximum number of entries. An evicted entry costs one more login.
const MAX_ENTRIES: usize = 1024;
/// After a refused key. Another key in the Secret has no backoff, so only a change on the server is noticed so late.
const REFUSED: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(10),
    max_delay: Duration::from_mins(5),
};
/// After other failures.
const FAILED: ExponentialBackoff = ExponentialBackoff {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(30),
};

/// A user of a server, with the access to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LoginKey {
    user: String,
    host: String,
    port: u16,
    identity: [u8; 32],
}

/// The failures of logins, with the last error of each.
#[derive(Debug)]
pub struct SshBackoffs(KeyedBackoff<LoginKey, GitError>);

impl Default for SshBackoffs {
    fn default() -> Self {
        Self(KeyedBackoff::new(MAX_ENTRIES))
    }
}

impl SshSession<'_> {
    /// Whether a connection may be made.
    ///
    /// # Errors
    /// The last error, while the backoff after it lasts.
    pub(super) fn check_backoff(&self) -> Result<(), GitError> {
        let failures = &self.source.repositories.ssh.0;
        let failed = failures.remaining(&self.login_key(), Instant::now());
        failed.map_or(Ok(()), |(error, _)| Err(error))
    }

    /// Records the result of a connection.
    pub(super) fn record(&self, failure: Option<&GitError>) {
        let failures = &self.source.repositories.ssh.0;
        match failure.and_then(|error| Some((error, policy(error)?))) {
            Some((error, policy)) => {
                // Without jitter: the objects that need the server have a jitter of their own.
                let _ = failures.failed(self.login_key(), error.clone(), policy, 0.0, Instant::now());
            }
            None => failures.forget(&self.login_key()),
        }
    }

    fn login_key(&self) -> LoginKey {
        LoginKey {
            user: self.location.user.clone(),
            host: self.location.host.clone(),
            port: self.location.port,
            identity: self.source.access.identity(None),
        }
    }
}

/// The backoff after a failure of the server; `None` if there was none, or nothing was sent.
fn policy(error: &GitError) -> Option<ExponentialBackoff> {
    match error {
        GitError::Ssh {
            problem: SshProblem::Login(_) | SshProblem::HostKey(_),
            ..
        } => Some(REFUSED),
        GitError::Fetch(_) => Some(FAILED),
        _ => None,
    }
}
