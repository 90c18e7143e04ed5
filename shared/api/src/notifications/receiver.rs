//! The Receiver: a URL where a registry announces new charts.

use std::collections::BTreeMap;

use super::LocalReference;
use crate::{
    condition::Condition,
    kind::{OWN_GROUP, TypeMeta, kind},
    metadata::Metadata,
    unknown_fields::UnknownFields,
    wire_struct::wire,
};

wire! {
    /// A Receiver is a URL that a registry or a Git server calls when a chart was pushed. The HelmOps of that chart are polled then.
    pub struct Receiver: [type_meta: TypeMeta<Receiver>, unknown: UnknownFields] {
        /// Name, namespace, labels and so on.
        "metadata" => metadata: Metadata,
        /// Who calls, with which proof, and which HelmOps are polled.
        "spec" => spec: ReceiverSpec,
        /// The observed state.
        "status" => status: Option<ReceiverStatus>,
    }
}

kind!(Receiver, "receivers", OWN_GROUP);

wire! {
    /// Who calls, with which proof, and which HelmOps are polled.
    pub struct ReceiverSpec {
        /// Who calls: `harbor`, `dockerhub`, `quay`, `github` (packages and pushes), `gitlab`, `gitea` (also Forgejo and Gogs),
        /// `bitbucket`, `nexus`, `acr`, `gcr`, `cdevents`, `distribution` (the registry of the CNCF), `generic` or `generic-hmac`. It decides
        /// how a request proves who sent it, and how its body is read.
        "type" => r#type: String,
        /// Secret in the same namespace with the key `token`: the secret that the caller and helmops share. For `gcr` also `email`
        /// and `audience`, which the token of Google must have.
        "secretRef" => secret_ref: LocalReference,
        /// Types of events that are accepted, such as `package` for `github`. Empty accepts all that announce an artifact or a push to Git.
        "events" | nullable => events: Vec<String>,
        /// The HelmOps that may be polled. Empty selects all in the namespace. Of these, those are polled whose chart was pushed.
        "resources" | nullable => resources: Vec<ReceiverResource>,
        /// Accept no requests.
        "suspend" => suspend: bool,
    }
}

wire! {
    /// HelmOps that a Receiver may poll.
    pub struct ReceiverResource {
        /// Name of the HelmOp, or `*` for all.
        "name" => name: String,
        /// Namespace of the HelmOp: that of the Receiver by default. Only Receivers in the namespace of helmops may select HelmOps of
        /// other namespaces, and `*` for all of them.
        "namespace" | nullable => namespace: String,
        /// Labels that the HelmOp must have.
        "matchLabels" | nullable => match_labels: BTreeMap<String, String>,
    }
}

wire! {
    /// The observed state of a Receiver.
    pub struct ReceiverStatus {
        /// The `metadata.generation` that the status is for.
        "observedGeneration" => observed_generation: Option<i64>,
        /// `Ready`: whether requests are accepted. `Polled`, only if it is false: the last push did not poll all HelmOps of its chart.
        "conditions" => conditions: Vec<Condition>,
        /// Path of the URL that the registry calls. It is secret: it cannot be guessed, and contains no token.
        "webhookPath" => webhook_path: String,
        /// The pushes that are not handled yet.
        "pushes" => pushes: Vec<Push>,
        /// The number of the last push that was handled.
        "handledPush" => handled_push: i64,
        /// When the last push was handled.
        #[schemars(extend("format" = "date-time"))]
        "lastPush" | nullable => last_push: String,
        /// Number of HelmOps that the last push polled.
        "polled" => polled: i64,
    }
}

wire! {
    /// A push of an artifact that a registry has announced.
    pub struct Push {
        /// Number of the push, counted from 1.
        "number" => number: i64,
        /// Host and path of the repository, such as `registry.example/charts/podinfo`; a path alone, such as `charts/podinfo`, if the
        /// registry does not send its host. `*/` in front of a path is any host and parent, `/*` at its end all repositories below, and
        /// `git+` in front of it all a Git repository. Empty for all repositories.
        "repository" => repository: String,
        /// The tag or version that was pushed.
        "tag" => tag: String,
        /// When the request arrived.
        #[schemars(extend("format" = "date-time"))]
        "time" => time: String,
    }
}
