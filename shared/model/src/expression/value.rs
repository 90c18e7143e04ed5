//! JSON as values of CEL. Integers are `int`, as in the API server, so that they can be added and subtracted.

use std::{collections::HashMap, sync::Arc};

use cel::objects::{Key, Map, Value as Cel};
use serde_json::{Number, Value};

/// The value of CEL for a JSON value.
pub fn of_json(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => of_number(number),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(of_json).collect())),
        Value::Object(fields) => {
            let entries = fields.iter();
            let entries = entries.map(|(key, value)| (Key::String(Arc::new(key.clone())), of_json(value)));
            Cel::Map(Map {
                map: Arc::new(entries.collect::<HashMap<_, _>>()),
            })
        }
    }
}

fn of_number(number: &Number) -> Cel {
    match (number.as_i64(), number.as_u64()) {
        (Some(number), _) => Cel::Int(number),
        (None, Some(number)) => Cel::UInt(number),
        (None, None) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}
