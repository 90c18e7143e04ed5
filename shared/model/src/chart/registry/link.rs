//! `Link`: the URL of the next page of a list (RFC 8288).
//!
//! ```text
//! Link: </v2/charts/web/tags/list?n=1000&last=1.2.3>; rel="next"
//! ```
//!
//! An invalid link is an error, not the end of the list: otherwise a version would be chosen from a part of the tags without
//! any notice.

use bounded_text::cut;
use thiserror::Error;
use url::{ParseError, Url};

use super::header::{Cursor, Malformed, text};
use crate::chart::{location::without_credentials, url::redacted};

/// The maximum total length of all values, in bytes. HTTP servers do not send longer headers.
const MAX_LEN: usize = 16 * 1024;

/// How much of the registry's text is quoted in a message, in bytes.
const MAX_QUOTED: usize = 256;

/// Why the next page of a list cannot be requested.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LinkError {
    /// The values are too long.
    #[error("the registry's Link header is longer than {MAX_LEN} bytes")]
    TooLong,
    /// Not of the form `<URL>; rel="next"`.
    #[error("the registry's Link header cannot be read: {text:?} is not of the form <URL>; rel=\"next\"")]
    Malformed {
        /// The invalid value, truncated for messages.
        text: String,
    },
    /// The target is not a URL.
    #[error("the registry's link to the next page, {target:?}, is invalid: {source}")]
    BadTarget {
        /// The target, without credentials.
        target: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The target is at another origin, which must not get the credentials and is not trusted.
    #[error(
        "the registry's link to the next page leads to {target}, which has another origin than {page}; it is not followed. A proxy in front of the registry must pass on the headers Host and X-Forwarded-Proto"
    )]
    ForeignOrigin {
        /// The target, without credentials.
        target: String,
        /// The page with the link, without credentials.
        page: String,
    },
    /// The target is the page itself, or one before it.
    #[error("the registry's link to the next page leads back to {page}")]
    Loop {
        /// The target, without credentials.
        page: String,
    },
}

/// The URL of the page after `page`, from the values of all `Link` headers of the response; `None` for the last page.
///
/// `page` is the requested URL. It must have no credentials, and the returned URL has none.
///
/// If no link has a relation, the first one is used: RFC 8288 requires `rel`, but the library of Fleet and Helm ignores it.
///
/// # Errors
/// When there is a link that cannot be followed.
pub fn next(
    values: impl IntoIterator<Item = impl AsRef<[u8]>>,
    page: &Url,
) -> Result<Option<Url>, LinkError> {
    let mut budget = MAX_LEN;
    let mut unspecified = None;
    for value in values {
        let value = value.as_ref();
        budget = budget.checked_sub(value.len()).ok_or(LinkError::TooLong)?;
        let mut cursor = Cursor::new(value);
        loop {
            cursor.skip_to_element();
            if cursor.is_at_end() {
                break;
            }
            let link = link(&mut cursor).map_err(|Malformed| LinkError::Malformed {
                text: cut(text(value), MAX_QUOTED),
            })?;
            match link.relation {
                Relation::Next => return follow(&link.target, page).map(Some),
                Relation::Unspecified => unspecified = unspecified.or(Some(link.target)),
                Relation::Other => {}
            }
        }
    }
    unspecified.map(|target| follow(&target, page)).transpose()
}

struct Link {
    target: String,
    relation: Relation,
}

/// The relation of a link to its page.
enum Relation {
    Next,
    Other,
    Unspecified,
}

/// Parses a link: `<target> *( ; name [ = value ] )`.
fn link(cursor: &mut Cursor<'_>) -> Result<Link, Malformed> {
    if !cursor.eat(b'<') {
        return Err(Malformed);
    }
    let target = text(cursor.take_while(|byte| byte != b'>'));
    if !cursor.eat(b'>') {
        return Err(Malformed);
    }
    let mut relations = None;
    let mut has_anchor = false;
    loop {
        cursor.skip_blanks();
        if !cursor.eat(b';') {
            break;
        }
        cursor.skip_blanks();
        let Some((name, value)) = cursor.parameter(b";,")? else {
            continue;
        };
        // RFC 8288: the first `rel` is used.
        if name.eq_ignore_ascii_case("rel") {
            relations.get_or_insert(value.unwrap_or_default());
        } else if name.eq_ignore_ascii_case("anchor") {
            has_anchor = true;
        }
    }
    if !cursor.is_before(b",") {
        return Err(Malformed);
    }
    let relation = match relations {
        _ if has_anchor => Relation::Other,
        None => Relation::Unspecified,
        Some(relations) if is_next(&relations) => Relation::Next,
        Some(_) => Relation::Other,
    };
    Ok(Link { target, relation })
}

fn is_next(relations: &str) -> bool {
    relations
        .split_ascii_whitespace()
        .any(|relation| relation.eq_ignore_ascii_case("next"))
}

/// The URL of the target, if it is another page of the same registry.
fn follow(target: &str, page: &Url) -> Result<Url, LinkError> {
    let mut next = page.join(target).map_err(|source| LinkError::BadTarget {
        target: cut(redacted(target), MAX_QUOTED),
        source,
    })?;
    next.set_fragment(None);
    let mut next = without_credentials(next);
    // A registry behind a proxy does not know that its clients use TLS. More protection than it names does no harm.
    if next.scheme() == "http"
        && page.scheme() == "https"
        && (next.host(), next.port()) == (page.host(), page.port())
    {
        // It fails only between schemes of different kinds.
        let _ = next.set_scheme("https");
    }
    if next.origin() != page.origin() {
        return Err(LinkError::ForeignOrigin {
            target: cut(redacted(next.as_str()), MAX_QUOTED),
            page: redacted(page.as_str()),
        });
    }
    if next == *page {
        return Err(LinkError::Loop {
            page: redacted(page.as_str()),
        });
    }
    Ok(next)
}

#[cfg(test)]
mod tests;
