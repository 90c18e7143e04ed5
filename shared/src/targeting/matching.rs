//! Which target a cluster belongs to, and with which options.

use super::{
    criteria::{Criteria, Member},
    index::Index,
    merge::{combine, merge},
    selector::InvalidSelector,
};
use crate::api::{BundleDeploymentOptions, BundleSpec, BundleTarget};

/// Targets, found by their criteria.
#[derive(Debug)]
struct Indexed<'a> {
    targets: &'a [BundleTarget],
    index: Index<'a>,
}

impl<'a> Indexed<'a> {
    fn matching(&self, member: &Member<'_>) -> impl Iterator<Item = &'a BundleTarget> {
        let targets = self.targets;
        self.index
            .matching(member)
            .filter_map(move |place| targets.get(place))
    }
}

/// The targets of a Bundle, ready to be asked about clusters.
///
/// A Bundle from a GitRepo has two kinds of targets, and restrictions: its first targets customise, the others are those
/// of the GitRepo, and there are as many restrictions as of these. A Bundle without restrictions has targets of the
/// second kind alone.
#[derive(Debug)]
pub struct Matcher<'a> {
    spec: &'a BundleSpec,
    customizations: Indexed<'a>,
    targets: Indexed<'a>,
    restrictions: Index<'a>,
}

impl<'a> Matcher<'a> {
    /// Reads the targets of a Bundle.
    ///
    /// # Errors
    /// Where one of their selectors is not one. Leaving that target out would give its clusters to the next one.
    pub fn new(spec: &'a BundleSpec) -> Result<Self, InvalidSelector> {
        let restrictions = spec.target_restrictions.iter().enumerate();
        let restrictions: Index<'_> = restrictions
            .map(|(index, one)| Criteria::new(&format!("spec.targetRestrictions[{index}]"), &one.criteria))
            .collect::<Result<_, _>>()?;
        let customizing = match spec.target_restrictions.len() {
            0 => 0,
            count => spec.targets.len().saturating_sub(count),
        };
        let (customizations, targets) = spec.targets.split_at(customizing);
        Ok(Self {
            spec,
            customizations: indexed(customizations, 0)?,
            targets: indexed(targets, customizing)?,
            restrictions,
        })
    }

    /// The options for a cluster, or nothing if the Bundle does not go there.
    pub fn options(&self, member: &Member<'_>) -> Option<BundleDeploymentOptions> {
        let target = self.target(member)?;
        let mut customizations = self.customizations.matching(member);
        let base = &self.spec.options;
        if self.spec.target_customization_mode != "AllMatches" {
            // The first one stands in for the target.
            return match customizations.next() {
                Some(customization) if customization.do_not_deploy => None,
                Some(customization) => Some(merge(base, &customization.options)),
                None => Some(merge(base, &target.options)),
            };
        }
        let mut own = (*target.options).clone();
        for customization in customizations {
            if customization.do_not_deploy {
                return None;
            }
            own = combine(&own, &customization.options);
        }
        Some(merge(base, &own))
    }

    /// The first target that a cluster belongs to, unless it says that nothing goes there.
    fn target(&self, member: &Member<'_>) -> Option<&'a BundleTarget> {
        let target = if self.restrictions.is_empty() {
            self.targets.matching(member).next()
        } else {
            // Together with the same group as one of the restrictions. It is found out once, not for each target.
            let restricted = self.restrictions.restrict(member);
            self.targets.matching(&restricted).next()
        };
        target.filter(|target| !target.do_not_deploy)
    }
}

/// Reads the criteria of targets, the first of which is the one at `first` of the Bundle.
fn indexed(targets: &[BundleTarget], first: usize) -> Result<Indexed<'_>, InvalidSelector> {
    let index = targets
        .iter()
        .enumerate()
        .map(|(index, target)| Criteria::new(&format!("spec.targets[{}]", first + index), &target.criteria))
        .collect::<Result<_, _>>()?;
    Ok(Indexed { targets, index })
}

#[cfg(test)]
mod tests;
