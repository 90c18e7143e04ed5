//! The object that Helm's text is about: of a conflict, the response of the API server does not name it.

use helmops_release::object::ObjectId;

/// The object that a text is about.
pub(super) fn object(text: &str) -> Option<ObjectId> {
    applied(text).or_else(|| existing(text))
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
