//! The values that the Policies of a namespace allow for a field, merged.

use std::fmt::Write as _;

use bounded_text::cut;
use helmops_model::chart::url;

/// Longest list of allowed values in a message, in bytes: a condition must stay readable, and a response of the webhook
/// small.
const MAX_SET: usize = 300;

/// Longest list of Policies in a message, in bytes.
const MAX_LOCATION: usize = 200;

/// A value, and the Policy that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub text: String,
    pub policy: String,
}

/// The values of one field in all Policies, one Policy after the other. An empty list allows everything.
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

    /// The values as Go prints a list, truncated if it is long.
    pub fn allowed_set(&self) -> String {
        let mut set = String::from("[");
        for (index, entry) in self.entries.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            let text = without_credentials(&entry.text);
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

    /// The field that contains the values, and its Policies.
    pub fn location(&self) -> String {
        let mut names: Vec<String> = self
            .entries
            .iter()
            .map(|entry| format!("{:?}", entry.policy))
            .collect();
        // The entries are grouped by Policy.
        names.dedup();
        let names = cut(names.join(" or "), MAX_LOCATION);
        format!("{} of Policy {names}", self.field)
    }
}

/// An entry without credentials, for messages.
fn without_credentials(text: &str) -> String {
    if text.contains('@') {
        url::redacted(text)
    } else {
        text.to_owned()
    }
}
