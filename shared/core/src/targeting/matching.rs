//! Which targets match a cluster, and the resulting options.

use helm_index::is_complete_version;
use helmops_api::{BundleDeploymentOptions, BundleSpec, BundleTarget};
use helmops_model::selector::InvalidSelector;
use ring::digest::{Context, SHA256};
use thiserror::Error;

use super::{
    criteria::{Criteria, Member},
    index::Index,
    merge::{combine, merge},
};

/// Targets, indexed by their criteria.
#[derive(Debug)]
struct TargetIndex<'a> {
    targets: &'a [BundleTarget],
    /// Index of the first one in `spec.targets`.
    first: usize,
    index: Index<'a>,
}

impl<'a> TargetIndex<'a> {
    fn matching(&self, member: &Member<'_>) -> impl Iterator<Item = IndexedTarget<'a>> {
        let (targets, first) = (self.targets, self.first);
        self.index
            .matching(member)
            .filter_map(move |index| Some((first + index, targets.get(index)?)))
    }
}

/// A target and its index in `spec.targets`.
type IndexedTarget<'a> = (usize, &'a BundleTarget);

/// Identifies the targets that apply to a cluster. Clusters with the same targets get the same options. It is a digest,
/// because thousands of targets may apply to each of thousands of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatchedTargets([u8; 32]);

/// A target of the Bundle of a HelmOp has a range in place of a version, as Fleet's own controller writes it: each agent would resolve
/// it by itself.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "chart version of target {name:?} cannot be deployed; check HelmOp status for more details, or set an exact version in this target: \
     spec.targets[{index}].helm.version: Invalid value: {version:?}: expected one exact version, such as 1.2.3"
)]
pub struct InexactVersion {
    /// The name of the target.
    pub name: String,
    /// Its index in `spec.targets`.
    pub index: usize,
    /// Its version.
    pub version: String,
}

/// Matches clusters against the targets of a Bundle.
///
/// A Bundle from a GitRepo has restrictions and two kinds of targets: the first ones are customizations, the others are those of
/// the GitRepo, in the same number as the restrictions. A Bundle without restrictions has only targets of the second kind.
#[derive(Debug)]
pub struct Matcher<'a> {
    spec: &'a BundleSpec,
    customizations: TargetIndex<'a>,
    targets: TargetIndex<'a>,
    restrictions: Index<'a>,
}

impl<'a> Matcher<'a> {
    /// Reads the targets of a Bundle.
    ///
    /// # Errors
    /// If one of their selectors is invalid. Without that target, the next one would match its clusters.
    pub fn new(spec: &'a BundleSpec) -> Result<Self, InvalidSelector> {
        let restrictions = spec.target_restrictions.iter().enumerate();
        let restrictions: Index<'_> = restrictions
            .map(|(index, one)| Criteria::new(&format!("spec.targetRestrictions[{index}]"), &one.criteria))
            .collect::<Result<_, _>>()?;
        let customization_count = match spec.target_restrictions.len() {
            0 => 0,
            count => spec.targets.len().saturating_sub(count),
        };
        let (customizations, targets) = spec.targets.split_at(customization_count);
        Ok(Self {
            spec,
            customizations: indexed(customizations, 0)?,
            targets: indexed(targets, customization_count)?,
            restrictions,
        })
    }

    /// Identifies the targets that apply to a cluster; `None` if the Bundle is not deployed there.
    pub fn matched_targets(&self, member: &Member<'_>) -> Option<MatchedTargets> {
        let mut digest = Context::new(&SHA256);
        for (index, _) in self.applicable(member)? {
            digest.update(&index.to_le_bytes());
        }
        digest.finish().as_ref().try_into().ok().map(MatchedTargets)
    }

    /// The options for a cluster; `None` if the Bundle is not deployed there.
    pub fn options(&self, member: &Member<'_>) -> Option<BundleDeploymentOptions> {
        let applicable = self.applicable(member)?;
        let ((_, first), others) = applicable.split_first()?;
        let base = &self.spec.options;
        if others.is_empty() {
            return Some(merge(base, &first.options));
        }
        let own = others.iter().fold((*first.options).clone(), |own, (_, other)| {
            combine(&own, &other.options)
        });
        Some(merge(base, &own))
    }

    /// Why the options of a cluster have no exact version, if that is because of one of its targets. That of the Bundle itself concerns
    /// all clusters.
    pub fn inexact_version(&self, member: &Member<'_>) -> Option<InexactVersion> {
        self.spec.helm_op_options.as_ref()?;
        // Of several versions, the merged options have the last one.
        let (index, target, version) =
            self.applicable(member)?
                .into_iter()
                .rev()
                .find_map(|(index, target)| {
                    let version = &*target.options.helm.as_ref()?.version;
                    (!version.is_empty()).then_some((index, target, version))
                })?;
        (!is_complete_version(version)).then(|| InexactVersion {
            name: target.name.clone(),
            index,
            version: version.to_owned(),
        })
    }

    /// The targets whose options a cluster gets; later ones override earlier ones.
    fn applicable(&self, member: &Member<'_>) -> Option<Vec<IndexedTarget<'a>>> {
        let target = self.target(member)?;
        let mut customizations = self.customizations.matching(member);
        let applicable: Vec<_> = if self.spec.target_customization_mode == "AllMatches" {
            std::iter::once(target).chain(customizations).collect()
        } else {
            // The first customization replaces the target.
            vec![customizations.next().unwrap_or(target)]
        };
        applicable
            .iter()
            .all(|(_, target)| !target.do_not_deploy)
            .then_some(applicable)
    }

    /// The first target that matches a cluster, unless it has `doNotDeploy`.
    fn target(&self, member: &Member<'_>) -> Option<IndexedTarget<'a>> {
        let target = if self.restrictions.is_empty() {
            self.targets.matching(member).next()
        } else {
            // Target and restriction must match the same group. The groups are computed once, not for each target.
            let restricted = self.restrictions.restrict(member);
            self.targets.matching(&restricted).next()
        };
        target.filter(|(_, target)| !target.do_not_deploy)
    }
}

/// Reads the criteria of targets, the first of which has the index `first` in `spec.targets`.
fn indexed(targets: &[BundleTarget], first: usize) -> Result<TargetIndex<'_>, InvalidSelector> {
    let index = targets
        .iter()
        .enumerate()
        .map(|(index, target)| Criteria::new(&format!("spec.targets[{}]", first + index), &target.criteria))
        .collect::<Result<_, _>>()?;
    Ok(TargetIndex {
        targets,
        first,
        index,
    })
}

#[cfg(test)]
mod tests;
