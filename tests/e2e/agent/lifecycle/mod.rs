//! `spec.lifecycle`.

mod actions;
pub mod attempts;
mod dependencies;
mod events;
mod examples;
mod flux;
mod options;
mod removal_order;
mod restored;
mod rollout;
mod storage_namespace;
mod testing;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::harness::agent::Fixture;
use crate::harness::condition;

/// A life cycle in which objects have two seconds to become ready.
fn lifecycle(parts: &Value) -> Value {
    let mut lifecycle = json!({ "wait": { "timeout": "2s" } });
    let parts = parts.as_object().unwrap().clone();
    lifecycle.as_object_mut().unwrap().extend(parts);
    lifecycle
}

fn spec(msg: &str, parts: &Value) -> Value {
    json!({ "lifecycle": lifecycle(parts), "options": { "helm": { "values": { "msg": msg } } } })
}

/// Status and reason of a condition.
fn state(found: &Value, r#type: &str) -> String {
    let text = |condition: &Value, key| condition[key].as_str().unwrap_or_default().to_owned();
    condition(found, r#type).map_or_else(String::new, |one| {
        format!("{} {}", text(one, "status"), text(one, "reason"))
    })
}

async fn until_state(fixture: &Fixture, name: &str, r#type: &str, expected: &str) -> Value {
    fixture
        .until(name, |found| {
            let state = state(found, r#type);
            ensure!(
                state == expected,
                "{type} is {state:?}, not {expected:?}: {}",
                found["status"]["conditions"]
            );
            Ok(())
        })
        .await
}
