//! Which rights the processes have, by the manifests, and which they use, by the API server's audit log.

pub mod folder;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::event::{self, Event};
use crate::helmops::NAMESPACE;

/// The ServiceAccounts of the manifests.
const ACCOUNTS: &str = "system:serviceaccount:helmops-system:";
/// How the processes call themselves: what a test asks by kubectl in their name is not their own.
const PROCESSES: &str = "helmops-";
/// Why the API server let a request pass, such as
/// `RBAC: allowed by RoleBinding "web/helmops-system" of Role "web" to ServiceAccount "web/helmops-system"`.
const REASON: &str = "authorization.k8s.io/reason";
const DECISION: &str = "authorization.k8s.io/decision";

/// A verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Right {
    /// The verb.
    pub verb: String,
    /// Resource and subresource, such as `helmops/status`.
    pub resource: String,
    /// API group; empty for the core.
    pub group: String,
    /// Name of the object; none for any object.
    pub name: Option<String>,
}

/// A right that a role gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Granted {
    /// Kind and name of the role, such as `ClusterRole helmops-webhook`.
    pub role: String,
    /// What it gives.
    pub right: Right,
}

/// A request of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Used {
    /// Its ServiceAccount.
    pub account: String,
    /// What it asked for.
    pub right: Right,
    /// Kind and name of the role that allowed it; none where it was forbidden.
    pub role: Option<String>,
}

impl Granted {
    /// Whether the role is one of an account: the manifests name roles after the account that they are for.
    fn is_of(&self, account: &str) -> bool {
        let name = self.role.split_once(' ').map(|(_, name)| name);
        name.is_some_and(|name| name == account || name.starts_with(&format!("{account}-")))
    }
}

impl Right {
    /// Whether who has this may do the other.
    fn covers(&self, asked: &Self) -> bool {
        let what = |right: &Self| (right.verb.clone(), right.resource.clone(), right.group.clone());
        what(self) == what(asked) && (self.name.is_none() || self.name == asked.name)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        self.name.iter().try_for_each(|name| write!(f, " {name:?}"))
    }
}

/// What speaks against the roles: rights that nobody used, and requests that no role of the account allows.
pub fn findings(granted: &BTreeSet<Granted>, used: &BTreeSet<Used>) -> Vec<String> {
    let is_used = |one: &&Granted| {
        let by = |used: &Used| used.role.as_ref() == Some(&one.role) && one.right.covers(&used.right);
        used.iter().any(by)
    };
    // A test may take rights away: missing is only what no manifest gives.
    let is_granted = |used: &&Used| {
        let to = |one: &Granted| one.is_of(&used.account) && one.right.covers(&used.right);
        granted.iter().any(to)
    };
    let unused = granted.iter().filter(|one| !is_used(one));
    let missing = used
        .iter()
        .filter(|used| used.role.is_none() && !is_granted(used));
    unused
        .map(|one| format!("{} gives the right to {}, which nobody used", one.role, one.right))
        .chain(missing.map(|used| {
            format!(
                "{} was refused to {}, which no role of it allows",
                used.account, used.right
            )
        }))
        .collect()
}

/// Rights that none of `others` is, whatever role gives it.
pub fn beyond(granted: &BTreeSet<Granted>, others: &BTreeSet<Granted>) -> Vec<String> {
    let is_other = |one: &&Granted| others.iter().any(|other| other.right == one.right);
    let beyond = granted.iter().filter(|one| !is_other(one));
    beyond
        .map(|one| {
            format!(
                "{} gives the right to {}, which no other role gives",
                one.role, one.right
            )
        })
        .collect()
}

/// What the roles among these objects give.
///
/// # Errors
/// Where a rule has a wildcard, or something that this does not know.
pub fn granted(objects: &[Value]) -> Result<BTreeSet<Granted>> {
    let mut granted = BTreeSet::new();
    for object in objects {
        let object = Role::deserialize(object)?;
        if !["Role", "ClusterRole"].contains(&&*object.kind) {
            continue;
        }
        let role = format!("{} {}", object.kind, object.metadata.name);
        for rule in object.rules {
            let rights = Rule::deserialize(rule).map(|rule| rule.rights());
            let rights = rights
                .with_context(|| role.clone())?
                .with_context(|| role.clone())?;
            granted.extend(rights.into_iter().map(|right| Granted {
                role: role.clone(),
                right,
            }));
        }
    }
    Ok(granted)
}

#[derive(Deserialize)]
struct Role {
    kind: String,
    metadata: Metadata,
    #[serde(default)]
    rules: Vec<Value>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

impl Rule {
    fn rights(&self) -> Result<Vec<Right>> {
        let mut rights = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    ensure!(
                        ![group, resource, verb].iter().any(|text| text.contains('*')),
                        "a wildcard"
                    );
                    let right = |name| Right {
                        verb: verb.clone(),
                        resource: resource.clone(),
                        group: group.clone(),
                        name,
                    };
                    let named = self.resource_names.iter().map(|name| right(Some(name.clone())));
                    rights.extend(named);
                    if self.resource_names.is_empty() {
                        rights.push(right(None));
                    }
                }
            }
        }
        Ok(rights)
    }
}

/// What the processes did, by an audit log; each kind of request once.
///
/// # Errors
/// Where the log cannot be read.
pub fn used(log: &Path) -> Result<BTreeSet<Used>> {
    let mut used = BTreeSet::new();
    event::read(log, |event| {
        used.extend(request(event));
        Ok(())
    })?;
    Ok(used)
}

