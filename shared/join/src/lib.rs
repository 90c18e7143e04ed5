//! What joins a cluster: the objects of its agent, and the agent's access to the management cluster.
//!
//! ```text
//! token of a workspace, labels ─► bootstrap: Secret `fleet-agent-bootstrap`, ConfigMap `fleet-agent` ─► the agent registers
//! ManagementServer, token ─► access: Secret `fleet-agent` ─────────────────┐
//! spec of the Cluster ─► customization ─┐                                  ├─► the workload cluster
//! manifests/agent, AgentOptions ────────┴─► agent_objects ─────────────────┘
//! ```
//!
//! `kubectl helmop cluster join` and the controller write these objects, and the agent reads the Secret. What the controller decides for
//! a kubeconfig is in `import`.

pub mod access;
pub mod agent_objects;
pub mod bootstrap;
pub mod customization;
pub mod import;
pub mod object;
