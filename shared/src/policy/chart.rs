//! What Policies look at of a chart.

use std::borrow::Cow;

use crate::chart::{registry::reference::Reference, source::ChartSource, url::Url};

/// A text that says where a chart comes from, or which chart it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySubject<'a> {
    /// The field of the `helm` block that it stands in.
    pub field: &'static str,
    /// The text as it stands there.
    pub written: &'a str,
    /// What is compared with patterns, any of which will do; or why nothing is.
    pub read: Result<Vec<Compared<'a>>, String>,
}

/// A text that is compared with patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// The same with a slash for each encoded one in its path, if it has any: some servers take them for slashes, and others,
    /// such as GitLab, for a part of a name. So both have to be allowed.
    pub with_slashes: Option<String>,
}

impl<'a> From<&'a str> for Compared<'a> {
    fn from(text: &'a str) -> Self {
        Self {
            text: text.into(),
            with_slashes: None,
        }
    }
}

/// Where the chart comes from: the URL of its repository, its reference in a registry, or the URL of an archive.
pub fn origin(source: ChartSource<'_>) -> PolicySubject<'_> {
    match source {
        ChartSource::Archive { url } => archive(url),
        ChartSource::Oci { repo } => PolicySubject {
            field: "repo",
            written: repo,
            read: reference(repo).map(|_| vec![repo.into()]),
        },
        ChartSource::Repository { repo, .. } => PolicySubject {
            field: "repo",
            written: repo,
            read: location(repo).map(|url| vec![url]),
        },
    }
}

/// Which chart it is: its name in the repository, its reference in a registry or the name at the end of that, or the URL of
/// an archive.
pub fn chart(source: ChartSource<'_>) -> PolicySubject<'_> {
    match source {
        ChartSource::Archive { url } => archive(url),
        ChartSource::Oci { repo } => PolicySubject {
            field: "repo",
            written: repo,
            read: reference(repo).map(|name| vec![repo.into(), name.into()]),
        },
        ChartSource::Repository { chart, .. } => PolicySubject {
            field: "chart",
            written: chart,
            read: Ok(vec![chart.into()]),
        },
    }
}

fn archive(url: &str) -> PolicySubject<'_> {
    PolicySubject {
        field: "chart",
        written: url,
        read: location(url).map(|url| vec![url]),
    }
}

/// A URL without its user part and fragment. Neither says where anything is, and with the former an address could look like
/// another one: `https://charts.example.com:443@elsewhere.example.com/`. Before a query there is always a path, or the query
/// could look like the end of a host: `https://elsewhere.example.com?x.example.com/`.
///
/// What clients or servers read otherwise than it is written is not compared with any pattern: it would allow more than it
/// says.
fn location(text: &str) -> Result<Compared<'static>, String> {
    let mut url = Url::parse(text).map_err(|error| error.to_string())?;
    if text.contains('\\') {
        return Err("it holds a backslash, which some take for a slash".to_owned());
    }
    check_host(url.host)?;
    plain_path(url.path)?;
    if url.path.is_empty() && url.query.is_some() {
        url.path = "/";
    }
    let text = url.without_credentials();
    let path = with_slashes(url.path);
    let with_slashes = path.map(|path| Url { path: &path, ..url }.without_credentials());
    Ok(Compared {
        text: text.into(),
        with_slashes,
    })
}

/// A path with a slash for each encoded one; nothing where it has none.
fn with_slashes(path: &str) -> Option<String> {
    let decoded = path.replace("%2F", "/").replace("%2f", "/");
    (decoded != path).then_some(decoded)
}

/// Refuses hosts that are decoded before they are looked up.
fn check_host(host: &str) -> Result<(), String> {
    if host.contains('%') {
        return Err("its host holds a %, which no host name has; write the host that is meant".to_owned());
    }
    Ok(())
}

/// Refuses paths that lead elsewhere than it seems, once a server has decoded them.
///
/// An encoded percent sign is refused with the rest. So what is decoded once holds no percent sign, and to decode it again
/// and again, as proxies before a server may, changes nothing.
fn plain_path(path: &str) -> Result<(), String> {
    let decoded = percent_decode(path)?;
    // Some decoders accept a slash or a dot in more bytes than it needs, which is no UTF-8.
    let decoded =
        str::from_utf8(&decoded).map_err(|_| "its path is no UTF-8 once it is decoded".to_owned())?;
    if decoded.split('/').any(climbs) {
        let why = "its path holds . or .. as a folder, which leads elsewhere; write the path that is meant";
        return Err(why.to_owned());
    }
    Ok(())
}

