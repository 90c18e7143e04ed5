//! The object and the field managers in Helm's texts.

use helmops_release::object::ObjectId;

/// Maximum number of managers, and of fields of each, that are kept.
const MAX_MANAGERS: usize = 10;
const MAX_FIELDS: usize = 10;

/// Fields of an object that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The name of the field manager.
    pub manager: String,
    /// The fields, such as `.spec.replicas`.
    pub fields: Vec<String>,
}

/// The object that a text is about.
pub(super) fn object(text: &str) -> Option<ObjectId> {
    applied(text).or_else(|| existing(text)).or_else(|| invalid(text))
}

/// `Job.batch "migrate" is invalid: ...`
fn invalid(text: &str) -> Option<ObjectId> {
    let (before, _) = text.split_once("\" is invalid: ")?;
    let (before, name) = before.rsplit_once(" \"")?;
    let resource = before.rsplit([' ', '\n']).next()?;
    let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
    Some(ObjectId {
        // The text does not name the version.
        api_version: if group.is_empty() {
            String::new()
        } else {
            format!("{group}/")
        },
        kind: kind.to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    })
}

/// `... object shop/web apps/v1, Kind=Deployment: ...`
fn applied(text: &str) -> Option<ObjectId> {
    let starts = [
        "conflict occurred while applying object ",
        "server-side apply failed for object ",
    ];
    let (_, after) = starts.iter().find_map(|start| text.split_once(start))?;
    let (key, after) = after.split_once(' ')?;
    let (api_version, after) = after.split_once(", Kind=")?;
    let (kind, _) = after.split_once(':')?;
    let (namespace, name) = key.split_once('/')?;
    Some(ObjectId {
        // The core group is written as an empty one.
        api_version: api_version.trim_start_matches('/').to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// `ConfigMap "web" in namespace "shop" exists ...`
fn existing(text: &str) -> Option<ObjectId> {
    let (before, after) = text.split_once("\" in namespace \"")?;
    let (before, name) = before.rsplit_once(" \"")?;
    let kind = before.rsplit(' ').next()?;
    let (namespace, _) = after.split_once('"')?;
    Some(ObjectId {
        api_version: String::new(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The managers of a conflict: `conflict with "a" using v1: .data.b`, or `conflicts with "a" using v1:` and a line for each field.
/// A subresource and a time may follow the name.
pub(super) fn conflicts(text: &str) -> Vec<Conflict> {
    let mut found: Vec<Conflict> = Vec::new();
    // The conflicts of the next object follow this.
    let first = text.split(" && ").next().unwrap_or_default();
    for line in first.lines() {
        if let Some(field) = line.trim_start().strip_prefix("- ") {
            if let Some(last) = found.last_mut().filter(|last| last.fields.len() < MAX_FIELDS) {
                last.fields.push(field.trim().to_owned());
            }
            continue;
        }
        let Some((_, after)) = line
            .split_once("conflict with \"")
            .or_else(|| line.split_once("conflicts with \""))
        else {
            continue;
        };
        let Some((manager, after)) = after.split_once('"') else {
            continue;
        };
        let field = after.split_once(": ").map(|(_, field)| field.trim().to_owned());
        found.push(Conflict {
            manager: manager.to_owned(),
            fields: field.into_iter().filter(|field| !field.is_empty()).collect(),
        });
        if found.len() == MAX_MANAGERS {
            break;
        }
    }
    found
}
