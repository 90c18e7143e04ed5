//! Options of a target.

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, de::MapAccess};

use super::{
    BundleDeploymentOptions,
    unknown_fields::{FieldPath, Visit, VisitUnknown},
    wire::FieldSet,
};

static NONE: LazyLock<BundleDeploymentOptions> = LazyLock::new(BundleDeploymentOptions::default);

/// The options of a target. Most targets have none, which then take no memory: stored in each target, they would be the
/// largest part of a HelmOp.
#[derive(Clone, Debug, Default)]
pub struct TargetOptions(Option<Box<BundleDeploymentOptions>>);

impl TargetOptions {
    /// Whether the options are allocated.
    pub fn is_boxed(&self) -> bool {
        self.0.is_some()
    }
}

impl Deref for TargetOptions {
    type Target = BundleDeploymentOptions;

    fn deref(&self) -> &BundleDeploymentOptions {
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for TargetOptions {
    fn deref_mut(&mut self) -> &mut BundleDeploymentOptions {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for TargetOptions {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl FieldSet for TargetOptions {
    /// Accepts every field, as an option or as an unknown field.
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        self.0.get_or_insert_default().read_field(key, map)
    }
}

impl VisitUnknown for TargetOptions {
    fn visit_unknown(&mut self, path: FieldPath<'_>, visit: Visit<'_>) {
        self.0.visit_unknown(path, visit);
    }
}

impl Serialize for TargetOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl JsonSchema for TargetOptions {
    fn schema_name() -> Cow<'static, str> {
        BundleDeploymentOptions::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BundleDeploymentOptions::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use crate::BundleTarget;

    fn target(text: &str) -> BundleTarget {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn only_options_take_memory() {
        let plain = target(r#"{"name":"a","clusterGroup":"eu"}"#);
        assert!(plain.options.0.is_none());
        let mut other =
            target(r#"{"name":"a","namespace":"shop","clusterGroup":"eu","helm":{"chart":"web"}}"#);
        assert_eq!(other.options.namespace, "shop");
        assert_ne!(plain, other);
        other.options.namespace.clear();
        other.options.helm = None;
        assert_eq!(plain, other, "empty options equal no options");
    }

    #[test]
    fn options_are_encoded_among_the_fields_of_the_target() {
        let text = r#"{"clusterGroup":"eu","namespace":"shop","newer":1}"#;
        let encoded = serde_json::to_string(&target(text)).unwrap();
        assert_eq!(encoded, text);
    }
}
