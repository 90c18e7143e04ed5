//! JSON functions.

use serde_json::Value as Json;

use super::{
    super::{
        json::{self, Layout},
        value::Value,
    },
    args::{Call, Function, exactly},
};

pub fn find(name: &str) -> Option<Function> {
    Some(match name {
        "toJson" | "mustToJson" => exactly(1, |c| encode(c, Layout::Plain)),
        "toRawJson" | "mustToRawJson" => exactly(1, |c| encode(c, Layout::Raw)),
        "toPrettyJson" | "mustToPrettyJson" => exactly(1, |c| encode(c, Layout::Pretty)),
        "fromJson" => exactly(1, |c| {
            let text = c.text(0)?;
            check_size(c, &text)?;
            match serde_json::from_str::<Json>(&json::without_lone_surrogates(&text)) {
                Ok(json) => c.heap.import(&json, 0),
                Err(_) => Ok(Value::Nil),
            }
        }),
        "mustFromJson" => exactly(1, |c| {
            let text = c.text(0)?;
            check_size(c, &text)?;
            let text = json::without_lone_surrogates(&text);
            let json: Json = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            c.heap.import(&json, 0)
        }),
        _ => return None,
    })
}

/// Fails for JSON that would be too large in memory: small objects take a hundred times the memory of their text.
fn check_size(c: &Call<'_>, text: &str) -> Result<(), String> {
    const VALUE: usize = 32;
    const ENTRY: usize = 112;
    const OBJECT: usize = 700;

    let bytes = text.bytes().map(|byte| match byte {
        b'{' => OBJECT,
        b':' => ENTRY,
        b'[' | b',' => VALUE,
        _ => 1,
    });
    c.heap.charge_read(text.len())?;
    c.heap.meter.check_memory(bytes.sum())
}

fn encode(c: &mut Call<'_>, layout: Layout) -> Result<Value, String> {
    let value = c.any(0);
    json::encode(c.heap, &value, layout).map(Value::from)
}
