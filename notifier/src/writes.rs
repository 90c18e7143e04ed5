//! The parameters of all writes: the field manager.

use helmops_runtime::writes::FieldManager;

/// The name of the field manager.
pub const FIELD_MANAGER: &str = "helmops-notifier";
/// The field manager of all writes.
pub const MANAGER: FieldManager = FieldManager(FIELD_MANAGER);
