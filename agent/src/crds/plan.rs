//! What is done with a CRD: a pure function of the policy, the CRD of the chart and the live one.

use helmops_release::lifecycle::CrdPolicy;
use serde_json::Value;
use thiserror::Error;

/// The kind of CRDs.
pub(super) const KIND: &str = "CustomResourceDefinition";
/// The API version that clusters serve.
pub(super) const API_VERSION: &str = "apiextensions.k8s.io/v1";

/// What is done with a CRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It stays as it is.
    Keep,
    /// It does not exist, and is created.
    Create,
    /// It is updated; fields of other managers are taken over.
    Replace,
}

/// Why a CRD is not applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The live one may have objects in a version that the CRD of the chart does not have.
    #[error(
        "CustomResourceDefinition {name}: the chart removes version {version}, in which objects may be stored \
         (status.storedVersions: {}); convert them to another version and remove {version} from status.storedVersions, or use a chart \
         that still has this version", stored.join(", ")
    )]
    RemovesStoredVersion {
        /// Its name.
        name: String,
        /// The version.
        version: String,
        /// All versions in which objects may be stored.
        stored: Vec<String>,
    },
    /// It is being deleted, with all of its objects.
    #[error(
        "CustomResourceDefinition {name} is being deleted; wait until it is gone, or remove what delays it from its finalizers"
    )]
    Terminating {
        /// Its name.
        name: String,
    },
    /// The API server does not serve this version of CRDs.
    #[error(
        "CustomResourceDefinition {name} has the apiVersion {api_version:?} in place of {API_VERSION}; use a newer version of the chart"
    )]
    ApiVersion {
        /// Its name.
        name: String,
        /// The version.
        api_version: String,
    },
    /// It has no name.
    #[error("a CustomResourceDefinition in a folder crds of the chart has no metadata.name")]
    NoName,
}

/// What is done with a CRD of a chart.
///
/// # Errors
/// If it cannot be applied, or not without a loss.
pub fn step(policy: CrdPolicy, desired: &Value, live: Option<&Value>) -> Result<Step, Refusal> {
    let name = || name(desired).to_owned();
    if name().is_empty() {
        return Err(Refusal::NoName);
    }
    if policy == CrdPolicy::Skip {
        return Ok(Step::Keep);
    }
    if live.is_some_and(|live| live.pointer("/metadata/deletionTimestamp").is_some()) {
        return Err(Refusal::Terminating { name: name() });
    }
    if live.is_some() && policy == CrdPolicy::Create {
        return Ok(Step::Keep);
    }
    let api_version = text(desired, "/apiVersion");
    if api_version != API_VERSION {
        let api_version = api_version.to_owned();
        let name = name();
        return Err(Refusal::ApiVersion { name, api_version });
    }
    let Some(live) = live else {
        return Ok(Step::Create);
    };
    let (versions, stored) = (versions(desired), stored_versions(live));
    match stored.iter().find(|stored| !versions.contains(stored)) {
        Some(removed) => Err(Refusal::RemovesStoredVersion {
            name: name(),
            version: (*removed).to_owned(),
            stored: stored.iter().map(|&version| version.to_owned()).collect(),
        }),
        None => Ok(Step::Replace),
    }
}

/// The name of a CRD.
pub(super) fn name(crd: &Value) -> &str {
    text(crd, "/metadata/name")
}

/// A text in a CRD; empty if there is none.
pub(super) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The entries of a list in a CRD.
pub(super) fn list<'v>(object: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn versions(crd: &Value) -> Vec<&str> {
    list(crd, "/spec/versions")
        .map(|version| text(version, "/name"))
        .collect()
}

fn stored_versions(crd: &Value) -> Vec<&str> {
    list(crd, "/status/storedVersions")
        .filter_map(Value::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(versions: &[&str]) -> Value {
        let versions: Vec<_> = versions.iter().map(|name| json!({ "name": name })).collect();
        json!({ "apiVersion": API_VERSION, "kind": KIND, "metadata": { "name": "a.example.com" }, "spec": { "versions": versions } })
    }

    fn live(stored: &[&str]) -> Value {
        json!({ "metadata": { "name": "a.example.com" }, "status": { "storedVersions": stored } })
    }

    type Case = (
        CrdPolicy,
        &'static [&'static str],
        Option<Value>,
        Result<Step, Refusal>,
    );

    #[test]
    fn each_policy_has_a_step_for_each_state() {
        let terminating = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let gone = || {
            Err(Refusal::Terminating {
                name: "a.example.com".to_owned(),
            })
        };
        let removes = |version: &str, stored: &[&str]| {
            Err(Refusal::RemovesStoredVersion {
                name: "a.example.com".to_owned(),
                version: version.to_owned(),
                stored: stored.iter().map(|&stored| stored.to_owned()).collect(),
            })
        };
        let (create, replace) = (CrdPolicy::Create, CrdPolicy::CreateReplace);
        let table: [Case; 12] = [
            (CrdPolicy::Skip, &["v1"], None, Ok(Step::Keep)),
            (
                CrdPolicy::Skip,
                &["v1"],
                Some(terminating.clone()),
                Ok(Step::Keep),
            ),
            (create, &["v1"], None, Ok(Step::Create)),
            (create, &["v1"], Some(live(&["v1"])), Ok(Step::Keep)),
            (create, &["v2"], Some(live(&["v1"])), Ok(Step::Keep)),
            (create, &["v1"], Some(terminating.clone()), gone()),
            (replace, &["v1"], None, Ok(Step::Create)),
            (replace, &["v1"], Some(live(&["v1"])), Ok(Step::Replace)),
            (replace, &["v1", "v2"], Some(live(&["v1"])), Ok(Step::Replace)),
            (replace, &["v2"], Some(live(&["v1"])), removes("v1", &["v1"])),
            (
                replace,
                &["v1", "v3"],
                Some(live(&["v1", "v2"])),
                removes("v2", &["v1", "v2"]),
            ),
            (replace, &["v1"], Some(terminating), gone()),
        ];
        for (policy, versions, live, expected) in table {
            let found = step(policy, &crd(versions), live.as_ref());
            assert_eq!(found, expected, "{policy:?} {versions:?} {live:?}");
        }
        // The API server has not written a status yet.
        assert_eq!(step(replace, &crd(&["v2"]), Some(&json!({}))), Ok(Step::Replace));
    }

    #[test]
    fn a_crd_that_cannot_be_applied_is_refused() {
        let mut old = crd(&["v1"]);
        old["apiVersion"] = json!("apiextensions.k8s.io/v1beta1");
        let error = step(CrdPolicy::Create, &old, None).unwrap_err().to_string();
        assert!(
            error.contains("\"apiextensions.k8s.io/v1beta1\" in place of apiextensions.k8s.io/v1;"),
            "{error}"
        );
        assert_eq!(
            step(CrdPolicy::Create, &old, Some(&live(&["v1"]))),
            Ok(Step::Keep),
            "it exists"
        );
        old["metadata"] = json!({});
        assert_eq!(step(CrdPolicy::Create, &old, None), Err(Refusal::NoName));
    }

    #[test]
    fn a_refusal_names_the_version_and_the_fix() {
        let refusal = step(
            CrdPolicy::CreateReplace,
            &crd(&["v2"]),
            Some(&live(&["v1", "v2"])),
        );
        let message = refusal.unwrap_err().to_string();
        for part in [
            "CustomResourceDefinition a.example.com",
            "removes version v1",
            "storedVersions: v1, v2",
            "convert them",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
