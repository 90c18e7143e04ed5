//! The clusters of a Bundle that the same targets apply to, and that therefore have the same options: what does not depend on
//! the cluster is computed once for all of them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use gotmpl::Exceeded;
use helmops_api::{BundleDeploymentOptions, Cluster, Lifecycle, free_form::FreeForm};

use super::{
    desired::DesiredTarget,
    identity::deployment_id,
    interner::Interner,
    values::{VALUES, ValuesError, ValuesErrorKind, ValuesSource, template_labels},
};

/// Returns the options, with the values of the Bundle.
type Options<'g> = &'g dyn Fn() -> Option<BundleDeploymentOptions>;

/// What all clusters of a batch have in common.
#[derive(Debug)]
struct Source {
    values: ValuesSource,
    lifecycle: Option<Arc<Lifecycle>>,
}

/// Clusters with the same options.
pub struct ClusterBatch<'g> {
    contents: &'g str,
    options: Options<'g>,
    source: Option<Result<Source, ValuesError>>,
    /// The desired state of clusters by whether they have no labels, if it is the same for all of them.
    shared: BTreeMap<bool, DesiredTarget>,
}

impl fmt::Debug for ClusterBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBatch")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl<'g> ClusterBatch<'g> {
    /// A new batch. `contents` identifies the content.
    pub fn new(contents: &'g str, options: Options<'g>) -> Self {
        Self {
            contents,
            options,
            source: None,
            shared: BTreeMap::new(),
        }
    }

    /// The desired state of a cluster of the batch.
    ///
    /// # Errors
    /// If its values cannot be computed, or the budget of the Bundle is exceeded.
    pub fn desired(
        &mut self,
        cluster: &Cluster,
        interner: &mut Interner<'_>,
    ) -> Result<DesiredTarget, ValuesError> {
        let budget = interner.budget();
        let not_made =
            |exceeded: Exceeded| ValuesError::new(VALUES, ValuesErrorKind::NotRendered(exceeded.into()));
        budget.next_item().map_err(not_made)?;
        let labels = template_labels(cluster);
        if let Some(shared) = self.shared.get(&labels.is_empty()) {
            return Ok(shared.clone());
        }
        // Not earlier: it may take long, and the budget may be exceeded.
        let source = self.source.get_or_insert_with(|| source(self.options, interner));
        let Source {
            values: source,
            lifecycle,
        } = source.as_ref().map_err(Clone::clone)?;
        let values = source.values(cluster, &labels, budget)?;
        let options = if labels.is_empty() {
            Arc::clone(source.options())
        } else {
            with_helm(source.options(), interner)?
        };
        let text = values.as_ref().map_or("", FreeForm::as_str);
        let desired = DesiredTarget {
            values: interner.values(text).map_err(exceeded(VALUES))?,
            id: deployment_id(self.contents, &options, lifecycle.as_deref(), values),
            options,
            lifecycle: lifecycle.clone(),
        };
        if source.is_shared(&labels) {
            self.shared.insert(labels.is_empty(), desired.clone());
        }
        Ok(desired)
    }
}

fn source(options: Options<'_>, interner: &mut Interner<'_>) -> Result<Source, ValuesError> {
    let mut options = options().unwrap_or_default();
    let values = options.helm.as_mut().and_then(|helm| helm.values.take());
    let lifecycle = options.lifecycle.take();
    options.lifecycle = lifecycle.as_ref().and_then(|own| own.key_part()).map(Box::new);
    let lifecycle = lifecycle.map(|lifecycle| interner.lifecycle(*lifecycle));
    let options = interner.options(options).map_err(exceeded("targets"))?;
    Ok(Source {
        values: ValuesSource::new(options, values)?,
        lifecycle: lifecycle.transpose().map_err(exceeded("lifecycle"))?,
    })
}

/// As in Fleet, a cluster with labels gets `helm` even if it is empty.
fn with_helm(
    options: &Arc<BundleDeploymentOptions>,
    interner: &mut Interner<'_>,
) -> Result<Arc<BundleDeploymentOptions>, ValuesError> {
    if options.helm.is_some() {
        return Ok(Arc::clone(options));
    }
    let mut options = BundleDeploymentOptions::clone(options);
    options.helm.get_or_insert_default();
    interner.options(options).map_err(exceeded("targets"))
}

