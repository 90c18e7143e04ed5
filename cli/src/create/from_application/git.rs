//! A folder of a Git repository, which may be a chart.

use helm_index::VersionRequest;
use helmops_api::GitReference;
use masterminds_semver::Version;

use crate::create::{
    draft::Draft,
    in_git::{ChartInGit, named},
    note::Gap,
    objects::fields::Fields,
};

/// The default branch of a repository.
const HEAD: &str = "HEAD";
/// Names of branches that no tag has.
const BRANCHES: [&str; 2] = ["main", "master"];
/// The digits of a commit.
const COMMIT: [usize; 2] = [40, 64];
const TAG_PREFIX: &str = "tags with a prefix are no versions here: write the tag into chartSource.git.ref.tag, or publish the chart (helm package, helm push), and \
                          set --repo and --version";
const NO_CHART: &str =
    "the folder has to be a chart, with Chart.yaml; leave manifests and kustomizations to Argo CD";

/// Converts the chart of a folder. The controller finds out whether it is one.
pub fn convert(source: &mut Fields<'_>, url: &str, path: &str, draft: &mut Draft) -> ChartInGit {
    let mut chart = ChartInGit::new(url, path, (source, "path"), draft);
    let revision = source.text("targetRevision").unwrap_or_default();
    let prefix = source.text("tagPrefix");
    let reference = reference(&revision);
    let is_range = reference
        .as_ref()
        .is_some_and(|reference| !reference.semver.is_empty());
    if prefix.is_some() && is_range {
        let note = source.refusal("tagPrefix", Gap::Unpublished, TAG_PREFIX);
        chart.notes.push(note);
    }
    let named = reference.as_ref().filter(|_| !BRANCHES.contains(&&*revision));
    let is_taken =
        |name: fn(&GitReference) -> &String| named.is_some_and(|reference| *name(reference) == revision);
    if is_taken(|reference| &reference.branch) {
        let text = format!(
            "{revision:?} is taken for a branch; if it is a tag, write it into chartSource.git.ref.tag, and a commit in full into ref.commit"
        );
        chart.notes.push(source.note("targetRevision", text));
    } else if is_taken(|reference| &reference.tag) {
        let text = format!(
            "{revision:?} is taken for a tag; if it is a branch, write it into chartSource.git.ref.branch"
        );
        chart.notes.push(source.note("targetRevision", text));
    }
    if !source.has("helm") {
        chart.notes.push(source.note("path", NO_CHART));
    }
    chart.source.reference = reference;
    chart
}

/// Which commit a revision means: Argo CD takes it for a commit, then for a range of tags, then for a name. A version is a name, complete or not.
///
/// Source: Argo CD's `util/versions/versions.go`, `MaxVersion`.
fn reference(revision: &str) -> Option<GitReference> {
    let mut reference = GitReference::default();
    let is_hex = |c: u8| c.is_ascii_hexdigit();
    if matches!(revision, "" | HEAD) {
        return None;
    } else if let Some(reference) = named(revision) {
        return Some(reference);
    } else if COMMIT.contains(&revision.len()) && revision.bytes().all(is_hex) {
        reference.commit = revision.to_ascii_lowercase();
    } else if Version::parse(revision).is_ok() {
        revision.clone_into(&mut reference.tag);
    } else if VersionRequest::parse(revision).is_ok() {
        revision.clone_into(&mut reference.semver);
    } else {
        revision.clone_into(&mut reference.branch);
    }
    Some(reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_a_commit_a_range_or_a_name() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let upper = commit.to_uppercase();
        for (revision, field, expected) in [
            ("", "", ""),
            ("HEAD", "", ""),
            (commit, "commit", commit),
            (&*upper, "commit", commit),
            ("1.x", "semver", "1.x"),
            (">=1 <2", "semver", ">=1 <2"),
            ("v1.2.3", "tag", "v1.2.3"),
            ("1.2", "tag", "1.2"),
            ("v1.0", "tag", "v1.0"),
            ("2024", "tag", "2024"),
            ("main", "branch", "main"),
            ("release-1.2", "branch", "release-1.2"),
            ("0123abc", "branch", "0123abc"),
            ("refs/heads/main", "branch", "main"),
            ("refs/tags/v1", "tag", "v1"),
        ] {
            let found = reference(revision).map(|reference| {
                [
                    ("commit", reference.commit),
                    ("semver", reference.semver),
                    ("branch", reference.branch),
                    ("tag", reference.tag),
                ]
                .into_iter()
                .find(|(_, text)| !text.is_empty())
            });
            let expected = (!field.is_empty()).then(|| Some((field, expected.to_owned())));
            assert_eq!(found, expected, "{revision}");
        }
    }
}
