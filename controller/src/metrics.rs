//! The metrics of the controller.

use std::time::Duration;

use helmops_fetch::{ResolutionMetrics, resolution_failures};
use helmops_model::reason::Reason;
use helmops_process::metrics::{counters, registered};
use helmops_runtime::metrics::{BUCKETS, Controller, ReconcileMetrics, result_counter, result_labels};
use prometheus::{Histogram, HistogramOpts, IntCounterVec, Registry};

/// The loop of HelmOps, which writes Bundles.
pub const HELMOPS: Controller = Controller {
    label: "helmop",
    failures: || {
        let delivery = [
            Reason::BundleConflict,
            Reason::APIError,
            Reason::DecodeError,
            Reason::MemoryExceeded,
            Reason::ChartTooLarge,
            Reason::ContentQuotaExceeded,
            Reason::ContentUnsupported,
            Reason::ContentMissing,
            Reason::InvalidContent,
            Reason::InvalidChart,
            Reason::DigestMismatch,
        ];
        delivery.into_iter().chain(resolution_failures()).collect()
    },
};
/// The loop of Bundles, which writes BundleDeployments.
pub const BUNDLES: Controller = Controller {
    label: "bundle",
    failures: || vec![Reason::BundleConflict, Reason::APIError, Reason::NotReady],
};
/// The loop of Clusters, which creates their namespaces.
pub const CLUSTERS: Controller = Controller {
    label: "cluster",
    failures: || vec![Reason::APIError],
};

/// The loop of imports, which installs agents by the kubeconfigs of Clusters.
pub const IMPORTS: Controller = Controller {
    label: "import",
    failures: || {
        vec![
            Reason::APIError,
            Reason::SecretNotFound,
            Reason::ImportUnconfigured,
            Reason::KubeConfigInvalid,
            Reason::KubeConfigUnsafe,
            Reason::InvalidAgentOptions,
            Reason::ImportRefused,
            Reason::ClusterMoved,
            Reason::ImportFailed,
            Reason::Importing,
        ]
    },
};

/// The loop of Contents, which deletes those that are not used any more.
pub const CONTENTS: Controller = Controller {
    label: "content",
    failures: || vec![Reason::APIError],
};

/// The loop of Schedules, which writes their status.
pub const SCHEDULES: Controller = Controller {
    label: "schedule",
    failures: || vec![Reason::APIError],
};

/// The loop of tokens by which agents register their clusters.
pub const REGISTRATION_TOKENS: Controller = Controller {
    label: "registrationtoken",
    failures: || vec![Reason::APIError, Reason::RegistrationRefused],
};

/// The loop of the requests of such agents.
pub const REGISTRATIONS: Controller = Controller {
    label: "registration",
    failures: || vec![Reason::APIError],
};

/// What became of a request to register a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationResult {
    /// A new Cluster, or one whose agent had never reported.
    Granted,
    /// A Cluster that had another agent before.
    TakenOver,
    /// It cannot be granted.
    Refused,
    /// No agent waits for it any more.
    Expired,
}

