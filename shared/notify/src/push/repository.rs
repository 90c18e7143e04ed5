//! What a push announces, and the names of repositories.

use bounded_text::cut;

/// Bytes of the name of a repository that are kept. Registries allow 255 for a path, and a host has at most 253.
const MAX_REPOSITORY: usize = 512;

/// Bytes of a tag that are kept: registries allow 128.
const MAX_TAG: usize = 128;

/// A push: the repository, and the tag or version if it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Announcement {
    /// Host and path, such as `registry.example/charts/web`, or a path alone. `*/` in front of a path stands for any host and any parent,
    /// and `/*` at its end for all repositories below. Empty for all repositories.
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

    /// A push of an image, such as `host/path:tag` or `host/path@sha256:…`.
    pub(super) fn of_image(image: &str, tag: &str) -> Option<Self> {
        let image = image.split_once('@').map_or(image, |(image, _)| image);
        let (repository, own_tag) = match image.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository, tag),
            _ => (image, ""),
        };
        Self::of(repository, if tag.is_empty() { own_tag } else { tag })
    }
}

/// The name of a repository without scheme and outer slashes.
fn name(text: &str) -> Option<String> {
    let text = match text.split_once("://") {
        Some(("oci" | "http" | "https", rest)) => rest,
        Some(_) => return None,
        None => text,
    };
    let text = text.trim_matches('/');
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
    fn a_tag_is_short_and_printable() {
        let tag = |tag: &str| Announcement::of("a", tag).unwrap().tag;
        assert_eq!(tag("1.2.3\u{1b}[31m"), "1.2.3[31m");
        assert!(tag(&"ä".repeat(1_000_000)).len() <= MAX_TAG);
    }
}
