//! Server-side apply of objects of any kind.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};

/// The field manager of everything that this program writes.
pub const FIELD_MANAGER: &str = helmops_join::agent_objects::JOIN_MANAGER;

/// What a write has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The object did not exist.
    Created,
    /// The object existed, with other content.
    Changed,
    /// The object was the same before.
    Unchanged,
}

impl Written {
    /// As kubectl calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// The requests for an object's kind, in its namespace if it has one.
pub fn api_of(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let types = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&types).unwrap_or_else(|_| GroupVersionKind::gvk("", "", ""));
    let resource = ApiResource::from_gvk(&kind);
    match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Applies an object, and returns what that has changed, with the object.
///
/// # Errors
/// If the API server rejects it. Without `force`, also if another field manager owns a field with another value.
pub async fn apply(
    client: &Client,
    object: &DynamicObject,
    force: bool,
) -> Result<(Written, DynamicObject), kube::Error> {
    let api = api_of(client, object);
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let before = api.get_metadata_opt(name).await?;
    let mut params = PatchParams::apply(FIELD_MANAGER);
    params.force = force;
    let applied = api.patch(name, &params, &Patch::Apply(object)).await?;
    let written = match before {
        None => Written::Created,
        Some(before) if before.metadata.resource_version == applied.metadata.resource_version => {
            Written::Unchanged
        }
        Some(_) => Written::Changed,
    };
    Ok((written, applied))
}
