//! Which requests are served: pure rules on the head of a request.
//!
//! Any page in a browser of this computer can send requests to loopback, under any name that resolves to it, and so can any other
//! user's program. What they cannot do: choose `Host`, `Origin` and `Sec-Fetch-Site` (pages), or know the secrets (all).

use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header, request::Parts};

use super::{session::Session, topic::Topic};

/// The header with the page key.
pub const PAGE_KEY: HeaderName = HeaderName::from_static("x-helmop-page-key");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A page: the same document for all paths. It has no data.
    Page,
    /// A script, a style or an icon. It has no data.
    Asset,
    /// The exchange of the key of a link.
    Session,
    /// The views of a topic.
    Stream(Topic),
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It was sent to another name, or to none.
    Host,
    /// Another page sent it.
    Origin,
    /// The method does not fit.
    Method,
    /// There is nothing at its path.
    Path,
    /// A secret is missing or wrong.
    Session,
}

impl Denied {
    /// The status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Path => StatusCode::NOT_FOUND,
            Self::Session => StatusCode::UNAUTHORIZED,
        }
    }

    /// The body of the response.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Host => {
                "This server is reached by the address that kubectl helmop ui printed, and by no other name.\n"
            }
            Self::Origin => "This request comes from another page.\n",
            Self::Method => "This method is not supported here.\n",
            Self::Path => "There is no such page.\n",
            Self::Session => "Open the address that kubectl helmop ui printed: it has the key.\n",
        }
    }
}

/// What a request is for, if it may be served.
///
/// # Errors
/// If a rule is violated.
pub fn check(request: &Parts, session: &Session) -> Result<Target, Denied> {
    let headers = &request.headers;
    // A request in absolute form names a host of its own.
    if only(headers, &header::HOST) != Some(&session.host()) || request.uri.authority().is_some() {
        return Err(Denied::Host);
    }
    let target = target(request.uri.path()).ok_or(Denied::Path)?;
    check_origin(headers, &target, session)?;
    let method = match target {
        Target::Session => Method::POST,
        Target::Page | Target::Asset | Target::Stream(_) => Method::GET,
    };
    if request.method != method {
        return Err(Denied::Method);
    }
    if matches!(target, Target::Stream(_))
        && !session.is_valid(only(headers, &header::COOKIE), only(headers, &PAGE_KEY))
    {
        return Err(Denied::Session);
    }
    Ok(target)
}

fn target(path: &str) -> Option<Target> {
    let path = path.strip_prefix('/')?;
    match path.split_once('/') {
        None if path == "session" => Some(Target::Session),
        Some(("assets", _)) => Some(Target::Asset),
        Some(("stream", topic)) => Topic::parse(topic).map(Target::Stream),
        _ if path.is_empty() || Topic::parse(path).is_some() => Some(Target::Page),
        _ => None,
    }
}

/// Requests of other origins are refused. Only a page may be opened by a link elsewhere: it has no data.
fn check_origin(headers: &HeaderMap, target: &Target, session: &Session) -> Result<(), Denied> {
    let origin = session.origin();
    let is_own_origin = if headers.contains_key(header::ORIGIN) {
        only(headers, &header::ORIGIN) == Some(&origin)
    } else {
        *target != Target::Session
    };
    let site = headers
        .contains_key(FETCH_SITE)
        .then(|| only(headers, &FETCH_SITE));
    let is_own_site = match site {
        // None: not a browser of today. It has the secrets, or it gets nothing.
        None | Some(Some("same-origin")) => true,
        Some(_) => *target == Target::Page && is_opened(headers),
    };
    if is_own_origin && is_own_site {
        Ok(())
    } else {
        Err(Denied::Origin)
    }
}

/// Whether the user opens a page in a tab or window: not in a frame, and not by a script that reads it.
fn is_opened(headers: &HeaderMap) -> bool {
    only(headers, &FETCH_MODE) == Some("navigate") && only(headers, &FETCH_DEST) == Some("document")
}

