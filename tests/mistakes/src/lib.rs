//! HelmOps, AlertProviders, Alerts and Receivers that admission rejects: one table for the tests of the core, of `kubectl helmop validate`
//! and of the cluster.
//!
//! Each mistake has the errors that are expected: path, reason (its name, because the core's own tests use this table) and words of the
//! message.

#![allow(clippy::indexing_slicing, reason = "fields of JSON that is written here")]

mod charts;
mod lifecycle;
mod limits;
mod notifications;
mod policies;

use serde_json::{Value, json};

pub use self::{
    limits::sized,
    notifications::{NotificationMistake, notifications},
};

/// An error that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The path of the field.
    pub path: String,
    /// The name of the reason.
    pub reason: &'static str,
    /// Words of the message.
    pub words: Vec<String>,
}

/// A HelmOp that admission rejects.
#[derive(Clone, Debug)]
pub struct Mistake {
    /// What it is about.
    pub group: &'static str,
    /// The HelmOp: `metadata` and `spec`.
    pub object: Value,
    /// The Policies of its namespace: `metadata` and their fields.
    pub policies: Vec<Value>,
    /// The errors, in their order.
    pub errors: Vec<Expected>,
    /// Whether there may be other errors too.
    pub has_more: bool,
    /// Whether the controller accepts it.
    pub is_for_admission: bool,
}

impl Mistake {
    /// The HelmOp as users write it, with version and kind.
    pub fn manifest(&self) -> Value {
        typed("HelmOp", &self.object)
    }

    /// The Policies as users write them.
    pub fn policy_manifests(&self) -> impl Iterator<Item = Value> {
        self.policies.iter().map(|policy| typed("Policy", policy))
    }
}

fn typed(kind: &str, object: &Value) -> Value {
    let mut typed = json!({ "apiVersion": "fleet.cattle.io/v1alpha1", "kind": kind });
    json_patch::merge(&mut typed, object);
    typed
}

pub fn all() -> Vec<Mistake> {
    let mut cases = Table::filled().mistakes;
    cases.retain(|mistake| !mistake.errors.is_empty());
    cases
}

/// HelmOps that are close to a mistake, and that Policies allow.
pub fn allowed() -> Vec<Mistake> {
    let mut cases = Table::filled().mistakes;
    cases.retain(|mistake| mistake.errors.is_empty());
    cases
}

pub fn of_group(group: &str) -> Vec<Mistake> {
    let mut mistakes = all();
    mistakes.retain(|mistake| mistake.group == group);
    mistakes
}

/// A valid spec, merged with other fields.
#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
pub fn valid_spec(over: Value) -> Value {
    let mut spec = json!({
        "helm": { "repo": "https://charts.example.com", "chart": "web", "version": "1.2.3" },
        "targets": [{ "clusterSelector": {} }]
    });
    json_patch::merge(&mut spec, &over);
    spec
}

/// A valid spec with other Helm options.
pub fn with_helm(helm: Value) -> Value {
    let mut spec = valid_spec(json!({}));
    spec["helm"] = helm;
    spec
}

/// The mistakes so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    group: &'static str,
    mistakes: Vec<Mistake>,
}

impl Table {
    fn filled() -> Self {
        let mut table = Self::default();
        charts::add(&mut table);
        lifecycle::add(&mut table);
        limits::add(&mut table);
        policies::add(&mut table);
        table
    }

    fn group(&mut self, group: &'static str) {
        self.group = group;
    }

    /// Adds a spec with one error.
    fn spec(&mut self, spec: &Value, path: &str, reason: &'static str, words: &[&str]) -> &mut Mistake {
        let object = json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
        self.object(object, path, reason, words)
    }

    /// Adds a valid spec, merged with other fields, with one error.
    fn over(&mut self, over: Value, path: &str, reason: &'static str, words: &[&str]) {
        self.spec(&valid_spec(over), path, reason, words);
    }

    /// Adds an object with one error.
    fn object(&mut self, object: Value, path: &str, reason: &'static str, words: &[&str]) -> &mut Mistake {
        let error = Expected {
            path: path.to_owned(),
            reason,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        };
        self.add(object, Vec::new(), vec![error])
    }

    fn add(&mut self, object: Value, policies: Vec<Value>, errors: Vec<Expected>) -> &mut Mistake {
        let index = self.mistakes.len();
        self.mistakes.push(Mistake {
            group: self.group,
            object,
            policies,
            errors,
            has_more: false,
            is_for_admission: false,
        });
        &mut self.mistakes[index]
    }
}
