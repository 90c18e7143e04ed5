//! What Policies look at of a chart.

use std::borrow::Cow;

use crate::chart::{registry::reference::Reference, source::ChartSource, url::Url};

/// A text that says where a chart comes from, or which chart it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// The field of the `helm` block that it stands in.
    pub field: &'static str,
    /// The text as it stands there.
    pub written: &'a str,
    /// What is compared with patterns, any of which will do; or why nothing is.
    pub read: Result<Vec<Cow<'a, str>>, String>,
}

/// Where the chart comes from: the URL of its repository, its reference in a registry, or the URL of an archive.
pub fn origin(source: ChartSource<'_>) -> Told<'_> {
    match source {
        ChartSource::Archive { url } => archive(url),
        ChartSource::Oci { repo } => Told {
            field: "repo",
            written: repo,
            read: reference(repo).map(|_| vec![repo.into()]),
        },
        ChartSource::Repository { repo, .. } => Told {
            field: "repo",
            written: repo,
            read: location(repo).map(|url| vec![url.into()]),
        },
    }
}

/// Which chart it is: its name in the repository, its reference in a registry or the name at the end of that, or the URL of
/// an archive.
pub fn chart(source: ChartSource<'_>) -> Told<'_> {
    match source {
        ChartSource::Archive { url } => archive(url),
        ChartSource::Oci { repo } => Told {
            field: "repo",
            written: repo,
            read: reference(repo).map(|name| vec![repo.into(), name.into()]),
        },
        ChartSource::Repository { chart, .. } => Told {
            field: "chart",
            written: chart,
            read: Ok(vec![chart.into()]),
        },
    }
}

fn archive(url: &str) -> Told<'_> {
    Told {
        field: "chart",
        written: url,
        read: location(url).map(|url| vec![url.into()]),
    }
}

/// A URL without its user part and fragment. Neither says where anything is, and with the former an address could look like
/// another one: `https://charts.example.com:443@elsewhere.example.com/`.
///
/// What clients read otherwise than it is written is not compared with any pattern: it would allow more than it says.
fn location(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if text.contains('\\') {
        return Err("it holds a backslash, which some take for a slash".to_owned());
    }
    if url.path.split('/').any(climbs) {
        let why = "its path holds . or .. as a folder, which leads elsewhere; write the path that is meant";
        return Err(why.to_owned());
    }
    Ok(url.without_credentials())
}

/// Whether a part of a path is `.` or `..`, with dots as they are or percent-encoded.
fn climbs(part: &str) -> bool {
    let plain = part.replace("%2e", ".").replace("%2E", ".");
    matches!(plain.as_str(), "." | "..")
}

/// The name of the chart that a reference ends in.
fn reference(text: &str) -> Result<&str, String> {
    let reference = Reference::parse(text).map_err(|error| error.to_string())?;
    let repository = reference.repository;
    Ok(repository.rsplit_once('/').map_or(repository, |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(told: Told<'_>) -> Vec<String> {
        told.read.unwrap().into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn each_form_says_where_from_and_which() {
        for (repo, name, origins, charts) in [
            ("https://h/stable", "web", &["https://h/stable"][..], &["web"][..]),
            (
                "https://u:p@h/stable?a=b#c",
                "web",
                &["https://h/stable?a=b"],
                &["web"],
            ),
            (
                "oci://h/charts/web",
                "",
                &["oci://h/charts/web"],
                &["oci://h/charts/web", "web"],
            ),
            (
                "OCI://h:5000/web:1.2.3",
                "",
                &["OCI://h:5000/web:1.2.3"],
                &["OCI://h:5000/web:1.2.3", "web"],
            ),
            (
                "",
                "https://u:p@h/web-1.tgz",
                &["https://h/web-1.tgz"],
                &["https://h/web-1.tgz"],
            ),
        ] {
            let source = ChartSource::of(repo, name);
            assert_eq!(read(origin(source)), origins, "{repo} {name}");
            assert_eq!(read(chart(source)), charts, "{repo} {name}");
        }
    }

    #[test]
    fn what_clients_would_read_otherwise_is_not_read() {
        for url in [
            "https://h/tenant-a/../tenant-b",
            "https://h/tenant-a/%2e%2E/tenant-b",
            "https://h/tenant-a/.%2e",
            "https://h/./tenant-a",
            r"https://elsewhere.example.com\@h/stable",
            r"https://h/tenant-a/..\tenant-b",
            "oci://h/tenant-a/../tenant-b/web",
            "oci://elsewhere.example.com:443@h/web",
        ] {
            assert!(origin(ChartSource::of(url, "")).read.is_err(), "{url}");
        }
        let dots = "https://h/...//a..b/.c?d=../e";
        assert_eq!(read(origin(ChartSource::of(dots, "web"))), [dots]);
    }
}
