//! A chart in a Git repository: `spec.chartSource.git`, unless flags name where the chart is published.

use std::mem;

use helmops_api::{GitReference, GitSource, helmop::ChartSource, notifications::LocalReference};
use serde_json::Value;

use super::{
    draft::Draft,
    note::{Gap, Note},
    objects::fields::Fields,
};

/// How the names of branches and tags start.
const BRANCHES: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";

/// A chart in a Git repository.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartInGit {
    /// The repository, the commit and the folder.
    pub source: GitSource,
    /// The name of the Secret with the access; empty for none.
    pub secret: String,
    /// Whether the certificate of the server is not verified.
    pub insecure_skip_tls_verify: bool,
    /// The Secrets that are needed for it.
    pub objects: Vec<Value>,
    /// What could not be converted as it was.
    pub notes: Vec<Note>,
    /// What flags have to name of a chart that is published, if they name any of it.
    published: Note,
}

impl ChartInGit {
    /// The chart of a folder, which a field names. A chart that flags name elsewhere has the name of the folder.
    pub fn new(url: &str, path: &str, (fields, field): (&Fields<'_>, &str), draft: &mut Draft) -> Self {
        let path = plain(path);
        let name = name(path);
        let helm = draft.helmop.spec.bundle.options.helm.get_or_insert_default();
        name.clone_into(&mut helm.chart);
        // The version is that of its Chart.yaml.
        helm.version.clear();
        let text = format!(
            "a chart of a repository needs --repo, --version, and --chart if its name is not {name:?}; without any of them it is deployed from Git"
        );
        Self {
            source: GitSource {
                url: with_user(url.trim_end_matches('/')),
                path: path.to_owned(),
                ..GitSource::default()
            },
            secret: String::new(),
            insecure_skip_tls_verify: false,
            objects: Vec::new(),
            notes: Vec::new(),
            published: fields.refusal(field, Gap::Unpublished, text),
        }
    }

    /// Whether another commit can be meant later.
    pub fn is_moving(&self) -> bool {
        let reference = self.source.reference.as_ref();
        reference.is_none_or(|reference| reference.commit.is_empty())
    }

    /// Adds it to a HelmOp whose flags are set, or what they have to name.
    pub fn settle(mut self, draft: &mut Draft) {
        let spec = &mut draft.helmop.spec;
        let helm = spec.bundle.options.helm.get_or_insert_default();
        let is_published =
            !helm.repo.is_empty() || !helm.version.is_empty() || helm.chart != name(&self.source.path);
        if is_published {
            draft.notes.push(self.published);
            return;
        }
        helm.chart.clear();
        spec.insecure_skip_tls_verify |= self.insecure_skip_tls_verify;
        // That of a flag.
        let mut secret = mem::take(&mut spec.helm_secret_name);
        if secret.is_empty() {
            secret = self.secret;
            draft.objects.append(&mut self.objects);
        }
        if !secret.is_empty() {
            self.source.secret_ref = Some(LocalReference {
                name: secret,
                ..LocalReference::default()
            });
        }
        spec.chart_source = Some(ChartSource {
            git: Some(Box::new(self.source)),
            ..ChartSource::default()
        });
        draft.notes.append(&mut self.notes);
    }
}

/// The branch or the tag of a full name such as `refs/heads/main`; `None` for another one.
pub fn named(name: &str) -> Option<GitReference> {
    let mut reference = GitReference::default();
    if let Some(branch) = name.strip_prefix(BRANCHES) {
        branch.clone_into(&mut reference.branch);
    } else {
        name.strip_prefix(TAGS)?.clone_into(&mut reference.tag);
    }
    Some(reference)
}

/// A path without what means nothing in it; empty for the top.
pub fn plain(path: &str) -> &str {
    match path.trim_start_matches("./").trim_matches('/') {
        "." => "",
        path => path,
    }
}

/// Whether a repository is reached over SSH.
pub fn is_ssh(url: &str) -> bool {
    url.starts_with("ssh://") || !url.contains("://")
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Git servers have the user `git` for SSH, which other tools take if none is written.
pub fn with_user(url: &str) -> String {
    match url.strip_prefix("ssh://") {
        Some(rest) if !rest.split('/').next().unwrap_or_default().contains('@') => {
            format!("ssh://git@{rest}")
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_written_for_ssh_only() {
        for (url, expected) in [
            ("ssh://h/g/n.git", "ssh://git@h/g/n.git"),
            ("ssh://h:2222/g@n.git", "ssh://git@h:2222/g@n.git"),
            ("ssh://me@h/g/n.git", "ssh://me@h/g/n.git"),
            ("https://h/g/n.git", "https://h/g/n.git"),
            ("git@h:g/n.git", "git@h:g/n.git"),
        ] {
            assert_eq!(with_user(url), expected);
        }
    }

    #[test]
    fn paths_are_written_without_what_means_nothing() {
        for (path, expected) in [
            ("./charts/web/", "charts/web"),
            ("/charts/web", "charts/web"),
            (".", ""),
            ("./", ""),
            ("", ""),
        ] {
            assert_eq!(plain(path), expected, "{path}");
        }
    }
}
