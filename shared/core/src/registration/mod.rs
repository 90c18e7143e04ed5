//! Agents that register their clusters themselves, in the format of Fleet.
//!
//! ```text
//! ClusterRegistrationToken, clock ─► token: until when it is valid, its account, the Secret with the values for an agent
//! ClusterRegistrations of a workspace, tokens, Policies, clock ─► plan: which is granted, refused, waits, or is deleted
//! a request that is granted, its Cluster ─► takeover: whether another agent may still work ─► objects: the credential, and who reads it
//! ```
//!
//! A ClusterRegistration proves nothing but that its author may create ClusterRegistrations in its namespace: the API server records no
//! author, and all texts in it are those of a stranger. So nothing has a name that follows from these texts alone, except for the credential,
//! where Fleet's agents look for it: that is created, and never overwritten.

mod labels;
mod objects;
mod request;
mod takeover;
mod token;

pub use self::{
    labels::{DroppedLabel, kept_labels},
    objects::{
        AGENT_SYSTEM_NAMESPACE, Credential, credential, credential_owner, new_cluster, reader, token_of,
        token_secret,
    },
    request::{
        Decision, EXPIRY, Grant, MAX_HANDLED, Planned, Refusal, Waiting, Workspace, check_labels,
        credential_name, event_of, pause, plan, registration_of, shorten, status,
    },
    takeover::{Takeover, takeover},
    token::{
        CREDENTIAL_LIFETIME, InvalidTtl, REGISTRATION_ROLE, TokenObjects, expiry, is_values, token_objects,
        token_status, values_secret,
    },
};
