//! Charts that a chart needs: they are in its folder `charts`, or in a folder of the repository that it names by `file://`.

use std::collections::BTreeSet;

use bounded_text::excerpt;
use masterminds_semver::{Constraint, Version};

use crate::{
    ChartPath,
    error::ChartError,
    locate::{CHART_YAML, MAX_SHOWN},
    metadata::{ChartYaml, Dependency},
};

/// What the path of a folder begins with.
const FILE: &str = "file://";

/// The charts that a chart needs, and those in its folder `charts`.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    dependencies: Vec<Dependency>,
    names: BTreeSet<String>,
    archives: Vec<String>,
}

/// Whether a file describes a chart in the folder `charts`.
pub fn is_chart_yaml(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    matches!(&*parts, ["charts", _, CHART_YAML])
}

impl Declared {
    /// The chart needs these.
    pub fn add(&mut self, dependencies: &[Dependency]) {
        self.dependencies.extend_from_slice(dependencies);
    }

    /// There is a chart in a folder, with this name if its `Chart.yaml` can be read.
    pub fn found_folder(&mut self, path: &str, name: Option<&str>) {
        // Helm reports one that cannot be read.
        let folder = path.split('/').nth(1).unwrap_or_default();
        self.names.insert(name.unwrap_or(folder).to_owned());
    }

    /// There is a file, which may be the archive of a chart.
    pub fn found_file(&mut self, path: &str) {
        let name = path
            .strip_prefix("charts/")
            .and_then(|path| path.strip_suffix(".tgz"));
        self.archives
            .extend(name.filter(|name| !name.contains('/')).map(str::to_owned));
    }

    /// The charts that are not in the folder `charts`, each once.
    pub fn not_vendored(&self) -> impl Iterator<Item = &Dependency> {
        let mut known = BTreeSet::new();
        let missing = self
            .dependencies
            .iter()
            .filter(|dependency| !self.is_vendored(&dependency.name));
        missing.filter(move |dependency| known.insert(&dependency.name))
    }

    fn is_vendored(&self, name: &str) -> bool {
        // A version follows the name.
        let is_of = |archive: &String| {
            let rest = archive.strip_prefix(name);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('-').is_some_and(begins_with_version)
            })
        };
        self.names.contains(name) || self.archives.iter().any(is_of)
    }
}

fn begins_with_version(text: &str) -> bool {
    text.trim_start_matches('v')
        .starts_with(|c: char| c.is_ascii_digit())
}

/// The folder of a chart that is not in the folder `charts`.
pub fn folder<E>(dependency: &Dependency, path: &ChartPath) -> Result<ChartPath, ChartError<E>> {
    let Some(relative) = dependency.repository.strip_prefix(FILE) else {
        return Err(ChartError::NotVendored {
            path: excerpt(&path.below(CHART_YAML), MAX_SHOWN),
            name: excerpt(&dependency.name, MAX_SHOWN),
            repository: shown(&dependency.repository),
        });
    };
    if dependency.name.contains(['/', '\\']) {
        return Err(problem(
            dependency,
            path,
            "whose name has a slash, which no chart has".to_owned(),
        ));
    }
    if relative.starts_with('/') {
        let fix = "which is absolute; write it relative to the chart, such as file://../common".to_owned();
        return Err(problem(dependency, path, fix));
    }
    path.join(relative).ok_or_else(|| {
        let fix =
            "which leads out of the repository; charts are included from the same repository only".to_owned();
        problem(dependency, path, fix)
    })
}

/// The error for a chart in another folder.
pub fn problem<E>(dependency: &Dependency, path: &ChartPath, problem: String) -> ChartError<E> {
    ChartError::Local {
        path: excerpt(&path.below(CHART_YAML), MAX_SHOWN),
        name: excerpt(&dependency.name, MAX_SHOWN),
        repository: shown(&dependency.repository),
        problem,
    }
}

/// Whether the chart in a folder is the one that is needed.
///
/// # Errors
/// What is wrong with it, for a message.
pub fn check(dependency: &Dependency, included: &ChartYaml) -> Result<(), String> {
    if included.name != dependency.name {
        let name = excerpt(&included.name, MAX_SHOWN);
        return Err(format!(
            "but the chart there has the name {name:?}; correct name or repository"
        ));
    }
    let range = dependency.version.as_str();
    if range.is_empty() {
        return Ok(());
    }
    let constraint =
        Constraint::parse(range).map_err(|error| format!("and its version is no range: {error}"))?;
    let version = Version::parse(&included.version);
    if version.is_ok_and(|version| constraint.matches(&version)) {
        return Ok(());
    }
    Err(format!(
        "but the chart there has version {:?}, which is not in the range {:?}; correct one of them",
        excerpt(&included.version, MAX_SHOWN),
        excerpt(range, MAX_SHOWN)
    ))
}

/// A repository for a message: without credentials.
fn shown(repository: &str) -> String {
    let text = repository.split(['?', '#']).next().unwrap_or_default();
    let without_login = match text.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{scheme}://{}{path}", host.rsplit('@').next().unwrap_or_default())
        }
        None => text.to_owned(),
    };
    excerpt(&without_login, MAX_SHOWN)
}
