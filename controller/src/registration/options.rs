//! What agents need to know to register.

use helmops_join::access::ManagementServer;

/// What agents need to know to register.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrationOptions {
    /// The namespace in which agents look for their credentials.
    pub namespace: String,
    /// The address of this API server for agents; empty if it is not known.
    pub server: String,
    /// The CAs of this API server, PEM; empty for those of the system of an agent.
    pub authorities: String,
}

impl RegistrationOptions {
    /// Those of the flags.
    pub fn new(namespace: &str, server: ManagementServer) -> Self {
        Self {
            namespace: namespace.to_owned(),
            server: server.server,
            authorities: server.authorities,
        }
    }
}
