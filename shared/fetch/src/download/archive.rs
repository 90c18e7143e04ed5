//! Archives at a URL: that of an index, or that of the HelmOp itself.

use std::io::Write;

use bytes::Bytes;
use helm_index::IndexEntry;
use helmops_model::chart::{
    location::{self, without_credentials},
    source::is_oci,
    url::redacted,
};
use reqwest::{
    Method, StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap},
};

use super::{
    ChartDownload, Downloaded,
    error::{DigestMismatch, DownloadError, Origin},
    store::{Required, sha256_of, store},
};
use crate::{
    access::{Access, Target},
    http::{FetchError, FetchErrorKind, HttpClient, HttpRequest, RepositoryId, origin},
    metrics::RequestKind,
    repository::index_url,
};

/// Where an index has the archive of a version.
pub struct Found {
    /// The URL as written, if it is absolute, or else relative to the repository.
    url: String,
    /// The same as URL of a request, with the credentials of the repository if it is on the same host. `None` for a registry.
    request: Option<Url>,
    /// The digests that the archive must have.
    pub digests: Vec<Required>,
}

impl Found {
    /// What an entry of an index has.
    pub fn of(repo: &str, entry: &IndexEntry, recorded: &str) -> Result<Self, DownloadError> {
        let digests = digests(repo, entry, recorded)?;
        let refused = |cause| DownloadError::EntryUrl {
            repo: redacted(repo),
            version: entry.version.clone(),
            url: redacted(&entry.url),
            cause,
        };
        if is_oci(&entry.url) {
            return Ok(Self {
                url: entry.url.clone(),
                request: None,
                digests,
            });
        }
        let base = index_url(repo).map_err(DownloadError::Fetch)?;
        let request = absolute(&base, &entry.url).map_err(|_| refused("it is not a URL"))?;
        if !matches!(request.scheme(), "http" | "https") {
            return Err(refused("only http, https and oci are supported"));
        }
        if base.scheme() == "https" && request.scheme() == "http" && digests.is_empty() {
            return Err(refused(
                "it is not encrypted, unlike the repository, and the index has no digest of the archive",
            ));
        }
        Ok(Self {
            url: redacted(request.as_str()),
            request: Some(request),
            digests,
        })
    }

    /// The reference, if the archive is in a registry.
    pub fn registry(&self) -> Option<&str> {
        self.request.is_none().then_some(&self.url)
    }
}

/// The absolute URL of an entry, as Helm computes it: one that is relative keeps the query of the repository. Credentials of the
/// repository are for its own host only, and those in an index do not come from the user.
fn absolute(base: &Url, url: &str) -> Result<Url, url::ParseError> {
    let is_relative = Url::parse(url) == Err(url::ParseError::RelativeUrlWithoutBase);
    let mut url = without_credentials(base.join(url)?);
    url.set_fragment(None);
    if is_relative && url.query().is_none() {
        url.set_query(base.query());
    }
    if origin(&url) == origin(base) {
        // They fail if a URL cannot contain credentials.
        let _ = url.set_username(base.username());
        let _ = url.set_password(base.password());
    }
    Ok(url)
}

/// The digests that an archive must have: the recorded one and that of the index, which must be the same.
fn digests(repo: &str, entry: &IndexEntry, recorded: &str) -> Result<Vec<Required>, DigestMismatch> {
    let (of_index, of_record) = (sha256_of(&entry.digest), sha256_of(recorded));
    let is_other = match (&of_index, &of_record) {
        (Some(index), Some(record)) => index != record,
        // A digest of an unknown kind is compared as a text.
        (None, None) => !recorded.is_empty() && !entry.digest.is_empty() && recorded != entry.digest,
        _ => false,
    };
    if is_other {
        return Err(DigestMismatch {
            url: format!("version {} in the index of {}", entry.version, redacted(repo)),
            origin: Origin::Recorded,
            expected: recorded.to_owned(),
            actual: entry.digest.clone(),
        });
    }
    let required = |sha256: Option<String>, origin| sha256.map(|sha256| Required { sha256, origin });
    let all = [
        required(of_record, Origin::Recorded),
        required(of_index, Origin::Index),
    ];
    Ok(all.into_iter().flatten().collect())
}

/// Downloads the archive of an entry.
pub async fn of_entry<W: Write + Send + 'static>(
    http: &HttpClient,
    access: &Access,
    found: Found,
    limit: u64,
    output: W,
) -> Result<Downloaded<W>, DownloadError> {
    let Found {
        url,
        request,
        digests,
    } = found;
    // An archive in a registry is pulled.
    let request = request.ok_or_else(|| {
        let kind = FetchErrorKind::Url("it is a reference to a registry".to_owned());
        DownloadError::Fetch(FetchError::new(&url, kind))
    })?;
    get(http, access, request, limit, &digests, output).await
}

