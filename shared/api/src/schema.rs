//! Converts the JSON schemas of the types to structural schemas for CustomResourceDefinitions.

use kube_core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Value, json};

/// The structural schema of `T`, with embedded structs inlined.
pub fn structural<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .with_transform(normalize)
        .into_generator()
        .into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value()
}

/// Lets a field be `null`.
pub fn nullable(schema: &mut Schema) {
    // Marked with a separate key, because `normalize` removes the `nullable` that `Option` sets.
    schema.insert("x-nullable".into(), true.into());
}

/// The form of a duration in CEL: every one that is valid for Go and not negative, but `-0s`. `µ` is both the
/// micro sign and the Greek letter. It is short, because the API server estimates the cost of a rule by its length.
pub const DURATION: &str = r"self == '0' || self.matches(r'^\+?((\d+\.?\d*|\.\d+)([nuµμm]?s|[mh]))+$')";

/// The form of a duration, which only the schema can enforce if the webhook is bypassed.
pub fn duration(schema: &mut Schema) {
    nullable(schema);
    // The upper bound is left to admission: CEL's `duration` fails on a long number with an error that does not name the limit.
    schema.insert(
        "x-kubernetes-validations".into(),
        json!([{
            "rule": DURATION,
            "message": "must be a valid Go duration such as 15m or 1h30m: numbers with the units ns, us, µs, ms, s, m, h (d and w are not supported), at most 2562047h",
        }]),
    );
}

/// Removes what schemars derives from the Rust types: defaults, and `nullable` for fields that are not marked for it.
fn normalize(schema: &mut Schema) {
    transform_subschemas(&mut normalize, schema);
    schema.remove("default");
    schema.remove("nullable");
    if schema.remove("x-nullable").is_some() {
        schema.insert("nullable".into(), true.into());
        // The API server compares a `null` with the list too.
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.push(Value::Null);
        }
    }
    // No type sets a minimum; it comes from Rust's integer types.
    schema.remove("minimum");
}
