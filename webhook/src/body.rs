//! The limits of the bodies of requests.

use std::time::Duration;

use helmops_process::BodyLimits;

/// Maximum size of a body. A review contains an object twice (new and stored), the API server accepts requests of up to 3 MiB,
/// and the rest is for what it adds: `managedFields`, the user and the envelope.
pub const MAX_BODY: usize = 7 << 20;

/// Budget of all bodies in memory: four of the maximum size, or thousands of typical ones (about 10 KiB). It is a quarter of
/// the memory limit of the manifest (128Mi). The rest is for connections and for what bodies decode to.
/// API servers may all have the same address, whose half is two bodies of the maximum size, or more than a thousand typical ones.
const BUDGET: usize = 32 << 20;

pub const LIMITS: BodyLimits = BodyLimits {
    max_body: MAX_BODY,
    budget: BUDGET,
    // The shipped webhook configurations have a timeout of 5 s.
    deadline: Duration::from_secs(5),
    // The API server has the whole body when it starts to send.
    grace: Duration::from_secs(2),
    min_rate: 1 << 20,
    large: 16 << 10,
};
