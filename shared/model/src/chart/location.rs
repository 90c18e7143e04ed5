//! The URLs from which charts are fetched, as the HTTP client parses them.
//!
//! Requests are sent to the URLs that these functions return, and Policies compare the same values with their patterns. With
//! another parser for Policies, a URL could look like an allowed one and be fetched from elsewhere.

use url::{ParseError, Url};

/// The file that lists the charts of a repository.
const INDEX: &str = "index.yaml";

/// The URL of a repository or of an archive, with its credentials, if it has any.
///
/// # Errors
/// If the HTTP client cannot parse it.
pub fn url(text: &str) -> Result<Url, ParseError> {
    let mut url = Url::parse(text)?;
    // It is never sent.
    url.set_fragment(None);
    Ok(url)
}

/// The URL of the index of a repository: trailing slashes are ignored, and a query is kept.
#[must_use]
pub fn index_url(repository: &Url) -> Url {
    let path = format!("{}/{INDEX}", repository.path().trim_end_matches('/'));
    let mut url = repository.clone();
    url.set_path(&path);
    url
}

/// A URL without user name and password, which are sent in a header or not at all.
#[must_use]
pub fn without_credentials(mut url: Url) -> Url {
    // They fail if a URL cannot contain credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_url_is_below_the_repository() {
        for (repo, index) in [
            ("https://h/charts", "https://h/charts/index.yaml"),
            ("https://h/charts//", "https://h/charts/index.yaml"),
            ("https://h", "https://h/index.yaml"),
            ("https://h/c?token=x#f", "https://h/c/index.yaml?token=x"),
        ] {
            assert_eq!(index_url(&url(repo).unwrap()).as_str(), index);
        }
    }

    #[test]
    fn credentials_are_removed() {
        let url = url("https://user:p%40ss@h:8443/x?y#z").unwrap();
        assert_eq!(without_credentials(url).as_str(), "https://h:8443/x?y");
    }
}
