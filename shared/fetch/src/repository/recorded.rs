//! What is recorded of an index entry. An index may contain anything.

use helmops_model::chart::{location::without_credentials, url::redacted};
use reqwest::Url;

/// The URL of an archive, without credentials: it is relative to the index or absolute. Empty if it is not a URL, because it is
/// recorded, and an index may contain anything.
pub(super) fn recorded_url(index: &Url, url: &str) -> String {
    let absolute = without_credentials(index.clone()).join(url);
    absolute.map_or_else(|_| String::new(), |url| redacted(url.as_str()))
}

/// The digest of an index entry, if it is plausible: it is recorded, and an index may contain anything.
pub(super) fn digest(text: &str) -> &str {
    // The longest in use, SHA-512 in hexadecimal, has 128 characters and an optional prefix.
    let is_digest = text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_digest { text } else { "" }
}
