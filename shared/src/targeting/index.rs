//! Which of many criteria a cluster fulfils, without trying all of them.
//!
//! Criteria that name a cluster or a group are found by that name: where each cluster has a target of its own, the time for
//! all clusters is linear in their number and not quadratic.

use std::collections::HashMap;

use super::criteria::{Criteria, Member};

/// Criteria in their order.
#[derive(Debug, Default)]
pub struct Index<'a> {
    all: Vec<Criteria<'a>>,
    by_cluster: HashMap<&'a str, Vec<usize>>,
    by_group: HashMap<&'a str, Vec<usize>>,
    /// Those that name neither.
    others: Vec<usize>,
}

impl<'a> FromIterator<Criteria<'a>> for Index<'a> {
    fn from_iter<I: IntoIterator<Item = Criteria<'a>>>(criteria: I) -> Self {
        let mut index = Self::default();
        for (place, criteria) in criteria.into_iter().enumerate() {
            let places = match (criteria.cluster_name(), criteria.cluster_group()) {
                ("", "") => &mut index.others,
                ("", group) => index.by_group.entry(group).or_default(),
                (cluster, _) => index.by_cluster.entry(cluster).or_default(),
            };
            places.push(place);
            index.all.push(criteria);
        }
        index
    }
}

impl Index<'_> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The places of the criteria that hold for a cluster together with one of its groups, in their order.
    pub fn matching(&self, member: &Member<'_>) -> impl Iterator<Item = usize> {
        let candidates = self.candidates(member);
        candidates.into_iter().filter_map(move |place| {
            let criteria = self.all.get(place)?;
            member
                .any(|cluster, group| criteria.hold(cluster, group))
                .then_some(place)
        })
    }

    /// The cluster with those of its groups alone together with which it fulfils one of the criteria.
    pub fn restrict<'m>(&self, member: &Member<'m>) -> Member<'m> {
        let candidates = self.candidates(member);
        member.within(|cluster, group| {
            let mut candidates = candidates.iter().filter_map(|place| self.all.get(*place));
            candidates.any(|criteria| criteria.hold(cluster, group))
        })
    }

    /// The places of all criteria that a cluster can fulfil at all, in their order.
    fn candidates(&self, member: &Member<'_>) -> Vec<usize> {
        let clusters = member.names().filter_map(|name| self.by_cluster.get(name));
        let groups = member.group_names().filter_map(|name| self.by_group.get(name));
        let mut places: Vec<usize> = clusters
            .chain(groups)
            .flatten()
            .chain(&self.others)
            .copied()
            .collect();
        places.sort_unstable();
        // A cluster may be shown by its own name.
        places.dedup();
        places
    }
}
