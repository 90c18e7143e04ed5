//! The desired state of a HelmOp.

use helmops_bed::random::Rng;
use serde_json::{Value, json};

use super::repository::{CHART, RANGES, Range};

/// The polling interval.
const INTERVAL: &str = "2s";

/// When the version of a HelmOp may change. It is part of the name of the HelmOp, so it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollClass {
    /// Never: the HelmOp is not polled.
    Pinned,
    /// When a token requests a poll.
    OnRequest,
    /// Always, unless polling is disabled.
    Polled,
}

impl PollClass {
    pub fn random(rng: &mut Rng) -> Self {
        match rng.below(10) {
            0..5 => Self::Pinned,
            5..7 => Self::OnRequest,
            _ => Self::Polled,
        }
    }

    pub fn prefix(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::OnRequest => "on-request",
            Self::Polled => "polled",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// A label in its selector.
    pub number: usize,
    /// The range of the target, if it overrides that of the HelmOp.
    pub range: Option<Range>,
}

/// The current desired state.
#[derive(Clone, Debug)]
pub struct DesiredHelmOp {
    pub class: PollClass,
    pub range: Range,
    pub values: usize,
    pub targets: Vec<Target>,
    /// A label of the Bundle.
    pub team: usize,
    /// A label of the HelmOp that no controller uses.
    pub unused_label: usize,
    pub is_polled: bool,
    pub token: Option<usize>,
}

impl PartialEq for Range {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl DesiredHelmOp {
    pub fn new(class: PollClass, rng: &mut Rng) -> Self {
        Self {
            class,
            range: range(rng),
            values: rng.below(1000),
            targets: targets(rng),
            team: rng.below(5),
            unused_label: 0,
            is_polled: class == PollClass::Polled,
            token: None,
        }
    }

    /// Changes one property.
    pub fn change(&mut self, rng: &mut Rng) {
        match rng.below(10) {
            0..3 => self.values = rng.below(1000),
            3..6 => self.range = range(rng),
            6 => self.targets = targets(rng),
            7 => self.team = rng.below(5),
            8 => self.unused_label = rng.below(1000),
            _ => self.is_polled = self.class == PollClass::Polled && !self.is_polled,
        }
    }

    /// The HelmOp, with all fields that can change.
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
                "labels": { "unused": self.unused_label.to_string() },
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

fn range(rng: &mut Rng) -> Range {
    RANGES[rng.below(RANGES.len())]
}

fn targets(rng: &mut Rng) -> Vec<Target> {
    let count = rng.below(3);
    let target = |number| Target {
        number,
        range: (rng.below(3) == 0).then(|| range(rng)),
    };
    (0..count).map(target).collect()
}
