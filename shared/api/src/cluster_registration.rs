//! The registration of clusters by their agents: the tokens that allow it, and the requests of agents.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    condition::Condition,
    kind::{TypeMeta, kind},
    limits::{self, DURATION, Limit, Measure, NAME, SHORT_LIST},
    metadata::Metadata,
    wire_struct::wire,
};

/// Limits of a token.
pub const OF_TOKEN: &[Limit] = &[("ttl", Measure::Length, DURATION)];

/// Limits of a request. Agents of strangers to the management cluster write them.
pub const OF_REGISTRATION: &[Limit] = &[
    ("clientID", Measure::Length, NAME),
    ("clientRandom", Measure::Length, NAME),
    ("clusterLabels", Measure::Entries, SHORT_LIST),
];

wire! {
    /// A token by which agents of clusters register themselves in its namespace. The controller makes a Secret of the same name, with what
    /// an agent needs.
    pub struct ClusterRegistrationToken: [type_meta: TypeMeta<ClusterRegistrationToken>] {
        /// Name, namespace, labels and so on. The Secret has the same name.
        "metadata" => metadata: Metadata,
        /// How long the token is valid.
        "spec" => spec: ClusterRegistrationTokenSpec,
        /// The observed state.
        "status" => status: ClusterRegistrationTokenStatus,
    }
}

kind!(ClusterRegistrationToken, "clusterregistrationtokens");

wire! {
    /// How long a token is valid.
    pub struct ClusterRegistrationTokenSpec {
        /// How long the token is valid, from its creation: a Go duration such as `1h` or `24h`. After that it is deleted. Without it, or with
        /// `0s`, it never expires.
        "ttl" | nullable => ttl: String,
    }
}

wire! {
    /// The observed state of a token.
    pub struct ClusterRegistrationTokenStatus {
        /// When the token expires.
        "expires" | nullable => expires: String,
        /// Name of the Secret with the token, once it exists.
        "secretName" | nullable => secret_name: String,
    }
}

wire! {
    /// The request of an agent to register its cluster. Those who may create one may register clusters in its
    /// namespace.
    pub struct ClusterRegistration: [type_meta: TypeMeta<ClusterRegistration>] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// What the agent requests.
        "spec" => spec: ClusterRegistrationSpec,
        /// The observed state.
        "status" => status: ClusterRegistrationStatus,
    }
}

kind!(ClusterRegistration, "clusterregistrations");

wire! {
    /// What an agent requests.
    pub struct ClusterRegistrationSpec {
        /// Identifies the cluster: by default the UID of its namespace `kube-system`. A Cluster with the same `spec.clientID` is taken over.
        "clientID" | nullable => client_id: String,
        /// A random text of the agent. The name of the Secret with its credential follows from both.
        "clientRandom" | nullable => client_random: String,
        /// Labels of the new Cluster. Those of Fleet, Rancher and helmops, and those that Policies do not allow, are left out.
        "clusterLabels" | nullable => cluster_labels: BTreeMap<String, String>,
    }
}

wire! {
    /// The observed state of a request.
    pub struct ClusterRegistrationStatus {
        /// Name of the Cluster, as soon as the request is handled.
        "clusterName" | nullable => cluster_name: String,
        /// Whether the agent has got its credential.
        "granted" => granted: bool,
        /// The object's conditions. Fleet's CRD has no such field.
        "conditions" | nullable => conditions: Vec<Condition>,
    }
}

/// Adds limits to the schema of a kind.
pub(crate) fn add_limits(schema: &mut Value, of_spec: &[Limit]) {
    let of_spec = of_spec.iter();
    limits::add(
        schema,
        of_spec.map(|(path, measure, max)| (format!("spec.{path}"), *measure, *max)),
    );
}
