//! Kubeconfig files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

/// A kubeconfig for one API server and one bearer token; in JSON, which every YAML parser accepts.
pub fn render(url: &str, ca: &str, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "testbed",
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "testbed"}}],
        "clusters": [{
            "name": "testbed",
            "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(ca)},
        }],
        "users": [{"name": "testbed", "user": {"token": token}}],
    })
    .to_string()
}