/// The value of a header that a request has once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    const HOST: &str = "127.0.0.1:8090";
    const ORIGIN: &str = "http://127.0.0.1:8090";

    fn session() -> Session {
        Session::new(HOST.parse().unwrap()).unwrap()
    }

    fn checked(
        session: &Session,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<Target, Denied> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap().into_parts().0, session)
    }

    #[test]
    fn only_the_own_name_is_served() {
        let session = session();
        for (hosts, expected) in [
            (&[HOST][..], Ok(Target::Page)),
            (&[], Err(Denied::Host)),
            (&["127.0.0.1"], Err(Denied::Host)),
            (&["127.0.0.1:80"], Err(Denied::Host)),
            (&["localhost:8090"], Err(Denied::Host)),
            (&["evil.example:8090"], Err(Denied::Host)),
            (&["127.0.0.1:8090.evil.example"], Err(Denied::Host)),
            (&["0.0.0.0:8090"], Err(Denied::Host)),
            (&["[::1]:8090"], Err(Denied::Host)),
            (&[HOST, "evil.example"], Err(Denied::Host)),
            (&["evil.example", HOST], Err(Denied::Host)),
        ] {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(checked(&session, "GET", "/", &headers), expected, "{hosts:?}");
        }
        let absolute = checked(&session, "GET", "http://evil.example/", &[("host", HOST)]);
        assert_eq!(absolute, Err(Denied::Host));
    }

    #[test]
    fn every_path_has_one_target_and_method() {
        let session = session();
        let (cookie, key) = session.credentials();
        let stream = |path| Ok(Target::Stream(Topic::parse(path).unwrap()));
        for (method, path, expected) in [
            ("GET", "/", Ok(Target::Page)),
            ("GET", "/helmops", Ok(Target::Page)),
            ("GET", "/helmops/shop/web", Ok(Target::Page)),
            ("GET", "/clusters", Ok(Target::Page)),
            ("GET", "/assets/main.js", Ok(Target::Asset)),
            ("GET", "/stream/helmops", stream("helmops")),
            ("GET", "/stream/helmops/shop/web", stream("helmops/shop/web")),
            ("POST", "/session", Ok(Target::Session)),
            ("GET", "/session", Err(Denied::Method)),
            ("POST", "/stream/helmops", Err(Denied::Method)),
            ("POST", "/", Err(Denied::Method)),
            ("HEAD", "/", Err(Denied::Method)),
            ("OPTIONS", "/stream/helmops", Err(Denied::Method)),
            ("DELETE", "/helmops/shop/web", Err(Denied::Method)),
            ("GET", "/stream/secrets", Err(Denied::Path)),
            ("GET", "/stream/helmops/shop/..", Err(Denied::Path)),
            ("GET", "/stream/", Err(Denied::Path)),
            ("GET", "/session/x", Err(Denied::Path)),
            ("GET", "/api/v1/secrets", Err(Denied::Path)),
            ("GET", "/../etc/passwd", Err(Denied::Path)),
        ] {
            let headers = [
                ("host", HOST),
                ("origin", ORIGIN),
                ("cookie", &*cookie),
                ("x-helmop-page-key", &*key),
            ];
            assert_eq!(
                checked(&session, method, path, &headers),
                expected,
                "{method} {path}"
            );
        }
    }

    #[test]
    fn requests_of_other_pages_are_refused() {
        let session = session();
        let (cookie, key) = session.credentials();
        let document: &[_] = &[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        let frame: &[_] = &[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        let script: &[_] = &[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")];
        let none: &[_] = &[];
        let (page, asset, stream) = ("/helmops", "/assets/main.js", "/stream/helmops");
        for (path, origin, site, more, is_allowed) in [
            (page, None, None, none, true),
            (page, None, Some("none"), document, true),
            (page, None, Some("cross-site"), document, true),
            (page, None, Some("cross-site"), frame, false),
            (page, None, Some("same-site"), frame, false),
            (page, None, Some("cross-site"), none, false),
            (page, Some("http://evil.example"), None, none, false),
            (asset, None, Some("same-origin"), script, true),
            (asset, None, Some("cross-site"), script, false),
            (asset, None, Some("same-site"), script, false),
            (asset, None, Some("none"), document, false),
            (stream, None, Some("same-origin"), none, true),
            (stream, Some(ORIGIN), Some("same-origin"), none, true),
            (stream, None, None, none, true),
            (stream, Some("null"), Some("same-origin"), none, false),
            (stream, Some("http://127.0.0.1:8091"), None, none, false),
            (stream, Some("http://localhost:8090"), None, none, false),
            (stream, Some("https://127.0.0.1:8090"), None, none, false),
            (stream, None, Some("same-site"), none, false),
            (stream, None, Some("cross-site"), document, false),
            (stream, None, Some("none"), document, false),
            (stream, None, Some(""), none, false),
        ] {
            let mut headers = vec![("host", HOST), ("cookie", &*cookie), ("x-helmop-page-key", &*key)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            headers.extend(site.map(|site| ("sec-fetch-site", site)));
            headers.extend(more);
            let found = checked(&session, "GET", path, &headers);
            let expected = if is_allowed { None } else { Some(Denied::Origin) };
            assert_eq!(found.err(), expected, "{path} {origin:?} {site:?} {more:?}");
        }
        // The exchange of a key always has an origin.
        for (origin, expected) in [
            (Some(ORIGIN), None),
            (None, Some(Denied::Origin)),
            (Some("null"), Some(Denied::Origin)),
        ] {
            let mut headers = vec![("host", HOST)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            assert_eq!(
                checked(&session, "POST", "/session", &headers).err(),
                expected,
                "{origin:?}"
            );
        }
    }

    #[test]
    fn data_needs_both_secrets_in_their_headers_and_pages_none() {
        let session = session();
        let (cookie, key) = session.credentials();
        let (cookie, key) = (("cookie", &*cookie), ("x-helmop-page-key", &*key));
        let link = format!(
            "/stream/helmops?key={}&x-helmop-page-key={}",
            session.key(),
            key.1
        );
        let bearer = format!("Bearer {}", session.key());
        for (path, headers, expected) in [
            ("/stream/helmops", vec![cookie, key], None),
            ("/stream/helmops", vec![cookie], Some(Denied::Session)),
            ("/stream/helmops", vec![key], Some(Denied::Session)),
            ("/stream/helmops", vec![], Some(Denied::Session)),
            (
                "/stream/helmops",
                vec![cookie, key, ("x-helmop-page-key", "x")],
                Some(Denied::Session),
            ),
            (
                "/stream/helmops",
                vec![cookie, key, ("cookie", "a=b")],
                Some(Denied::Session),
            ),
            (
                "/stream/helmops",
                vec![("authorization", &*bearer)],
                Some(Denied::Session),
            ),
            (&*link, vec![], Some(Denied::Session)),
            (&*link, vec![cookie], Some(Denied::Session)),
            ("/", vec![], None),
            ("/assets/main.js", vec![], None),
        ] {
            let headers: Vec<_> = std::iter::once(("host", HOST)).chain(headers).collect();
            assert_eq!(
                checked(&session, "GET", path, &headers).err(),
                expected,
                "{path} {headers:?}"
            );
        }
    }
}
