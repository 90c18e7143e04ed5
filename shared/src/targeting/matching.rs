//! Which target a cluster belongs to, and with which options.

use ring::digest::{Context, SHA256};

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
    /// The place of the first one in the Bundle.
    first: usize,
    index: Index<'a>,
}

impl<'a> Indexed<'a> {
    fn matching(&self, member: &Member<'_>) -> impl Iterator<Item = Placed<'a>> {
        let (targets, first) = (self.targets, self.first);
        self.index
            .matching(member)
            .filter_map(move |place| Some((first + place, targets.get(place)?)))
    }
}

/// A target and its place in the Bundle.
type Placed<'a> = (usize, &'a BundleTarget);

/// Which targets decide on the options of a cluster. Clusters with the same choice get the same options. It is a digest:
/// there may be thousands of targets for each of thousands of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice([u8; 32]);

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

    /// Which targets decide on a cluster, or nothing if the Bundle does not go there.
    pub fn choice(&self, member: &Member<'_>) -> Option<Choice> {
        let mut digest = Context::new(&SHA256);
        for (place, _) in self.deciding(member)? {
            digest.update(&place.to_le_bytes());
        }
        digest.finish().as_ref().try_into().ok().map(Choice)
    }

    /// The options for a cluster, or nothing if the Bundle does not go there.
    pub fn options(&self, member: &Member<'_>) -> Option<BundleDeploymentOptions> {
        let deciding = self.deciding(member)?;
        let ((_, first), others) = deciding.split_first()?;
        let base = &self.spec.options;
        if others.is_empty() {
            return Some(merge(base, &first.options));
        }
        let own = others.iter().fold((*first.options).clone(), |own, (_, other)| {
            combine(&own, &other.options)
        });
        Some(merge(base, &own))
    }

    /// The targets whose options a cluster gets, later ones over earlier ones.
    fn deciding(&self, member: &Member<'_>) -> Option<Vec<Placed<'a>>> {
        let target = self.target(member)?;
        let mut customizations = self.customizations.matching(member);
        let deciding: Vec<_> = if self.spec.target_customization_mode == "AllMatches" {
            std::iter::once(target).chain(customizations).collect()
        } else {
            // The first one stands in for the target.
            vec![customizations.next().unwrap_or(target)]
        };
        deciding
            .iter()
            .all(|(_, target)| !target.do_not_deploy)
            .then_some(deciding)
    }

    /// The first target that a cluster belongs to, unless it says that nothing goes there.
    fn target(&self, member: &Member<'_>) -> Option<Placed<'a>> {
        let target = if self.restrictions.is_empty() {
            self.targets.matching(member).next()
        } else {
            // Together with the same group as one of the restrictions. It is found out once, not for each target.
            let restricted = self.restrictions.restrict(member);
            self.targets.matching(&restricted).next()
        };
        target.filter(|(_, target)| !target.do_not_deploy)
    }
}

/// Reads the criteria of targets, the first of which is the one at `first` of the Bundle.
fn indexed(targets: &[BundleTarget], first: usize) -> Result<Indexed<'_>, InvalidSelector> {
    let index = targets
        .iter()
        .enumerate()
        .map(|(index, target)| Criteria::new(&format!("spec.targets[{}]", first + index), &target.criteria))
        .collect::<Result<_, _>>()?;
    Ok(Indexed {
        targets,
        first,
        index,
    })
}

#[cfg(test)]
mod tests;
