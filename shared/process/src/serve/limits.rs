//! The limits of a server.

use std::time::Duration;

/// Limits of a server. The defaults suit an admission webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent connections. A further one is still accepted: an idle one is closed for it.
    pub connections: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a connection may be open after its TLS handshake until its first request arrives.
    pub first_request: Duration,
    /// How long a connection may be open after its last request until the next one arrives.
    pub idle: Duration,
    /// How long a request may be in flight, until its response is written. It limits a peer that does not read. The application
    /// limits its own work.
    pub request: Duration,
    /// How long connections have to end after `stop`.
    pub drain: Duration,
}

impl Limits {
    /// The limits of an admission webhook.
    pub const DEFAULT: Self = Self {
        // Half of the 1024 file descriptors that a container may be limited to. An API server has a connection for each call
        // that it waits for, and a call takes a millisecond: few of its 600 concurrent requests wait for one at any time.
        connections: 512,
        // Generous for a busy, distant node. The API server times out after 10 s by default.
        handshake: Duration::from_secs(10),
        // The peer is already connected: a client that completes the handshake has a request to send.
        first_request: Duration::from_secs(10),
        // Go's HTTP client closes an idle connection after 90 s. The client must close first: a request that is sent
        // while the server closes fails the admission.
        idle: Duration::from_mins(2),
        // Twice the longest timeout (30 s) that a webhook configuration can set.
        request: Duration::from_mins(1),
        // Below the supervisor's 25 s.
        drain: Duration::from_secs(20),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