fn exceeded(path: &'static str) -> impl Fn(Exceeded) -> ValuesError {
    move |exceeded| ValuesError::new(path, ValuesErrorKind::Exceeded(exceeded.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use gotmpl::Budget;

    fn cluster(name: &str, labels: &Value) -> Cluster {
        let object = json!({ "metadata": { "name": name, "namespace": "fleet", "labels": labels } });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    /// The desired state of clusters: two with labels, two without.
    fn desired(options: &Value, budget: &Budget) -> [DesiredTarget; 4] {
        let options = || serde_json::from_str(&options.to_string()).ok();
        let (mut batch, mut interner) = (ClusterBatch::new("", &options), Interner::new(budget));
        let labels = json!({ "env": "prod" });
        let clusters = [
            ("a", &labels),
            ("b", &labels),
            ("c", &json!({})),
            ("d", &json!({})),
        ];
        clusters.map(|(name, labels)| batch.desired(&cluster(name, labels), &mut interner).unwrap())
    }

    #[test]
    fn values_that_are_the_same_for_all_clusters_are_computed_once() {
        for options in [
            json!({ "helm": { "values": { "a": 1 } } }),
            json!({ "helm": { "values": { "a": 1 }, "templateValues": { "b": "c: 1" } } }),
            json!({ "helm": { "values": { "a": "${ .ClusterName }" }, "disablePreProcess": true } }),
            json!({ "namespace": "n" }),
        ] {
            let [one, other, plain, again] = desired(&options, &Budget::default());
            for (one, other) in [(&one, &other), (&plain, &again)] {
                assert_eq!(one, other, "{options}");
                assert!(Arc::ptr_eq(&one.options, &other.options), "{options}");
                assert!(Arc::ptr_eq(&one.values, &other.values), "{options}");
            }
        }
    }

    #[test]
    fn values_that_differ_are_computed_for_each_cluster() {
        for values in [
            json!({ "values": { "a": "${ .ClusterName }" } }),
            json!({ "values": {}, "templateValues": { "a": "${ .ClusterName }" } }),
        ] {
            let [one, other, plain, _] = desired(&json!({ "helm": values }), &Budget::default());
            assert_eq!((&*one.values, &*other.values), (r#"{"a":"a"}"#, r#"{"a":"b"}"#));
            assert_ne!(one.id, other.id);
            assert_ne!(one.id, plain.id);
            assert!(Arc::ptr_eq(&one.options, &plain.options));
        }
        let options = json!({ "helm": { "values": { "a": "global.fleet.clusterLabels.env" } } });
        let [labelled, _, plain, _] = desired(&options, &Budget::default());
        assert_eq!(&*labelled.values, r#"{"a":"prod"}"#);
        assert_eq!(&*plain.values, r#"{"a":"global.fleet.clusterLabels.env"}"#);
    }

    #[test]
    fn a_cluster_with_labels_always_has_values_and_helm() {
        let [labelled, _, plain, _] = desired(&json!({}), &Budget::default());
        let json = |desired: &DesiredTarget| serde_json::to_value(&*desired.options).unwrap();
        assert_eq!(
            (json(&labelled), json(&plain)),
            (json!({ "helm": {} }), json!({}))
        );
        assert_eq!((&*labelled.values, &*plain.values), ("", ""));
        let [labelled, _, plain, _] = desired(&json!({ "helm": {} }), &Budget::default());
        assert_eq!((&*labelled.values, &*plain.values), ("{}", ""));
    }

    /// 128 KiB of values for each of 2,000 clusters.
    #[test]
    fn shared_values_are_charged_once_for_any_number_of_clusters() {
        let options = json!({ "helm": { "values": { "a": "x".repeat(128 << 10) } } });
        let options = || serde_json::from_str(&options.to_string()).ok();
        let budget = Budget::default();
        let (mut batch, mut interner) = (ClusterBatch::new("", &options), Interner::new(&budget));
        for index in 0..2000 {
            let cluster = cluster(&format!("c{index}"), &json!({ "env": "prod" }));
            batch.desired(&cluster, &mut interner).unwrap();
        }
        assert!(budget.retained() < 256 << 10, "{}", budget.retained());
    }
}
