//! `Chart.yaml`: the name and version of a chart, and whether the subcharts that it declares are in its archive.

use std::collections::BTreeSet;

use bounded_text::cut;
use go_formats::yaml::{self, Quota};
use serde_json::Value;

use crate::{ArchiveError, MissingDependency, path::MAX_SHOWN};

/// What is evaluated of a `Chart.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartYaml {
    /// The name of the chart.
    pub name: String,
    /// Its version, as written.
    pub version: String,
    /// The subcharts that it needs.
    pub dependencies: Vec<Dependency>,
}

/// A subchart that a chart needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    name: String,
    repository: String,
}

impl ChartYaml {
    /// Reads a `Chart.yaml`.
    pub fn parse(text: &str) -> Result<Self, ArchiveError> {
        let value = read(text)?;
        Ok(Self {
            name: required(&value, "name")?,
            version: required(&value, "version")?,
            dependencies: dependencies(&value),
        })
    }

    /// The dependencies in a `requirements.yaml`, where charts of the first format have them.
    pub fn requirements(content: &[u8]) -> Result<Vec<Dependency>, ArchiveError> {
        let text = String::from_utf8_lossy(content);
        Ok(dependencies(&read(&text)?))
    }
}

fn read(text: &str) -> Result<Value, ArchiveError> {
    yaml::read(text, &mut Quota::default()).map_err(|error| ArchiveError::ChartYaml(error.to_string()))
}

fn required(chart: &Value, field: &str) -> Result<String, ArchiveError> {
    let cause = match chart.get(field) {
        Some(Value::String(text)) if !text.is_empty() => return Ok(text.clone()),
        Some(Value::Number(_)) => format!("{field} is a number; write it in quotes"),
        Some(Value::String(_) | Value::Null) | None => format!("it has no {field}"),
        Some(_) => format!("{field} is not a text"),
    };
    Err(ArchiveError::ChartYaml(cause))
}

fn dependencies(chart: &Value) -> Vec<Dependency> {
    let all = chart.get("dependencies").and_then(Value::as_array);
    let text = |dependency: &Value, field: &str| {
        let value = dependency.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let all = all.into_iter().flatten().map(|dependency| Dependency {
        name: text(dependency, "name"),
        repository: text(dependency, "repository"),
    });
    // Helm reports the others.
    all.filter(|dependency| !dependency.name.is_empty()).collect()
}

/// The subcharts that a chart declares, and those in its archive.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    declared: Vec<Dependency>,
    /// Names of subcharts that are in the archive.
    names: BTreeSet<String>,
    /// The names of files with archives of subcharts.
    archives: Vec<String>,
}

impl Dependencies {
    /// The chart declares these.
    pub fn declare(&mut self, dependencies: Vec<Dependency>) {
        self.declared.extend(dependencies);
    }

    /// The archive of a subchart is in the archive, with this path in the chart.
    pub fn found_archive(&mut self, path: &str) {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.archives.push(name.trim_end_matches(".tgz").to_owned());
    }

    /// A subchart in a folder is in the archive: the path of its `Chart.yaml` in the chart, and its content.
    pub fn found_folder(&mut self, path: &str, chart_yaml: &[u8]) {
        let parsed = ChartYaml::parse(&String::from_utf8_lossy(chart_yaml));
        // Helm reports one that cannot be read.
        let name = parsed.map(|chart| chart.name).ok();
        let folder = || path.split('/').nth(1).unwrap_or_default().to_owned();
        self.names.insert(name.unwrap_or_else(folder));
    }

    /// Whether all declared subcharts are in the archive, as Helm requires. The name of a chart in an archive follows from the name
    /// of the file; if that fits no declared subchart, it may be any, and Helm itself decides.
    pub fn check(&self) -> Result<(), MissingDependency> {
        let declared: BTreeSet<_> = self.declared.iter().map(|dependency| &*dependency.name).collect();
        let mut found: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        for archive in &self.archives {
            let own = chart_names(archive);
            let fitting: Vec<_> = own.filter(|name| declared.contains(name)).collect();
            if fitting.is_empty() {
                return Ok(());
            }
            found.extend(fitting);
        }
        let missing = self
            .declared
            .iter()
            .find(|dependency| !found.contains(&*dependency.name));
        missing.map_or(Ok(()), |dependency| {
            Err(MissingDependency {
                name: cut(dependency.name.clone(), MAX_SHOWN),
                repository: cut(without_credentials(&dependency.repository), MAX_SHOWN),
            })
        })
    }
}

/// The names that the chart in a file can have: a version follows after a hyphen.
fn chart_names(file: &str) -> impl Iterator<Item = &str> {
    let before_hyphens = file.match_indices('-').filter_map(|(at, _)| file.get(..at));
    before_hyphens.chain([file])
}

/// A URL without user, password and query.
fn without_credentials(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(text: &str) -> Result<ChartYaml, String> {
        ChartYaml::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn name_and_version_are_texts() {
        let parsed = chart("name: web\nversion: 1.2.3\nicon: x").unwrap();
        assert_eq!((&*parsed.name, &*parsed.version), ("web", "1.2.3"));
        for (text, message) in [
            ("name: web", "it has no version"),
            ("name: web\nversion: ''", "it has no version"),
            ("version: 1.2.3", "it has no name"),
            (
                "name: web\nversion: 1.2",
                "version is a number; write it in quotes",
            ),
            ("name: [web]\nversion: 1.2.3", "name is not a text"),
            ("name: web\nversion: [", "line 3"),
            ("- name: web", "it has no name"),
            ("", "it has no name"),
        ] {
            let error = chart(text).unwrap_err();
            assert!(
                error.contains(message) && error.contains("Chart.yaml"),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn a_declared_subchart_must_be_in_the_archive() {
        let declared = "name: web\nversion: 1.0.0\ndependencies:\n- name: redis\n- name: redis-ha\n";
        let folder = |name: &str| {
            (
                format!("charts/{name}/Chart.yaml"),
                format!("name: {name}\nversion: 1.0.0"),
            )
        };
        for (archives, folders, missing) in [
            (&["redis-1.0.0", "redis-ha-2.0.0"][..], &[][..], None),
            (&["redis-1.0.0"], &["redis-ha"], None),
            (&[], &["redis", "redis-ha"], None),
            (&[], &["redis"], Some("redis-ha")),
            (&["redis-1.0.0"], &[], Some("redis-ha")),
            (&[], &[], Some("redis")),
            // It may be any chart.
            (&["renamed"], &[], None),
        ] {
            let mut dependencies = Dependencies::default();
            dependencies.declare(chart(declared).unwrap().dependencies);
            for archive in archives {
                dependencies.found_archive(&format!("charts/{archive}.tgz"));
            }
            for name in folders {
                let (path, content) = folder(name);
                dependencies.found_folder(&path, content.as_bytes());
            }
            let found = dependencies.check().map_err(|error| error.name).err();
            assert_eq!(found.as_deref(), missing, "{archives:?} {folders:?}");
        }
    }

    #[test]
    fn a_missing_subchart_is_reported_with_the_fix_and_without_credentials() {
        let declared = "name: web\nversion: 1.0.0\ndependencies: [{name: redis, repository: 'https://u:geheim@h/charts?token=geheim'}]";
        let mut dependencies = Dependencies::default();
        dependencies.declare(chart(declared).unwrap().dependencies);
        let error = dependencies.check().unwrap_err().to_string();
        for part in ["\"redis\" of https://h/charts,", "helm dependency build"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("geheim"), "{error}");
    }
}
