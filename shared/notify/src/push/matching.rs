//! Which HelmOps follow a repository.

use helmops_git::{GIT_PREFIX, Location};
use helmops_model::chart::{registry::reference::Reference, source::ChartSource, url::Url};

use super::repository::{host_and_path, without_git_suffix};

/// A repository that a HelmOp follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Followed {
    /// In lower case, without the default port.
    host: Box<str>,
    /// In lower case, without outer slashes.
    path: Box<str>,
    /// The chart in a repository with an index; empty for a registry, where it belongs to the path.
    chart: Box<str>,
    is_git: bool,
}

impl Followed {
    /// Its memory size, in bytes.
    pub fn weight(&self) -> usize {
        size_of_val(self) + self.host.len() + self.path.len() + self.chart.len()
    }

    /// The repository of these options; `None` if they follow none: an archive has one version, and invalid ones have no repository.
    pub fn of(repo: &str, chart: &str) -> Option<Self> {
        match ChartSource::of(repo, chart) {
            ChartSource::Archive { .. } | ChartSource::Packed { .. } => None,
            ChartSource::Oci { repo } => {
                let reference = Reference::parse(repo).ok()?;
                Some(Self::new(reference.registry, reference.repository, ""))
            }
            ChartSource::Repository { repo, chart } => {
                let url = Url::parse(repo).ok()?;
                Some(Self::new(url.host, url.path, chart))
            }
        }
    }

    /// The Git repository with this URL; `None` if it is invalid. Over SSH and over HTTPS it is the same.
    pub fn of_git(url: &str) -> Option<Self> {
        let identity = Location::parse(url).ok()?.identity();
        let (_, repository) = identity.split_once("://")?;
        let (host, path) = repository.split_once('/')?;
        Some(Self {
            is_git: true,
            ..Self::new(host, without_git_suffix(path), "")
        })
    }

    fn new(host: &str, path: &str, chart: &str) -> Self {
        Self {
            is_git: false,
            host: normalized_host(host).into(),
            path: path.trim_matches('/').to_ascii_lowercase().into(),
            chart: chart.to_ascii_lowercase().into(),
        }
    }

    /// Whether this is the repository that a push names. A repository with an index may be named with or without the chart.
    ///
    /// Case does not count: some registries send names as their users write them. One poll too many costs a request.
    pub fn is_named_by(&self, repository: &str) -> bool {
        if repository.is_empty() {
            return true;
        }
        let repository = repository.to_ascii_lowercase();
        match (repository.strip_prefix(GIT_PREFIX), self.is_git) {
            (Some(repository), true) => self.has_name(without_git_suffix(repository)),
            (Some(_), false) => false,
            // What is below a project of a registry is no Git repository.
            (None, true) => !repository.contains('*') && self.has_name(without_git_suffix(&repository)),
            (None, false) => self.has_name(&repository),
        }
    }

    /// Whether a name in lower case, or a pattern, is one of this repository.
    fn has_name(&self, repository: &str) -> bool {
        if let Some(pattern) = repository.strip_prefix("*/") {
            return match pattern.strip_suffix("/*") {
                Some(parent) => format!("/{}/", self.path).contains(&format!("/{parent}/")),
                None => self.paths().any(|path| {
                    path.strip_suffix(pattern)
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
                }),
            };
        }
        if let Some(parent) = repository.strip_suffix("/*") {
            let (host, parent) = parent.split_once('/').unwrap_or((parent, ""));
            let is_below = format!("{}/", self.path).starts_with(&format!("{parent}/"));
            return normalized_host(host) == *self.host && (parent.is_empty() || is_below);
        }
        // A host without a dot looks like the first part of a path.
        let below_host = repository
            .strip_prefix(&*self.host)
            .and_then(|rest| rest.strip_prefix('/'));
        if below_host.is_some_and(|path| self.paths().any(|own| own == path)) {
            return true;
        }
        let (host, path) = host_and_path(repository);
        host.is_none_or(|host| normalized_host(host) == *self.host) && self.paths().any(|own| own == path)
    }

