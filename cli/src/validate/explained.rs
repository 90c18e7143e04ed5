//! What each reason means: those of helmops, and those of `validate` alone.

use helmops_model::reason::Reason;

use super::rule;

/// What a reason means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The reason.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do; empty if there is nothing.
    pub remedy: &'static str,
}

/// All reasons: those of helmops, and those that only `validate` prints.
pub fn explained() -> impl Iterator<Item = Explained> {
    let reasons = Reason::ALL.iter().map(|reason| Explained {
        name: reason.as_str(),
        meaning: reason.meaning(),
        remedy: reason.remedy(),
    });
    let rules = rule::ALL.iter().map(|rule| Explained {
        name: rule.name,
        meaning: rule.meaning,
        remedy: rule.remedy,
    });
    reasons.chain(rules)
}
