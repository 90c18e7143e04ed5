//! Benchmarks of an admission webhook: CPU time, latency, memory and startup, under a load like that of the API server.
//!
//! ```text
//! corpus ─► client (load ─► response) ─HTTPS─► server ◄─ usage
//!              └──────────► figures ◄───────────────────────┘
//!                              └─► measure ─► table
//! ```
//!
//! The client runs on the same machine as the server, so it uses some of the resources that it measures. The CPU time of the
//! server is the figure to compare; rates and latencies are those of both together.
//!
//! Other benchmarks: [`index`], reading the index of a chart repository; [`controller`], reconciling HelmOps; and
//! [`delivery`], deploying them to clusters, and [`planning`], only the decisions about that; [`agent`], the releases on a
//! cluster; [`cli`], what a person waits for at a terminal; [`validate`], HelmOps in files; and [`notify`], messages of Alerts.

pub mod corpus;

pub mod client;
pub mod load;
pub mod response;

pub mod server;

pub mod figures;
pub mod measure;
pub mod table;

pub mod index;

mod idle;

pub mod controller;

pub mod delivery;
pub mod planning;

pub mod agent;

pub mod cli;
pub mod validate;

pub mod notify;
