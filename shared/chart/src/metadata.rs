//! `Chart.yaml`: name and version of a chart, and the charts that it needs.

use go_formats::yaml::{self, Quota};
use serde_json::Value;

/// A chart that another one needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// The range of versions; empty for any.
    pub version: String,
    /// Where it is; empty for the folder `charts`.
    pub repository: String,
}

/// What is evaluated of a `Chart.yaml`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartYaml {
    /// The name of the chart.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The charts that it needs.
    pub dependencies: Vec<Dependency>,
    /// All of it.
    pub value: Value,
}

impl ChartYaml {
    /// Reads a `Chart.yaml`, of what is left for all of a chart.
    ///
    /// # Errors
    /// What is wrong with it, for a message.
    pub fn parse(content: &[u8], quota: &mut Quota) -> Result<Self, String> {
        let value = read(content, quota)?;
        let required = |field: &str| match value.get(field) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            Some(Value::Number(_)) => Err(format!("{field} is a number; write it in quotes")),
            _ => Err(format!("it has no {field}")),
        };
        Ok(Self {
            name: required("name")?,
            version: required("version")?,
            dependencies: dependencies(&value),
            value,
        })
    }

    /// The dependencies in a `requirements.yaml`, where charts of the first format have them.
    ///
    /// # Errors
    /// What is wrong with it, for a message.
    pub fn requirements(content: &[u8], quota: &mut Quota) -> Result<Vec<Dependency>, String> {
        read(content, quota).map(|value| dependencies(&value))
    }
}

fn read(content: &[u8], quota: &mut Quota) -> Result<Value, String> {
    let text = std::str::from_utf8(content).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let text = text.trim_start_matches('\u{feff}');
    yaml::read(text, quota).map_err(|error| error.to_string())
}

fn dependencies(value: &Value) -> Vec<Dependency> {
    let all = value.get("dependencies").and_then(Value::as_array);
    let text = |dependency: &Value, field: &str| {
        let value = dependency.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let all = all.into_iter().flatten().map(|dependency| Dependency {
        name: text(dependency, "name"),
        version: text(dependency, "version"),
        repository: text(dependency, "repository"),
    });
    // Helm reports the others.
    all.filter(|dependency| !dependency.name.is_empty()).collect()
}
