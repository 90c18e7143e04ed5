//! Why: one word for every outcome.

use std::fmt;

/// Declares the closed list of reasons, in groups, with their words, meanings and remedies.
macro_rules! reasons {
    ($($group:literal { $($(#[doc = $doc:literal])+ $name:ident: $remedy:literal,)* })*) => {
        /// Why something is as it is. The same word stands in conditions, denials, events, logs and metric labels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($($(#[doc = $doc])+ $name,)*)*
        }

        impl Reason {
            /// Every reason, in the order of their declaration.
            pub const ALL: &[Self] = &[$($(Self::$name,)*)*];

            /// What groups of them are about.
            pub const GROUPS: &[(&str, &[Self])] = &[$(($group, &[$(Self::$name,)*]),)*];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$name => stringify!($name),)*)*
                }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $($(Self::$name => concat!($($doc,)+).trim_ascii(),)*)*
                }
            }

            /// What to do about it; empty where nothing is wrong.
            pub const fn remedy(self) -> &'static str {
                match self {
                    $($(Self::$name => $remedy,)*)*
                }
            }
        }
    };
}

reasons! {
    "What a HelmOp must be: admission denies it, and the controller does not accept it" {
        /// `spec.helm` is missing.
        HelmRequired: "Name a chart: `spec.helm.repo` and `spec.helm.chart`, or an archive's URL in `spec.helm.chart`.",
        /// The chart is missing.
        ChartRequired: "Name it in `spec.helm.chart`.",
        /// The repository is missing.
        RepoRequired: "Give the repository's URL in `spec.helm.repo`, or an archive's URL in `spec.helm.chart`.",
        /// A chart is named where the repository names it already.
        ChartForbidden: "Leave `spec.helm.chart` out: an `oci://` URL names the chart itself.",
        /// The chart is named by something that no index has: a path, or the reference of a registry.
        InvalidChartName: "Give the name of the chart as the index of the repository lists it.",
        /// A repository is named beside a chart archive.
        RepoForbidden: "Leave `spec.helm.repo` out, or name the chart in place of the archive's URL.",
        /// A version is given for a chart archive.
        VersionForbidden: "Leave `spec.helm.version` out: an archive has one version.",
        /// A URL is malformed or of a scheme that charts are not fetched by.
        InvalidURL: "Begin it with `https://`, `http://` or `oci://`, and mind what the message points at.",
        /// The version is neither a version nor a range of versions.
        InvalidVersion: "Give a version such as `1.2.3`, a range such as `^1.2` or `1.x`, or nothing for the newest.",
        /// The polling interval is not a duration that can be used.
        InvalidPollingInterval: "Give a Go duration such as `15m`, or `0s` for no polling.",
        /// The name of the HelmOp, or a name that it refers to, is one that Kubernetes does not allow.
        InvalidName: "Use lower case letters, digits, `-` and `.`, as the message says for the field.",
        /// The release name is one that Helm does not allow.
        InvalidReleaseName: "Use at most 53 lower case letters, digits, `-` and `.`.",
        /// A label or annotation is one that Kubernetes does not allow.
        InvalidLabel: "See what the message points at; a value has at most 63 characters.",
        /// A label selector is one that Kubernetes does not allow.
        InvalidSelector: "Use `In` and `NotIn` with values, `Exists` and `DoesNotExist` without.",
        /// A number or percentage of the roll-out is neither.
        InvalidRollout: "Give a number such as `5`, or a percentage such as `25%`.",
        /// A downstream resource is neither a Secret nor a ConfigMap.
        InvalidDownstreamResource: "Say `kind: Secret` or `kind: ConfigMap`.",
        /// A list, a text or the whole spec is larger than allowed.
        LimitExceeded: "Shorten it as the message says, or make several HelmOps of it; the limits are in [fields.md](fields.md).",
        /// Helm values, or where they come from, cannot be used.
        InvalidValues: "Do what the message says: name the object of `valuesFrom`, or make the values flatter (100 levels are allowed).",
        /// The object does not decode.
        Undecodable: "The message names the field and what stands there; `kubectl explain helmop.spec` tells what it takes.",
    }
    "What Policies say of it: admission denies it, and the controller neither looks its chart up nor deploys it" {
        /// A Policy of the namespace does not allow it, or cannot be read.
        PolicyViolation: "Use what the message says is allowed, or ask whoever keeps the Policy (`kubectl get policies.fleet.cattle.io`).",
    }
    "Why no version could be determined" {
        /// The Secret that `helmSecretName` names does not exist.
        SecretNotFound: "Create the Secret in the namespace of the HelmOp, or correct `spec.helmSecretName`. It is tried again at once.",
        /// The Secret that `helmSecretName` names lacks a key or holds something unusable.
        InvalidSecret: "Put the keys into it that [charts.md](charts.md) lists. It is tried again at once.",
        /// The repository refuses the credentials, or wants some.
        Unauthorized: "Correct user name and password in the Secret; without one, name it in `spec.helmSecretName`.",
        /// The credentials do not suffice for the repository.
        Forbidden: "Give the login the right to read or pull the chart.",
        /// There is no repository at the URL.
        RepositoryNotFound: "Correct `spec.helm.repo`: `index.yaml` is right below it. For a registry begin it with `oci://`, and end it with the chart's name.",
        /// The repository answers with an error.
        RepositoryError: "Look at the server, or at what stands before it. It is tried again, at growing intervals.",
        /// The certificate of the repository is not trusted.
        CertificateError: "Put the authority into `cacerts` of the Secret, renew the certificate, correct the host, or give `tls.crt` and `tls.key`.",
        /// The host of the repository has no address.
        HostNotFound: "Correct the host, or the cluster's DNS.",
        /// The repository cannot be reached.
        ConnectionFailed: "Correct the port, start the server, open the network, or give the controller its proxy (`HTTPS_PROXY`).",
        /// The repository did not answer in time.
        Timeout: "Look at the server and at the network before it. It is tried again, at growing intervals.",
        /// The repository limits requests.
        RateLimited: "Log in, or poll less often. It is tried again when the server says so.",
        /// The repository wants credentials, and those in the Secret belong to another host, or are not sent unencrypted.
        CredentialsWithheld: "Make it a HelmOp of its own, or use a Secret with a login for each host (`.dockerconfigjson`); for plain HTTP set its key `basicHTTP`.",
        /// What the repository serves is larger than allowed.
        AnswerTooLarge: "Correct `spec.helm.repo`, if that is no index; the limits are in [charts.md](charts.md).",
        /// The controller reads as much at the same time as it may, for all or for the namespace.
        Busy: "Nothing here: it is tried again. If it stays, HelmOps of the namespace ask for indexes or lists of tags that are too large.",
        /// What the repository serves is not an index.
        InvalidIndex: "Correct `spec.helm.repo`, or publish the index anew.",
        /// The repository has no chart of that name.
        ChartNotFound: "Correct `spec.helm.chart`.",
        /// The chart has no version that is asked for.
        NoMatchingVersion: "Correct `spec.helm.version`, or publish one; the message has the nearest that are there.",
        /// Only pre-releases of the chart would do, and the range does not include any.
        OnlyPrereleases: "Take the range that the message names, or publish a release.",
    }
    "What became of the Bundle" {
        /// A Bundle of the name exists already and belongs to somebody else.
        BundleConflict: "Rename the HelmOp, or delete the Bundle or what made it.",
        /// The Bundle carries files, which are not deployed from here.
        UnsupportedBundle: "Leave such Bundles to Fleet (GitRepos): see [standalone.md](standalone.md).",
        /// No namespace is certain to be that of a cluster alone, and nothing is delivered to it.
        NamespaceConflict: "Do what the message says: rename a Cluster, or say by the annotations of the namespace whose it is: see [standalone.md](standalone.md#whose-a-namespace-is).",
        /// The API server did not do what it was asked.
        ApiError: "Nothing here: it is tried again. If it stays, the log of the controller has the API server's words.",
        /// The HelmOp is valid and its Bundle is up to date.
        Accepted: "",
        /// The look for newer versions succeeded.
        Polled: "",
        /// A newer version of the chart was found, and is being deployed. Told by events, as Fleet names it.
        GotNewChartVersion: "",
        /// The look for newer versions failed. Told by events, as Fleet names it; the condition says why.
        FailedToGetNewChartVersion: "See the condition `Polled`.",
        /// Every targeted cluster has the chart and is ready.
        Ready: "",
        /// Clusters are being brought up to date.
        Progressing: "Wait; `status.resources` tells what of each cluster.",
        /// Some clusters are not ready.
        NotReady: "See `status.resources` and the Bundle's conditions for the clusters and what they say.",
        /// No cluster is targeted.
        NoClusters: "Check the selectors of `spec.targets` against `kubectl get clusters --show-labels`.",
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
