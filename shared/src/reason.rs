//! Why: one word for every outcome.

use std::fmt;

/// Declares the closed list of reasons with their words and meanings.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Why something is as it is. The same word stands in conditions, denials, events, logs and metric labels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Reason {
            /// Every reason, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc,)+).trim_ascii(),)*
                }
            }
        }
    };
}

reasons! {
    // What a HelmOp must be: admission denies it, and the controller does not accept it.
    /// `spec.helm` is missing.
    HelmRequired,
    /// The chart is missing.
    ChartRequired,
    /// The repository is missing.
    RepoRequired,
    /// A chart is named where the repository names it already.
    ChartForbidden,
    /// A repository is named beside a chart archive.
    RepoForbidden,
    /// A version is given for a chart archive.
    VersionForbidden,
    /// A URL is malformed or of a scheme that charts are not fetched by.
    InvalidURL,
    /// The version is neither a version nor a range of versions.
    InvalidVersion,
    /// The polling interval is not a duration that can be used.
    InvalidPollingInterval,
    /// The name of the HelmOp, or a name that it refers to, is one that Kubernetes does not allow.
    InvalidName,
    /// The release name is one that Helm does not allow.
    InvalidReleaseName,
    /// A label or annotation is one that Kubernetes does not allow.
    InvalidLabel,
    /// A label selector is one that Kubernetes does not allow.
    InvalidSelector,
    /// A number or percentage of the roll-out is neither.
    InvalidRollout,
    /// A downstream resource is neither a Secret nor a ConfigMap.
    InvalidDownstreamResource,
    /// The object does not decode.
    Undecodable,

    // What Policies say of it: admission denies it, and the controller neither looks its chart up nor deploys it.
    /// A Policy of the namespace does not allow it, or cannot be read.
    PolicyViolation,

    // Why no version could be determined.
    /// The Secret that `helmSecretName` names does not exist.
    SecretNotFound,
    /// The Secret that `helmSecretName` names lacks a key or holds something unusable.
    InvalidSecret,
    /// The repository refuses the credentials, or wants some.
    Unauthorized,
    /// The credentials do not suffice for the repository.
    Forbidden,
    /// There is no repository at the URL.
    RepositoryNotFound,
    /// The repository answers with an error.
    RepositoryError,
    /// The certificate of the repository is not trusted.
    CertificateError,
    /// The host of the repository has no address.
    HostNotFound,
    /// The repository cannot be reached.
    ConnectionFailed,
    /// The repository did not answer in time.
    Timeout,
    /// The repository limits requests.
    RateLimited,
    /// The repository wants credentials, and those in the Secret belong to another host.
    CredentialsWithheld,
    /// What the repository serves is larger than allowed.
    AnswerTooLarge,
    /// What the repository serves is not an index.
    InvalidIndex,
    /// The repository has no chart of that name.
    ChartNotFound,
    /// The chart has no version that is asked for.
    NoMatchingVersion,
    /// Only pre-releases of the chart would do, and the range does not include any.
    OnlyPrereleases,

    // What became of the Bundle.
    /// A Bundle of the name exists already and belongs to somebody else.
    BundleConflict,
    /// The Bundle carries files, which are not deployed from here.
    UnsupportedBundle,
    /// The API server did not do what it was asked.
    ApiError,
    /// The HelmOp is valid and its Bundle is up to date.
    Accepted,
    /// The look for newer versions succeeded.
    Polled,
    /// A newer version of the chart was found, and is being deployed. Told by events, as Fleet names it.
    GotNewChartVersion,
    /// The look for newer versions failed. Told by events, as Fleet names it; the condition says why.
    FailedToGetNewChartVersion,
    /// Every targeted cluster has the chart and is ready.
    Ready,
    /// Clusters are being brought up to date.
    Progressing,
    /// Some clusters are not ready.
    NotReady,
    /// No cluster is targeted.
    NoClusters,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
