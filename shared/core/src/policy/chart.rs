//! The parts of a chart that Policies restrict.

use std::borrow::Cow;

use helmops_bucket::BUCKET_PREFIX;
use helmops_model::chart::{
    artifact::ARTIFACT_PREFIX,
    config_maps::CONFIG_MAPS_PREFIX,
    location::{self, without_credentials},
    registry::{
        endpoint::{DOCKER_HUB, Endpoint, Transport},
        reference::Reference,
    },
    source::{self, ChartSource},
    url as go_url,
};
use url::{ParseError, Url};

/// A text that identifies the origin of a chart, or the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySubject<'a> {
    /// The field that contains it: of the `helm` block, or of `chartSource.git`.
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

impl<'a, T: Into<Cow<'a, str>>> From<T> for Candidate<'a> {
    fn from(text: T) -> Self {
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
            candidates: reference(repo).map(|reference| vec![reference.into()]),
        },
        ChartSource::Repository { repo, .. } => PolicySubject {
            field: "repo",
            text: repo,
            candidates: location(repo),
        },
        ChartSource::Packed { repo, .. } => PolicySubject {
            field: match source::packed_prefix(repo) {
                Some(BUCKET_PREFIX) => "bucketName",
                Some(CONFIG_MAPS_PREFIX) => "name",
                _ => "url",
            },
            text: repo,
            candidates: packed(repo),
        },
    }
}

/// The URL of an endpoint that gets requests as a repository does.
pub fn endpoint(url: &str) -> PolicySubject<'_> {
    PolicySubject {
        field: "url",
        text: url,
        candidates: location(url),
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
            candidates: reference(repo).map(|reference| vec![reference.into(), name(repo).into()]),
        },
        ChartSource::Repository { chart, .. } => PolicySubject {
            field: "chart",
            text: chart,
            candidates: Ok(vec![chart.into()]),
        },
        ChartSource::Packed { repo, path } => {
            // An expression that matches the empty text alone would be a riddle.
            let path = if path.is_empty() { "." } else { path };
            PolicySubject {
                field: match source::packed_prefix(repo) {
                    Some(CONFIG_MAPS_PREFIX) => "name",
                    _ => "path",
                },
                text: path,
                candidates: Ok(vec![path.into()]),
            }
        }
    }
}

/// The source as records have it: its URL is compared as that of a Helm repository, but with the prefix before it, so that a pattern for Helm
/// repositories or registries allows no Git repository, no bucket, no artifact and no ConfigMap.
fn packed(repo: &str) -> Result<Vec<Candidate<'_>>, String> {
    let prefix = source::packed_prefix(repo).unwrap_or_default();
    let url = repo.strip_prefix(prefix).unwrap_or(repo);
    if prefix == CONFIG_MAPS_PREFIX {
        return Ok(vec![repo.into()]);
    }
    if prefix == ARTIFACT_PREFIX {
        return Ok(vec![format!("{prefix}{}", reference(url)?).into()]);
    }
    if let Some((_, path)) = url
        .strip_prefix("ssh://")
        .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
    {
        return if path.split('/').any(is_dot_segment) {
            Err(DOT_SEGMENT.to_owned())
        } else {
            Ok(vec![repo.into()])
        };
    }
    let prefixed = |text: &str| format!("{prefix}{text}");
    let candidates = location(url)?.into_iter().map(|candidate| Candidate {
        text: prefixed(&candidate.text).into(),
        with_slashes: candidate.with_slashes.as_deref().map(prefixed),
    });
    Ok(candidates.collect())
}

fn archive(url: &str) -> PolicySubject<'_> {
    let candidates = if source::is_oci(url) {
        reference(url).map(|reference| vec![reference.into()])
    } else {
        location(url)
    };
    PolicySubject {
        field: "chart",
        text: url,
        candidates,
    }
}

