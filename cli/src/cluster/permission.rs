//! What the user may do, according to the API server.

use std::fmt;

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde::Serialize;

/// A permission: a verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Permission {
    /// The verb, such as `create`.
    pub verb: String,
    /// The group of the resource; empty for core resources.
    pub group: String,
    /// The resource, with its subresource if it is for one, such as `serviceaccounts/token`.
    pub resource: String,
    /// The namespace; `None` for cluster-scoped objects, and for all namespaces.
    pub namespace: Option<String>,
    /// The name, if it is for one object.
    pub name: Option<String>,
}

impl Permission {
    /// A permission on cluster-scoped objects, or in all namespaces.
    pub fn new(verb: &str, group: &str, resource: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: None,
            name: None,
        }
    }

    pub fn on_object(verb: &str, object: &DynamicObject) -> Self {
        let types = object.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(&types).unwrap_or_else(|_| GroupVersionKind::gvk("", "", ""));
        let resource = ApiResource::from_gvk(&kind);
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let permission = Self::new(verb, &resource.group, &resource.plural).on(name);
        match &object.metadata.namespace {
            Some(namespace) => permission.within(namespace),
            None => permission,
        }
    }

    /// The same in one namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The same on one object.
    #[must_use]
    pub fn on(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Whether the user has it.
    ///
    /// # Errors
    /// If the API server cannot be reached.
    pub async fn is_granted(&self, client: &Client) -> Result<bool, kube::Error> {
        let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
        let review = reviews.create(&PostParams::default(), &self.review()).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    fn review(&self) -> SelfSubjectAccessReview {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (self.resource.as_str(), None),
        };
        let attributes = ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(resource.to_owned()),
            subresource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        };
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }
}

/// As `kubectl auth can-i` takes it: `create serviceaccounts/token helmops-agent in namespace a`.
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Those of the permissions that the user does not have. All are reviewed at the same time.
///
/// # Errors
/// If the API server cannot be reached.
pub async fn missing(client: &Client, permissions: &[Permission]) -> Result<Vec<Permission>, kube::Error> {
    let granted = try_join_all(permissions.iter().map(|one| one.is_granted(client))).await?;
    let missing = permissions.iter().zip(granted).filter(|(_, granted)| !granted);
    Ok(missing.map(|(permission, _)| permission.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_reads_as_kubectl_takes_it() {
        for (permission, expected) in [
            (Permission::new("list", "", "namespaces"), "list namespaces"),
            (
                Permission::new("create", "", "serviceaccounts/token")
                    .within("a")
                    .on("b"),
                "create serviceaccounts/token b in namespace a",
            ),
            (
                Permission::new("patch", "fleet.cattle.io", "clusters").within("a"),
                "patch clusters.fleet.cattle.io in namespace a",
            ),
        ] {
            assert_eq!(permission.to_string(), expected);
        }
    }

    #[test]
    fn a_subresource_is_reviewed_as_one() {
        let review = Permission::new("create", "", "serviceaccounts/token").review();
        let attributes = review.spec.resource_attributes.unwrap();
        assert_eq!(attributes.resource.as_deref(), Some("serviceaccounts"));
        assert_eq!(attributes.subresource.as_deref(), Some("token"));
    }
}
