//! Tokens: until when they are valid, and what exists for each of them.

use std::time::Duration;

use helmops_api::{
    ClusterRegistrationToken, Decoded, NamespacedName,
    cluster_registration::ClusterRegistrationTokenStatus,
    kind::{GROUP, VERSION},
    labels,
    timestamp::timestamp,
};
use helmops_model::names::{fleets_account, registration_account};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Secret, ServiceAccount},
        rbac::v1::{RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    jiff::{Span, Timestamp},
};
use serde_json::json;
use thiserror::Error;

use super::objects::{RBAC, account_token, texts};

/// Name of the ClusterRole in the manifests with which a token may create ClusterRegistrations in its namespace.
pub const REGISTRATION_ROLE: &str = "helmops-registration";
/// How long an agent can read its credential after its request was granted: as in Fleet.
pub const CREDENTIAL_LIFETIME: Duration = Duration::from_mins(40);
/// The type of the Secret with the values for an agent: as in Fleet.
const VALUES_TYPE: &str = "fleet.cattle.io/cluster-registration-values";
/// Its key.
const VALUES: &str = "values";

/// The validity of a token is no duration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("spec.ttl {ttl:?} is not a duration such as 1h or 24h ({why}); correct it, and the token is made")]
pub struct InvalidTtl {
    ttl: String,
    why: String,
}

/// When a token expires; `None` if it never does. It follows from the spec alone, so that a change takes effect.
///
/// # Errors
/// If `spec.ttl` is no duration.
pub fn expiry(token: &ClusterRegistrationToken) -> Result<Option<Timestamp>, InvalidTtl> {
    let ttl = token.spec.ttl.as_str();
    if ttl.is_empty() {
        return Ok(None);
    }
    let lifetime = go_formats::duration::parse(ttl).map_err(|error| InvalidTtl {
        ttl: bounded_text::excerpt(ttl, 40),
        why: error.to_string(),
    })?;
    let created = token.metadata.creation_timestamp.as_ref().map(|time| time.0);
    // One that is not stored yet has no time.
    let (false, Some(created)) = (lifetime.is_zero(), created) else {
        return Ok(None);
    };
    let end = Span::try_from(lifetime)
        .ok()
        .and_then(|lifetime| created.checked_add(lifetime).ok());
    Ok(Some(end.unwrap_or(Timestamp::MAX)))
}

/// The tokens that agents can use now.
pub(super) fn valid(
    tokens: &[Decoded<ClusterRegistrationToken>],
    now: Timestamp,
) -> impl Iterator<Item = &ClusterRegistrationToken> {
    let tokens = tokens.iter().filter_map(|token| token.valid());
    tokens.filter(move |token| {
        let is_valid = expiry(token).is_ok_and(|end| end.is_none_or(|end| now < end));
        token.metadata.deletion_timestamp.is_none() && is_valid
    })
}

/// The accounts by which agents with a token create requests: that of this controller, and that of Fleet's, if it has made the token.
pub(super) fn accounts(token: &ClusterRegistrationToken) -> impl Iterator<Item = String> {
    let uid = token.metadata.uid.as_deref().unwrap_or_default();
    let fleets = fleets_account(token.metadata.name.as_deref().unwrap_or_default(), uid);
    // A long name is cut, so that another token may have the same one.
    let fleets = fleets.ends_with(uid).then_some(fleets);
    [registration_account(uid)].into_iter().chain(fleets)
}

/// What exists for a token, besides the Secret with the values.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenObjects {
    /// As which its agents create requests.
    pub account: ServiceAccount,
    /// Allows that in its namespace, and nothing else.
    pub binding: RoleBinding,
    /// Kubernetes writes the token into it.
    pub secret: Secret,
}

/// What exists for a token. The token owns all of it.
pub fn token_objects(token: &ClusterRegistrationToken) -> TokenObjects {
    let uid = token.metadata.uid.as_deref().unwrap_or_default();
    let name = registration_account(uid);
    let own = metadata(token, &name);
    let secret = account_token(metadata(token, &format!("{name}-token")), &name);
    TokenObjects {
        binding: RoleBinding {
            metadata: own.clone(),
            role_ref: RoleRef {
                api_group: Some(RBAC.to_owned()),
                kind: "ClusterRole".to_owned(),
                name: REGISTRATION_ROLE.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name,
                namespace: token.metadata.namespace.clone(),
                ..Subject::default()
            }]),
        },
        account: ServiceAccount {
            metadata: own,
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        },
        secret,
    }
}

