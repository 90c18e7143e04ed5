//! Repositories and registries that misbehave on purpose: what a look-up makes of them, what it tells, what it costs,
//! and what it sends where.

mod answers;
mod asking;
mod rig;

mod addresses;
mod bodies;
mod bounds;
mod connections;
mod credentials;
mod interest;
mod limits;
mod memory;
mod paging;
mod redirects;
mod registry;
mod sharing;
mod tenants;
mod timeouts;
mod tls;
mod tokens;
mod validators;
