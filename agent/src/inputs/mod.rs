//! What a deployment needs besides the chart: values, the account, the namespace, objects that have to be ready, and copies of Secrets and
//! ConfigMaps.

mod accounts;
mod awaited;
mod copies;
mod namespace;
mod sources;
mod values;
mod watched;

use helmops_runtime::writes::FieldManager;

pub use self::{
    accounts::Accounts,
    awaited::{check_objects, forget_objects},
    copies::{
        Copies, CopyChanges, CopyId, ExistingCopy, agent_copies, delete_copies, has_copies, keep_copies,
        prune_copies, wanted_copies,
    },
    namespace::{
        MetadataError, apply_metadata, check_selector, create_namespace, delete_namespace, restore_metadata,
    },
    sources::{ObservedValues, ValuesSources, sources_of},
    values::{MergedValues, merged, values},
    watched::WatchedObjects,
};

#[cfg(test)]
pub use self::values::Values;

/// The field manager of the labels and annotations of namespaces, and of copies. It is not that of releases: a chart may contain its
/// namespace.
const MANAGER: FieldManager = FieldManager("helmops-agent");