/// The URL that is fetched, without its credentials, as [`location::url`] parses it for the request. An empty path and the
/// path `/` are the same, so either form may be allowed.
///
/// A URL from which the HTTP client or the server would derive another one than it shows is not compared: Helm, in the agents
/// of clusters, fetches the same text with another parser.
fn location(text: &str) -> Result<Vec<Candidate<'static>>, String> {
    let written = go_url::Url::parse(text).map_err(|error| error.to_string())?;
    let url = without_credentials(location::url(text).map_err(invalid)?);
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("nothing is fetched with scheme {:?}", url.scheme()));
    }
    check_host(written.host, &url)?;
    check_path(written.path, &url)?;
    let mut candidates = Vec::new();
    if url.path() == "/" && url.query().is_none() {
        candidates.push(url.as_str().trim_end_matches('/').to_owned().into());
    }
    candidates.push(Candidate {
        with_slashes: with_slashes(&url),
        text: String::from(url).into(),
    });
    Ok(candidates)
}

/// The reference of a chart, with the host of the API of its registry as [`Endpoint`] parses it for requests. The port stays as
/// it is written, because it depends on the Secret which one is the default port, and so does the name of Docker Hub.
fn reference(text: &str) -> Result<String, String> {
    let reference = Reference::parse(text).map_err(|error| error.to_string())?;
    if reference.registry == DOCKER_HUB {
        return Ok(reference.to_string());
    }
    let endpoint = Endpoint::of(Transport::Https, &reference).map_err(invalid)?;
    let url = endpoint.base_url();
    check_host(reference.registry, url)?;
    let mut registry = url.host_str().unwrap_or_default().to_owned();
    if let Some(port) = port(reference.registry) {
        registry.extend([":", port]);
    }
    let fetched = Reference {
        registry: &registry,
        ..reference
    };
    Ok(fetched.to_string())
}

/// The last part of a valid reference: the name of the chart.
fn name(text: &str) -> &str {
    let repository = Reference::parse(text).map_or(text, |reference| reference.repository);
    repository.rsplit_once('/').map_or(repository, |(_, name)| name)
}

fn invalid(error: ParseError) -> String {
    format!("the HTTP client cannot parse it: {error}")
}

/// A URL with the encoded slashes of its path decoded; `None` if it has none.
fn with_slashes(url: &Url) -> Option<String> {
    let decoded = url.path().replace("%2F", "/").replace("%2f", "/");
    if decoded == url.path() {
        return None;
    }
    let mut url = url.clone();
    url.set_path(&decoded);
    Some(url.into())
}

/// Rejects a host that the client changes, except for its case: one that is decoded, mapped to ASCII, or a number that is not
/// an IP address in its usual form.
fn check_host(written: &str, url: &Url) -> Result<(), String> {
    let fetched = url.host_str().unwrap_or_default();
    let name = match port(written) {
        Some(port) => written.strip_suffix(port).unwrap_or(written),
        None => written,
    };
    if name.trim_end_matches(':').eq_ignore_ascii_case(fetched) {
        return Ok(());
    }
    Err(format!("its host is fetched as {fetched}; write that"))
}

/// The port of a host, if it has one.
fn port(host: &str) -> Option<&str> {
    let (_, port) = host.rsplit_once(':')?;
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some(port)
}