/// None for what is no request of a process for objects.
fn request(event: Event) -> Option<Used> {
    let account = event.user.username.strip_prefix(ACCOUNTS)?.to_owned();
    let object = event
        .object_ref
        .filter(|_| event.user_agent.starts_with(PROCESSES))?;
    let part = if object.subresource.is_empty() { "" } else { "/" };
    let role = match event.annotations.get(DECISION)?.as_str() {
        "allow" => Some(role(event.annotations.get(REASON)?)?),
        _ => None,
    };
    // Rules name objects of helmops itself, and of the cluster; others would only fill the files.
    let is_told = !object.name.is_empty() && ["", NAMESPACE].contains(&&*object.namespace);
    Some(Used {
        account,
        right: Right {
            verb: event.verb,
            resource: format!("{}{part}{}", object.resource, object.subresource),
            group: object.api_group,
            name: is_told.then_some(object.name),
        },
        role,
    })
}

/// The role that a reason names.
fn role(reason: &str) -> Option<String> {
    let (_, role) = reason.split_once(" of ")?;
    let (kind, name) = role.split_once(" \"")?;
    Some(format!("{kind} {}", name.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role() -> BTreeSet<Granted> {
        let role = json!({
            "kind": "Role",
            "metadata": { "name": "web" },
            "rules": [
                { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["tls"] },
                { "apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["list", "patch"] },
            ],
        });
        granted(&[role, json!({ "kind": "Service", "metadata": { "name": "web" } })]).unwrap()
    }

    fn event(verb: &str, resource: &str, name: &str, allowed_by: Option<&str>) -> Value {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let group = if resource == "deployments" { "apps" } else { "" };
        let reason = allowed_by.map(|role| {
            format!("RBAC: allowed by RoleBinding \"a/b\" of {role} to ServiceAccount \"web/helmops-system\"")
        });
        json!({
            "verb": verb,
            "userAgent": "helmops-web/1",
            "requestReceivedTimestamp": "",
            "user": { "username": "system:serviceaccount:helmops-system:web" },
            "objectRef": {
                "resource": resource, "subresource": part, "apiGroup": group, "namespace": NAMESPACE, "name": name,
            },
            "annotations": {
                DECISION: if allowed_by.is_some() { "allow" } else { "forbid" },
                REASON: reason.unwrap_or_default(),
            },
        })
    }

    fn found(events: &[Value]) -> Vec<String> {
        let lines: Vec<_> = events.iter().map(Value::to_string).collect();
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        std::fs::write(&log, lines.join("\n") + "\n{\"verb\": \"g").unwrap();
        findings(&role(), &used(&log).unwrap())
    }

    #[test]
    fn what_is_granted_and_used_is_well() {
        let role = Some("Role \"web\"");
        let all = [
            event("get", "secrets", "tls", role),
            event("list", "deployments/status", "", role),
            event("patch", "deployments/status", "any", role),
        ];
        assert_eq!(found(&all), Vec::<String>::new());
        // A test that took the right away.
        let refused = event("get", "secrets", "tls", None);
        assert_eq!(
            found(&[all.as_slice(), &[refused]].concat()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_is_granted_and_not_used_is_found() {
        let role = Some("Role \"web\"");
        let mut foreign = event("list", "deployments/status", "", role);
        foreign["userAgent"] = json!("kubectl/v1");
        let events = [
            foreign,
            event("get", "secrets", "another", role),
            event("patch", "deployments/status", "any", Some("ClusterRole \"web\"")),
        ];
        assert_eq!(
            found(&events),
            [
                "Role web gives the right to get secrets \"tls\", which nobody used",
                "Role web gives the right to list deployments/status.apps, which nobody used",
                "Role web gives the right to patch deployments/status.apps, which nobody used",
            ]
        );
    }

    #[test]
    fn what_no_role_gives_is_found() {
        let found = found(&[event("delete", "secrets", "tls", None)]);
        let last = found.last().unwrap();
        assert_eq!(
            last,
            "web was refused to delete secrets \"tls\", which no role of it allows"
        );
    }

    #[test]
    fn what_only_the_role_of_another_account_gives_is_found() {
        let mut foreign = event("list", "deployments/status", "", None);
        foreign["user"]["username"] = json!("system:serviceaccount:helmops-system:we");
        let last = "we was refused to list deployments/status.apps, which no role of it allows";
        assert_eq!(found(&[foreign]).last().unwrap(), last);
    }

    #[test]
    fn roles_of_an_account_are_named_after_it() {
        let of = |role: &str| {
            let role = json!({
                "kind": "Role", "metadata": { "name": role },
                "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
            });
            granted(&[role]).unwrap().pop_first().unwrap()
        };
        assert!(of("web").is_of("web") && of("web-shard-b").is_of("web"));
        assert!(!of("web").is_of("web-b") && !of("webhook").is_of("web"));
    }

    #[test]
    fn what_only_one_role_gives_is_found() {
        assert_eq!(beyond(&role(), &role()), Vec::<String>::new());
        let mut fewer = role();
        fewer.pop_first();
        let found = beyond(&role(), &fewer);
        assert_eq!(
            found,
            ["Role web gives the right to get secrets \"tls\", which no other role gives"]
        );
    }

    #[test]
    fn a_wildcard_is_refused() {
        let rules = json!([{ "apiGroups": [""], "resources": ["*"], "verbs": ["get"] }]);
        let role = json!({ "kind": "ClusterRole", "metadata": { "name": "web" }, "rules": rules });
        let error = granted(&[role]).unwrap_err();
        assert_eq!(format!("{error:#}"), "ClusterRole web: a wildcard");
    }
}
