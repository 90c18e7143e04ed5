//! A GitRepository: the commit, the access, and what else of it matters to a chart.

use std::path::Path;

use helmops_api::GitReference;

use crate::create::{
    in_git::{ChartInGit, named, plain},
    note::{Gap, Loss},
    objects::fields::Fields,
};

/// The branch of a GitRepository that names none.
const DEFAULT_BRANCH: &str = "master";
const OTHER_REPOSITORIES: &str = "files of other repositories are copied into the folder of the chart: commit them there, or publish the chart (helm package, \
                                  helm push), and set --repo and --version";

/// Converts all fields but the URL and the access. Returns the interval.
pub fn convert(spec: &mut Fields<'_>, chart: &mut ChartInGit) -> Option<String> {
    let mut fields = spec.mapping("ref");
    chart.source.reference = Some(reference(&mut fields, chart));
    fields.finish(&mut chart.notes);
    if spec.flag("recurseSubmodules") == Some(true) {
        let text = "submodules are not fetched: the controller refuses one in the folder of the chart; commit its files there";
        chart.notes.push(spec.note("recurseSubmodules", text));
    }
    if spec.text("ignore").is_some() {
        let text = "files in the folder of the chart that it excludes belong to the chart here; exclude them with its .helmignore";
        chart.notes.push(spec.note("ignore", text));
    }
    for mut include in spec.list("include") {
        let mut repository = include.mapping("repository");
        let name = repository.text("name").unwrap_or_default();
        repository.finish(&mut chart.notes);
        include.drop("fromPath");
        let to = include.text("toPath").unwrap_or(name);
        if overlap(plain(&to), &chart.source.path) {
            let note = include.refusal("", Gap::Unpublished, OTHER_REPOSITORIES);
            chart.notes.push(note);
        }
        include.finish(&mut chart.notes);
    }
    suspended(spec, chart);
    // The folder of the chart is all that is fetched.
    for name in ["sparseCheckout", "timeout"] {
        spec.drop(name);
    }
    spec.text("interval")
}

/// A suspended source, or a suspended HelmChart, keeps its commit.
pub fn suspended(spec: &mut Fields<'_>, chart: &mut ChartInGit) {
    if spec.flag("suspend") == Some(true) && chart.is_moving() {
        let text = "Flux deploys no other commit while the source is suspended; set ref.commit to the commit that it has";
        let note = spec.refusal("suspend", Gap::Field(Loss::Suspend), text);
        chart.notes.push(note);
    }
}

/// The commit: Flux prefers one itself, then a name, a range, a tag, a branch.
fn reference(fields: &mut Fields<'_>, chart: &mut ChartInGit) -> GitReference {
    let [commit, name, semver, tag, branch] =
        ["commit", "name", "semver", "tag", "branch"].map(|field| fields.text(field));
    let mut reference = GitReference::default();
    if let Some(commit) = commit {
        reference.commit = commit;
    } else if let Some(name) = name {
        return named(&name).unwrap_or_else(|| {
            let text = format!(
                "{name:?} is neither a branch nor a tag: push one of both for the commit, or write it into ref.commit"
            );
            chart.notes.push(fields.refusal("name", Gap::Unpublished, text));
            reference
        });
    } else if let Some(semver) = semver {
        reference.semver = semver;
    } else if let Some(tag) = tag {
        reference.tag = tag;
    } else {
        reference.branch = branch.unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
    }
    reference
}