/// The Secret with what an agent needs, as values of Fleet's chart. `text` is the token itself; `server` and `authorities` (PEM) are empty if
/// they are not known.
pub fn values_secret(
    token: &ClusterRegistrationToken,
    text: &str,
    server: &str,
    authorities: &str,
    registration_namespace: &str,
) -> Secret {
    let NamespacedName { namespace, name } = NamespacedName::of(&token.metadata);
    let values = json!({
        "clusterNamespace": namespace,
        "apiServerURL": server,
        "apiServerCA": authorities,
        "token": text,
        "systemRegistrationNamespace": registration_namespace,
        "tokenName": name,
    });
    // JSON is YAML, and nothing in it needs the spelling of another emitter.
    let values = go_formats::yaml::emit_exact(&values).unwrap_or_else(|_| values.to_string());
    Secret {
        metadata: metadata(token, &name),
        data: Some([(VALUES.to_owned(), ByteString(values.into_bytes()))].into()),
        type_: Some(VALUES_TYPE.to_owned()),
        ..Secret::default()
    }
}

/// Whether a Secret has the values of a token, made by this controller or by Fleet's: another one of the same name is never changed.
pub fn is_values(secret: &Secret) -> bool {
    secret.type_.as_deref() == Some(VALUES_TYPE)
}

/// The next status. `has_secret`: whether the Secret with the values exists.
pub fn token_status(
    token: &ClusterRegistrationToken,
    end: Option<Timestamp>,
    has_secret: bool,
) -> ClusterRegistrationTokenStatus {
    let name = token.metadata.name.clone().unwrap_or_default();
    ClusterRegistrationTokenStatus {
        expires: end.map(timestamp).unwrap_or_default(),
        secret_name: if has_secret { name } else { String::new() },
    }
}

fn metadata(token: &ClusterRegistrationToken, name: &str) -> ObjectMeta {
    let namespace = token.metadata.namespace.clone();
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace,
        labels: Some(texts(&[(labels::MANAGED, "true")])),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: "ClusterRegistrationToken".to_owned(),
            name: token.metadata.name.clone().unwrap_or_default(),
            uid: token.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
    fn token(ttl: Value) -> ClusterRegistrationToken {
        let metadata = json!({
            "namespace": "w", "name": "t", "uid": "u-1", "creationTimestamp": "2026-01-01T10:00:00Z",
        });
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "ttl": ttl } })).unwrap()
    }

    #[test]
    fn a_token_expires_after_its_time_which_can_be_changed() {
        for (ttl, expected) in [
            (json!(null), Ok("")),
            (json!("0s"), Ok("")),
            (json!("1h"), Ok("2026-01-01T11:00:00Z")),
            (json!("30m"), Ok("2026-01-01T10:30:00Z")),
            (json!("2562047h"), Ok("2318-04-13T09:00:00Z")),
            (json!("1d"), Err("spec.ttl \"1d\"")),
            (json!("-1h"), Err("spec.ttl \"-1h\"")),
        ] {
            let token = token(ttl.clone());
            match (expiry(&token), expected) {
                (Ok(end), Ok(expected)) => {
                    assert_eq!(token_status(&token, end, false).expires, expected, "{ttl}");
                }
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
                (found, _) => panic!("{ttl}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_values_are_those_of_fleets_chart() {
        let secret = values_secret(
            &token(json!("1h")),
            "secret",
            "https://a:6443",
            "PEM\nPEM\n",
            "system",
        );
        assert!(is_values(&secret));
        assert_eq!(secret.metadata.name.as_deref(), Some("t"));
        let ByteString(values) = &secret.data.as_ref().unwrap()["values"];
        let values: Value = serde_json::to_value(
            go_formats::yaml::read_exact(
                std::str::from_utf8(values).unwrap(),
                &mut go_formats::yaml::Quota::default(),
            )
            .unwrap(),
        )
        .unwrap();
        assert_eq!(
            values,
            json!({
                "clusterNamespace": "w", "apiServerURL": "https://a:6443", "apiServerCA": "PEM\nPEM\n", "token": "secret",
                "systemRegistrationNamespace": "system", "tokenName": "t",
            })
        );
        assert!(!is_values(&Secret::default()));
    }

    #[test]
    fn its_account_may_create_requests_and_ends_with_the_token() {
        let objects = token_objects(&token(json!(null)));
        assert_eq!(objects.binding.role_ref.name, REGISTRATION_ROLE);
        assert_eq!(
            objects.binding.subjects.as_ref().unwrap()[0].name,
            "registration-u-1"
        );
        for metadata in [
            &objects.account.metadata,
            &objects.binding.metadata,
            &objects.secret.metadata,
        ] {
            assert_eq!(metadata.namespace.as_deref(), Some("w"));
            let owners = metadata.owner_references.as_ref().unwrap();
            assert_eq!(
                (&*owners[0].kind, &*owners[0].uid),
                ("ClusterRegistrationToken", "u-1")
            );
        }
    }

    #[test]
    fn the_account_of_fleets_controller_counts_unless_its_name_is_cut() {
        let mut one = token(json!(null));
        assert_eq!(accounts(&one).collect::<Vec<_>>(), ["registration-u-1", "t-u-1"]);
        one.metadata.name = Some("t".repeat(70));
        assert_eq!(accounts(&one).count(), 1);
    }
}
