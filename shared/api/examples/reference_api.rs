//! Writes the reference page of the API, generated from the CRDs; `make manifests` calls it.

use std::{
    error::Error,
    fmt::Write as _,
    io::{self, Write as _},
};

use bounded_text::table_cell;
use helmops_api::crds;
use serde_json::{Map, Value};

const HEAD: &str = "\
# API

<!-- Generated from the types in shared/api/src by `make manifests`. Do not edit. -->

The fields of the kinds that users write: in `fleet.cattle.io/v1alpha1`, and `AlertProvider`, `Alert` and `Receiver` in
`helmops.fleet.cattle.io/v1alpha1`. [fields.md](../fields.md) explains HelmOps with examples.
`kubectl explain bundle.spec` and `kubectl explain bundledeployment.spec` have the kinds that controllers write. `[]` is an element of
a list, and `*` is any key of a map.
";

/// Kinds that users write.
const KINDS: [&str; 10] = [
    "HelmOp",
    "Policy",
    "Cluster",
    "ClusterGroup",
    "ClusterRegistrationToken",
    "BundleNamespaceMapping",
    "Schedule",
    "AlertProvider",
    "Alert",
    "Receiver",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    out.write_all(HEAD.as_bytes())?;
    let definitions: Vec<Value> = [crds::all()?, crds::of_clusters()?, crds::of_notifications()?]
        .into_iter()
        .flatten()
        .map(|(_, definition)| serde_json::to_value(definition))
        .collect::<Result<_, _>>()?;
    for kind in KINDS {
        let is_kind =
            |definition: &&Value| definition.pointer("/spec/names/kind") == Some(&Value::from(kind));
        let definition = definitions.iter().find(is_kind).ok_or("unknown kind")?;
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema");
        let schema = schema.ok_or("a CRD without a schema")?;
        writeln!(out, "\n## {kind}\n\n{}", text(schema, "description"))?;
        writeln!(out, "\n| Field | Type | Description |\n|---|---|---|")?;
        let mut rows = Vec::new();
        fields(schema, "", &mut rows);
        for row in rows {
            writeln!(out, "{row}")?;
        }
    }
    Ok(())
}

/// Adds the rows of the fields of an object.
fn fields(schema: &Value, prefix: &str, rows: &mut Vec<String>) {
    let empty = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    for (name, field) in properties {
        if prefix.is_empty() && matches!(&**name, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let path = format!("{prefix}{name}");
        let required = schema["required"]
            .as_array()
            .is_some_and(|required| required.contains(&Value::from(&**name)));
        let required = if required { ", required" } else { "" };
        rows.push(format!(
            "| `{path}` | {}{required} | {} |",
            type_of(field),
            text(field, "description")
        ));
        let (inner, suffix) = match &field["type"] {
            Value::String(kind) if kind == "array" => (&field["items"], "[]"),
            _ if field["additionalProperties"].is_object() => (&field["additionalProperties"], ".*"),
            _ => (field, ""),
        };
        fields(inner, &format!("{path}{suffix}."), rows);
    }
}

/// The type of a field with its default and its bounds.
fn type_of(field: &Value) -> String {
    let mut description = match &field["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", base(&field["items"])),
        _ if field["additionalProperties"].is_object() => {
            format!("map of {}", base(&field["additionalProperties"]))
        }
        _ => base(field),
    };
    for (keyword, label) in [
        ("default", "default"),
        ("minimum", "min"),
        ("maximum", "max"),
        ("maxLength", "max length"),
        ("maxItems", "max items"),
    ] {
        // Writing into a String does not fail.
        if let Some(bound) = field.get(keyword) {
            let _ = write!(description, ", {label} {bound}");
        }
    }
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        let values: Vec<_> = values.iter().map(ToString::to_string).collect();
        let _ = write!(description, ": {}", values.join(", "));
    }
    description
}

fn base(schema: &Value) -> String {
    match &schema["type"] {
        _ if schema["x-kubernetes-int-or-string"] == true => "integer or string".to_owned(),
        Value::String(kind) => kind.clone(),
        _ => "any".to_owned(),
    }
}

/// A text in one line of a table.
fn text(schema: &Value, field: &str) -> String {
    table_cell(schema[field].as_str().unwrap_or_default())
}
