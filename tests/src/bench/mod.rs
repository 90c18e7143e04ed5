//! What an admission webhook costs: its CPU time, latency, memory and start, under a load like the API server's.
//!
//! ```text
//! corpus ─► client (load ─► answer) ─HTTPS─► server ◄─ usage
//!              └──────────► figures ◄─────────────────────┘
//!                              └─► measure ─► table
//! ```
//!
//! The client runs on the same machine as the server, so it takes part of what it measures. The CPU time of the server
//! is the figure to compare; rates and latencies hold for both together.
//!
//! Beside it, [`index`]: what it costs to read the index of a chart repository; [`controller`]: what HelmOps cost;
//! and [`delivery`]: what it costs to bring them to clusters.

pub mod corpus;

pub mod answer;
pub mod client;
pub mod load;

pub mod server;
pub mod usage;

pub mod figures;
pub mod measure;
pub mod table;

pub mod index;

pub mod controller;

pub mod delivery;
