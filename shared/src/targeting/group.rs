//! The clusters of a Bundle that the same targets decide on, and so with the same options: what does not depend on the cluster
//! is done once for all of them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    identity::deployment_id,
    kept::Kept,
    target::Wanted,
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
    same: BTreeMap<bool, Wanted>,
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
    pub fn wanted(&mut self, cluster: &Cluster, kept: &mut Kept<'_>) -> Result<Wanted, ValuesError> {
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
        let wanted = Wanted {
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

fn source(options: Options<'_>, kept: &mut Kept<'_>) -> Result<Source, ValuesError> {
    let mut options = options().unwrap_or_default();
    let values = options.helm.as_mut().and_then(|helm| helm.values.take());
    let options = kept.options(options).map_err(exceeded("targets"))?;
    Source::new(options, values)
}

/// As Fleet has it, a cluster with labels gets `helm` also where there is nothing in it.
fn with_helm(
    options: &Arc<BundleDeploymentOptions>,
    kept: &mut Kept<'_>,
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