/// Rejects a path that the client changes, or that servers interpret differently.
///
/// An encoded percent sign is rejected too. So a path that was decoded once contains no percent sign, and decoding it
/// again, as proxies in front of a server may do, changes nothing.
fn check_path(written: &str, url: &Url) -> Result<(), String> {
    let decoded = percent_decode(written)?;
    // Some decoders accept overlong encodings of a slash or a dot, which are not valid UTF-8.
    let decoded = str::from_utf8(&decoded).map_err(|_| "its decoded path is not valid UTF-8".to_owned())?;
    if decoded.split('/').any(is_dot_segment) {
        return Err(DOT_SEGMENT.to_owned());
    }
    let is_root = decoded.is_empty() && url.path() == "/";
    if !is_root && percent_decode(url.path())? != decoded.as_bytes() {
        return Err(format!("its path is fetched as {}; write that", url.path()));
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

const DOT_SEGMENT: &str =
    "its path contains . or .. as a folder, which leads to another path; write the intended path";

const STRAY_PERCENT: &str = "its path contains a % that is not followed by two hexadecimal digits";

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
            (
                "git+https://h/g/n.git",
                "charts/web",
                &["git+https://h/g/n.git"][..],
                &["charts/web"][..],
            ),
            (
                "git+ssh://h:443/g/n.git",
                "web",
                &["git+ssh://h:443/g/n.git"],
                &["web"],
            ),
            ("git+https://h/g/n.git", "", &["git+https://h/g/n.git"], &["."]),
            (
                "bucket+https://h:9000/charts/team",
                "web-1.0.0.tgz",
                &["bucket+https://h:9000/charts/team"],
                &["web-1.0.0.tgz"],
            ),
            (
                "artifact+oci://H:5000/team/web",
                "charts/web",
                &["artifact+oci://h:5000/team/web"],
                &["charts/web"],
            ),
            ("configmaps+a,b", "", &["configmaps+a,b"], &["."]),
            ("https://h/stable", "web", &["https://h/stable"][..], &["web"][..]),
            (
                "",
                "oci://h/web-1.tgz",
                &["oci://h/web-1.tgz"],
                &["oci://h/web-1.tgz"],
            ),
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
                &["oci://h:5000/web:1.2.3"],
                &["oci://h:5000/web:1.2.3", "web"],
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
            "git+ssh://h/tenant-a/../tenant-b",
            "git+https://h/tenant-a/..%2ftenant-b",
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
        ] {
            assert_eq!(candidates(origin(ChartSource::of(same, "web"))), [same]);
        }
        for same in ["https://h", "https://h/"] {
            assert_eq!(
                candidates(origin(ChartSource::of(same, "web"))),
                ["https://h", "https://h/"]
            );
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
                "https://elsewhere.example.net/",
            ),
            ("https://user:p%2fss%25@h:8443?x", "https://h:8443/?x"),
        ] {
            let candidates = candidates(origin(ChartSource::of(url, "web")));
            assert_eq!(candidates.last().map(String::as_str), Some(expected), "{url}");
        }
    }

    /// What the client fetches for a repository is what is compared, with the path of the index after it, or nothing is.
    #[test]
    fn a_url_is_compared_as_it_is_fetched() {
        for (repo, compared) in [
            // The scheme, the host and the port.
            (
                "HTTPS://Charts.Example.COM/Stable",
                Some("https://charts.example.com/Stable"),
            ),
            ("https://h:443/x", Some("https://h/x")),
            ("https://h:0443/x", Some("https://h/x")),
            ("https://h:/x", Some("https://h/x")),
            ("http://h:80/x", Some("http://h/x")),
            ("http://h:443/x", Some("http://h:443/x")),
            ("https://h./x", Some("https://h./x")),
            ("https://127.0.0.1/x", Some("https://127.0.0.1/x")),
            ("https://[::1]:8443/x", Some("https://[::1]:8443/x")),
            (
                "https://xn--bcher-kva.example/x",
                Some("https://xn--bcher-kva.example/x"),
            ),
            // User info, and what only looks like it.
            ("https://h@elsewhere/x", Some("https://elsewhere/x")),
            ("https://h:443@elsewhere/x", Some("https://elsewhere/x")),
            ("https://a@b@elsewhere/x", Some("https://elsewhere/x")),
            ("https://h/@elsewhere/x", Some("https://h/@elsewhere/x")),
            ("https://elsewhere?@h/x", Some("https://elsewhere/?@h/x")),
            ("https://elsewhere#@h/x", Some("https://elsewhere/")),
            // Paths and queries.
            ("https://h", Some("https://h/")),
            ("https://h//", Some("https://h//")),
            ("https://h//a///b", Some("https://h//a///b")),
            ("https://h/a?b#c", Some("https://h/a?b")),
            ("https://h/a#b?c", Some("https://h/a")),
            ("https://h/a?", Some("https://h/a?")),
            ("https://h/with space/ä", Some("https://h/with%20space/%C3%A4")),
            (r"https://h/a?b\c", Some(r"https://h/a?b\c")),
            // Changed by the client.
            ("https://0177.0.0.1/x", None),
            ("https://0x7f.0.0.1/x", None),
            ("https://127.1/x", None),
            ("https://2130706433/x", None),
            ("https://127.0.0.1./x", None),
            ("https://[0:0::1]/x", None),
            ("https://bücher.example/x", None),
            ("https://ｃharts.example/x", None),
            ("https://h。example/x", None),
            ("https://h\u{ad}.example/x", None),
            ("https://%68/x", None),
            (r"https://h\.example/x", None),
            (r"https://h/a\..\b", None),
            ("https://h/a/%2e%2e/b", None),
            ("https://h/a/.%2E/b", None),
            ("https://h/a/..", None),
            ("https://h/a/.", None),
            ("https://h\t.example/x", None),
            ("https://h/a\n/x", None),
            ("https://h/x ", None),
            // Not a URL for the client, or one of another form.
            ("https:/h/x", None),
            ("https:h/x", None),
            ("https:///h/x", None),
            ("//h/x", None),
            ("https://1.2.3.4.5/x", None),
            ("https://h:65536/x", None),
            ("ftp://h/x", None),
        ] {
            let candidates = origin(ChartSource::of(repo, "web")).candidates.ok();
            let last = candidates.and_then(|candidates| Some(candidates.last()?.text.to_string()));
            assert_eq!(last.as_deref(), compared, "{repo:?}");
            let Some(compared) = last else { continue };
            let fetched = without_credentials(location::index_url(&location::url(repo).unwrap()));
            let (path, query) = compared
                .split_once('?')
                .map_or((&*compared, None), |(path, query)| (path, Some(query)));
            let mut expected = format!("{}/index.yaml", path.trim_end_matches('/'));
            expected.extend(query.map(|query| format!("?{query}")));
            assert_eq!(fetched.as_str(), expected, "{repo:?}");
        }
    }

    /// A reference is compared with the host to which its requests are sent, or not at all.
    #[test]
    fn a_reference_is_compared_as_it_is_fetched() {
        for (repo, compared, fetched) in [
            (
                "OCI://H.Example/a/web",
                Some("oci://h.example/a/web"),
                "https://h.example/v2/a/web/",
            ),
            ("oci://h:443/web", Some("oci://h:443/web"), "https://h/v2/web/"),
            ("oci://h:/web", Some("oci://h/web"), "https://h/v2/web/"),
            ("oci://h./web:1@", Some("oci://h./web:1"), "https://h./v2/web/"),
            (
                "oci://[::1]:5000/web",
                Some("oci://[::1]:5000/web"),
                "https://[::1]:5000/v2/web/",
            ),
            ("oci://0177.0.0.1/web", None, "https://127.0.0.1/v2/web/"),
            ("oci://127.1:5000/web", None, "https://127.0.0.1:5000/v2/web/"),
            (
                "oci://bücher.example/web",
                None,
                "https://xn--bcher-kva.example/v2/web/",
            ),
            ("oci://%68/web", None, "https://h/v2/web/"),
            (
                "oci://docker.io/org/web",
                Some("oci://docker.io/org/web"),
                "https://registry-1.docker.io/v2/org/web/",
            ),
        ] {
            let candidates = origin(ChartSource::of(repo, "")).candidates.ok();
            let first = candidates.and_then(|candidates| Some(candidates.first()?.text.to_string()));
            assert_eq!(first.as_deref(), compared, "{repo}");
            let reference = Reference::parse(repo).unwrap();
            let endpoint = Endpoint::of(Transport::Https, &reference).unwrap();
            assert_eq!(endpoint.base_url().as_str(), fetched, "{repo}");
        }
    }
}
