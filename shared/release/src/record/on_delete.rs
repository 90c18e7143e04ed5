//! What happens with a release when its BundleDeployment is gone.

use std::{fmt, time::Duration};

/// What happens with a release when its BundleDeployment is gone: the value of the label [`ON_DELETE`](crate::marks::ON_DELETE) of its
/// records. A release without the label is uninstalled, with hooks, and its records are deleted.
///
/// It is a label and no annotation, since Helm passes labels on: from a revision to the next one, and when it changes the status of
/// a record. Annotations it drops.
///
/// ```
/// use std::time::Duration;
/// use helmops_release::record::{OnDelete, OnDeletePolicy};
///
/// let on_delete = OnDelete { keep_history: true, timeout: Some(Duration::from_secs(90)), ..OnDelete::default() };
/// assert_eq!(on_delete.to_string(), "Uninstall.keepHistory.timeout-90000");
/// assert_eq!(OnDelete::parse("Uninstall.keepHistory.timeout-90000"), on_delete);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnDelete {
    /// Whether it is uninstalled.
    pub policy: OnDeletePolicy,
    /// Whether its records stay.
    pub keep_history: bool,
    /// How long each hook may take, as of [`OnDelete::timeout_of`].
    pub timeout: Option<Duration>,
    /// Whether no hooks run.
    pub disable_hooks: bool,
    /// What happens with the dependents of deleted objects.
    pub propagation: Propagation,
}

/// What happens with the dependents of an object that is deleted, such as the Pods of a Deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    #[default]
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    const ALL: [Self; 3] = [Self::Background, Self::Foreground, Self::Orphan];

    /// As in `lifecycle.uninstall.deletionPropagation`, and in Helm.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Foreground => "foreground",
            Self::Orphan => "orphan",
        }
    }

    /// `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// Whether a release is uninstalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDeletePolicy {
    /// The release is uninstalled.
    #[default]
    Uninstall,
    /// It stays as it is, with its records.
    Keep,
    /// Its objects stay, and its records are deleted (`keepResources`).
    Forget,
}

const KEEP: &str = "Keep";
const FORGET: &str = "Forget";
const UNINSTALL: &str = "Uninstall";
const KEEP_HISTORY: &str = "keepHistory";
const DISABLE_HOOKS: &str = "disableHooks";
const TIMEOUT: &str = "timeout-";
/// Milliseconds. The value of a label has at most 63 characters, and Helm does not run that long.
const MAX_TIMEOUT: u64 = 999_999_999;

impl OnDelete {
    /// Reads the value of the label. Parts that are not known are ignored: a newer agent may have written them.
    pub fn parse(text: &str) -> Self {
        let mut read = Self::default();
        for part in text.split('.') {
            match part {
                KEEP => read.policy = OnDeletePolicy::Keep,
                FORGET => read.policy = OnDeletePolicy::Forget,
                KEEP_HISTORY => read.keep_history = true,
                DISABLE_HOOKS => read.disable_hooks = true,
                part => {
                    let timeout = part.strip_prefix(TIMEOUT).and_then(|text| text.parse().ok());
                    read.timeout = timeout.map(Duration::from_millis).or(read.timeout);
                    read.propagation = Propagation::parse(part).unwrap_or(read.propagation);
                }
            }
        }
        read
    }

    /// A timeout as the label can have it: in whole milliseconds, and not too many. Otherwise what is wanted would always differ from the label.
    pub fn timeout_of(timeout: Duration) -> Duration {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(millis.min(MAX_TIMEOUT))
    }

    /// What happens if the BundleDeployment has `keepResources`. Nothing is uninstalled then, so that nothing else counts.
    #[must_use]
    pub fn with_keep_resources(self, keep_resources: bool) -> Self {
        if keep_resources && self.policy == OnDeletePolicy::Uninstall {
            return Self {
                policy: OnDeletePolicy::Forget,
                ..Self::default()
            };
        }
        self
    }

    /// Whether it is what happens without the label.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for OnDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.policy {
            OnDeletePolicy::Uninstall => UNINSTALL,
            OnDeletePolicy::Keep => KEEP,
            OnDeletePolicy::Forget => FORGET,
        })?;
        if self.keep_history {
            write!(f, ".{KEEP_HISTORY}")?;
        }
        if self.disable_hooks {
            write!(f, ".{DISABLE_HOOKS}")?;
        }
        if self.propagation != Propagation::default() {
            write!(f, ".{}", self.propagation.as_str())?;
        }
        match self.timeout {
            Some(timeout) => write!(f, ".{TIMEOUT}{}", timeout.as_millis()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_a_label_and_is_read_again() {
        let timeouts = [
            None,
            Some(Duration::from_millis(1)),
            Some(Duration::from_millis(999_999_999)),
        ];
        let policies = [
            OnDeletePolicy::Uninstall,
            OnDeletePolicy::Keep,
            OnDeletePolicy::Forget,
        ];
        for (policy, bits) in policies
            .into_iter()
            .flat_map(|policy| (0..12_u8).map(move |bits| (policy, bits)))
        {
            for timeout in timeouts {
                let on_delete = OnDelete {
                    policy,
                    keep_history: bits & 1 != 0,
                    timeout,
                    disable_hooks: bits & 2 != 0,
                    propagation: Propagation::ALL[usize::from(bits / 4)],
                };
                let text = on_delete.to_string();
                assert_eq!(OnDelete::parse(&text), on_delete, "{text}");
                assert!(text.len() <= 63, "{text}");
                assert!(
                    text.chars()
                        .all(|one| one.is_ascii_alphanumeric() || ".-".contains(one)),
                    "{text}"
                );
                assert_eq!(on_delete.is_default(), text == UNINSTALL);
            }
        }
    }

    #[test]
    fn a_timeout_is_what_the_label_can_have() {
        for (timeout, expected) in [
            (Duration::MAX, "Uninstall.timeout-999999999"),
            (Duration::from_micros(1_500_700), "Uninstall.timeout-1500"),
        ] {
            let on_delete = OnDelete {
                timeout: Some(OnDelete::timeout_of(timeout)),
                ..OnDelete::default()
            };
            assert_eq!(on_delete.to_string(), expected);
            assert_eq!(OnDelete::parse(expected), on_delete);
        }
    }

    #[test]
    fn kept_resources_are_not_uninstalled() {
        let uninstall = OnDelete {
            keep_history: true,
            timeout: Some(Duration::from_secs(90)),
            ..OnDelete::default()
        };
        assert_eq!(uninstall.with_keep_resources(false), uninstall);
        assert_eq!(uninstall.with_keep_resources(true).to_string(), "Forget");
        let keep = OnDelete::parse("Keep.keepHistory");
        assert_eq!(keep.with_keep_resources(true), keep);
    }

    #[test]
    fn unknown_parts_are_ignored() {
        for (text, expected) in [
            ("", OnDelete::default()),
            ("Pause.v2.timeout-x", OnDelete::default()),
            (
                "Keep.archive-s3",
                OnDelete {
                    policy: OnDeletePolicy::Keep,
                    ..OnDelete::default()
                },
            ),
        ] {
            assert_eq!(OnDelete::parse(text), expected, "{text}");
        }
    }
}