/// Downloads an archive that the HelmOp names by its URL.
pub async fn at_url<W: Write + Send + 'static>(
    http: &HttpClient,
    access: &Access,
    url: &str,
    chart: ChartDownload<'_>,
    output: W,
) -> Result<Downloaded<W>, DownloadError> {
    let parsed = location::url(url).map_err(|error| {
        let kind = FetchErrorKind::Url(error.to_string());
        DownloadError::Fetch(FetchError::new(url, kind))
    })?;
    let digests: Vec<_> = sha256_of(chart.expected_digest)
        .map(|sha256| Required {
            sha256,
            origin: Origin::Recorded,
        })
        .into_iter()
        .collect();
    get(http, access, parsed, chart.limit, &digests, output).await
}

async fn get<W: Write + Send + 'static>(
    http: &HttpClient,
    access: &Access,
    url: Url,
    limit: u64,
    digests: &[Required],
    output: W,
) -> Result<Downloaded<W>, DownloadError> {
    let Target { url, login } = access.target(url);
    let mut headers = HeaderMap::new();
    if let Some(login) = &login {
        headers.insert(AUTHORIZATION, login.basic());
    }
    let permit = http.permits.request(&access.namespace, &url).await;
    let request = HttpRequest {
        permit,
        kind: RequestKind::Archive,
        method: Method::GET,
        url: url.clone(),
        headers,
        body: Bytes::new(),
        connection: &access.connection,
        repository: RepositoryId {
            url: &url,
            identity: &access.identity(login.as_ref()),
        },
    };
    let response = http.send(request).await.map_err(DownloadError::Fetch)?;
    let status = response.status();
    if status != StatusCode::OK {
        let kind = access.refusal(status, &url, login.as_ref());
        return Err(DownloadError::Fetch(response.into_error(kind)));
    }
    let url = redacted(url.as_str());
    let stored = store(response, &url, limit, digests, output).await?;
    Ok(Downloaded::of(stored, url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_url_is_below_the_repository() {
        let resolved = |base: &str, url: &str| absolute(&index_url(base).unwrap(), url).map(String::from);
        for (base, url, expected) in [
            ("https://h/charts", "web-1.tgz", "https://h/charts/web-1.tgz"),
            (
                "https://h/charts/",
                "./a/web-1.tgz",
                "https://h/charts/a/web-1.tgz",
            ),
            ("https://h/charts", "../web-1.tgz", "https://h/web-1.tgz"),
            ("https://h/charts", "/web-1.tgz", "https://h/web-1.tgz"),
            (
                "https://h/charts?token=t",
                "web-1.tgz",
                "https://h/charts/web-1.tgz?token=t",
            ),
            (
                "https://h/charts?token=t",
                "https://h/web-1.tgz",
                "https://h/web-1.tgz",
            ),
            (
                "https://u:p@h/charts",
                "web-1.tgz",
                "https://u:p@h/charts/web-1.tgz",
            ),
            (
                "https://u:p@h/charts",
                "https://h/web-1.tgz",
                "https://u:p@h/web-1.tgz",
            ),
            (
                "https://u:p@h/charts",
                "https://cdn/web-1.tgz",
                "https://cdn/web-1.tgz",
            ),
            ("https://u:p@h/charts", "//cdn/web-1.tgz", "https://cdn/web-1.tgz"),
            (
                "https://h/charts",
                "https://x:y@cdn/web-1.tgz#f",
                "https://cdn/web-1.tgz",
            ),
        ] {
            assert_eq!(resolved(base, url).unwrap(), expected, "{base} {url}");
        }
    }

    #[test]
    fn an_entry_without_a_usable_url_is_refused() {
        let digest = "0".repeat(64);
        for (repo, url, digest, is_used) in [
            ("https://h/charts", "web.tgz", "", true),
            ("https://h/charts", "http://h/web.tgz", "", false),
            ("https://h/charts", "http://h/web.tgz", &*digest, true),
            ("http://h/charts", "http://h/web.tgz", "", true),
            ("https://h/charts", "file:///etc/passwd", &digest, false),
            ("https://h/charts", "ftp://h/web.tgz", &digest, false),
            ("https://h/charts", "https://", "", false),
            ("https://h/charts", "oci://h/web:1.0.0", "", true),
        ] {
            let entry = IndexEntry {
                url: url.to_owned(),
                digest: digest.to_owned(),
                version: "1.0.0".to_owned(),
                ..IndexEntry::default()
            };
            assert_eq!(Found::of(repo, &entry, "").is_ok(), is_used, "{repo} {url}");
        }
    }

    #[test]
    fn the_digest_of_the_index_must_be_the_recorded_one() {
        let (a, b) = ("a".repeat(64), "b".repeat(64));
        for (index, recorded, required) in [
            (&*a, &*a, Some(2)),
            (&*a, "", Some(1)),
            ("", &*a, Some(1)),
            ("", "", Some(0)),
            (&*a, &*b, None),
            (&*a.to_uppercase(), &*a, Some(2)),
            ("5f3b", "5f3b", Some(0)),
            ("5f3b", "5f3c", None),
        ] {
            let entry = IndexEntry {
                digest: index.to_owned(),
                ..IndexEntry::default()
            };
            let found = digests("https://h", &entry, recorded).ok().map(|all| all.len());
            assert_eq!(found, required, "{index} {recorded}");
        }
    }
}