    /// The paths by which a push may name it.
    fn paths(&self) -> impl Iterator<Item = String> {
        let with_chart = match (&*self.path, &*self.chart) {
            (_, "") => None,
            ("", chart) => Some(chart.to_owned()),
            (path, chart) => Some(format!("{path}/{chart}")),
        };
        std::iter::once(self.path.to_string()).chain(with_chart)
    }
}

/// A host in lower case without the default port, and under one of the names that it has.
fn normalized_host(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    let host = host
        .strip_suffix(":443")
        .or(host.strip_suffix(":80"))
        .unwrap_or(&host);
    match host {
        "registry-1.docker.io" | "index.docker.io" | "registry.hub.docker.com" | "hub.docker.com" => {
            "docker.io"
        }
        host => host,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repository_is_named_by_host_and_path() {
        for (repo, chart, pushed, expected) in [
            ("oci://r.example/charts/web", "", "r.example/charts/web", true),
            ("OCI://R.example:443/charts/web", "", "r.example/charts/web", true),
            ("oci://r.example/charts/web", "", "R.example/Charts/Web", true),
            ("oci://r.example/charts/web", "", "charts/web", true),
            ("oci://r.example/charts/web", "", "", true),
            (
                "oci://r.example/charts/web",
                "",
                "other.example/charts/web",
                false,
            ),
            (
                "oci://r.example:5000/charts/web",
                "",
                "r.example/charts/web",
                false,
            ),
            ("oci://r.example/charts/web", "", "r.example/charts/web2", false),
            ("oci://r.example/charts/web", "", "r.example/charts", false),
            ("oci://r.example/charts/web", "", "web", false),
            (
                "oci://r.example/charts/web:1.2.3",
                "",
                "r.example/charts/web",
                true,
            ),
            (
                "oci://registry-1.docker.io/org/web",
                "",
                "docker.io/org/web",
                true,
            ),
            ("oci://[::1]:5000/web", "", "[::1]:5000/web", true),
            ("oci://registry/charts/web", "", "registry/charts/web", true),
            ("oci://registry/charts/web", "", "registry2/charts/web", false),
            ("oci://registry/charts/web", "", "other/charts/web", false),
            ("https://charts/stable", "web", "charts/stable/web", true),
            ("https://h.example/charts/", "web", "h.example/charts", true),
            ("https://h.example/charts", "web", "h.example/charts/web", true),
            ("https://h.example/charts", "web", "h.example/charts/api", false),
            ("https://h.example", "web", "h.example", true),
            ("https://h.example", "web", "h.example/web", true),
            ("https://h.example", "web", "web", true),
            (
                "https://user:pass@h.example/charts?x=1",
                "web",
                "h.example/charts",
                true,
            ),
        ] {
            let followed = Followed::of(repo, chart).unwrap();
            assert_eq!(followed.is_named_by(pushed), expected, "{repo} {chart} {pushed}");
        }
    }

    #[test]
    fn patterns_match_whole_parts_of_a_path() {
        for (repo, pattern, expected) in [
            ("https://n.example/repository/helm/", "*/repository/helm", true),
            (
                "https://n.example/nexus/repository/helm",
                "*/repository/helm",
                true,
            ),
            (
                "https://n.example/repository/helm-old",
                "*/repository/helm",
                false,
            ),
            ("https://n.example/my-repository/helm", "*/repository/helm", false),
            (
                "oci://registry.gitlab.com/group/project/web",
                "*/group/project/*",
                true,
            ),
            (
                "oci://registry.gitlab.com/group/project",
                "*/group/project/*",
                true,
            ),
            (
                "oci://registry.gitlab.com/group/project2/web",
                "*/group/project/*",
                false,
            ),
            (
                "https://gitlab.com/api/v4/projects/42/packages/helm/stable",
                "*/api/v4/projects/42/*",
                true,
            ),
            (
                "https://gitlab.com/api/v4/projects/group%2fcharts/packages/helm/stable",
                "*/api/v4/projects/group%2Fcharts/*",
                true,
            ),
            (
                "https://gitlab.com/api/v4/projects/421/packages/helm/stable",
                "*/api/v4/projects/42/*",
                false,
            ),
        ] {
            assert_eq!(
                Followed::of(repo, "").unwrap().is_named_by(pattern),
                expected,
                "{repo} {pattern}"
            );
        }
        for (repo, pattern, expected) in [
            ("oci://harbor.example/charts/web", "harbor.example/charts/*", true),
            (
                "oci://harbor.example/charts/team/web",
                "harbor.example/charts/*",
                true,
            ),
            (
                "oci://harbor.example/charts2/web",
                "harbor.example/charts/*",
                false,
            ),
            (
                "oci://harbor.example/team/charts/web",
                "harbor.example/charts/*",
                false,
            ),
            ("oci://other.example/charts/web", "harbor.example/charts/*", false),
            ("oci://harbor:8080/charts/web", "harbor:8080/charts/*", true),
            ("oci://harbor/charts/web", "harbor/charts/*", true),
            ("oci://harbor.example/charts/web", "harbor.example/*", true),
            ("oci://other.example/charts/web", "harbor.example/*", false),
        ] {
            let followed = Followed::of(repo, "").unwrap();
            assert_eq!(followed.is_named_by(pattern), expected, "{repo} {pattern}");
        }
        let followed = Followed::of("https://n.example/repository/helm", "web").unwrap();
        assert!(followed.is_named_by("*/helm/web"));
    }

    #[test]
    fn a_git_repository_is_named_by_its_path_over_any_protocol() {
        let urls = [
            "https://git.example.com/Team/Charts.git",
            "https://git.example.com/team/charts/",
            "http://gitea-http.gitea.svc:3000/team/charts.git",
            "ssh://git@git.example.com:2222/team/charts.git",
            "git@ssh.git.example.com:team/charts.git",
            "https://git.example.com/scm/team/charts.git",
        ];
        for url in urls {
            let followed = Followed::of_git(url).unwrap();
            for (pushed, expected) in [
                ("git+*/Team/charts", true),
                ("git+*/team/charts2", false),
                ("git+*/eam/charts", false),
                ("git+*/other/charts", false),
                ("*/team/charts/*", false),
                ("*/team/charts", false),
                ("team/web", false),
                ("", true),
            ] {
                assert_eq!(followed.is_named_by(pushed), expected, "{url} {pushed}");
            }
        }
        let followed = Followed::of_git(urls[0]).unwrap();
        for (pushed, expected) in [
            ("git.example.com/team/charts.git", true),
            ("git+git.example.com/team/charts", true),
            ("team/charts", true),
            ("other.example.com/team/charts.git", false),
        ] {
            assert_eq!(followed.is_named_by(pushed), expected, "{pushed}");
        }
        assert_eq!(Followed::of_git("https://git.example.com"), None);
    }

    #[test]
    fn a_push_to_git_names_no_repository_of_charts() {
        for (repo, chart) in [
            ("oci://git.example.com/team/charts", ""),
            ("https://git.example.com/team/charts", "web"),
            ("https://git.example.com/team", "charts"),
        ] {
            let followed = Followed::of(repo, chart).unwrap();
            for pushed in ["git+*/team/charts", "git+git.example.com/team/charts"] {
                assert!(!followed.is_named_by(pushed), "{repo} {chart} {pushed}");
            }
        }
    }

    #[test]
    fn what_has_no_repository_is_never_polled() {
        for (repo, chart) in [
            ("", "https://h/c-1.tgz"),
            ("", "web"),
            ("oci://h", ""),
            ("not a url", "web"),
            ("", ""),
        ] {
            assert_eq!(Followed::of(repo, chart), None, "{repo} {chart}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_matched_without_a_panic(repo in ".*", chart in ".*", pushed in ".*") {
            for followed in [Followed::of(&repo, &chart), Followed::of_git(&repo)].into_iter().flatten() {
                followed.is_named_by(&pushed);
            }
        }

        #[test]
        fn a_registry_is_named_by_its_own_reference(path in "[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,4}", port in prop::option::of(1_u16..)) {
            let port = port.map(|port| format!(":{port}")).unwrap_or_default();
            let followed = Followed::of(&format!("oci://r.example{port}/{path}"), "").unwrap();
            let name = format!("r.example{port}/{path}");
            let other = format!("other.example{port}/{path}");
            prop_assert!(followed.is_named_by(&name) && followed.is_named_by(&path) && !followed.is_named_by(&other));
        }
    }
}
