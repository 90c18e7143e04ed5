//! Workloads whose number of replicas an autoscaler of the same release sets.

use serde_json::Value;

use super::text;

/// The horizontal autoscalers of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Autoscalers {
    ranges: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    kind: String,
    namespace: String,
    name: String,
    min: i64,
    max: i64,
}

impl Autoscalers {
    /// Those among the live objects of a release.
    pub fn of(objects: &[&Value]) -> Self {
        let ranges = objects.iter().filter_map(|object| Range::of(object)).collect();
        Self { ranges }
    }

    /// Whether a Deployment or StatefulSet has a number of replicas that an autoscaler may have set.
    pub(super) fn allow(&self, live: &Value) -> bool {
        let kind = text(live, "/kind");
        let is_scalable = matches!(kind, "Deployment" | "StatefulSet");
        if !is_scalable || !text(live, "/apiVersion").starts_with("apps/") {
            return false;
        }
        let Some(replicas) = live.pointer("/spec/replicas").and_then(Value::as_i64) else {
            return false;
        };
        let (namespace, name) = (text(live, "/metadata/namespace"), text(live, "/metadata/name"));
        self.ranges.iter().any(|range| {
            range.kind == kind
                && range.namespace == namespace
                && range.name == name
                && (range.min..=range.max).contains(&replicas)
        })
    }
}

impl Range {
    fn of(object: &Value) -> Option<Self> {
        let version = text(object, "/apiVersion");
        let is_autoscaler = text(object, "/kind") == "HorizontalPodAutoscaler"
            && matches!(version, "autoscaling/v2" | "autoscaling/v1");
        if !is_autoscaler {
            return None;
        }
        let bound = |pointer| object.pointer(pointer).and_then(Value::as_i64);
        Some(Self {
            kind: text(object, "/spec/scaleTargetRef/kind").to_owned(),
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/spec/scaleTargetRef/name").to_owned(),
            min: bound("/spec/minReplicas").unwrap_or(1),
            max: bound("/spec/maxReplicas")?,
        })
    }
}
