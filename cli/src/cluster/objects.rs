//! Objects of the cluster: one by its name, or a list.

use std::{fmt::Debug, sync::Arc};

use helmops_api::{Decoded, MetadataOnly};
use helmops_kube::path_segment;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, ObjectList},
};
use serde::de::DeserializeOwned;

use super::{Cluster, alike::alike, request::Request, selection::Scope};
use crate::{failure::Failure, terminal::Console};

/// As kubectl has it: the size of a response is limited, and a thousand objects need two.
const PAGE: u32 = 500;

/// Objects with a namespace that can be read.
pub trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send
{
}

impl Cluster {
    /// The objects of a kind in these namespaces.
    pub fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
        scope: Scope<'_>,
    ) -> Api<K> {
        match scope {
            Scope::All => Api::all(self.client.clone()),
            Scope::Namespace(namespace) => Api::namespaced(self.client.clone(), &path_segment(namespace)),
        }
    }

    /// Reads one object.
    ///
    /// # Errors
    /// If it does not exist, with the names that are alike and other namespaces that have one of this name; if it cannot be read.
    pub async fn get<K: Object>(&self, namespace: &str, name: &str) -> Result<K, Failure> {
        match self.find(namespace, name).await? {
            Some(object) => Ok(object),
            None => Err(self.not_found::<K>(namespace, name).await),
        }
    }

    /// Reads one object; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, or the kind does not exist.
    pub async fn find<K: Object>(&self, namespace: &str, name: &str) -> Result<Option<K>, Failure> {
        let scope = Scope::Namespace(namespace);
        match self.api::<K>(scope).get(&path_segment(name)).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => Ok(None),
            Err(error) => Err(Request::of::<K>("get", scope).named(name).failure(self, &error)),
        }
    }

    /// Reads all objects that a selector of labels matches, in pages. One that does not decode is in the list with its error.
    ///
    /// # Errors
    /// If they cannot be read, or the kind does not exist.
    pub async fn list<K: Object>(
        &self,
        scope: Scope<'_>,
        selector: Option<&str>,
    ) -> Result<Vec<Decoded<K>>, Failure> {
        let params = ListParams {
            label_selector: selector.map(str::to_owned),
            ..ListParams::default()
        };
        self.list_by(scope, params).await
    }

    /// As [`Self::list`], for objects that all have to decode. Without their CRD there are none.
    ///
    /// # Errors
    /// If they cannot be read, or one of them does not decode.
    pub async fn list_known<K: Object>(
        &self,
        scope: Scope<'_>,
        selector: Option<&str>,
    ) -> Result<Vec<K>, Failure> {
        let params = ListParams {
            label_selector: selector.map(str::to_owned),
            ..ListParams::default()
        };
        match pages(&self.api::<Decoded<K>>(scope), params.limit(PAGE)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(Request::of::<K>("list", scope).failure(self, &error)),
            Ok(objects) => all_valid(objects),
        }
    }

    /// As [`Self::list`], with any selector.
    ///
    /// # Errors
    /// If they cannot be read, or the kind does not exist.
    pub async fn list_by<K: Object>(
        &self,
        scope: Scope<'_>,
        params: ListParams,
    ) -> Result<Vec<Decoded<K>>, Failure> {
        let api = self.api::<Decoded<K>>(scope);
        pages(&api, params.limit(PAGE))
            .await
            .map_err(|error| Request::of::<K>("list", scope).failure(self, &error))
    }

    /// The failure for an object that does not exist, with the names that are alike.
    pub async fn not_found<K: Object>(&self, namespace: &str, name: &str) -> Failure {
        let kind = K::kind(&());
        let failure = Failure::negative(format!("there is no {kind} {name:?} in namespace {namespace:?}"));
        // A hint that cannot be given, for lack of permissions, is no failure of its own.
        let elsewhere = ListParams::default().fields(&format!("metadata.name={name}"));
        let elsewhere = pages(&self.api::<MetadataOnly<K>>(Scope::All), elsewhere).await;
        let elsewhere: Vec<_> = elsewhere
            .into_iter()
            .flatten()
            .filter_map(|object| object.namespace())
            .collect();
        let here = ListParams::default().limit(PAGE);
        let here = pages(&self.api::<MetadataOnly<K>>(Scope::Namespace(namespace)), here).await;
        let here: Vec<_> = here
            .into_iter()
            .flatten()
            .map(|object| object.name_any())
            .collect();
        failure.with_hint(hint(name, namespace, &alike(name, here), &elsewhere))
    }
}

