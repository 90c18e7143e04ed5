//! The macro that declares a struct of the API.
//!
//! A field is a line `"wireName" => name: Type`;
//! `"wireName" | nullable` marks one that the CRD lets be `null`. An `Option` is a Go pointer (or a number that is
//! encoded even if it is 0); a zero value of any other type is omitted from the JSON. Embedded structs are listed in
//! brackets after the name of the struct; a field that the struct itself does not have is offered to them in this order.
//! [`UnknownFields`](super::unknown_fields::UnknownFields) is embedded like a struct, and accepts every field. A struct without
//! it ignores fields that it does not know.

/// Declares a struct of the API; the documentation of the module `wire_struct` has the syntax.
#[macro_export]
#[doc(hidden)]
macro_rules! wire {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(: [$($part:ident: $part_type:ty),+ $(,)?])? {
            $($(#[$field_meta:meta])* $wire:literal $(| $transform:ident)? => $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, ::serde::Serialize, ::schemars::JsonSchema)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(rename = $wire, default, skip_serializing_if = "crate::wire::is_zero")]
                $(#[schemars(transform = $crate::schema::$transform)])?
                pub $field: $type,
            )*
            // After the fields: unknown fields come last in the deployment ID.
            $($(
                #[doc = concat!("The embedded [`", stringify!($part_type), "`].")]
                #[serde(flatten)]
                pub $part: $part_type,
            )+)?
        }

        impl $crate::wire::FieldValue<'_> for $name {}

        impl $crate::wire::FieldSet for $name {
            fn read_field<'de, A: ::serde::de::MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                match key {
                    $($wire => {
                        self.$field = $crate::wire::value(map, $wire)?;
                        Ok(true)
                    })*
                    _ => {
                        $($(
                            if $crate::wire::FieldSet::read_field(&mut self.$part, key, map)? {
                                return Ok(true);
                            }
                        )+)?
                        Ok(false)
                    }
                }
            }
        }

        impl $crate::unknown_fields::VisitUnknown for $name {
            fn visit_unknown(
                &mut self,
                path: $crate::unknown_fields::FieldPath<'_>,
                visit: $crate::unknown_fields::Visit<'_>,
            ) {
                use $crate::unknown_fields::VisitUnknown;
                $(VisitUnknown::visit_unknown(&mut self.$field, path.field($wire), visit);)*
                $($(VisitUnknown::visit_unknown(&mut self.$part, path, visit);)+)?
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::wire::deserialize(deserializer)
            }
        }
    };
}

pub use wire;