/// Whether a part of a path is `.` or `..`. Some servers cut off parameters, as in `..;/`, or blanks at the end.
fn climbs(part: &str) -> bool {
    let name = part.split_once(';').map_or(part, |(name, _parameters)| name);
    matches!(name.trim_end_matches(' '), "." | "..")
}

/// The bytes of a path, decoded once.
///
/// # Errors
/// Names the first escape that servers do not agree on: a percent sign that begins none, or an encoded backslash, percent
/// sign or control character. Neither do they agree on an encoded slash, see [`Compared`].
fn percent_decode(path: &str) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let Some((digits, behind)) = behind.split_first_chunk::<2>() else {
            return Err(STRAY_PERCENT.to_owned());
        };
        let Some(escaped) = hex(*digits) else {
            return Err(STRAY_PERCENT.to_owned());
        };
        if matches!(escaped, b'\\' | b'%' | 0x7f) || escaped < b' ' {
            return Err(format!(
                "its path holds %{escaped:02x}, which servers do not agree on; write the path that is meant, or list this \
                 text as it is"
            ));
        }
        decoded.push(escaped);
        rest = behind;
    }
    Ok(decoded)
}

/// What two hexadecimal digits mean.
fn hex([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

const STRAY_PERCENT: &str = "its path holds a % that no two hexadecimal digits follow";

/// The name of the chart that a reference ends in.
fn reference(text: &str) -> Result<&str, String> {
    let reference = Reference::parse(text).map_err(|error| error.to_string())?;
    check_host(reference.registry)?;
    let repository = reference.repository;
    Ok(repository.rsplit_once('/').map_or(repository, |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(told: PolicySubject<'_>) -> Vec<String> {
        let read = told.read.unwrap().into_iter();
        read.map(|compared| compared.text.into_owned()).collect()
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
            "https://h/tenant-a/%2e%2e%2ftenant-b",
            "https://h/tenant-a/..%2Ftenant-b",
            "https://h/tenant-a%2f..%2ftenant-b",
            "https://h/tenant-a/..%5ctenant-b",
            "https://h/tenant-a/..%5Ctenant-b",
            // Decoded twice, or more often.
            "https://h/tenant-a/%252e%252e/tenant-b",
            "https://h/tenant-a/%25252E%25252e%25252ftenant-b",
            "https://h/tenant-a/%%32%65%%32%65/tenant-b",
            // Parameters of a part, as Java's servers read them.
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
            // Hosts that are decoded, or are none.
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
            assert!(origin(ChartSource::of(url, "")).read.is_err(), "{url}");
        }
        for same in [
            "https://h/...//a..b/.c?d=../e",
            "https://h/a;b/..c;d/..%2e?e=%2f%25",
            "https://h/with%20space/%C3%A4/%7Euser",
            // Another host than that without the dot or the port, so that patterns compare it as it stands.
            "https://h./x",
            "https://h:8443/x",
            "https://h",
            "https://h/",
        ] {
            assert_eq!(read(origin(ChartSource::of(same, "web"))), [same]);
        }
    }

    #[test]
    fn encoded_slashes_are_read_both_ways() {
        for (url, text, with_slashes) in [
            (
                "https://u:p@h/projects/team%2Fcharts%2fx/stable?a=%2F#b",
                "https://h/projects/team%2Fcharts%2fx/stable?a=%2F",
                Some("https://h/projects/team/charts/x/stable?a=%2F"),
            ),
            ("https://h/stable?a=%2F", "https://h/stable?a=%2F", None),
        ] {
            let read = origin(ChartSource::of(url, "web")).read.unwrap();
            let compared = Compared {
                text: text.into(),
                with_slashes: with_slashes.map(str::to_owned),
            };
            assert_eq!(read, [compared], "{url}");
        }
    }

    #[test]
    fn a_query_or_a_password_does_not_look_like_a_host() {
        for (url, compared) in [
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
            assert_eq!(read(origin(ChartSource::of(url, "web"))), [compared], "{url}");
        }
    }
}
