//! Repositories and registries that misbehave: what a resolution returns, what it reports, how many requests and how much
//! memory it needs, and which credentials it sends where.

mod fixture;
mod responses;
mod server;

mod addresses;
mod artifact;
mod bodies;
mod bounds;
mod bucket;
mod connections;
mod credentials;
mod downloads;
mod exchanges;
mod explanations;
mod git;
mod git_ssh;
mod interest;
mod memory;
mod paging;
mod polls;
mod posts;
mod proxies;
mod rate_limits;
mod redirects;
mod registry;
mod sharing;
mod tenants;
mod timeouts;
mod tls;
mod tokens;
mod validators;
