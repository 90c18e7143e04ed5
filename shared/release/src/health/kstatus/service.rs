//! Services. Whether a load balancer has an address is a rule of the summary.

use super::{Assessment, Subject};
use crate::health::fields::text;

/// The rules of Services.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    let spec = |key| text(subject.object, &["spec", key]);
    if spec("type") == "LoadBalancer" && spec("clusterIP").is_empty() {
        Assessment::in_progress("ClusterIP not set. Service type: LoadBalancer")
    } else {
        Assessment::current("Service is ready")
    }
}
