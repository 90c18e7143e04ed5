//! The permissions that the roles in the manifests grant to the processes, and those that the processes use, according to the
//! audit log of the API server.

pub mod usage;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::event::{self, Event};
use crate::helmops::NAMESPACE;

/// Prefix of ServiceAccounts, before the namespace.
const ACCOUNTS: &str = "system:serviceaccount:";
/// The account of agents. Each cluster has another namespace for it.
const AGENT: &str = "helmops-agent";
/// Prefixes of the accounts of agents that register their clusters, and of those that have. Before their permissions exist, they are denied what
/// they look for.
const REGISTERING: [&str; 2] = ["registration-", "request-"];
/// Prefix of the user agents of the processes. Requests that a test sends with kubectl as one of the ServiceAccounts do not count.
const USER_AGENTS: &str = "helmops-";
/// Why the API server allowed a request, such as
/// `RBAC: allowed by RoleBinding "web/helmops-system" of Role "web" to ServiceAccount "web/helmops-system"`.
const REASON: &str = "authorization.k8s.io/reason";
const DECISION: &str = "authorization.k8s.io/decision";

/// A verb on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Permission {
    pub verb: String,
    /// Resource and subresource, such as `helmops/status`.
    pub resource: String,
    /// API group; empty for the core.
    pub group: String,
    /// Name of the object; `None` for all objects.
    pub name: Option<String>,
}

/// A permission that a role grants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantedPermission {
    /// Kind and name of the role, such as `ClusterRole helmops-webhook`.
    pub role: String,
    pub permission: Permission,
}

/// A request of a process; requests for the same permission are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UsedPermission {
    /// Its ServiceAccount.
    pub account: String,
    /// The permission that the request needs.
    pub permission: Permission,
    /// Kind and name of the role that allowed it; `None` if it was forbidden.
    pub role: Option<String>,
}

impl GrantedPermission {
    /// Whether the role belongs to an account: the manifests name roles after their account.
    fn is_of(&self, account: &str) -> bool {
        let name = self.role.split_once(' ').map(|(_, name)| name);
        name.is_some_and(|name| name == account || name.starts_with(&format!("{account}-")))
    }
}

impl Permission {
    /// Whether this permission includes another one.
    fn covers(&self, other: &Self) -> bool {
        self.verb == other.verb
            && self.resource == other.resource
            && self.group == other.group
            && (self.name.is_none() || self.name == other.name)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        self.name.iter().try_for_each(|name| write!(f, " {name:?}"))
    }
}

/// The API server checks the permission with this verb itself when a RoleBinding is created; no request has it.
const BIND: &str = "bind";

/// The API server checks the permission with this verb for requests that are sent for another user; no request has it.
const IMPERSONATE: &str = "impersonate";

/// Problems of the roles: permissions that are not used, and forbidden requests that no role of the account allows.
pub fn findings(granted: &BTreeSet<GrantedPermission>, used: &BTreeSet<UsedPermission>) -> Vec<String> {
    let is_used = |one: &&GrantedPermission| {
        let by = |used: &UsedPermission| {
            let Permission { verb, resource, .. } = &used.permission;
            let is_by_role = used.role.as_ref() == Some(&one.role);
            let is_by_account = one.is_of(&used.account);
            // Another role of the account may allow the binding.
            let is_binding = matches!(&**resource, "rolebindings" | "clusterrolebindings");
            let binds = one.permission.verb == BIND && verb == "create" && is_binding;
            // The reason of the API server is about the other user, not about the account that sends the request.
            let impersonates = verb == IMPERSONATE && is_by_account;
            let is_covered = one.permission.covers(&used.permission);
            (binds && (is_by_role || is_by_account)) || ((is_by_role || impersonates) && is_covered)
        };
        used.iter().any(by)
    };
    // A test may remove permissions, so a forbidden request is a problem only if no manifest grants it. Agents with all permissions
    // may impersonate without a role of their own.
    let is_granted = |missing: &&UsedPermission| {
        let to = |one: &GrantedPermission| {
            one.is_of(&missing.account) && one.permission.covers(&missing.permission)
        };
        // On its own cluster an agent has the roles that a user, or a test, binds to it.
        let was_allowed = |one: &UsedPermission| {
            one.role.is_some() && one.account == missing.account && one.permission == missing.permission
        };
        granted.iter().any(to) || (missing.account == AGENT && used.iter().any(was_allowed))
    };
    let unused = granted.iter().filter(|one| !is_used(one));
    let missing = used
        .iter()
        .filter(|used| used.role.is_none() && used.permission.verb != IMPERSONATE && !is_granted(used));
    unused
        .map(|one| format!("{} grants the unused permission {}", one.role, one.permission))
        .chain(missing.map(|used| {
            format!(
                "{} needs the permission {}, which none of its roles grants",
                used.account, used.permission
            )
        }))
        .collect()
}

