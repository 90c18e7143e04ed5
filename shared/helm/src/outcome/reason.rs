//! Why Helm failed.

/// Whether and when another attempt can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The chart or its values: the same attempt fails again until they change.
    Chart,
    /// The API server refuses an object: the same attempt fails until something in the cluster changes.
    Cluster,
    /// A hook failed.
    Hook,
    /// Another Helm works on the release, or was interrupted.
    InProgress,
    /// Something that passes, such as a network error.
    Passing,
}

/// Defines the reasons, each with its class, whether Fleet captures it, and how to fix it.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $reason:ident = $text:literal, $class:ident, $captured:literal, $fix:expr;)*) => {
        /// Why Helm failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FailureReason {
            $($(#[doc = $doc])+ $reason,)*
        }

        impl FailureReason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// A name for logs and metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$reason => $text,)* }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$reason => concat!($($doc,)+).trim_ascii(),)* }
            }

            /// Its class.
            pub const fn class(self) -> Class {
                match self { $(Self::$reason => Class::$class,)* }
            }

            /// Whether the run was ended from outside, so that it says nothing of the release.
            pub const fn is_interruption(self) -> bool {
                matches!(self, Self::Stopped | Self::Superseded)
            }

            /// Whether Fleet keeps such a failure until there is another deployment ID, with no release in the status.
            ///
            /// Fleet recognizes it by texts, some of which Helm 4 does not have any more. Here it depends on the reason.
            pub const fn is_captured(self) -> bool {
                match self { $(Self::$reason => $captured,)* }
            }

            /// What to do about it with any object, unless Helm's text says it. Nothing here leads to the loss of data.
            pub const fn fix(self) -> Option<&'static str> {
                match self { $(Self::$reason => $fix,)* }
            }
        }
    };
}

reasons! {
    /// The archive is no chart, or lacks a dependency.
    ChartInvalid = "ChartInvalid", Chart, false, None;
    /// The chart requires another version of Kubernetes.
    KubeVersion = "KubeVersion", Chart, true, Some("Upgrade the cluster, or select another version of the chart.");
    /// A template failed.
    TemplateFailed = "TemplateFailed", Chart, false, None;
    /// The values do not match the schema of the chart.
    ValuesInvalid = "ValuesInvalid", Chart, false, Some("Correct the values, or set skipSchemaValidation.");
    /// Values are not a mapping, cannot be set at their path, or the chart does not have their file.
    ValuesUnusable = "ValuesUnusable", Chart, false, None;
    /// What the templates rendered is not YAML, or has no kind.
    ManifestInvalid = "ManifestInvalid", Chart, true, None;
    /// The objects of the chart do not fit to the options of the BundleDeployment.
    ObjectsRefused = "ObjectsRefused", Chart, false, None;
    /// The record of the release does not fit into a Secret.
    ReleaseTooLarge = "ReleaseTooLarge", Chart, false,
        Some("The chart, its values and its objects together must have less than 1 MiB, compressed: remove files from the chart, or divide it.");
    /// The name of the release is invalid.
    NameInvalid = "NameInvalid", Chart, false, None;
    /// An object has a field that its kind does not have.
    UnknownField = "UnknownField", Chart, true,
        Some("Correct the values that this field comes from, or the template of the object.");
    /// A field of an object has a value of another type.
    SchemaViolation = "SchemaViolation", Chart, true,
        Some("Correct the values that this field comes from, or the template of the object.");
    /// A list has two entries with the same key, such as two environment variables of the same name.
    DuplicateEntry = "DuplicateEntry", Chart, true,
        Some("Remove one of the two entries: often one is in the template of the chart, and the other in its values.");
    /// The API server finds a value invalid.
    ObjectInvalid = "ObjectInvalid", Cluster, false, None;
    /// A field that cannot be changed any more would change.
    FieldImmutable = "FieldImmutable", Cluster, true,
        Some("Undo the change of this field in the chart or its values.");
    /// The API server does not have the kind of an object.
    UnknownKind = "UnknownKind", Cluster, false, Some("Install the CRD of this kind first, or correct the apiVersion.");
    /// The API server does not have the kind of an object any more that the record of the release has.
    RecordedKindMissing = "RecordedKindMissing", Cluster, false,
        Some("The cluster has just lost this kind. With the next attempt, the agent leaves such objects out of the record.");
    /// The namespace of an object does not exist.
    NamespaceMissing = "NamespaceMissing", Cluster, false, Some("Create the namespace, or set createNamespace.");
    /// An object exists that belongs to no release, or to another one.
    NotOwned = "NotOwned", Cluster, true, Some("Set takeOwnership to take the object over, or give one of the two another name.");
    /// Another field manager has changed a field that would change.
    Conflict = "Conflict", Cluster, false,
        Some("Remove the field from the values of the chart, or set lifecycle.drift.mode to enabled to overwrite it.");
    /// The identity lacks a permission.
    Forbidden = "Forbidden", Cluster, false, Some("Grant the permission to the ServiceAccount.");
    /// A quota is exceeded.
    QuotaExceeded = "QuotaExceeded", Cluster, false, None;
    /// An admission webhook or policy refuses an object.
    AdmissionDenied = "AdmissionDenied", Cluster, false, None;
    /// Objects could not be deleted.
    DeletionFailed = "DeletionFailed", Cluster, false, None;
    /// A hook failed.
    HookFailed = "HookFailed", Hook, false, None;
    /// A hook did not complete in time.
    HookTimeout = "HookTimeout", Hook, false, Some("See the logs of its pods, or set a longer timeoutSeconds.");
    /// A CRD of the chart cannot be applied without a loss.
    CrdRefused = "CrdRefused", Cluster, false, None;
    /// A CRD of the chart was applied, but the API server does not serve it.
    CrdNotEstablished = "CrdNotEstablished", Cluster, false, None;
    /// Another Helm works on the release, or was interrupted.
    InProgress = "InProgress", InProgress, false, None;
    /// The release, or the revision to restore, does not exist.
    NoRecord = "NoRecord", InProgress, false, None;
    /// The credentials are not accepted.
    Unauthorized = "Unauthorized", Passing, false, None;
    /// The API server, or a webhook that it calls, does not respond.
    Unreachable = "Unreachable", Passing, false, None;
    /// The namespace of an object is being deleted.
    NamespaceTerminating = "NamespaceTerminating", Passing, false, None;
    /// An object was changed at the same time.
    ChangedMeanwhile = "ChangedMeanwhile", Passing, false, None;
    /// Helm did not end in time.
    Deadline = "Deadline", Passing, false, None;
    /// The agent stops.
    Stopped = "Stopped", Passing, false, None;
    /// The BundleDeployment was changed or deleted.
    Superseded = "Superseded", Passing, false, None;
    /// Helm crashed or was killed.
    Crashed = "Crashed", Passing, false, None;
    /// Helm needed more memory than it may use.
    OutOfMemory = "OutOfMemory", Chart, false,
        Some("Make the chart or its values smaller, or give the agent a larger memory limit (--memory-limit).");
    /// Helm could not be started, or its files could not be written.
    NotStarted = "NotStarted", Passing, false, None;
    /// The program is not the Helm that this agent needs.
    OtherHelm = "OtherHelm", Passing, false,
        Some("Use the helmops-helm that belongs to this agent (--helm): it is in the same image.");
    /// A text that is not known.
    Unknown = "Unknown", Passing, false, None;
}
