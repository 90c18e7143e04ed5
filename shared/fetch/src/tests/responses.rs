//! Responses of working repositories and registries.

use std::fmt::Write;

use super::server::{Reply, RequestHead, response};

/// The requested chart.
pub const CHART: &str = "web";
/// The digest of [`manifest`].
pub const DIGEST: &str = "sha256:4b0d5d5f2a5ef7c3f3a5ac9b8a2a0e0e6f1d4f8b5f5ed0c6b3a1e2d3c4b5a697";

/// An index in Helm's layout, of charts and their versions.
pub fn index_of(charts: &[(&str, &[&str])]) -> String {
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for (chart, versions) in charts {
        writeln!(text, "  {chart}:").unwrap();
        for version in *versions {
            text.push_str(&entry(chart, version));
        }
    }
    text.push_str("generated: \"2026-01-01T00:00:00Z\"\n");
    text
}

/// An index with versions of the chart.
pub fn index(versions: &[&str]) -> String {
    index_of(&[(CHART, versions)])
}

/// One version of a chart in an index.
pub fn entry(chart: &str, version: &str) -> String {
    format!(
        "  - created: \"2026-01-01T00:00:00Z\"\n    description: A chart of a test\n    digest: 5f3b\n    name: {chart}\n    urls:\n    - \
         {chart}-{version}.tgz\n    version: {version}\n"
    )
}

/// A response with an index.
pub fn indexed(headers: &[(&str, &str)], versions: &[&str]) -> Reply {
    response(200, headers, index(versions))
}

/// The response of a repository with an entity tag: the index, or status 304.
pub fn revalidating(head: &RequestHead, etag: &str, body: &str) -> Reply {
    if head.text("If-None-Match") == etag {
        response(304, &[("ETag", etag)], "")
    } else {
        response(200, &[("ETag", etag)], body)
    }
}

/// A page of tags.
pub fn tags(headers: &[(&str, &str)], tags: &[&str]) -> Reply {
    let body = serde_json::json!({"name": CHART, "tags": tags});
    response(200, headers, body.to_string())
}

/// The response to HEAD for a manifest.
pub fn manifest() -> Reply {
    response(
        200,
        &[("Docker-Content-Digest", DIGEST), ("Content-Length", "700")],
        "",
    )
}

/// A registry with these tags, and a manifest for each.
pub fn registry(head: &RequestHead, all: &[&str]) -> Reply {
    let tag = head.target.rsplit_once("/manifests/").map(|(_, tag)| tag);
    match tag {
        None => tags(&[], all),
        Some(tag) if all.contains(&tag) => manifest(),
        Some(_) if head.method == "HEAD" => response(404, &[("Content-Length", "80")], ""),
        Some(_) => refused(404, "MANIFEST_UNKNOWN", "manifest unknown"),
    }
}

/// An error response of a registry.
pub fn refused(status: u16, code: &str, message: &str) -> Reply {
    let body = serde_json::json!({"errors": [{"code": code, "message": message}]});
    response(status, &[("Content-Type", "application/json")], body.to_string())
}

/// A challenge for a token, with the server itself as token server.
pub fn token_challenge(head: &RequestHead) -> Reply {
    let challenge = format!(
        "Bearer realm=\"http://{}/token\",service=\"registry of a test\"",
        head.host()
    );
    unauthorized(&challenge)
}

/// A challenge for credentials.
pub fn unauthorized(challenge: &str) -> Reply {
    response(
        401,
        &[("WWW-Authenticate", challenge), ("Content-Length", "0")],
        "",
    )
}

/// A token that is valid for this many seconds.
pub fn token(secret: &str, seconds: u32) -> Reply {
    let body = serde_json::json!({"token": secret, "expires_in": seconds});
    response(200, &[("Content-Type", "application/json")], body.to_string())
}