/// Whether one of two paths is in the other.
fn overlap(one: &str, other: &str) -> bool {
    let is_in = |path: &str, folder: &str| Path::new(path).starts_with(folder);
    is_in(one, other) || is_in(other, one)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::CONVERSION, *};
    use crate::create::{
        ChartFlags,
        objects::{
            Objects,
            testing::{check, check_refusal, input, settings},
        },
    };

    /// A HelmRelease whose chart is in a GitRepository.
    fn release(repository: &str, chart: &str) -> String {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: apps, namespace: shop}}\nspec: {{url: \
             'https://git.example.com/a'{repository}}}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web, namespace: \
             shop}}\nspec: {{chart: {{spec: {{chart: ./charts/web, sourceRef: {{kind: GitRepository, name: apps}}{chart}}}}}}}\n"
        )
    }

    #[test]
    fn the_commit_is_that_of_flux() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (reference, expected) in [
            ("", json!({ "branch": "master" })),
            (", ref: {branch: main}", json!({ "branch": "main" })),
            (", ref: {branch: main, tag: v1}", json!({ "tag": "v1" })),
            (", ref: {tag: v1, semver: 1.x}", json!({ "semver": "1.x" })),
            (", ref: {semver: 1.x, name: refs/tags/v2}", json!({ "tag": "v2" })),
            (", ref: {name: refs/heads/a/b}", json!({ "branch": "a/b" })),
            (
                &*format!(", ref: {{name: refs/heads/a, branch: main, commit: {commit}}}"),
                json!({ "commit": commit }),
            ),
        ] {
            let expected = [
                ("/spec/chartSource/git/ref", expected),
                ("/spec/chartSource/git/url", json!("https://git.example.com/a")),
                ("/spec/chartSource/git/path", json!("charts/web")),
                ("/spec/chartSource/git/reconcileStrategy", json!("ChartVersion")),
                ("/spec/helm/chart", Value::Null),
                ("/spec/helm/version", Value::Null),
            ];
            check(&CONVERSION, &release(reference, ", version: 1.x"), &expected, &[]);
        }
        let other = release(", ref: {name: refs/pull/1/head}", "");
        let text = "spec.ref.name: \"refs/pull/1/head\" is neither a branch nor a tag";
        check_refusal(&CONVERSION, &other, Gap::Unpublished, text);
    }

    #[test]
    fn what_a_git_repository_has_beside_a_commit() {
        let [interval, secret] = ["/spec/pollingInterval", "/spec/chartSource/git/secretRef/name"];
        let commit = "ref: {commit: 0123456789abcdef0123456789abcdef01234567}";
        let strategy = "/spec/chartSource/git/reconcileStrategy";
        for (repository, chart, pointer, expected, noted) in [
            (", interval: 1m", ", interval: 5m", interval, json!("1m"), ""),
            (
                "",
                ", reconcileStrategy: Revision",
                strategy,
                json!("Revision"),
                "",
            ),
            (
                &*format!(", interval: 1m, suspend: true, {commit}"),
                ", suspend: true",
                interval,
                Value::Null,
                "",
            ),
            (", suspend: true", "", interval, Value::Null, "spec.suspend!"),
            (
                "",
                ", suspend: true",
                interval,
                Value::Null,
                "spec.chart.spec.suspend!",
            ),
            (
                ", verify: {mode: HEAD}",
                "",
                interval,
                Value::Null,
                "spec.verify!",
            ),
            (
                "",
                ", verify: {provider: cosign}",
                interval,
                Value::Null,
                "spec.chart.spec.verify!",
            ),
            (", secretRef: {name: a}", "", secret, json!("a"), "spec.secretRef"),
            (
                ", proxySecretRef: {name: a}",
                "",
                secret,
                json!("a"),
                "spec.proxySecretRef",
            ),
            (", provider: azure", "", secret, Value::Null, "spec.provider"),
            (", ignore: a", "", secret, Value::Null, "spec.ignore"),
            (
                ", recurseSubmodules: true",
                "",
                secret,
                Value::Null,
                "spec.recurseSubmodules",
            ),
            (
                ", sparseCheckout: [charts], timeout: 1m",
                "",
                secret,
                Value::Null,
                "",
            ),
            (
                ", include: [{repository: {name: lib}}]",
                "",
                secret,
                Value::Null,
                "",
            ),
            (", new: 1", "", secret, Value::Null, "spec.new"),
        ] {
            let noted: Vec<_> = [noted].into_iter().filter(|path| !path.is_empty()).collect();
            check(
                &CONVERSION,
                &release(repository, chart),
                &[(pointer, expected)],
                &noted,
            );
        }
        let included = release(
            ", include: [{repository: {name: lib}, toPath: charts/web/lib}]",
            "",
        );
        let text = "spec.include[0]: files of other repositories";
        check_refusal(&CONVERSION, &included, Gap::Unpublished, text);
    }

    #[test]
    fn a_flag_names_the_secret_of_a_git_repository() {
        let text = release(", secretRef: {name: a}", "");
        let objects = Objects::of(input(&CONVERSION, &[("a.yaml", &text)], false), settings()).unwrap();
        let mut batch = objects.batch(None).unwrap();
        let flags = ChartFlags {
            secret: Some("b".to_owned()),
            ..ChartFlags::default()
        };
        flags.apply(&mut batch.drafts[0].helmop).unwrap();
        batch.settle(&[]);
        let spec = json!(batch.drafts[0].helmop.spec);
        let found = (
            &spec["chartSource"]["git"]["secretRef"]["name"],
            &spec["helmSecretName"],
        );
        assert_eq!(found, (&json!("b"), &Value::Null));
    }

    #[test]
    fn folders_overlap_by_whole_names() {
        for (one, other, expected) in [
            ("charts/web", "charts/web", true),
            ("charts/web/files", "charts/web", true),
            ("charts", "charts/web", true),
            ("", "charts/web", true),
            ("lib", "", true),
            ("charts/webs", "charts/web", false),
            ("lib", "charts/web", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
        }
    }
}
