//! What joins a cluster: the objects of its agent, and the agent's access to the management cluster.
//!
//! ```text
//! ManagementServer, token ─► access: Secret `fleet-agent` ─┐
//! manifests/agent, AgentOptions ─► agent_objects ──────────┴─► the workload cluster
//! ```
//!
//! `kubectl helmop cluster join` and the controller write these objects, and the agent reads the Secret.

pub mod access;
pub mod agent_objects;
pub mod object;
