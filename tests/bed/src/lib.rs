//! A real Kubernetes control plane on this machine, and chart sources for it: for tests, benchmarks and the demo of helmops.
//!
//! ```text
//! a test ─► TestBed ──pipe──► testbed serve ─► etcd, kube-apiserver, kube-controller-manager
//!    │         │                     ▲
//!    │         └─ Process: a binary under test, in the process group of testbed
//!    ├─ TestNamespace, Kubectl, Api, ServiceAccounts, metrics; audit (writes of controllers) and leader (holder of the Lease)
//!    └─ ChartRepo (created by Helm) ─► ChartServer (HTTP or HTTPS)
//! ```
//!
//! However the test ends, its pipe is closed; `testbed serve` then kills its whole process group.

pub mod collector;
pub mod command;
pub mod files;
pub mod probe;
pub mod process;
pub mod prometheus;
pub mod random;
pub mod permissions;
pub mod permit;
pub mod wait;

mod https;
mod ports;

pub mod tools;

pub mod cluster;
pub mod control_plane;
pub mod detached;
pub mod private_ca;
pub mod serve;

pub mod credentials;
pub mod kubeconfig;
pub mod programs;
mod prepared;

pub mod api;
pub mod api_proxy;
pub mod kubectl;
pub mod metrics;
pub mod audit;
pub mod leader;
pub mod namespace;
pub mod node;
pub mod service_account;
pub mod shared;
pub mod test_bed;
pub mod api_server;

pub mod kubelet;

pub mod bucket_server;
pub mod chart_server;
pub mod forward_proxy;
pub mod git_server;
pub mod helm;
pub mod charts;
pub mod oci_registry;
pub mod demo;
pub mod docs;
pub mod helmops;
pub mod image;

pub mod sink;
pub mod usage;
pub mod volume;
