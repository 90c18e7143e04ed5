//! ServiceAccounts, Roles, RoleBindings and ClusterRoleBindings, as far as they decide who may do what.

use std::{fmt, marker::PhantomData};

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube_core::Resource;
use serde::Deserialize;

use super::{metadata::Metadata, same_resource::same_resource_as};

/// A ServiceAccount, Role, RoleBinding or ClusterRoleBinding (`K`), with metadata without `managedFields`: with the types of `k8s_openapi`, one object
/// with deeply nested `managedFields` would keep a list from decoding.
#[derive(Deserialize)]
#[serde(bound = "", rename_all = "camelCase")]
pub struct PermissionObject<K> {
    /// The metadata.
    #[serde(default)]
    pub metadata: Metadata,
    /// Of a ServiceAccount: whether pods get a token of it.
    #[serde(default)]
    pub automount_service_account_token: Option<bool>,
    /// Of a Role: what it allows.
    #[serde(default)]
    pub rules: Option<Vec<PolicyRule>>,
    /// Of a binding: the role.
    #[serde(default)]
    pub role_ref: Option<RoleRef>,
    /// Of a binding: who gets the role.
    #[serde(default)]
    pub subjects: Option<Vec<Subject>>,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K> Clone for PermissionObject<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            automount_service_account_token: self.automount_service_account_token,
            rules: self.rules.clone(),
            role_ref: self.role_ref.clone(),
            subjects: self.subjects.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for PermissionObject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PermissionObject")
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}

impl<K: Resource> Resource for PermissionObject<K> {
    same_resource_as!(K);

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::Role;
    use kube_core::ObjectList;

    use super::*;

    #[test]
    fn a_list_with_deeply_nested_managed_fields_decodes() {
        let deep = format!("{}{}", r#"{"f:a":"#.repeat(1000), "{}") + &"}".repeat(1000);
        let rule = r#"{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}"#;
        let object = format!(
            r#"{{"metadata":{{"name":"a","managedFields":[{{"manager":"b","fieldsV1":{deep}}}]}},"rules":[{rule}]}}"#
        );
        let text = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{object}]}}"#);
        let list: ObjectList<PermissionObject<Role>> = serde_json::from_str(&text).unwrap();
        let rules = list.items[0].rules.as_ref().unwrap();
        assert_eq!(rules[0].verbs, ["get"]);
    }
}
