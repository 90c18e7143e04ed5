//! The limits of requests.

use std::time::Duration;

use helmops_fair::Rate;
use helmops_process::{BodyLimits, Limits, PortConfig};

/// The limits of bodies. The largest documented payload has about 30 KiB.
pub const BODIES: BodyLimits = BodyLimits {
    max_body: 1 << 20,
    // All requests may come from one Ingress, which can use half of it.
    budget: 16 << 20,
    deadline: Duration::from_secs(10),
    grace: Duration::from_secs(5),
    min_rate: 64 << 10,
    large: 64 << 10,
};

/// The port for requests.
pub const PORT: PortConfig = PortConfig {
    flag: "--bind-address",
    prefix: "helmops_receiver",
    limits: CONNECTIONS,
};

/// The limits of connections. A header has the time of `first_request` to arrive.
pub const CONNECTIONS: Limits = Limits {
    connections: 256,
    first_request: Duration::from_secs(5),
    // An Ingress keeps connections open for 60 s, and must close them first.
    idle: Duration::from_secs(75),
    request: Duration::from_secs(30),
    ..Limits::DEFAULT
};

/// Writes of all Receivers. A push above it waits.
pub const WRITES: Rate = Rate {
    burst: 200,
    interval: Duration::from_millis(20),
};

/// How long a request that was handled is known.
pub const REPLAY_WINDOW: Duration = Duration::from_mins(10);

/// How many of them are known, of all Receivers together. Each takes less than 100 bytes.
pub const REPLAYS: usize = 10_000;
