//! The parts of a chart that Policies restrict.

use std::borrow::Cow;

use crate::chart::{registry::reference::Reference, source::ChartSource, url::Url};

/// A text that identifies the origin of a chart, or the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySubject<'a> {
    /// The field of the `helm` block that contains it.
    pub field: &'static str,
    /// The text as written there.
    pub text: &'a str,
    /// The texts that are compared with patterns, any of which may match; or why it is not compared.
    pub candidates: Result<Vec<Candidate<'a>>, String>,
}

/// A text that is compared with patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// The same text with the encoded slashes of its path decoded, if it has any: some servers decode them, and for others,
    /// such as GitLab, they are part of a name. So both forms have to be allowed.
    pub with_slashes: Option<String>,
}

impl<'a> From<&'a str> for Candidate<'a> {
    fn from(text: &'a str) -> Self {
        Self {
            text: text.into(),
            with_slashes: None,
        }
    }
}

/// The origin of a chart: the URL of its repository, its reference in a registry, or the URL of an archive.
pub fn origin(source: ChartSource<'_>) -> PolicySubject<'_> {
    match source {
        ChartSource::Archive { url } => archive(url),
        ChartSource::Oci { repo } => PolicySubject {
            field: "repo",
            text: repo,
            candidates: reference(repo).map(|_| vec![repo.into()]),
        },
        ChartSource::Repository { repo, .. } => PolicySubject {
            field: "repo",
            text: repo,
            candidates: location(repo).map(|url| vec![url]),
        },
    }
}

/// The chart itself: its name in the repository, its reference in a registry or the last part of that, or the URL of an
/// archive.
pub fn chart(source: ChartSource<'_>) -> PolicySubject<'_> {
    match source {
        ChartSource::Archive { url } => archive(url),
        ChartSource::Oci { repo } => PolicySubject {
            field: "repo",
            text: repo,
            candidates: reference(repo).map(|name| vec![repo.into(), name.into()]),
        },
        ChartSource::Repository { chart, .. } => PolicySubject {
            field: "chart",
            text: chart,
            candidates: Ok(vec![chart.into()]),
        },
    }
}

fn archive(url: &str) -> PolicySubject<'_> {
    PolicySubject {
        field: "chart",
        text: url,
        candidates: location(url).map(|url| vec![url]),
    }
}

/// A URL without its user info and fragment. Neither is part of the location, and with the former a URL could look like
/// another one: `https://charts.example.com:443@elsewhere.example.com/`. A query always follows a path, otherwise it could
/// look like the end of a host: `https://elsewhere.example.com?x.example.com/`.
///
/// A URL that clients or servers interpret differently than it is written is not compared with any pattern: a match would
/// allow more than the pattern shows.
fn location(text: &str) -> Result<Candidate<'static>, String> {
    let mut url = Url::parse(text).map_err(|error| error.to_string())?;
    if text.contains('\\') {
        return Err("it contains a backslash, which some clients treat as a slash".to_owned());
    }
    check_host(url.host)?;
    check_path(url.path)?;
    if url.path.is_empty() && url.query.is_some() {
        url.path = "/";
    }
    let text = url.without_credentials();
    let path = with_slashes(url.path);
    let with_slashes = path.map(|path| Url { path: &path, ..url }.without_credentials());
    Ok(Candidate {
        text: text.into(),
        with_slashes,
    })
}

/// A path with its encoded slashes decoded; `None` if it has none.
fn with_slashes(path: &str) -> Option<String> {
    let decoded = path.replace("%2F", "/").replace("%2f", "/");
    (decoded != path).then_some(decoded)
}

/// Rejects hosts that are decoded before they are resolved.
fn check_host(host: &str) -> Result<(), String> {
    if host.contains('%') {
        return Err("its host contains a %, which no host name has; write the intended host".to_owned());
    }
    Ok(())
}

/// Rejects paths that lead to another location after a server has decoded them.
///
/// An encoded percent sign is rejected too. So a path that was decoded once contains no percent sign, and decoding it
/// again, as proxies in front of a server may do, changes nothing.
fn check_path(path: &str) -> Result<(), String> {
    let decoded = percent_decode(path)?;
    // Some decoders accept overlong encodings of a slash or a dot, which are not valid UTF-8.
    let decoded = str::from_utf8(&decoded).map_err(|_| "its decoded path is not valid UTF-8".to_owned())?;
    if decoded.split('/').any(is_dot_segment) {
        let problem =
            "its path contains . or .. as a folder, which leads to another path; write the intended path";
        return Err(problem.to_owned());
    }
    Ok(())
}

/// Whether a segment of a path is `.` or `..`. Some servers remove parameters, as in `..;/`, or trailing spaces.
fn is_dot_segment(segment: &str) -> bool {
    let name = segment
        .split_once(';')
        .map_or(segment, |(name, _parameters)| name);
    matches!(name.trim_end_matches(' '), "." | "..")
}

/// The bytes of a path, decoded once.
///
/// # Errors
/// Names the first escape that servers interpret differently: an invalid one, or an encoded backslash, percent sign or
/// control character. They also interpret encoded slashes differently, see [`Candidate`].
fn percent_decode(path: &str) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let Some((digits, after)) = after.split_first_chunk::<2>() else {
            return Err(STRAY_PERCENT.to_owned());
        };
        let Some(escaped) = hex(*digits) else {
            return Err(STRAY_PERCENT.to_owned());
        };
        if matches!(escaped, b'\\' | b'%' | 0x7f) || escaped < b' ' {
            return Err(format!(
                "its path contains %{escaped:02x}, which servers interpret differently; write the intended path, or list this \
                 text literally"
            ));
        }
        decoded.push(escaped);
        rest = after;
    }
    Ok(decoded)
}

