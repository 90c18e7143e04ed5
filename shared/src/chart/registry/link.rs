//! `Link`: where the next page of a list is (RFC 8288).
//!
//! ```text
//! Link: </v2/charts/web/tags/list?n=1000&last=1.2.3>; rel="next"
//! ```
//!
//! A link that cannot be read is an error, not the end of the list: a version would be chosen from a part of the tags, and
//! nobody would know.

use thiserror::Error;

use super::header::{Cursor, Fault, text};
use crate::{
    chart::url::{Url, UrlError, redacted},
    text::cut,
};

/// The longest sum of all values that is read, in bytes. HTTP servers send no longer headers.
const MAX_LEN: usize = 16 * 1024;

/// How much of the registry's own words fits into a message, in bytes.
const MAX_TOLD: usize = 256;

/// Why the next page of a list cannot be had.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LinkError {
    /// More than is read.
    #[error("the registry's Link header is longer than {MAX_LEN} bytes")]
    TooLong,
    /// Not of the form `<URL>; rel="next"`.
    #[error("the registry's Link header cannot be read: {text:?} is not of the form <URL>; rel=\"next\"")]
    Malformed {
        /// The value that cannot be read, cut to what fits into a message.
        text: String,
    },
    /// The target is no URL.
    #[error("the registry's link to the next page, {target:?}, is unusable: {source}")]
    BadTarget {
        /// The target, without credentials.
        target: String,
        /// What is wrong with it.
        source: UrlError,
    },
    /// The target is somewhere else, where neither credentials nor trust go.
    #[error(
        "the registry's link to the next page leads to {target}, away from {page}; it is not followed. A proxy in front of the registry must pass on the headers Host and X-Forwarded-Proto"
    )]
    ForeignOrigin {
        /// The target, without credentials.
        target: String,
        /// The page that has the link, without credentials.
        page: String,
    },
    /// The target is the page itself.
    #[error("the registry's link to the next page leads back to {page}")]
    Loop {
        /// The page that has the link, without credentials.
        page: String,
    },
}

/// The URL of the page that follows `page`, out of the values of all `Link` fields of the response; `None` for the last
/// page.
///
/// `page` is the URL that was asked for. It must have no credentials, and the answer has none.
///
/// Where no link says what it is, the first one counts: RFC 8288 wants a `rel`, but the library that Fleet and Helm use
/// does not look for one.
///
/// # Errors
/// Where there is a link that cannot be followed.
pub fn next(
    values: impl IntoIterator<Item = impl AsRef<[u8]>>,
    page: &str,
) -> Result<Option<String>, LinkError> {
    let mut budget = MAX_LEN;
    let mut unnamed = None;
    for value in values {
        let value = value.as_ref();
        budget = budget.checked_sub(value.len()).ok_or(LinkError::TooLong)?;
        let mut cursor = Cursor::new(value);
        loop {
            cursor.skip_to_element();
            if cursor.is_at_end() {
                break;
            }
            let link = link(&mut cursor).map_err(|Fault| LinkError::Malformed {
                text: cut(text(value), MAX_TOLD),
            })?;
            match link.relation {
                Relation::Next => return follow(&link.target, page).map(Some),
                Relation::Unnamed => unnamed = unnamed.or(Some(link.target)),
                Relation::Other => {}
            }
        }
    }
    unnamed.map(|target| follow(&target, page)).transpose()
}

struct Link {
    target: String,
    relation: Relation,
}

/// What a link is to the page that has it.
enum Relation {
    Next,
    Other,
    Unnamed,
}

/// Reads a link: `<target> *( ; name [ = value ] )`.
fn link(cursor: &mut Cursor<'_>) -> Result<Link, Fault> {
    if !cursor.eat(b'<') {
        return Err(Fault);
    }
    let target = text(cursor.take_while(|byte| byte != b'>'));
    if !cursor.eat(b'>') {
        return Err(Fault);
    }
    let mut names = None;
    let mut is_of_another = false;
    loop {
        cursor.skip_blanks();
        if !cursor.eat(b';') {
            break;
        }
        cursor.skip_blanks();
        let Some((name, value)) = cursor.parameter(b";,")? else {
            continue;
        };
        // The first `rel` counts, as RFC 8288 says.
        if name.eq_ignore_ascii_case("rel") {
            names.get_or_insert(value.unwrap_or_default());
        } else if name.eq_ignore_ascii_case("anchor") {
            is_of_another = true;
        }
    }
    if !cursor.is_before(b",") {
        return Err(Fault);
    }
    let relation = match names {
        _ if is_of_another => Relation::Other,
        None => Relation::Unnamed,
        Some(names) if is_next(&names) => Relation::Next,
        Some(_) => Relation::Other,
    };
    Ok(Link { target, relation })
}

fn is_next(relations: &str) -> bool {
    relations
        .split_ascii_whitespace()
        .any(|relation| relation.eq_ignore_ascii_case("next"))
}

/// The target, where it is another page of the same registry.
fn follow(target: &str, page: &str) -> Result<String, LinkError> {
    let bad = |source| LinkError::BadTarget {
        target: cut(redacted(target), MAX_TOLD),
        source,
    };
    let base = Url::parse(page).map_err(bad)?;
    let next = base.join(target).map_err(bad)?;
    let url = Url::parse(&next).map_err(bad)?;
    if !url.is_same_origin(&base) {
        return Err(LinkError::ForeignOrigin {
            target: cut(url.to_string(), MAX_TOLD),
            page: base.to_string(),
        });
    }
    if next == base.without_credentials() {
        return Err(LinkError::Loop {
            page: base.to_string(),
        });
    }
    Ok(next)
}

#[cfg(test)]
mod tests;