impl RegistrationResult {
    const ALL: [Self; 4] = [Self::Granted, Self::TakenOver, Self::Refused, Self::Expired];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::TakenOver => "taken_over",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Metrics {
    /// The metrics of the reconciliations of all loops.
    pub reconciles: ReconcileMetrics,
    pub resolutions: ResolutionMetrics,
    polls: IntCounterVec,
    poll_lag: Histogram,
    imports: IntCounterVec,
    registrations: IntCounterVec,
}

impl Metrics {
    /// Creates and registers the metrics. Every label value that can occur exists from the start, so that a rate includes the
    /// first event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let lag = HistogramOpts::new(
            "helmops_poll_lag_seconds",
            "Delay between the time at which a poll is due and its start.",
        );
        let registrations = counters(
            registry,
            "helmops_cluster_registrations_total",
            "Requests of agents to register their clusters by result (granted, taken_over, refused, expired).",
            &["result"],
        )?;
        for result in RegistrationResult::ALL {
            registrations.with_label_values(&[result.as_str()]);
        }
        let loops = [
            HELMOPS,
            BUNDLES,
            CLUSTERS,
            IMPORTS,
            SCHEDULES,
            CONTENTS,
            REGISTRATION_TOKENS,
            REGISTRATIONS,
        ];
        Ok(Self {
            registrations,
            reconciles: ReconcileMetrics::register(registry, &loops)?,
            resolutions: ResolutionMetrics::register(registry)?,
            polls: result_counter(
                registry,
                "helmops_polls_total",
                "Polls for newer chart versions by result (success, error) and reason.",
                &resolution_failures(),
            )?,
            imports: result_counter(
                registry,
                "helmops_imports_total",
                "Imports of clusters by their kubeconfigs, by result (success, error) and reason. One that finds nothing to do is a success.",
                &(IMPORTS.failures)(),
            )?,
            poll_lag: registered(registry, Histogram::with_opts(lag.buckets(BUCKETS.to_vec()))?)?,
        })
    }

    /// Counts an import.
    pub fn imported(&self, failure: Option<Reason>) {
        self.imports.with_label_values(&result_labels(failure)).inc();
    }

    /// Counts what became of a request to register a cluster.
    pub fn registered(&self, result: RegistrationResult) {
        self.registrations.with_label_values(&[result.as_str()]).inc();
    }

    /// Counts a poll that started `lag` after its due time.
    pub fn polled(&self, failure: Option<Reason>, lag: Duration) {
        self.polls.with_label_values(&result_labels(failure)).inc();
        self.poll_lag.observe(lag.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, iter::successors, sync::Arc};

    use helm_archive::ArchiveError;
    use helmops_api::{NamespacedName, Unusable};
    use helmops_core::bundle::{Lookup, MissingVersion, OwnershipConflict};
    use helmops_fetch::{DigestMismatch, DownloadError, Origin, ResolveError};
    use helmops_join::{
        customization::InvalidAgentOption,
        import::{kubeconfig::KubeconfigError, plan::Refusal},
    };
    use helmops_runtime::{
        client::{ApiError, CallError},
        error_class::ClassifiedError,
        workers::Interrupted,
    };

    use super::*;
    use crate::{
        bundle::DeliveryError,
        cluster::ClusterError,
        content::{ContentError, OverQuota},
        helmop::ReconcileError,
        import::{ImportError, TargetError, TargetFailure},
        watch::MissingKey,
    };

    fn call() -> CallError {
        CallError::of("read", "it")(ApiError::Timeout)
    }

    /// An error of each variant: what follows on each of them. A new variant does not compile until it is there.
    fn of_helmops() -> impl Iterator<Item = ReconcileError> {
        use ReconcileError as Error;
        let text = String::new;
        let first = Error::OwnershipConflict(OwnershipConflict { name: text() });
        successors(Some(first), move |error| {
            Some(match error {
                Error::OwnershipConflict(_) => Error::InvalidBundle {
                    name: text(),
                    error: Unusable::Invalid(text()),
                },
                Error::InvalidBundle {
                    error: Unusable::Invalid(_),
                    ..
                } => Error::InvalidBundle {
                    name: text(),
                    error: Unusable::NotStored(text()),
                },
                Error::InvalidBundle { .. } => Error::UnknownPolicies,
                Error::UnknownPolicies => Error::Resolve(Box::new(ResolveError::Deadline {
                    limit: Duration::ZERO,
                })),
                Error::Resolve(_) => Error::RancherCa(MissingKey {
                    secret: "tls-ca",
                    key: "cacerts.pem",
                }),
                Error::RancherCa(_) => Error::Interrupted(Interrupted::Stopping),
                Error::Interrupted(_) => Error::Superseded,
                Error::Superseded => Error::TooSoon(Duration::ZERO),
                Error::TooSoon(_) => Error::Unresolved(MissingVersion(Lookup {
                    repo: text(),
                    chart: text(),
                    constraint: text(),
                    filter: text(),
                })),
                Error::Unresolved(_) => Error::Bundle(call()),
                Error::Bundle(_) => Error::HelmOp(call()),
                Error::HelmOp(_) => Error::Content(Box::new(ContentError::Unsupported)),
                Error::Content(error) => Error::Content(Box::new(after(error)?)),
            })
        })
    }

    /// The error of a content that follows on another one.
    fn after(error: &ContentError) -> Option<ContentError> {
        use ContentError as Error;
        let url = String::new;
        let too_large = |limit| ArchiveError::TooLarge { limit };
        Some(match error {
            Error::Unsupported => Error::Download(Box::new(DownloadError::Deadline { seconds: 0 })),
            Error::Download(error) if matches!(**error, DownloadError::Deadline { .. }) => {
                Error::Download(Box::new(DownloadError::Digest(DigestMismatch {
                    url: url(),
                    origin: Origin::Recorded,
                    expected: url(),
                    actual: url(),
                })))
            }
            Error::Download(_) => Error::chart(&url(), ArchiveError::NoChartYaml.into()),
            Error::Invalid { .. } => Error::chart(&url(), too_large(0).into()),
            Error::TooLarge { .. } => Error::Memory {
                url: url(),
                needed: 0,
                limit: 0,
            },
            Error::Memory { .. } => Error::Refused(Arc::new(Error::Unsupported)),
            Error::Refused(_) => Error::Busy,
            Error::Busy => Error::full("", OverQuota::default()),
            Error::Full { .. } => Error::Foreign(url()),
            Error::Foreign(_) => Error::Gone(url()),
            Error::Gone(_) => Error::Api(call()),
            Error::Api(_) => return None,
        })
    }

    fn of_bundles() -> impl Iterator<Item = DeliveryError> {
        use DeliveryError as Error;
        let text = String::new;
        successors(Some(Error::UnknownPolicies), move |error| {
            Some(match error {
                Error::UnknownPolicies => Error::Interrupted(Interrupted::Stopping),
                Error::Interrupted(_) => Error::SourceUnreadable(text()),
                Error::SourceUnreadable(_) => Error::NameConflict(text()),
                Error::NameConflict(_) => {
                    let limit = Duration::ZERO;
                    Error::RenderTimeout(gotmpl::Exceeded::Time { limit }.into())
                }
                Error::RenderTimeout(_) => Error::Stale(text()),
                Error::Stale(_) => Error::Api(call()),
                Error::Api(_) => return None,
            })
        })
    }

    fn of_clusters() -> impl Iterator<Item = ClusterError> {
        successors(
            Some(ClusterError::StaleNamespace(String::new())),
            |error| match error {
                ClusterError::StaleNamespace(_) => Some(ClusterError::Api(call())),
                ClusterError::Api(_) => None,
            },
        )
    }

    fn of_imports() -> impl Iterator<Item = ImportError> {
        use ImportError as Error;
        let text = String::new;
        let kubeconfig = |error| Error::Kubeconfig {
            secret: String::new(),
            error,
        };
        successors(Some(Error::Unconfigured(text())), move |error| {
            Some(match error {
                Error::Unconfigured(_) => Error::Image(text()),
                Error::Image(_) => Error::Secret(text()),
                Error::Secret(_) => Error::SecretNotFound(text()),
                Error::SecretNotFound(_) => kubeconfig(KubeconfigError::Invalid(text())),
                Error::Kubeconfig {
                    error: KubeconfigError::Invalid(_),
                    ..
                } => kubeconfig(KubeconfigError::Unsafe {
                    field: text(),
                    why: "",
                }),
                Error::Kubeconfig { .. } => Error::Options(InvalidAgentOption {
                    field: text(),
                    why: text(),
                }),
                Error::Options(_) => Error::Refused(Refusal::ManagementCluster),
                Error::Refused(Refusal::ManagementCluster) => Error::Refused(Refusal::Moved {
                    cluster: NamespacedName::new("a", "b"),
                    from: text(),
                    to: text(),
                }),
                Error::Refused(_) => Error::PriorityClass(0),
                Error::PriorityClass(_) => Error::Target(TargetError {
                    action: text(),
                    server: text(),
                    failure: TargetFailure::NotThatObject,
                }),
                Error::Target(_) => Error::Deadline,
                Error::Deadline => Error::Waiting(text()),
                Error::Waiting(_) => Error::Raced,
                Error::Raced => Error::Api(call()),
                Error::Api(_) => Error::Interrupted(Interrupted::Stopping),
                // The manifests of the program decode, so there is no such error to make.
                Error::Interrupted(_) | Error::Manifests(_) => return None,
            })
        })
    }

    /// The reasons of errors, without that of a reconciliation that is retried because something changed.
    fn reasons(errors: impl Iterator<Item = impl ClassifiedError>) -> BTreeSet<Reason> {
        let reasons = errors.map(|error| error.reason());
        reasons.filter(|reason| *reason != Reason::Progressing).collect()
    }

    fn listed(controller: Controller) -> BTreeSet<Reason> {
        (controller.failures)().into_iter().collect()
    }

    /// A reason that is missing has no series before its first error, so that a rate misses it.
    #[test]
    fn each_loop_has_exactly_the_reasons_of_its_errors() {
        let mut of_helmops = reasons(of_helmops());
        of_helmops.extend(resolution_failures());
        assert_eq!(listed(HELMOPS), of_helmops);
        assert_eq!(listed(BUNDLES), reasons(of_bundles()));
        assert_eq!(listed(CLUSTERS), reasons(of_clusters()));
        assert_eq!(listed(IMPORTS), reasons(of_imports()));
    }
}
