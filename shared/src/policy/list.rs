//! What the Policies of a namespace allow for a field, put together.

use std::fmt::Write as _;

use crate::{chart::url, text::cut};

/// Longest list of allowed values that a message repeats, in bytes: a condition must stay readable, and an answer of the
/// webhook small.
const MAX_SET: usize = 300;

/// Longest list of Policies that a message names, in bytes.
const MAX_PLACE: usize = 200;

/// A value, and the Policy that it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub text: String,
    pub policy: String,
}

/// A list of values: that of one field in each Policy, one behind the other. An empty one allows everything.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Path of the field in a Policy.
    pub field: &'static str,
    pub entries: Vec<Entry>,
}

impl List {
    pub const fn new(field: &'static str) -> Self {
        let entries = Vec::new();
        Self { field, entries }
    }

    pub fn extend(&mut self, texts: &[String], policy: &str) {
        self.entries.extend(texts.iter().map(|text| Entry {
            text: text.clone(),
            policy: policy.to_owned(),
        }));
    }

    /// The values as Go prints a list, cut off where it is long.
    pub fn set(&self) -> String {
        let mut set = String::from("[");
        for (index, entry) in self.entries.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            let text = shown(&entry.text);
            if set.len() + text.len() > MAX_SET {
                // Writing to a string cannot fail.
                let _ = write!(set, "{blank}… and {} more", self.entries.len() - index);
                break;
            }
            set.extend([blank, &text]);
        }
        set.push(']');
        set
    }

    /// Where the values stand: the field, and the Policies that have it.
    pub fn place(&self) -> String {
        let mut names: Vec<String> = self
            .entries
            .iter()
            .map(|entry| format!("{:?}", entry.policy))
            .collect();
        // They come Policy by Policy.
        names.dedup();
        let names = cut(names.join(" or "), MAX_PLACE);
        format!("{} of Policy {names}", self.field)
    }
}

/// An entry for people who are not to see its credentials.
fn shown(text: &str) -> String {
    if text.contains('@') {
        url::redacted(text)
    } else {
        text.to_owned()
    }
}
