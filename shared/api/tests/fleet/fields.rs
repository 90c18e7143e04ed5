//! The fields of a CRD: their paths and types, without anything that describes them.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::Value;

/// The type of each field by its path, such as `spec.targets[].name`. A list of objects has the type `[]object`, a map `{}object`.
pub type Fields = BTreeMap<String, String>;

/// The kind of a CRD, and the fields of its newest version but for the metadata. `None` if it is no CRD.
pub fn of_crd(crd: &Value) -> Option<(String, Fields)> {
    let kind = crd.pointer("/spec/names/kind")?.as_str()?;
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties")?;
    let mut fields = Fields::new();
    for (name, schema) in schema.as_object()? {
        if !matches!(&**name, "apiVersion" | "kind" | "metadata") {
            add(&mut fields, name, schema);
        }
    }
    Some((kind.to_owned(), fields))
}

fn add(fields: &mut Fields, path: &str, mut schema: &Value) {
    let mut brackets = String::new();
    loop {
        let (bracket, inner) = match (schema.get("items"), schema.get("additionalProperties")) {
            (Some(items), _) => ("[]", items),
            (None, Some(values)) if values.is_object() => ("{}", values),
            _ => break,
        };
        brackets.push_str(bracket);
        schema = inner;
    }
    fields.insert(path.to_owned(), format!("{brackets}{}", type_of(schema)));
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        add(fields, &format!("{path}{brackets}.{name}"), field);
    }
}

fn type_of(schema: &Value) -> &str {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return "int-or-string";
    }
    schema.get("type").and_then(Value::as_str).unwrap_or("any")
}

/// A line for each kind, and one for each of its fields, indented by the depth: so that no path is repeated.
pub fn write(kinds: &BTreeMap<String, Fields>) -> String {
    let mut text = String::new();
    for (kind, fields) in kinds {
        // Writing into a String does not fail.
        let _ = writeln!(text, "{kind}");
        let mut fields: Vec<_> = fields.iter().collect();
        // A field is followed by its own fields, also if another one starts with its name.
        fields.sort_by_key(|(path, _)| path.replace(['[', ']', '{', '}'], "").replace('.', "\0"));
        for (path, r#type) in fields {
            let depth = path.matches('.').count() + 1;
            let name = path.rsplit('.').next().unwrap_or(path);
            let _ = writeln!(text, "{}{name} {type}", " ".repeat(depth));
        }
    }
    text
}

/// Reads what [`write`] writes. Lines that start with `#` are left out.
pub fn read(text: &str) -> BTreeMap<String, Fields> {
    let mut kinds = BTreeMap::<String, Fields>::new();
    let mut parents: Vec<String> = Vec::new();
    let mut kind = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, r#type)) = line.trim_start().split_once(' ') else {
            line.clone_into(&mut kind);
            kinds.entry(kind.clone()).or_default();
            continue;
        };
        let depth = line.len() - line.trim_start().len();
        parents.truncate(depth - 1);
        let path = match parents.last() {
            Some(parent) => format!("{parent}.{name}"),
            None => name.to_owned(),
        };
        let brackets = r#type.trim_end_matches(|letter: char| !"[]{}".contains(letter));
        parents.push(format!("{path}{brackets}"));
        kinds
            .entry(kind.clone())
            .or_default()
            .insert(path, r#type.to_owned());
    }
    kinds
}
