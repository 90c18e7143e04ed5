//! From the types' JSON schemas to schemas that an API server takes in a CustomResourceDefinition.

use kube_core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Value, json};

/// The structural schema of `T`, with the fields that it embeds side by side with its own.
pub fn structural<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .with_transform(plain)
        .into_generator()
        .into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value()
}

/// Lets a field be `null`.
pub fn nullable(schema: &mut Schema) {
    // Marked under a name of its own, because `plain` takes away what `Option` says of null.
    schema.insert("x-nullable".into(), true.into());
}

/// The rules of `pollingInterval`, which only a schema can give to users who bypass the webhook.
pub fn polling_interval(schema: &mut Schema) {
    nullable(schema);
    // The upper bound is left to admission: CEL's `duration` fails on a long number with an error that does not name the limit.
    schema.insert(
        "x-kubernetes-validations".into(),
        json!([{
            "rule": "self == '0' || self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$')",
            "message": "must be a valid Go duration such as 15m or 1h30m: numbers with the units ns, us, µs, ms, s, m, h (d and w are not supported), at most 2562047h",
        }]),
    );
}

/// Leaves what an API server wants: no defaults written into objects unless said elsewhere, `null` only where a field
/// is marked for it.
fn plain(schema: &mut Schema) {
    transform_subschemas(&mut plain, schema);
    schema.remove("default");
    schema.remove("nullable");
    if schema.remove("x-nullable").is_some() {
        schema.insert("nullable".into(), true.into());
    }
    // The types here never set a lower bound; it comes from Rust's integer types.
    schema.remove("minimum");
}
