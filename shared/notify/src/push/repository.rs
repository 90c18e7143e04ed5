//! What a push announces, and the names of repositories.

use bounded_text::cut;
use helmops_git::GIT_PREFIX;

/// Bytes of the name of a repository that are kept. Registries allow 255 for a path, and a host has at most 253.
const MAX_REPOSITORY: usize = 512;

/// Bytes of a tag that are kept: registries allow 128.
const MAX_TAG: usize = 128;

/// A push: the repository, and the tag or version if it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Announcement {
    /// Host and path, such as `registry.example/charts/web`, or a path alone. `*/` in front of a path stands for any host and any parent,
    /// and `/*` at the end for all repositories below a path or a host. `git+` in front of it all is a Git repository. Empty for all
    /// repositories.
    pub repository: String,
    /// The tag; empty if it is not known. It decides nothing, and is for people.
    pub tag: String,
}

impl Announcement {
    /// A push to any repository.
    pub fn of_all() -> Self {
        Self::default()
    }

    /// A push to a repository, given as host and path, a path or a URL; `None` if the text cannot be the name of a repository.
    pub(super) fn of(repository: &str, tag: &str) -> Option<Self> {
        Some(Self {
            repository: name(repository)?,
            tag: tag_of(tag),
        })
    }

    /// A push to any repository that ends with this path.
    pub(super) fn of_suffix(path: &str, tag: &str) -> Option<Self> {
        Some(Self {
            repository: format!("*/{}", name(path)?),
            tag: tag_of(tag),
        })
    }

    /// A push to any repository with this path, or below it, on any host.
    pub(super) fn below(path: &str, tag: &str) -> Option<Self> {
        Some(Self {
            repository: format!("*/{}/*", name(path)?),
            tag: tag_of(tag),
        })
    }

    /// A push to the Git repository with this path, on any host and below any path. Servers name themselves as the internet sees them, while
    /// HelmOps may use a name of the cluster, another host for SSH, or a prefix such as `/scm`.
    pub(super) fn of_git(path: &str, reference: &str) -> Option<Self> {
        Some(Self {
            repository: format!("{GIT_PREFIX}*/{}", without_git_suffix(&name(path)?)),
            tag: tag_of(reference.strip_prefix("refs/tags/").unwrap_or_default()),
        })
    }

    /// A push to any repository of a project, on the host of this URL.
    pub(super) fn in_project(url: &str, project: &str) -> Option<Self> {
        let server = name(url)?;
        let host = server.split('/').next()?;
        let parent = if project.is_empty() {
            host.to_owned()
        } else {
            format!("{host}/{}", name(project)?)
        };
        (parent.len() <= MAX_REPOSITORY).then(|| Self {
            repository: format!("{parent}/*"),
            tag: String::new(),
        })
    }

    /// A push of an image, such as `host/path:tag` or `host/path@sha256:…`, with or without a scheme.
    pub(super) fn of_image(image: &str, tag: &str) -> Option<Self> {
        let image = without_scheme(image)?;
        // What is before another `@` may be a login.
        let image = match image.split_once('@') {
            Some((image, digest)) if is_digest(digest) => image,
            _ => image,
        };
        let (repository, own_tag) = match image.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') && !is_port(repository, tag) => (repository, tag),
            _ => (image, ""),
        };
        Self::of(repository, if tag.is_empty() { own_tag } else { tag })
    }
}

/// The path of a Git repository without `.git`, which servers leave to the client.
pub(super) fn without_git_suffix(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.strip_suffix(".git").unwrap_or(path)
}

fn is_digest(text: &str) -> bool {
    let algorithm = text.split(':').next().unwrap_or_default();
    matches!(algorithm, "sha256" | "sha384" | "sha512")
}

/// Whether a number belongs to a host without a path, and is no tag.
fn is_port(host: &str, text: &str) -> bool {
    !host.contains('/') && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `None` if a URL is none of a repository.
fn without_scheme(text: &str) -> Option<&str> {
    match text.split_once("://") {
        Some((scheme, rest)) => {
            let is_known = ["oci", "http", "https"]
                .iter()
                .any(|known| scheme.eq_ignore_ascii_case(known));
            is_known.then_some(rest)
        }
        None => Some(text),
    }
}

/// The name of a repository without scheme and outer slashes.
fn name(text: &str) -> Option<String> {
    let text = without_scheme(text)?.trim_matches('/');
    // Not `*`: senders cannot write patterns. Not `@`: a URL may have a credential before it.
    let is_allowed = |c: u8| c.is_ascii_alphanumeric() || b"._-/:~%+[]".contains(&c);
    let is_name = !text.is_empty() && text.len() <= MAX_REPOSITORY && text.bytes().all(is_allowed);
    is_name.then(|| text.to_owned())
}

/// A tag for people: a digest is none, and control characters are not shown.
fn tag_of(text: &str) -> String {
    if text.contains(':') {
        return String::new();
    }
    let text: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_TAG + 1)
        .collect();
    cut(text, MAX_TAG)
}

