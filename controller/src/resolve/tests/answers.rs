//! What wholesome repositories and registries answer.

use std::fmt::Write;

use super::rig::{Head, Reply, answer};

/// The chart that is asked for.
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

/// The same of one chart.
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

/// An answer with an index.
pub fn indexed(headers: &[(&str, &str)], versions: &[&str]) -> Reply {
    answer(200, headers, index(versions))
}

/// Answers as a repository that has an entity tag: with the index, or with the news that there are none.
pub fn revalidating(head: &Head, etag: &str, body: &str) -> Reply {
    if head.text("If-None-Match") == etag {
        answer(304, &[("ETag", etag)], "")
    } else {
        answer(200, &[("ETag", etag)], body)
    }
}

/// A page of tags.
pub fn tags(headers: &[(&str, &str)], tags: &[&str]) -> Reply {
    let body = serde_json::json!({"name": CHART, "tags": tags});
    answer(200, headers, body.to_string())
}

/// The answer to a HEAD for a manifest.
pub fn manifest() -> Reply {
    answer(
        200,
        &[("Docker-Content-Digest", DIGEST), ("Content-Length", "700")],
        "",
    )
}

/// A registry that has these tags, and a manifest for each.
pub fn registry(head: &Head, all: &[&str]) -> Reply {
    let wanted = head.target.rsplit_once("/manifests/").map(|(_, tag)| tag);
    match wanted {
        None => tags(&[], all),
        Some(tag) if all.contains(&tag) => manifest(),
        Some(_) if head.method == "HEAD" => answer(404, &[("Content-Length", "80")], ""),
        Some(_) => refused(404, "MANIFEST_UNKNOWN", "manifest unknown"),
    }
}

/// A registry's refusal.
pub fn refused(status: u16, code: &str, message: &str) -> Reply {
    let body = serde_json::json!({"errors": [{"code": code, "message": message}]});
    answer(status, &[("Content-Type", "application/json")], body.to_string())
}

/// The demand of a token, from the server itself.
pub fn wants_token(head: &Head) -> Reply {
    let challenge = format!(
        "Bearer realm=\"http://{}/token\",service=\"registry of a test\"",
        head.host()
    );
    wants(&challenge)
}

/// The demand of credentials.
pub fn wants(challenge: &str) -> Reply {
    answer(
        401,
        &[("WWW-Authenticate", challenge), ("Content-Length", "0")],
        "",
    )
}

/// A token that is good for so many seconds.
pub fn token(secret: &str, seconds: u32) -> Reply {
    let body = serde_json::json!({"token": secret, "expires_in": seconds});
    answer(200, &[("Content-Type", "application/json")], body.to_string())
}
