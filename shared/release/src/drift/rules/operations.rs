//! JSON patch operations before the comparison.

use helmops_api::diff::{ComparePatch, PatchOperation as Wire};
use json_patch::PatchOperation;
use serde_json::{Value, json};

use super::{IGNORE, Report};
use crate::object::ObjectId;

/// Operations for one object.
#[derive(Clone, Debug)]
pub struct OperationRule {
    id: ObjectId,
    operations: Vec<PatchOperation>,
}

impl OperationRule {
    /// The rule of an entry; `None` if it has none.
    pub(super) fn new(patch: &ComparePatch, report: &mut Report<'_>) -> Option<Self> {
        let mut operations = Vec::new();
        for (index, wire) in patch.operations.iter().enumerate() {
            if wire.op == IGNORE {
                continue;
            }
            match operation(wire) {
                Ok(operation) => operations.push(operation),
                Err(Invalid { field, value, reason }) => {
                    report.add(&format!("operations[{index}].{field}"), value, reason);
                }
            }
        }
        let id = ObjectId {
            api_version: patch.api_version.clone(),
            kind: patch.kind.clone(),
            namespace: patch.namespace.clone(),
            name: patch.name.clone(),
        };
        (!operations.is_empty()).then_some(Self { id, operations })
    }

    /// Whether the rule is for an object: all parts of the identity are equal.
    pub fn matches(&self, id: &ObjectId) -> bool {
        self.id == *id
    }

    /// Applies the operations one by one. One that fails, such as the removal of a field that is not there, is skipped. Only a `test`
    /// that fails ends the rest, because that is what it is for.
    pub fn apply(&self, object: &mut Value) {
        for operation in &self.operations {
            let result = json_patch::patch(object, std::slice::from_ref(operation));
            if result.is_err() && matches!(operation, PatchOperation::Test(_)) {
                return;
            }
        }
    }
}

struct Invalid<'w> {
    field: &'static str,
    value: &'w str,
    reason: &'static str,
}

fn operation(wire: &Wire) -> Result<PatchOperation, Invalid<'_>> {
    let Wire { op, path, value, .. } = wire;
    let json = match &**op {
        "remove" => json!({ "op": op, "path": path }),
        "add" | "replace" | "test" => json!({ "op": op, "path": path, "value": value }),
        _ => {
            return Err(Invalid {
                field: "op",
                value: op,
                reason: "is not supported; use remove, add, replace, test or ignore",
            });
        }
    };
    serde_json::from_value(json).map_err(|_| Invalid {
        field: "path",
        value: path,
        reason: "is no JSON pointer; write one as /spec/replicas, with ~1 for a slash in a name",
    })
}
