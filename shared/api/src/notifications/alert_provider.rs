//! The AlertProvider: where messages are sent, and how.

use super::LocalReference;
use crate::{
    condition::Condition,
    kind::{OWN_GROUP, TypeMeta, kind},
    metadata::Metadata,
    unknown_fields::UnknownFields,
    wire_struct::wire,
};

wire! {
    /// An AlertProvider is an address that messages of Alerts are sent to, and the format of these messages.
    pub struct AlertProvider: [type_meta: TypeMeta<AlertProvider>, unknown: UnknownFields] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Where messages are sent, and how.
        "spec" => spec: AlertProviderSpec,
        /// The observed state.
        "status" => status: Option<AlertProviderStatus>,
    }
}

kind!(AlertProvider, "alertproviders", OWN_GROUP);

wire! {
    /// Where messages are sent, and how.
    pub struct AlertProviderSpec {
        /// Format of the messages: `generic` and `generic-hmac` send JSON with the fields that Flux sends, `slack`, `msteams`,
        /// `discord`, `alertmanager` and `cdevents` what these services accept.
        "type" => r#type: String,
        /// URL that messages are sent to with POST. It belongs into the key `address` of the Secret if it has a credential in it,
        /// as those of Slack, Microsoft Teams and Discord do.
        "address" | nullable => address: String,
        /// Channel of Slack. Without it, the channel of the address.
        "channel" | nullable => channel: String,
        /// Name of the sender in Slack and Discord. `helmops` by default.
        "username" | nullable => username: String,
        /// Secret in the same namespace: `address`, which takes precedence over `spec.address`; `token`, the bearer token, and the
        /// key of `generic-hmac`; `username` and `password` for basic authentication; `headers`, a YAML map of HTTP headers.
        "secretRef" | nullable => secret_ref: Option<LocalReference>,
        /// Secret in the same namespace for TLS: `ca.crt` with the certificates to trust, `tls.crt` and `tls.key` with a client
        /// certificate.
        "certSecretRef" | nullable => cert_secret_ref: Option<LocalReference>,
        /// Secret in the same namespace with a proxy: `address`, `username` and `password`.
        "proxySecretRef" | nullable => proxy_secret_ref: Option<LocalReference>,
        /// Maximum time of one request. `15s` by default.
        "timeout" | duration => timeout: Option<String>,
        /// Send nothing. What happens meanwhile is sent afterwards if it is still true.
        "suspend" => suspend: bool,
    }
}

wire! {
    /// The observed state of an AlertProvider.
    pub struct AlertProviderStatus {
        /// The `metadata.generation` that the status is for.
        "observedGeneration" => observed_generation: Option<i64>,
        /// `Ready`: whether messages can be sent.
        "conditions" => conditions: Vec<Condition>,
    }
}
