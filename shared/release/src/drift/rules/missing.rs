//! Objects that may be missing.

use go_formats::regexp::compile;
use helmops_api::diff::ComparePatch;
use regex::Regex;

use super::{IGNORE, Report};
use crate::object::ObjectId;

/// Maximum size of a compiled expression, in bytes.
const MAX_COMPILED: usize = 256 * 1024;

/// Objects that may be missing without being drift, by the operation `ignore`. Changes of them, if they exist, are drift.
#[derive(Clone, Debug)]
pub struct MissingRule {
    api_version: String,
    kind: String,
    namespace: String,
    name: Name,
}

#[derive(Clone, Debug)]
enum Name {
    Any,
    /// The text itself, or a regular expression that matches anywhere in the name. The text alone if it is no expression.
    Like(String, Option<Regex>),
}

impl MissingRule {
    /// The rule of an entry; `None` if it has none.
    pub(super) fn new(patch: &ComparePatch, report: &mut Report<'_>) -> Option<Self> {
        patch.operations.iter().find(|operation| operation.op == IGNORE)?;
        let name = match &*patch.name {
            "" => Name::Any,
            name => {
                let pattern = compile(name, MAX_COMPILED).map_err(|cause| {
                    report.add(
                        "name",
                        name,
                        format!("is no regular expression, so it ignores only that name: {cause}"),
                    );
                });
                Name::Like(name.to_owned(), pattern.ok())
            }
        };
        Some(Self {
            api_version: patch.api_version.clone(),
            kind: patch.kind.clone(),
            namespace: patch.namespace.clone(),
            name,
        })
    }

    /// Whether the rule is for an object.
    pub fn matches(&self, id: &ObjectId) -> bool {
        let is_named = match &self.name {
            Name::Any => true,
            Name::Like(text, pattern) => {
                *text == id.name || pattern.as_ref().is_some_and(|pattern| pattern.is_match(&id.name))
            }
        };
        is_named
            && self.api_version == id.api_version
            && self.kind == id.kind
            && self.namespace == id.namespace
    }
}