/// Whether a text begins with a host, by the rule of Docker: a dot, a port or `localhost` before the first slash.
pub(super) fn host_and_path(repository: &str) -> (Option<&str>, &str) {
    match repository.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host.eq_ignore_ascii_case("localhost") => {
            (Some(host), path)
        }
        // A host alone is a repository of the root of a server.
        None if repository.contains(['.', ':']) => (Some(repository), ""),
        _ => (None, repository),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_split_into_repository_and_tag() {
        for (image, tag, repository, expected) in [
            ("h.example/a/web:1.2.3", "", "h.example/a/web", "1.2.3"),
            ("h.example:5000/a/web", "", "h.example:5000/a/web", ""),
            ("h.example:5000/a/web:1", "", "h.example:5000/a/web", "1"),
            ("h.example/web@sha256:12", "", "h.example/web", ""),
            ("h.example/web:1@sha256:12", "", "h.example/web", "1"),
            ("h.example/web@sha256:12", "1.0", "h.example/web", "1.0"),
            ("h.example/web:1", "sha256:12", "h.example/web", ""),
            // As HelmOps name it.
            (
                "oci://h.example:5000/a/web:1.2.3",
                "",
                "h.example:5000/a/web",
                "1.2.3",
            ),
            ("OCI://h.example/web@sha256:12", "", "h.example/web", ""),
            ("https://h.example:8080/charts", "", "h.example:8080/charts", ""),
            ("https://h.example:8080", "", "h.example:8080", ""),
            ("h:5000", "", "h:5000", ""),
            ("web:1.2.3", "", "web", "1.2.3"),
        ] {
            let announcement = Announcement::of_image(image, tag).unwrap();
            assert_eq!(
                (&*announcement.repository, &*announcement.tag),
                (repository, expected),
                "{image}"
            );
        }
    }

    #[test]
    fn a_sender_cannot_write_patterns_or_credentials() {
        for text in [
            "",
            "/",
            "*",
            "*/web",
            "a/*",
            "https://user:pass@h/c",
            "a b",
            "ä",
            "a\n",
            "ftp://h/c",
            &"a".repeat(513),
        ] {
            assert_eq!(Announcement::of(text, ""), None, "{text}");
            assert_eq!(Announcement::of_image(text, ""), None, "{text}");
        }
        for (text, expected) in [
            ("oci://h.example/c/", "h.example/c"),
            ("https://h.example", "h.example"),
            ("/a/b/", "a/b"),
        ] {
            assert_eq!(Announcement::of(text, "").unwrap().repository, expected);
        }
    }

    #[test]
    fn a_git_repository_is_named_without_its_suffix() {
        for (path, reference, repository, tag) in [
            ("Org/charts", "refs/heads/main", "git+*/Org/charts", ""),
            (
                "/Org/charts.git/",
                "refs/tags/v1.2.3",
                "git+*/Org/charts",
                "v1.2.3",
            ),
            ("~jane/charts", "", "git+*/~jane/charts", ""),
        ] {
            let announcement = Announcement::of_git(path, reference).unwrap();
            assert_eq!(
                (&*announcement.repository, &*announcement.tag),
                (repository, tag),
                "{path}"
            );
        }
        assert_eq!(Announcement::of_git("*/charts", ""), None);
    }

    #[test]
    fn a_project_belongs_to_the_host_of_its_url() {
        let long = "a".repeat(MAX_REPOSITORY);
        for (url, project, expected) in [
            ("https://h.example", "charts", Some("h.example/charts/*")),
            ("http://h:8080/harbor/", "charts", Some("h:8080/charts/*")),
            ("https://h.example", "", Some("h.example/*")),
            ("https://h.example", "*", None),
            ("https://user:pass@h.example", "charts", None),
            ("", "charts", None),
            ("https://h.example", &long, None),
        ] {
            let found = Announcement::in_project(url, project).map(|announcement| announcement.repository);
            assert_eq!(found.as_deref(), expected, "{url} {project}");
        }
    }

    #[test]
    fn a_tag_is_short_and_printable() {
        let tag = |tag: &str| Announcement::of("a", tag).unwrap().tag;
        assert_eq!(tag("1.2.3\u{1b}[31m"), "1.2.3[31m");
        assert!(tag(&"ä".repeat(1_000_000)).len() <= MAX_TAG);
    }
}
