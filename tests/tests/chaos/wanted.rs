//! What a HelmOp has been asked for last.

use helmops_tests::random::Chance;
use serde_json::{Value, json};

use super::repository::{CHART, RANGES, Range};

/// How often those are polled that are.
const INTERVAL: &str = "2s";

/// When the version of a HelmOp may move. It is a part of its name, and so it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Never: nobody looks for a newer one.
    Pinned,
    /// When a token asks for it.
    Asked,
    /// All the time, unless polling is switched off.
    Polled,
}

impl Class {
    pub fn by(chance: &mut Chance) -> Self {
        match chance.below(10) {
            0..5 => Self::Pinned,
            5..7 => Self::Asked,
            _ => Self::Polled,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Asked => "asked",
            Self::Polled => "polled",
        }
    }
}

/// A target and what is special about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// In its selector.
    pub number: usize,
    /// A range of its own.
    pub range: Option<Range>,
}

/// The present wishes.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub class: Class,
    pub range: Range,
    pub values: usize,
    pub targets: Vec<Target>,
    /// A label of the Bundle.
    pub team: usize,
    /// A label of the HelmOp, which concerns nobody.
    pub mood: usize,
    pub is_polled: bool,
    pub token: Option<usize>,
}

impl PartialEq for Range {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Wanted {
    pub fn new(class: Class, chance: &mut Chance) -> Self {
        Self {
            class,
            range: range(chance),
            values: chance.below(1000),
            targets: targets(chance),
            team: chance.below(5),
            mood: 0,
            is_polled: class == Class::Polled,
            token: None,
        }
    }

    /// Changes one thing.
    pub fn change(&mut self, chance: &mut Chance) {
        match chance.below(10) {
            0..3 => self.values = chance.below(1000),
            3..6 => self.range = range(chance),
            6 => self.targets = targets(chance),
            7 => self.team = chance.below(5),
            8 => self.mood = chance.below(1000),
            _ => self.is_polled = self.class == Class::Polled && !self.is_polled,
        }
    }

    /// The HelmOp, or all that can change of it.
    pub fn object(&self, name: &str, repo: &str) -> Value {
        let target = |target: &Target| {
            let mut object = json!({
                "name": format!("t{}", target.number),
                "clusterSelector": { "matchLabels": { "number": target.number.to_string() } },
            });
            if let Some(range) = target.range {
                object["helm"] = json!({ "version": range.text });
            }
            object
        };
        let annotations = match self.token {
            Some(token) => json!({ "helmops.fleet.cattle.io/poll-requested-at": token.to_string() }),
            None => json!({}),
        };
        json!({
            "apiVersion": "fleet.cattle.io/v1alpha1",
            "kind": "HelmOp",
            "metadata": {
                "name": name,
                "labels": { "mood": self.mood.to_string() },
                "annotations": annotations,
            },
            "spec": {
                "helm": {
                    "repo": repo, "chart": CHART, "version": self.range.text, "values": { "a": self.values },
                },
                "labels": { "team": self.team.to_string() },
                "targets": self.targets.iter().map(target).collect::<Vec<_>>(),
                "pollingInterval": if self.is_polled { INTERVAL } else { "0s" },
            },
        })
    }
}

fn range(chance: &mut Chance) -> Range {
    RANGES[chance.below(RANGES.len())]
}

fn targets(chance: &mut Chance) -> Vec<Target> {
    let count = chance.below(3);
    let target = |number| Target {
        number,
        range: (chance.below(3) == 0).then(|| range(chance)),
    };
    (0..count).map(target).collect()
}
