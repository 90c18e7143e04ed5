//! The metrics of the webhook.

use std::time::Instant;

use helmops_model::reason::Reason;
use helmops_process::{
    BodyError,
    metrics::{counters, registered},
};
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

use crate::review::Operation;

/// From 50 µs to 1 s: decisions take tens of microseconds, and the API server times out after seconds.
const BUCKETS: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 1.0,
];

#[derive(Clone, Copy, Debug)]
pub enum Webhook {
    /// The mutating webhook, which sets defaults.
    Mutate,
    /// The validating webhook of HelmOps.
    Validate,
    /// The validating webhook of all other kinds, which no Policy restricts: Alerts, AlertProviders, Receivers and Schedules.
    ValidateOthers,
}

impl Webhook {
    const ALL: [Self; 3] = [Self::Mutate, Self::Validate, Self::ValidateOthers];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
            Self::ValidateOthers => "validate-others",
        }
    }
}

/// The result of an admission request.
#[derive(Clone, Copy, Debug)]
pub enum AdmissionResult {
    /// Allowed, without warnings or a patch.
    Allowed,
    /// Allowed with warnings.
    Warned,
    /// Allowed with a patch.
    Patched,
    Denied,
    /// Not an AdmissionReview.
    Malformed,
}

impl AdmissionResult {
    const ALL: [Self; 5] = [
        Self::Allowed,
        Self::Warned,
        Self::Patched,
        Self::Denied,
        Self::Malformed,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Warned => "warned",
            Self::Patched => "patched",
            Self::Denied => "denied",
            Self::Malformed => "malformed",
        }
    }
}

const fn operation_label(operation: Option<Operation>) -> &'static str {
    match operation {
        Some(Operation::Create) => "create",
        Some(Operation::Update) => "update",
        Some(Operation::Other) => "other",
        None => "unknown",
    }
}

#[derive(Clone, Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    durations: [Histogram; 3],
    denials: IntCounterVec,
    rejected: IntCounterVec,
    certificate_expiry: IntGauge,
    certificate_reloads: IntCounterVec,
}

impl Metrics {
    /// Creates the metrics and registers them. All label values exist from the start, so that a rate includes the first
    /// event.
    ///
    /// # Errors
    /// If one of them is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = counters(
            registry,
            "helmops_admission_requests_total",
            "Admission requests by webhook, operation and result.",
            &["webhook", "operation", "result"],
        )?;
        let durations = registered(
            registry,
            HistogramVec::new(
                HistogramOpts::new(
                    "helmops_admission_duration_seconds",
                    "Duration of an admission request by webhook, from its body to the response.",
                )
                .buckets(BUCKETS.to_vec()),
                &["webhook"],
            )?,
        )?;
        let denials = counters(
            registry,
            "helmops_admission_denials_total",
            "Denied admission requests by the reason of the first error.",
            &["reason"],
        )?;
        let rejected = counters(
            registry,
            "helmops_admission_rejected_requests_total",
            "Requests that were rejected before they were decoded, by reason.",
            &["reason"],
        )?;
        let certificate_expiry = registered(
            registry,
            IntGauge::new(
                "helmops_webhook_certificate_expiry_timestamp_seconds",
                "Unix time at which the serving certificate expires.",
            )?,
        )?;
        let certificate_reloads = counters(
            registry,
            "helmops_webhook_certificate_reloads_total",
            "Reloads of the serving certificate by result (success, error).",
            &["result"],
        )?;
        for webhook in Webhook::ALL {
            for result in AdmissionResult::ALL {
                for operation in [Operation::Create, Operation::Update] {
                    let labels = [
                        webhook.as_str(),
                        operation_label(Some(operation)),
                        result.as_str(),
                    ];
                    requests.with_label_values(&labels);
                }
            }
        }
        let of_notifications = &[Reason::InvalidNotification];
        for reason in Reason::VALIDATION
            .iter()
            .chain(Reason::POLICY)
            .chain(of_notifications)
        {
            denials.with_label_values(&[reason.as_str()]);
        }
        for reason in BodyError::REASONS {
            rejected.with_label_values(&[reason]);
        }
        for result in ["success", "error"] {
            certificate_reloads.with_label_values(&[result]);
        }
        let durations = Webhook::ALL.map(|webhook| durations.with_label_values(&[webhook.as_str()]));
        Ok(Self {
            requests,
            durations,
            denials,
            rejected,
            certificate_expiry,
            certificate_reloads,
        })
    }

    /// Counts an admission request and its duration.
    pub fn observe_request(
        &self,
        webhook: Webhook,
        operation: Option<Operation>,
        result: AdmissionResult,
        started: Instant,
    ) {
        let labels = [webhook.as_str(), operation_label(operation), result.as_str()];
        self.requests.with_label_values(&labels).inc();
        let [mutate, validate, others] = &self.durations;
        let histogram = match webhook {
            Webhook::Mutate => mutate,
            Webhook::Validate => validate,
            Webhook::ValidateOthers => others,
        };
        histogram.observe(started.elapsed().as_secs_f64());
    }

    /// Counts a denial.
    pub fn denied(&self, reason: Reason) {
        self.denials.with_label_values(&[reason.as_str()]).inc();
    }

    /// Counts a request whose body was rejected.
    pub fn body_rejected(&self, reason: &'static str) {
        self.rejected.with_label_values(&[reason]).inc();
    }

    /// Records that a serving certificate was loaded.
    pub fn certificate_loaded(&self, not_after: i64) {
        self.certificate_expiry.set(not_after);
        self.reload("success").inc();
    }

    /// Counts a serving certificate that could not be loaded.
    pub fn certificate_failed(&self) {
        self.reload("error").inc();
    }

    fn reload(&self, result: &str) -> IntCounter {
        self.certificate_reloads.with_label_values(&[result])
    }
}
