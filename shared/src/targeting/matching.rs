//! Which target a cluster belongs to, and with which options.

use super::{
    criteria::{Criteria, Member},
    merge::{combine, merge},
    selector::InvalidSelector,
};
use crate::api::{BundleDeploymentOptions, BundleSpec, BundleTarget};

/// The targets of a Bundle, ready to be asked about clusters.
///
/// A Bundle from a GitRepo has two kinds of targets, and restrictions: its first targets customise, the others are those
/// of the GitRepo, and there are as many restrictions as of these. A Bundle without restrictions has targets of the
/// second kind alone.
#[derive(Debug)]
pub struct Matcher<'a> {
    spec: &'a BundleSpec,
    customizations: Vec<(&'a BundleTarget, Criteria<'a>)>,
    targets: Vec<(&'a BundleTarget, Criteria<'a>)>,
    restrictions: Vec<Criteria<'a>>,
}

impl<'a> Matcher<'a> {
    /// Reads the targets of a Bundle.
    ///
    /// # Errors
    /// Where one of their selectors is not one. Leaving that target out would give its clusters to the next one.
    pub fn new(spec: &'a BundleSpec) -> Result<Self, InvalidSelector> {
        let mut targets = Vec::with_capacity(spec.targets.len());
        for (index, target) in spec.targets.iter().enumerate() {
            let criteria = Criteria::new(&format!("spec.targets[{index}]"), &target.criteria)?;
            targets.push((target, criteria));
        }
        let restrictions = spec
            .target_restrictions
            .iter()
            .enumerate()
            .map(|(index, one)| Criteria::new(&format!("spec.targetRestrictions[{index}]"), &one.criteria))
            .collect::<Result<Vec<_>, _>>()?;
        let customizing = match restrictions.len() {
            0 => 0,
            count => targets.len().saturating_sub(count),
        };
        let plain = targets.split_off(customizing);
        Ok(Self {
            spec,
            customizations: targets,
            targets: plain,
            restrictions,
        })
    }

    /// The options for a cluster, or nothing if the Bundle does not go there.
    pub fn options(&self, member: &Member<'_>) -> Option<BundleDeploymentOptions> {
        let target = self.target(member)?;
        let mut customizations = self
            .customizations
            .iter()
            .filter(|(_, criteria)| member.any(|cluster, group| criteria.hold(cluster, group)))
            .map(|(target, _)| *target);
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
        let (target, _) = self.targets.iter().find(|(_, criteria)| {
            member.any(|cluster, group| {
                let allowed = self.restrictions.is_empty()
                    || self
                        .restrictions
                        .iter()
                        .any(|restriction| restriction.hold(cluster, group));
                allowed && criteria.hold(cluster, group)
            })
        })?;
        (!target.do_not_deploy).then_some(*target)
    }
}

#[cfg(test)]
mod tests;
