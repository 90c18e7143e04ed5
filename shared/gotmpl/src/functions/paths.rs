//! Paths, as in Go's package `path`.

use super::{
    super::value::Value,
    args::{Function, exactly},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "base" | "osBase" => exactly(1, |c| Ok(Value::str(base(&c.text(0)?)))),
        "dir" | "osDir" => exactly(1, |c| {
            let path = c.text(0)?;
            let end = path.rfind('/').map_or(0, |slash| slash + 1);
            Ok(clean(path.get(..end).unwrap_or_default()).into())
        }),
        "clean" | "osClean" => exactly(1, |c| Ok(clean(&c.text(0)?).into())),
        "ext" | "osExt" => exactly(1, |c| {
            let path = c.text(0)?;
            let name = path.rsplit('/').next().unwrap_or_default();
            Ok(Value::str(
                name.rfind('.')
                    .and_then(|dot| name.get(dot..))
                    .unwrap_or_default(),
            ))
        }),
        "isAbs" | "osIsAbs" => exactly(1, |c| Ok(c.text(0)?.starts_with('/').into())),
        _ => return None,
    })
}

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if name.is_empty() { "/" } else { name }
}

/// Resolves `.`, `..` and double slashes lexically.
fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !is_absolute => parts.push(".."),
                _ => _ = parts.pop(),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}