/// The objects of a list.
///
/// # Errors
/// If one does not decode.
pub fn all_valid<K: Object>(objects: Vec<Decoded<K>>) -> Result<Vec<K>, Failure> {
    if let Some(note) = undecoded(&objects).next() {
        return Err(Failure::unable(note));
    }
    let valid = |object| match object {
        Decoded::Valid(object) => Some(Arc::unwrap_or_clone(object)),
        Decoded::Invalid { .. } => None,
    };
    Ok(objects.into_iter().filter_map(valid).collect())
}

/// The objects of a list that do not decode, each with its name and why.
pub fn undecoded<K: Resource<DynamicType = ()>>(objects: &[Decoded<K>]) -> impl Iterator<Item = String> {
    objects.iter().filter_map(|object| match object {
        Decoded::Valid(_) => None,
        Decoded::Invalid { metadata, error } => {
            let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
            let scope = namespace.map_or(Scope::All, Scope::Namespace);
            let request = Request::of::<K>("get", scope).named(name.unwrap_or_default());
            Some(format!("{request} {}", error.predicate()))
        }
    })
}

/// Reads all pages of a list. If they expire before the last one is read, the whole list is read without pages, as kubectl does.
async fn pages<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    mut params: ListParams,
) -> Result<Vec<K>, kube::Error> {
    let mut all = Vec::new();
    loop {
        let page: ObjectList<K> = match api.list(&params).await {
            Err(kube::Error::Api(status)) if status.code == 410 && params.continue_token.is_some() => {
                all.clear();
                params.continue_token = None;
                params.limit = None;
                continue;
            }
            page => page?,
        };
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

fn hint(name: &str, namespace: &str, alike: &[String], elsewhere: &[String]) -> String {
    match (elsewhere, alike) {
        ([], []) => format!("list them with: kubectl helmop status -n {namespace}"),
        ([], [one]) => format!("did you mean {one:?}?"),
        ([], several) => format!("these are alike: {}", several.join(", ")),
        ([one], _) => format!("{name:?} exists in namespace {one:?}: add -n {one}"),
        (several, _) => {
            let several = several.iter().take(5).map(String::as_str);
            format!(
                "{name:?} exists in other namespaces: {}; add -n NAMESPACE",
                several.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

/// Reports on standard error that a list is empty, as kubectl does.
///
/// # Errors
/// If standard error cannot be written.
pub fn report_nothing<K: Resource<DynamicType = ()>>(
    console: &mut Console<'_>,
    scope: Scope<'_>,
    selector: Option<&str>,
) -> Result<(), Failure> {
    let labels = selector.map_or_else(String::new, |selector| format!(" with labels {selector:?}"));
    Ok(writeln!(
        console.err,
        "No {}s found in {scope}{labels}.",
        K::kind(&())
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_exist_leads_to_those_that_do() {
        let text = |list: &[&str]| -> Vec<String> { list.iter().map(|&text| text.to_owned()).collect() };
        for (alike, elsewhere, expected) in [
            (&[][..], &[][..], "list them with: kubectl helmop status -n shop"),
            (&["web"], &[], r#"did you mean "web"?"#),
            (&["web", "ewb"], &[], "these are alike: web, ewb"),
            (
                &["web"],
                &["prod"],
                r#""wbe" exists in namespace "prod": add -n prod"#,
            ),
            (
                &[],
                &["prod", "test"],
                r#""wbe" exists in other namespaces: prod, test; add -n NAMESPACE"#,
            ),
        ] {
            assert_eq!(hint("wbe", "shop", &text(alike), &text(elsewhere)), expected);
        }
    }
}
