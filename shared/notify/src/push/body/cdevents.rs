//! CDEvents, as binary or structured CloudEvents.

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::{BodyError, json};
use crate::push::{headers::Headers, repository::Announcement};

/// The event that announces an artifact in a registry, without its version.
const PUBLISHED: &str = "dev.cdevents.artifact.published";

#[derive(Deserialize)]
struct Body {
    context: Option<Context>,
    subject: Option<Subject>,
    /// The event, in structured mode.
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    context: Context,
    subject: Subject,
}

#[derive(Deserialize)]
struct Context {
    r#type: String,
}

#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    id: String,
}

pub(super) fn read(
    events: &[String],
    headers: &Headers<'_>,
    body: &[u8],
) -> Result<Vec<Announcement>, BodyError> {
    let body: Body = json(body)?;
    let (context, subject) = match body.data {
        Some(data) => (Some(data.context), Some(data.subject)),
        None => (body.context, body.subject),
    };
    let context = context.ok_or(BodyError::Missing("context"))?;
    let subject = subject.ok_or(BodyError::Missing("subject"))?;
    let names = [Some(&*context.r#type), headers.text("Ce-Type")];
    let is_listed = |listed: &String| names.iter().flatten().any(|name| is_type(name, listed));
    if events.is_empty() {
        return Ok(if is_type(&context.r#type, PUBLISHED) {
            of_package(&subject.id).into_iter().collect()
        } else {
            Vec::new()
        });
    }
    if !events.iter().any(is_listed) {
        return Ok(Vec::new());
    }
    // The Receiver names the event: if it names no repository of charts, all HelmOps of the Receiver are meant.
    Ok(vec![of_package(&subject.id).unwrap_or_default()])
}

/// Whether a type is the listed one; the version at its end may be omitted.
fn is_type(name: &str, listed: &str) -> bool {
    name.strip_prefix(listed)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The repository of a package URL, such as `pkg:oci/web@sha256%3A…?repository_url=registry.example/charts/web&tag=1.2.3`,
/// `pkg:docker/charts/web@1.2.3?repository_url=registry.example` or `pkg:helm/web@1.2.3?repository_url=https://charts.example`.
fn of_package(id: &str) -> Option<Announcement> {
    let rest = id.strip_prefix("pkg:")?.trim_start_matches('/');
    let (package_type, rest) = rest.split_once('/')?;
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (name, qualifiers) = rest.split_once('?')?;
    let (name, version) = name.split_once('@').unwrap_or((name, ""));
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
    let qualifier = |key: &str| {
        let mut pairs = qualifiers.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case(key))?;
        decoded(value)
    };
    let repository = qualifier("repository_url")?;
    let tag = qualifier("tag").unwrap_or_default();
    match package_type.to_ascii_lowercase().as_str() {
        "oci" => Announcement::of(&repository, &tag),
        "docker" => {
            let (name, registry) = (decoded(name)?, repository.trim_end_matches('/'));
            let is_whole = registry
                .strip_suffix(&*name)
                .is_some_and(|rest| rest.ends_with('/'));
            if is_whole {
                Announcement::of(registry, &tag)
            } else {
                Announcement::of(&format!("{registry}/{name}"), &tag)
            }
        }
        "helm" => {
            let version = if tag.is_empty() { decoded(version)? } else { tag };
            let repository = format!("{}/{}", repository.trim_end_matches('/'), decoded(name)?);
            Announcement::of(&repository, &version)
        }
        _ => None,
    }
}
