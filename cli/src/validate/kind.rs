//! The kinds that are validated. What is different about each is in one table here.

use helmops_api::kind::{GROUP, OWN_GROUP, VERSION};

/// A kind that is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    HelmOp,
    Policy,
    AlertProvider,
    Alert,
    Receiver,
    Schedule,
}

/// What is known about a kind.
struct Facts {
    name: &'static str,
    plural: &'static str,
    group: &'static str,
    /// Whether groups of other projects have a kind of this name.
    is_common: bool,
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::HelmOp,
        Self::Policy,
        Self::AlertProvider,
        Self::Alert,
        Self::Receiver,
        Self::Schedule,
    ];

    const fn facts(self) -> Facts {
        let (name, plural, group, is_common) = match self {
            Self::HelmOp => ("HelmOp", "HelmOps", GROUP, false),
            Self::Policy => ("Policy", "Policies", GROUP, true),
            Self::AlertProvider => ("AlertProvider", "AlertProviders", OWN_GROUP, true),
            Self::Alert => ("Alert", "Alerts", OWN_GROUP, true),
            Self::Receiver => ("Receiver", "Receivers", OWN_GROUP, true),
            Self::Schedule => ("Schedule", "Schedules", GROUP, true),
        };
        Facts {
            name,
            plural,
            group,
            is_common,
        }
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Its API group.
    pub const fn group(self) -> &'static str {
        self.facts().group
    }

    /// Whether groups of other projects have a kind of this name.
    pub const fn is_common(self) -> bool {
        self.facts().is_common
    }

    /// A number of objects, in words.
    pub fn count(self, number: usize) -> String {
        let facts = self.facts();
        let word = if number == 1 { facts.name } else { facts.plural };
        format!("{number} {word}")
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its `apiVersion`.
    pub fn api_version(self) -> String {
        format!("{}/{VERSION}", self.group())
    }

    /// Whether an object of this name may belong to another project: its `apiVersion` does not even resemble the right one.
    pub fn may_be_foreign(self, api_version: &str) -> bool {
        self.facts().is_common && !api_version.contains(GROUP) && api_version != VERSION
    }

    /// The kinds of a group, and whether the group has no others.
    pub fn of_group(group: &str) -> (Vec<Self>, bool) {
        let kinds = Self::ALL.into_iter().filter(|kind| kind.group() == group);
        (kinds.collect(), group == OWN_GROUP)
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::{Alert, AlertProvider, HelmOp, Policy, Receiver, Schedule};
    use kube::Resource;

    use super::*;

    fn identity<K: Resource<DynamicType = ()>>() -> (String, String) {
        (K::api_version(&()).into_owned(), K::kind(&()).into_owned())
    }

    #[test]
    fn names_and_versions_are_those_of_the_types() {
        let types = [
            identity::<HelmOp>(),
            identity::<Policy>(),
            identity::<AlertProvider>(),
            identity::<Alert>(),
            identity::<Receiver>(),
            identity::<Schedule>(),
        ];
        let kinds = Kind::ALL.map(|kind| (kind.api_version(), kind.as_str().to_owned()));
        assert_eq!(kinds, types);
    }
}
