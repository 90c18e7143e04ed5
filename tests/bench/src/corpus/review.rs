//! Reviews as the API server writes them, byte for byte: field order, nulls and escapes.

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use super::UID_PLACEHOLDER;
use super::object::{Change, NAMESPACE, stored, submitted};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'a str,
    api_version: &'a str,
    request: AdmissionRequest<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionRequest<'a> {
    uid: &'a str,
    kind: GroupVersionKind<'a>,
    resource: GroupVersionResource<'a>,
    request_kind: GroupVersionKind<'a>,
    request_resource: GroupVersionResource<'a>,
    name: &'a str,
    namespace: &'a str,
    operation: &'a str,
    user_info: UserInfo<'a>,
    object: Value,
    old_object: Option<Value>,
    dry_run: bool,
    options: Options<'a>,
}

#[derive(Clone, Copy, Serialize)]
struct GroupVersionKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

#[derive(Clone, Copy, Serialize)]
struct GroupVersionResource<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

#[derive(Serialize)]
struct UserInfo<'a> {
    username: &'a str,
    uid: &'a str,
    groups: [&'a str; 2],
    extra: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Options<'a> {
    kind: &'a str,
    api_version: &'a str,
    field_manager: &'a str,
    field_validation: &'a str,
}

/// The review of a change.
pub(super) fn body(change: &Change) -> Result<String> {
    let (group, version) = ("fleet.cattle.io", "v1alpha1");
    let kind = GroupVersionKind {
        group,
        version,
        kind: "HelmOp",
    };
    let resource = GroupVersionResource {
        group,
        version,
        resource: "helmops",
    };
    let review = Review {
        kind: "AdmissionReview",
        api_version: "admission.k8s.io/v1",
        request: AdmissionRequest {
            uid: UID_PLACEHOLDER,
            kind,
            resource,
            request_kind: kind,
            request_resource: resource,
            name: &change.name(),
            namespace: NAMESPACE,
            operation: if change.update { "UPDATE" } else { "CREATE" },
            user_info: UserInfo {
                username: "u-b4qkhsnliz",
                uid: "9c1a5f6e-3c0d-4b7e-8f55-2d1b6f0a7c34",
                groups: ["system:authenticated", "system:cattle:authenticated"],
                extra: json!({ "principalid": ["local://u-b4qkhsnliz"], "username": ["deployer"] }),
            },
            object: submitted(change),
            old_object: change.update.then(|| stored(change)),
            dry_run: false,
            options: options(change),
        },
    };
    Ok(escaped(&serde_json::to_string(&review)?))
}

fn options(change: &Change) -> Options<'static> {
    let (kind, field_manager) = if change.update {
        ("UpdateOptions", "kubectl-edit")
    } else {
        ("CreateOptions", "kubectl-create")
    };
    Options {
        kind,
        api_version: "meta.k8s.io/v1",
        field_manager,
        field_validation: "Strict",
    }
}

/// Go's encoder escapes the special characters of HTML. In JSON they occur in strings only.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{REPO, source};

    fn change(update: bool) -> Change {
        Change {
            number: 7,
            source: source(REPO, "orders", ">=1.0.0 <2.0.0"),
            polling: false,
            update,
        }
    }

    #[test]
    fn constraints_are_escaped_like_in_go() {
        let body = body(&change(false)).unwrap();
        assert!(body.contains(r#""version":"\u003e=1.0.0 \u003c2.0.0""#), "{body}");
        let review: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            review["request"]["object"]["spec"]["helm"]["version"],
            ">=1.0.0 <2.0.0"
        );
    }

    #[test]
    fn fields_have_the_order_of_the_api_server() {
        for update in [false, true] {
            let body = body(&change(update)).unwrap();
            let fields = [
                r#"{"kind":"AdmissionReview","apiVersion":"#,
                r#","request":{"uid":"#,
                r#","kind":{"group":"#,
                r#","resource":{"group":"#,
                r#","requestKind":"#,
                r#","requestResource":"#,
                r#","name":"#,
                r#","namespace":"fleet-default","operation":"#,
                r#","userInfo":"#,
                r#","object":{"apiVersion":"#,
                if update {
                    r#","oldObject":{"#
                } else {
                    r#","oldObject":null"#
                },
                r#","dryRun":false,"options":"#,
            ];
            let mut rest = body.as_str();
            for field in fields {
                rest = rest
                    .split_once(field)
                    .unwrap_or_else(|| panic!("{field} is not in {rest}"))
                    .1;
            }
        }
    }
}