/// Permissions that are not in `others`, regardless of their roles.
pub fn beyond(granted: &BTreeSet<GrantedPermission>, others: &BTreeSet<GrantedPermission>) -> Vec<String> {
    let is_other = |one: &&GrantedPermission| others.iter().any(|other| other.permission == one.permission);
    let beyond = granted.iter().filter(|one| !is_other(one));
    beyond
        .map(|one| {
            format!(
                "{} grants the permission {}, which no other role grants",
                one.role, one.permission
            )
        })
        .collect()
}

/// The permissions that the roles among these objects grant.
///
/// # Errors
/// If a rule has a wildcard or an unknown field.
pub fn granted(objects: &[Value]) -> Result<BTreeSet<GrantedPermission>> {
    let mut granted = BTreeSet::new();
    for object in objects {
        let object = Role::deserialize(object)?;
        if !["Role", "ClusterRole"].contains(&&*object.kind) {
            continue;
        }
        let role = format!("{} {}", object.kind, object.metadata.name);
        for rule in object.rules {
            let permissions = Rule::deserialize(rule).map(|rule| rule.permissions());
            let permissions = permissions
                .with_context(|| role.clone())?
                .with_context(|| role.clone())?;
            granted.extend(permissions.into_iter().map(|permission| GrantedPermission {
                role: role.clone(),
                permission,
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
    fn permissions(&self) -> Result<Vec<Permission>> {
        let mut permissions = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    ensure!(
                        ![group, resource, verb].iter().any(|text| text.contains('*')),
                        "wildcards are not supported"
                    );
                    let permission = |name| Permission {
                        verb: verb.clone(),
                        resource: resource.clone(),
                        group: group.clone(),
                        name,
                    };
                    let named = self
                        .resource_names
                        .iter()
                        .map(|name| permission(Some(name.clone())));
                    permissions.extend(named);
                    if self.resource_names.is_empty() {
                        permissions.push(permission(None));
                    }
                }
            }
        }
        Ok(permissions)
    }
}

/// The permissions that the processes used, and the agents of all clusters, according to an audit log. A request for another user
/// needs the permission to impersonate; that user needs the one for the request.
///
/// # Errors
/// If the log cannot be read.
pub fn used(log: &Path) -> Result<BTreeSet<UsedPermission>> {
    used_by(log, |namespace, account| {
        namespace == NAMESPACE || account == AGENT || is_registering(account)
    })
}

/// The same for the accounts in a namespace.
///
/// # Errors
/// If the log cannot be read.
pub fn used_in(log: &Path, namespace: &str) -> Result<BTreeSet<UsedPermission>> {
    used_by(log, |of_account, _| of_account == namespace)
}

/// The same for the accounts of which the namespace and the name are accepted.
fn used_by(log: &Path, is_counted: impl Fn(&str, &str) -> bool) -> Result<BTreeSet<UsedPermission>> {
    let mut used = BTreeSet::new();
    event::read(log, |event| {
        used.extend(request(event, &is_counted));
        Ok(())
    })?;
    Ok(used)
}

/// `None` if the event is not a request of a process for objects.
fn request(event: Event, is_counted: impl Fn(&str, &str) -> bool) -> Option<UsedPermission> {
    let account = event.user.username.strip_prefix(ACCOUNTS)?;
    let (namespace, account) = account.split_once(':')?;
    if !is_counted(namespace, account) {
        return None;
    }
    // Most of these are sent by Helm.
    if event.impersonated_user.is_some() {
        return Some(UsedPermission {
            account: account.to_owned(),
            permission: Permission {
                verb: IMPERSONATE.to_owned(),
                resource: "serviceaccounts".to_owned(),
                group: String::new(),
                name: None,
            },
            role: None,
        });
    }
    let object = event
        .object_ref
        .filter(|_| event.user_agent.starts_with(USER_AGENTS))?;
    let part = if object.subresource.is_empty() { "" } else { "/" };
    let role = match event.annotations.get(DECISION)?.as_str() {
        "allow" => Some(role(event.annotations.get(REASON)?)?),
        _ if is_registering(account) => return None,
        _ => None,
    };
    // Rules name only objects in the namespace of the account and cluster-scoped ones; other names would only enlarge the files.
    let has_name = !object.name.is_empty() && ["", namespace].contains(&&*object.namespace);
    Some(UsedPermission {
        account: account.to_owned(),
        permission: Permission {
            verb: event.verb,
            resource: format!("{}{part}{}", object.resource, object.subresource),
            group: object.api_group,
            name: has_name.then_some(object.name),
        },
        role,
    })
}

fn is_registering(account: &str) -> bool {
    REGISTERING.iter().any(|prefix| account.starts_with(prefix))
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

    fn role() -> BTreeSet<GrantedPermission> {
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
    fn used_permissions_are_no_problem() {
        let role = Some("Role \"web\"");
        let all = [
            event("get", "secrets", "tls", role),
            event("list", "deployments/status", "", role),
            event("patch", "deployments/status", "any", role),
        ];
        assert_eq!(found(&all), Vec::<String>::new());
        // In a test that removed the permission.
        let refused = event("get", "secrets", "tls", None);
        assert_eq!(
            found(&[all.as_slice(), &[refused]].concat()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn unused_permissions_are_found() {
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
                "Role web grants the unused permission get secrets \"tls\"",
                "Role web grants the unused permission list deployments/status.apps",
                "Role web grants the unused permission patch deployments/status.apps",
            ]
        );
    }

    #[test]
    fn the_permission_to_bind_a_role_is_used_by_creating_a_binding() {
        let role = json!({
            "kind": "ClusterRole", "metadata": { "name": "web" },
            "rules": [
                { "apiGroups": ["apps"], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["a"] },
            ],
        });
        let granted = granted(&[role]).unwrap();
        let used = |resource: &str, role: &str, account: &str| UsedPermission {
            account: account.to_owned(),
            permission: Permission {
                verb: "create".to_owned(),
                resource: resource.to_owned(),
                group: "apps".to_owned(),
                name: None,
            },
            role: Some(role.to_owned()),
        };
        let found = |used| findings(&granted, &BTreeSet::from([used])).len();
        assert_eq!(found(used("rolebindings", "ClusterRole web", "web")), 0);
        assert_eq!(found(used("roles", "ClusterRole web", "web")), 1);
        assert_eq!(found(used("rolebindings", "ClusterRole web-b", "web")), 0);
        assert_eq!(found(used("rolebindings", "ClusterRole other", "other")), 1);
    }

    #[test]
    fn a_request_for_another_user_uses_the_permission_to_impersonate() {
        let role = json!({
            "kind": "Role", "metadata": { "name": "web-impersonation" },
            "rules": [{ "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"] }],
        });
        let granted = granted(&[role]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let mut event = event("list", "secrets", "", None);
        let found = |event: &Value| {
            std::fs::write(&log, event.to_string()).unwrap();
            findings(&granted, &used(&log).unwrap())
        };
        assert_eq!(found(&event).len(), 2);
        event["impersonatedUser"] = json!({ "username": "system:serviceaccount:team:deployer" });
        assert_eq!(found(&event), Vec::<String>::new());
    }

    #[test]
    fn the_permissions_of_agents_count_in_all_namespaces() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let mut event = event("list", "deployments/status", "", Some("Role \"web\""));
        let used_by = |account: &str, event: &mut Value| {
            event["user"]["username"] = json!(format!("system:serviceaccount:{account}"));
            std::fs::write(&log, event.to_string()).unwrap();
            used(&log).unwrap().len()
        };
        assert_eq!(used_by("cluster-a:helmops-agent", &mut event), 1);
        assert_eq!(used_by("cluster-a:web", &mut event), 0);
    }

    #[test]
    fn a_missing_permission_is_found() {
        let found = found(&[event("delete", "secrets", "tls", None)]);
        let last = found.last().unwrap();
        assert_eq!(
            last,
            "web needs the permission delete secrets \"tls\", which none of its roles grants"
        );
    }

    /// A test may grant an agent later what it lacks at first.
    #[test]
    fn an_agent_has_roles_that_are_not_in_the_manifests() {
        let used = |account: &str, role: Option<&str>| UsedPermission {
            account: account.to_owned(),
            permission: Permission {
                verb: "delete".to_owned(),
                resource: "namespaces".to_owned(),
                group: String::new(),
                name: None,
            },
            role: role.map(str::to_owned),
        };
        let problems = |used: [UsedPermission; 2]| findings(&BTreeSet::new(), &BTreeSet::from(used)).len();
        let role = Some("ClusterRole a");
        assert_eq!(problems([used(AGENT, None), used(AGENT, role)]), 0);
        assert_eq!(problems([used(AGENT, None), used("web", role)]), 1);
        assert_eq!(problems([used("web", None), used("web", role)]), 1);
    }

    #[test]
    fn a_permission_of_another_account_is_not_sufficient() {
        let mut foreign = event("list", "deployments/status", "", None);
        foreign["user"]["username"] = json!("system:serviceaccount:helmops-system:we");
        let last = "we needs the permission list deployments/status.apps, which none of its roles grants";
        assert_eq!(found(&[foreign]).last().unwrap(), last);
    }

    #[test]
    fn roles_belong_to_the_account_that_they_are_named_after() {
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
    fn permissions_beyond_those_of_other_roles_are_found() {
        assert_eq!(beyond(&role(), &role()), Vec::<String>::new());
        let mut fewer = role();
        fewer.pop_first();
        let found = beyond(&role(), &fewer);
        assert_eq!(
            found,
            ["Role web grants the permission get secrets \"tls\", which no other role grants"]
        );
    }

    #[test]
    fn a_wildcard_is_an_error() {
        let rules = json!([{ "apiGroups": [""], "resources": ["*"], "verbs": ["get"] }]);
        let role = json!({ "kind": "ClusterRole", "metadata": { "name": "web" }, "rules": rules });
        let error = granted(&[role]).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "ClusterRole web: wildcards are not supported"
        );
    }
}