/// The value of two hexadecimal digits.
fn hex([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

const STRAY_PERCENT: &str = "its path contains a % that is not followed by two hexadecimal digits";

/// The last part of a reference: the name of the chart.
fn reference(text: &str) -> Result<&str, String> {
    let reference = Reference::parse(text).map_err(|error| error.to_string())?;
    check_host(reference.registry)?;
    let repository = reference.repository;
    Ok(repository.rsplit_once('/').map_or(repository, |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(subject: PolicySubject<'_>) -> Vec<String> {
        let candidates = subject.candidates.unwrap().into_iter();
        candidates.map(|candidate| candidate.text.into_owned()).collect()
    }

    #[test]
    fn each_form_has_an_origin_and_a_chart() {
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
            assert_eq!(candidates(origin(source)), origins, "{repo} {name}");
            assert_eq!(candidates(chart(source)), charts, "{repo} {name}");
        }
    }

    #[test]
    fn ambiguous_urls_are_not_compared() {
        for url in [
            "https://h/tenant-a/../tenant-b",
            "https://h/tenant-a/%2e%2E/tenant-b",
            "https://h/tenant-a/.%2e",
            "https://h/./tenant-a",
            r"https://elsewhere.example.com\@h/stable",
            r"https://h/tenant-a/..\tenant-b",
            "https://h/tenant-a/%2e%2e%2ftenant-b",
            "https://h/tenant-a/..%2Ftenant-b",
            "https://h/tenant-a%2f..%2ftenant-b",
            "https://h/tenant-a/..%5ctenant-b",
            "https://h/tenant-a/..%5Ctenant-b",
            // Decoded twice, or more often.
            "https://h/tenant-a/%252e%252e/tenant-b",
            "https://h/tenant-a/%25252E%25252e%25252ftenant-b",
            "https://h/tenant-a/%%32%65%%32%65/tenant-b",
            // Parameters of a segment, as Java servers parse them.
            "https://h/tenant-a/..;/tenant-b",
            "https://h/tenant-a/..;a=b/tenant-b",
            "https://h/tenant-a/.%2e%3ba=b/tenant-b",
            "https://h/tenant-a/.;",
            "https://h/tenant-a/..%00/tenant-b",
            "https://h/tenant-a/..%20/tenant-b",
            "https://h/tenant-a/%c0%ae%c0%ae/tenant-b",
            "https://h/tenant-a/..%e0%80%aftenant-b",
            "https://h/tenant-a/..%0D%0a/tenant-b",
            "https://h/100%",
            "https://h/%zz",
            // Hosts that are decoded, or invalid.
            "https://elsewhere.example.com%2f.corp.example/",
            "https://elsewhere%2eexample.com/",
            "https:///elsewhere.example.com/",
            "https://:443/x",
            "https://h:443.corp.example/",
            r"https:\\elsewhere.example.com/",
            "oci://elsewhere.example.com%2f.corp.example/web",
            "oci://h/tenant-a/../tenant-b/web",
            "oci://h/tenant-a/%2e%2e/tenant-b/web",
            "oci://elsewhere.example.com:443@h/web",
        ] {
            assert!(origin(ChartSource::of(url, "")).candidates.is_err(), "{url}");
        }
        for same in [
            "https://h/...//a..b/.c?d=../e",
            "https://h/a;b/..c;d/..%2e?e=%2f%25",
            "https://h/with%20space/%C3%A4/%7Euser",
            // Not the same host as without the dot or the port, so patterns are compared with it as written.
            "https://h./x",
            "https://h:8443/x",
            "https://h",
            "https://h/",
        ] {
            assert_eq!(candidates(origin(ChartSource::of(same, "web"))), [same]);
        }
    }

    #[test]
    fn encoded_slashes_are_kept_and_decoded() {
        for (url, text, with_slashes) in [
            (
                "https://u:p@h/projects/team%2Fcharts%2fx/stable?a=%2F#b",
                "https://h/projects/team%2Fcharts%2fx/stable?a=%2F",
                Some("https://h/projects/team/charts/x/stable?a=%2F"),
            ),
            ("https://h/stable?a=%2F", "https://h/stable?a=%2F", None),
        ] {
            let candidates = origin(ChartSource::of(url, "web")).candidates.unwrap();
            let expected = Candidate {
                text: text.into(),
                with_slashes: with_slashes.map(str::to_owned),
            };
            assert_eq!(candidates, [expected], "{url}");
        }
    }

    #[test]
    fn a_query_or_a_password_does_not_look_like_a_host() {
        for (url, expected) in [
            (
                "https://elsewhere.example.net?x.corp.example/",
                "https://elsewhere.example.net/?x.corp.example/",
            ),
            (
                "https://elsewhere.example.net?",
                "https://elsewhere.example.net/?",
            ),
            (
                "https://elsewhere.example.net#x.corp.example/",
                "https://elsewhere.example.net",
            ),
            ("https://user:p%2fss%25@h:8443?x", "https://h:8443/?x"),
        ] {
            assert_eq!(
                candidates(origin(ChartSource::of(url, "web"))),
                [expected],
                "{url}"
            );
        }
    }
}
