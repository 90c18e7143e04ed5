//! What a server grants its peers.

use std::time::Duration;

/// Bounds of a server. The defaults suit an admission webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once. A further one is accepted all the same: one that does nothing is closed for it.
    pub connections: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long a connection may be open, after its TLS handshake, before its first request has arrived.
    pub first_request: Duration,
    /// How long a connection may be open after its last request before the next one has arrived.
    pub idle: Duration,
    /// How long a connection with requests under way may go without one of them, or a new one, beginning or
    /// ending. It bounds a peer that does not read an answer that is being made; the application bounds its own work.
    pub request: Duration,
    /// Requests under way at once on one HTTP/2 connection.
    pub streams: u32,
    /// How long connections get to end after `stop`.
    pub drain: Duration,
}

impl Limits {
    /// Those of an admission webhook.
    pub const DEFAULT: Self = Self {
        // Half of the 1024 file descriptors that a container may be limited to.
        connections: 512,
        // Generous for a busy node far away, and the API server gives up after 10 s by default.
        handshake: Duration::from_secs(10),
        // The same peer, already connected: whoever shakes hands has a request to send.
        first_request: Duration::from_secs(10),
        // Go's HTTP client drops an idle connection after 90 s. The client must be the one to close: a
        // request sent while the server closes is a failed admission.
        idle: Duration::from_mins(2),
        // Twice the longest timeout (30 s) that an API server can grant a webhook.
        request: Duration::from_mins(1),
        // What Go's own HTTP/2 server grants. Its client opens another connection past that.
        streams: 250,
        // Below the supervisor's 25 s.
        drain: Duration::from_secs(20),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
