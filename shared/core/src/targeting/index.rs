//! Which of many criteria a cluster matches, without testing all of them.
//!
//! Criteria that name a cluster or a group are found by that name: if each cluster has its own target, the time for all
//! clusters is linear in their number, not quadratic.

use std::collections::HashMap;

use super::criteria::{Criteria, Member};

/// Criteria in their order.
#[derive(Debug, Default)]
pub struct Index<'a> {
    all: Vec<Criteria<'a>>,
    by_cluster: HashMap<&'a str, Vec<usize>>,
    by_group: HashMap<&'a str, Vec<usize>>,
    /// Criteria that name neither.
    others: Vec<usize>,
}

impl<'a> FromIterator<Criteria<'a>> for Index<'a> {
    fn from_iter<I: IntoIterator<Item = Criteria<'a>>>(criteria: I) -> Self {
        let mut index = Self::default();
        for (position, criteria) in criteria.into_iter().enumerate() {
            let positions = match (criteria.cluster_name(), criteria.cluster_group()) {
                ("", "") => &mut index.others,
                ("", group) => index.by_group.entry(group).or_default(),
                (cluster, _) => index.by_cluster.entry(cluster).or_default(),
            };
            positions.push(position);
            index.all.push(criteria);
        }
        index
    }
}

impl Index<'_> {
    /// Whether there are no criteria.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Positions of the criteria that match a cluster together with one of its groups, in order.
    pub fn matching(&self, member: &Member<'_>) -> impl Iterator<Item = usize> {
        let candidates = self.candidates(member);
        candidates.into_iter().filter_map(move |position| {
            let criteria = self.all.get(position)?;
            member
                .any(|cluster, group| criteria.matches(cluster, group))
                .then_some(position)
        })
    }

    /// The cluster with only those of its groups together with which it matches one of the criteria.
    pub fn restrict<'m>(&self, member: &Member<'m>) -> Member<'m> {
        let candidates = self.candidates(member);
        member.within(|cluster, group| {
            let mut candidates = candidates.iter().filter_map(|position| self.all.get(*position));
            candidates.any(|criteria| criteria.matches(cluster, group))
        })
    }

    /// Positions of all criteria that a cluster may match, in order.
    fn candidates(&self, member: &Member<'_>) -> Vec<usize> {
        let clusters = member.names().filter_map(|name| self.by_cluster.get(name));
        let groups = member.group_names().filter_map(|name| self.by_group.get(name));
        let mut positions: Vec<usize> = clusters
            .chain(groups)
            .flatten()
            .chain(&self.others)
            .copied()
            .collect();
        positions.sort_unstable();
        // The display name of a cluster may be its own name.
        positions.dedup();
        positions
    }
}
