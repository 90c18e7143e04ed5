//! The clusters of a Bundle that the same targets decide on, and so with the same options: what does not depend on the cluster
//! is done once for all of them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    identity::deployment_id,
    kept::Interner,
    target::DesiredTarget,
    template::Exceeded,
    values::{Fault, Source, VALUES, ValuesError, labels_of},
};
use crate::api::{BundleDeploymentOptions, Cluster, free_form::FreeForm};

/// Gives the options, with the values as the Bundle has them.
type Options<'g> = &'g dyn Fn() -> Option<BundleDeploymentOptions>;

/// One group of clusters.
pub struct Group<'g> {
    contents: &'g str,
    options: Options<'g>,
    source: Option<Result<Source, ValuesError>>,
    /// What clusters without labels get, and those with labels, where it is the same for all of them.
    same: BTreeMap<bool, DesiredTarget>,
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl<'g> Group<'g> {
    /// One that nothing is done for yet. `contents` identifies the content.
    pub fn new(contents: &'g str, options: Options<'g>) -> Self {
        Self {
            contents,
            options,
            source: None,
            same: BTreeMap::new(),
        }
    }

    /// What a cluster of the group is to get.
    ///
    /// # Errors
    /// Where its values cannot be made, or the budget of the Bundle is exceeded.
    pub fn wanted(
        &mut self,
        cluster: &Cluster,
        kept: &mut Interner<'_>,
    ) -> Result<DesiredTarget, ValuesError> {
        let budget = kept.budget();
        let not_made = |exceeded| ValuesError::new(VALUES, Fault::NotMade(exceeded));
        budget.next_cluster().map_err(not_made)?;
        let labels = labels_of(cluster);
        if let Some(same) = self.same.get(&labels.is_empty()) {
            return Ok(same.clone());
        }
        // Not before: it may take a while, and the budget may be exceeded.
        let source = self.source.get_or_insert_with(|| source(self.options, kept));
        let source = source.as_ref().map_err(Clone::clone)?;
        let values = source.values(cluster, &labels, budget)?;
        let options = if labels.is_empty() {
            Arc::clone(source.options())
        } else {
            with_helm(source.options(), kept)?
        };
        let text = values.as_ref().map_or("", FreeForm::as_str);
        let wanted = DesiredTarget {
            values: kept.values(text).map_err(exceeded(VALUES))?,
            id: deployment_id(self.contents, &options, values),
            options,
        };
        if source.is_same(&labels) {
            self.same.insert(labels.is_empty(), wanted.clone());
        }
        Ok(wanted)
    }
}

fn source(options: Options<'_>, kept: &mut Interner<'_>) -> Result<Source, ValuesError> {
    let mut options = options().unwrap_or_default();
    let values = options.helm.as_mut().and_then(|helm| helm.values.take());
    let options = kept.options(options).map_err(exceeded("targets"))?;
    Source::new(options, values)
}

/// As Fleet has it, a cluster with labels gets `helm` also where there is nothing in it.
fn with_helm(
    options: &Arc<BundleDeploymentOptions>,
    kept: &mut Interner<'_>,
) -> Result<Arc<BundleDeploymentOptions>, ValuesError> {
    if options.helm.is_some() {
        return Ok(Arc::clone(options));
    }
    let mut options = BundleDeploymentOptions::clone(options);
    options.helm.get_or_insert_default();
    kept.options(options).map_err(exceeded("targets"))
}

fn exceeded(path: &'static str) -> impl Fn(Exceeded) -> ValuesError {
    move |exceeded| ValuesError::new(path, Fault::Exceeded(exceeded))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::targeting::template::Budget;

    fn cluster(name: &str, labels: &Value) -> Cluster {
        let object = json!({ "metadata": { "name": name, "namespace": "fleet", "labels": labels } });
        serde_json::from_str(&object.to_string()).unwrap()
    }

    /// What clusters get: two with labels, two without.
    fn wanted(options: &Value, budget: &Budget) -> [DesiredTarget; 4] {
        let options = || serde_json::from_str(&options.to_string()).ok();
        let (mut group, mut kept) = (Group::new("", &options), Interner::new(budget));
        let labels = json!({ "env": "prod" });
        let clusters = [
            ("a", &labels),
            ("b", &labels),
            ("c", &json!({})),
            ("d", &json!({})),
        ];
        clusters.map(|(name, labels)| group.wanted(&cluster(name, labels), &mut kept).unwrap())
    }

    #[test]
    fn what_is_the_same_for_all_clusters_is_made_once() {
        for options in [
            json!({ "helm": { "values": { "a": 1 } } }),
            json!({ "helm": { "values": { "a": 1 }, "templateValues": { "b": "c: 1" } } }),
            json!({ "helm": { "values": { "a": "${ .ClusterName }" }, "disablePreProcess": true } }),
            json!({ "namespace": "n" }),
        ] {
            let [one, other, plain, again] = wanted(&options, &Budget::without_clock());
            for (one, other) in [(&one, &other), (&plain, &again)] {
                assert_eq!(one, other, "{options}");
                assert!(Arc::ptr_eq(&one.options, &other.options), "{options}");
                assert!(Arc::ptr_eq(&one.values, &other.values), "{options}");
            }
        }
    }

    #[test]
    fn what_differs_is_made_for_each_cluster() {
        for values in [
            json!({ "values": { "a": "${ .ClusterName }" } }),
            json!({ "values": {}, "templateValues": { "a": "${ .ClusterName }" } }),
        ] {
            let [one, other, plain, _] = wanted(&json!({ "helm": values }), &Budget::without_clock());
            assert_eq!((&*one.values, &*other.values), (r#"{"a":"a"}"#, r#"{"a":"b"}"#));
            assert_ne!(one.id, other.id);
            assert_ne!(one.id, plain.id);
            assert!(Arc::ptr_eq(&one.options, &plain.options));
        }
        let options = json!({ "helm": { "values": { "a": "global.fleet.clusterLabels.env" } } });
        let [labelled, _, plain, _] = wanted(&options, &Budget::without_clock());
        assert_eq!(&*labelled.values, r#"{"a":"prod"}"#);
        assert_eq!(&*plain.values, r#"{"a":"global.fleet.clusterLabels.env"}"#);
    }

    #[test]
    fn a_cluster_with_labels_has_values_and_helm_in_any_case() {
        let [labelled, _, plain, _] = wanted(&json!({}), &Budget::without_clock());
        let json = |wanted: &DesiredTarget| serde_json::to_value(&*wanted.options).unwrap();
        assert_eq!(
            (json(&labelled), json(&plain)),
            (json!({ "helm": {} }), json!({}))
        );
        assert_eq!((&*labelled.values, &*plain.values), ("", ""));
        let [labelled, _, plain, _] = wanted(&json!({ "helm": {} }), &Budget::without_clock());
        assert_eq!((&*labelled.values, &*plain.values), ("{}", ""));
    }

    /// 128 KiB of values for each of 2,000 clusters.
    #[test]
    fn plain_values_count_once_however_many_clusters_there_are() {
        let options = json!({ "helm": { "values": { "a": "x".repeat(128 << 10) } } });
        let options = || serde_json::from_str(&options.to_string()).ok();
        let budget = Budget::without_clock();
        let (mut group, mut kept) = (Group::new("", &options), Interner::new(&budget));
        for index in 0..2000 {
            let cluster = cluster(&format!("c{index}"), &json!({ "env": "prod" }));
            group.wanted(&cluster, &mut kept).unwrap();
        }
        assert!(budget.kept() < 256 << 10, "{}", budget.kept());
    }
}
