//! Parses and formats URLs.

use std::collections::BTreeMap;

use go_formats::url::{Url, User};

use super::{
    super::value::{Elements, Value},
    args::{Call, Function, exactly},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "urlParse" => exactly(1, |c| {
            let url = Url::parse(&c.text(0)?).map_err(|error| format!("unable to parse url: {error}"))?;
            let entries = entries(c, &url)?;
            c.heap.map(Elements::Any, entries)
        }),
        "urlJoin" => exactly(1, |c| Ok(join(c)?.to_string().into())),
        _ => return None,
    })
}

fn entries(c: &Call<'_>, url: &Url) -> Result<BTreeMap<String, Value>, String> {
    let user = url.user.as_ref().map(User::to_string).unwrap_or_default();
    let entries = [
        ("scheme", &*url.scheme),
        ("host", &url.host),
        ("hostname", url.hostname()),
        ("path", &url.path),
        ("query", &url.query),
        ("opaque", &url.opaque),
        ("fragment", &url.fragment),
        ("userinfo", &user),
    ];
    let entries = entries.into_iter();
    entries
        .map(|(key, text)| Ok((key.to_owned(), c.heap.text(text)?)))
        .collect()
}

fn join(c: &mut Call<'_>) -> Result<Url, String> {
    let map = c.map(0)?;
    let texts = c.heap.map_of(map)?;
    let bytes = texts.entries.values().map(|value| match value {
        Value::Str(text) => text.len(),
        _ => 0,
    });
    c.heap.meter.check_text(bytes.sum())?;
    let text = |key: &str| match c.heap.get(map, key) {
        None => Ok(String::new()),
        Some(Value::Str(text)) => Ok(text.to_string()),
        Some(other) => Err(format!(
            "{key} must be of type string, but {} found",
            other.kind()
        )),
    };
    let user = match &*text("userinfo")? {
        "" => None,
        // Parsed with the rules for user information in a URL.
        user => {
            Url::parse(&format!("any://{user}@host"))
                .map_err(|error| error.to_string())?
                .user
        }
    };
    Ok(Url {
        scheme: text("scheme")?,
        opaque: text("opaque")?,
        user,
        host: text("host")?,
        path: text("path")?,
        query: text("query")?,
        fragment: text("fragment")?,
    })
}
