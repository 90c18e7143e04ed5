//! Redirects: their target, and whether they are followed.

use helmops_model::chart::{location::without_credentials, url::redacted};
use reqwest::{
    Method, Response, StatusCode, Url,
    header::{AUTHORIZATION, COOKIE, HeaderMap, LOCATION},
};

use super::{error::FetchErrorKind, tls::origin};

/// As many as Go's client follows.
pub const MAX_REDIRECTS: usize = 10;

/// The target of a redirect, after `redirects` others; `None` if the response is not a redirect.
///
/// # Errors
/// If the redirect must not be followed.
pub fn next(response: &Response, redirects: usize) -> Result<Option<Url>, FetchErrorKind> {
    let from = response.url();
    let Some(to) = target(response)? else {
        return Ok(None);
    };
    if redirects >= MAX_REDIRECTS {
        return Err(FetchErrorKind::Redirect(format!(
            "more than {MAX_REDIRECTS} redirects, one after the other, the last to {}",
            redacted(to.as_str())
        )));
    }
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(FetchErrorKind::Redirect(format!(
            "a redirect from https to plain http is not followed: {}",
            redacted(to.as_str())
        )));
    }
    if !matches!(to.scheme(), "http" | "https") {
        return Err(FetchErrorKind::Redirect(format!(
            "a redirect to another scheme is not followed: {}",
            redacted(to.as_str())
        )));
    }
    // Credentials in the target do not come from the user.
    Ok(Some(without_credentials(to)))
}

/// Whether a request may be repeated at the target of a redirect as it is. With other statuses a client would send GET. A body is sent to one
/// server only, since it may have credentials.
///
/// # Errors
/// If it may not.
pub fn check_method(method: &Method, status: StatusCode, from: &Url, to: &Url) -> Result<(), FetchErrorKind> {
    let keeps_method = matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    let is_other_server = origin(from) != origin(to);
    if *method != Method::POST || keeps_method && !is_other_server {
        return Ok(());
    }
    let to = redacted(to.as_str());
    if is_other_server {
        return Err(FetchErrorKind::Redirect(format!(
            "the server redirects a request with a body to another server, {to}, which gets none, since it may have credentials; use the URL that it \
             redirects to"
        )));
    }
    Err(FetchErrorKind::Redirect(format!(
        "the server redirects a request with a body to {to} with status {}, which would lose the body; use the URL that it redirects to",
        status.as_u16()
    )))
}

/// Removes the headers that must not be sent to another scheme, host or port.
pub fn strip(headers: &mut HeaderMap, from: &Url, to: &Url) {
    if origin(from) != origin(to) {
        headers.remove(AUTHORIZATION);
        headers.remove(COOKIE);
    }
}

fn target(response: &Response) -> Result<Option<Url>, FetchErrorKind> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let to = response.url().join(&location);
    to.map(Some).map_err(|error| {
        let location = redacted(&location);
        FetchErrorKind::Redirect(format!(
            "a redirect to {location:?}, which is not a valid URL: {error}"
        ))
    })
}
