//! Workloads whose number of replicas an autoscaler of the same release sets.

use serde_json::Value;

use super::text;

/// The autoscalers of a release: each object with a `scaleTargetRef`, such as a `HorizontalPodAutoscaler`, a `ScaledObject` of KEDA, or those of
/// cloud providers. What they create at run time is in no release.
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

    /// Whether a workload has a number of replicas that an autoscaler may have set.
    pub(super) fn allow(&self, live: &Value) -> bool {
        let kind = text(live, "/kind");
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
        let target = object.pointer("/spec/scaleTargetRef")?;
        let bound = |names: [&str; 2]| {
            let spec = object.get("spec")?;
            names.iter().find_map(|name| spec.get(name)?.as_i64())
        };
        let is_horizontal = text(object, "/kind") == "HorizontalPodAutoscaler"
            && text(object, "/apiVersion").starts_with("autoscaling/");
        let (min, max) = (
            bound(["minReplicas", "minReplicaCount"]),
            bound(["maxReplicas", "maxReplicaCount"]),
        );
        Some(Self {
            // Where it may be omitted, it is a Deployment.
            kind: Some(text(target, "/kind"))
                .filter(|kind| !kind.is_empty())
                .unwrap_or("Deployment")
                .to_owned(),
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(target, "/name").to_owned(),
            // Others scale to zero while nothing is to be done, whatever their minimum is.
            min: if is_horizontal { min.unwrap_or(1) } else { 0 },
            max: if is_horizontal {
                max?
            } else {
                max.unwrap_or(i64::MAX)
            },
        })
    }
}
