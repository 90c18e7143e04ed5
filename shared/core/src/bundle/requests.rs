//! What annotations of a HelmOp request from the agents of its clusters.

use bounded_text::cut;
use helmops_api::{BundleSpec, labels, lifecycle::Requests};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Longest token in bytes: it is copied to each cluster.
const MAX_TOKEN: usize = 253;

/// Sets the requests of a Bundle. Those in the spec of the HelmOp are dropped: only annotations request anything.
pub fn set(spec: &mut BundleSpec, helmop: &ObjectMeta) {
    let targets = spec.targets.iter_mut().map(|target| &mut *target.options);
    for options in targets.chain([&mut spec.options]) {
        if let Some(lifecycle) = &mut options.lifecycle {
            lifecycle.requests = None;
        }
    }
    let requests = of(helmop);
    if requests != Requests::default() {
        spec.options.lifecycle.get_or_insert_default().requests = Some(requests);
    }
}

fn of(helmop: &ObjectMeta) -> Requests {
    let token = |name| {
        let value = labels::annotation(helmop, name).unwrap_or_default();
        cut(value.to_owned(), MAX_TOKEN)
    };
    Requests {
        reconcile: token(labels::RECONCILE_REQUESTED_AT),
        force: token(labels::FORCE_REQUESTED_AT),
        reset: token(labels::RESET_REQUESTED_AT),
        ..Requests::default()
    }
}
