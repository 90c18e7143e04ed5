//! A kubeconfig that a user gives: only what is in it counts. What would make this process run a command, read a file, use a proxy or
//! trust a server that it does not know is refused.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use bounded_text::excerpt;
use go_formats::yaml::{self, Quota};
use serde_json::{Map, Value};
use thiserror::Error;
use url::Url;

/// Maximum length of a kubeconfig, in bytes. One cluster and one user with certificates have 10 KiB.
pub const MAX_BYTES: usize = 256 << 10;
/// Maximum number of keys and values.
const MAX_NODES: usize = 20_000;
/// Longest text that an error quotes, in bytes.
const MAX_QUOTE: usize = 128;

/// The keys of a cluster that are used, or that mean nothing here.
const CLUSTER: [&str; 5] = [
    "server",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "disable-compression",
    "extensions",
];
/// The keys of a user.
const USER: [&str; 4] = [
    "token",
    "client-certificate-data",
    "client-key-data",
    "extensions",
];

/// Access to the API server of the cluster that is imported.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetAccess {
    /// Its address: `https`, without credentials, query or fragment.
    pub server: Url,
    /// The CAs to trust, PEM; `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The token of the user.
    pub token: Option<String>,
    /// The client certificate of the user and its key, PEM.
    pub certificate: Option<Vec<u8>>,
}

/// Credentials stay out of logs.
impl fmt::Debug for TargetAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetAccess")
            .field("server", &self.server.as_str())
            .finish_non_exhaustive()
    }
}

/// Why a kubeconfig is not used. No message has a credential.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KubeconfigError {
    /// It cannot be read, or lacks something.
    #[error("{0}")]
    Invalid(String),
    /// It has a field that is not used for a cluster that is imported.
    #[error(
        "{field} is not allowed: {why}; put a kubeconfig into the Secret that contains its CA and its credentials (kubectl config view --raw --minify --flatten)"
    )]
    Unsafe {
        /// The path of the field.
        field: String,
        /// What it would do.
        why: &'static str,
    },
}

/// Reads the current context of a kubeconfig.
///
/// # Errors
/// If it is invalid, or has what is not allowed.
pub fn read(text: &str) -> Result<TargetAccess, KubeconfigError> {
    if text.len() > MAX_BYTES {
        let message = format!("it has {} bytes; at most {MAX_BYTES} are allowed", text.len());
        return Err(KubeconfigError::Invalid(message));
    }
    let config = yaml::read_exact(text, &mut Quota::new(MAX_NODES, MAX_BYTES));
    // The error of the parser could quote a credential.
    let config = config.map_err(|_| invalid("it is not YAML"))?;
    let name = text_of(config.get("current-context")).ok_or_else(|| invalid("it has no current-context"))?;
    let context = named(&config, "contexts", "context", name)?;
    let of_context =
        |key: &str| text_of(context.get(key)).ok_or_else(|| missing("contexts", name, "context", key));
    let (cluster_name, user_name) = (of_context("cluster")?, of_context("user")?);
    let cluster = named(&config, "clusters", "cluster", cluster_name)?;
    let user = named(&config, "users", "user", user_name)?;
    check_keys(
        cluster,
        &format!("clusters[{}].cluster", quoted(cluster_name)),
        &CLUSTER,
    )?;
    check_keys(user, &format!("users[{}].user", quoted(user_name)), &USER)?;
    let token = text_of(user.get("token")).map(str::to_owned);
    let certificate = certificate(user, user_name)?;
    if token.is_none() && certificate.is_none() {
        let message = format!(
            "users[{}].user has neither token nor client-certificate-data with client-key-data",
            quoted(user_name)
        );
        return Err(KubeconfigError::Invalid(message));
    }
    let server = text_of(cluster.get("server"))
        .ok_or_else(|| missing("clusters", cluster_name, "cluster", "server"))?;
    Ok(TargetAccess {
        server: https(
            server,
            &format!("clusters[{}].cluster.server", quoted(cluster_name)),
        )
        .map_err(KubeconfigError::Invalid)?,
        authorities: data(cluster, "certificate-authority-data", "clusters", cluster_name)?,
        token,
        certificate,
    })
}

/// The address of an API server: `https`, with a host, and without credentials, query or fragment. `field` is where it is from.
///
/// # Errors
/// If it is another one.
pub fn https(text: &str, field: &str) -> Result<Url, String> {
    let invalid = |why: &str| {
        format!(
            "{field} {} {why}, such as https://api.example.com:6443",
            quoted(text)
        )
    };
    // A text with a login is not quoted.
    if text.contains('@') {
        return Err(format!(
            "{field} has an @, and must be a URL without a login, such as https://api.example.com:6443"
        ));
    }
    let url = Url::parse(text).map_err(|_| invalid("is not a URL; write it with https://"))?;
    let is_plain = url.query().is_none() && url.fragment().is_none();
    if url.scheme() != "https" || !url.has_host() || !is_plain {
        return Err(invalid("must be a URL with https://, without ? and #"));
    }
    Ok(url)
}

/// The content of the entry of a list with this name.
fn named<'c>(
    config: &'c Value,
    list: &str,
    key: &str,
    name: &str,
) -> Result<&'c Map<String, Value>, KubeconfigError> {
    let entries = config.get(list).and_then(Value::as_array).into_iter().flatten();
    let mut found = entries.filter(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
    let entry = found
        .next()
        .and_then(|entry| entry.get(key))
        .and_then(Value::as_object);
    entry
        .ok_or_else(|| KubeconfigError::Invalid(format!("{list} has no entry {} with a {key}", quoted(name))))
}

/// Only keys that are known, unless their value is empty.
fn check_keys(object: &Map<String, Value>, path: &str, known: &[&str]) -> Result<(), KubeconfigError> {
    for (key, value) in object {
        let is_known = known.contains(&key.as_str());
        let is_set = match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Bool(true) | Value::Number(_) => true,
        };
        if is_set && (!is_known || key == "insecure-skip-tls-verify") {
            let field = format!("{path}.{}", excerpt(key, MAX_QUOTE));
            return Err(KubeconfigError::Unsafe { field, why: why(key) });
        }
    }
    Ok(())
}

/// What a key would do.
fn why(key: &str) -> &'static str {
    match key {
        "exec" => "it is a command, which would run in the controller",
        "auth-provider" => "it is a plugin of the client, which the controller does not have",
        "certificate-authority" | "client-certificate" | "client-key" | "tokenFile" => {
            "it is a file, which would be read in the controller"
        }
        "proxy-url" => "the controller connects to the API server itself",
        "insecure-skip-tls-verify" => "the controller must know which server it sends credentials to",
        "as" | "as-uid" | "as-groups" | "as-user-extra" => "the controller impersonates no user",
        "tls-server-name" => "the certificate of the API server must be for the host in its address",
        "username" | "password" => "API servers have no passwords",
        _ => "the controller does not know this field",
    }
}

fn certificate(user: &Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>, KubeconfigError> {
    let certificate = data(user, "client-certificate-data", "users", name)?;
    let key = data(user, "client-key-data", "users", name)?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(mut both), Some(key)) => {
            both.push(b'\n');
            both.extend(key);
            Ok(Some(both))
        }
        (Some(_), None) => Err(missing("users", name, "user", "client-key-data")),
        (None, Some(_)) => Err(missing("users", name, "user", "client-certificate-data")),
    }
}

/// A value in base64.
fn data(
    object: &Map<String, Value>,
    key: &str,
    list: &str,
    name: &str,
) -> Result<Option<Vec<u8>>, KubeconfigError> {
    let Some(text) = text_of(object.get(key)) else {
        return Ok(None);
    };
    let text: String = text.split_whitespace().collect();
    let decoded = STANDARD
        .decode(text)
        .map_err(|_| KubeconfigError::Invalid(format!("{key} of {} in {list} is not base64", quoted(name))));
    decoded.map(Some)
}

/// A text that is not empty.
fn text_of(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn quoted(text: &str) -> String {
    format!("{:?}", excerpt(text, MAX_QUOTE))
}

fn invalid(message: &str) -> KubeconfigError {
    KubeconfigError::Invalid(message.to_owned())
}

fn missing(list: &str, name: &str, kind: &str, key: &str) -> KubeconfigError {
    KubeconfigError::Invalid(format!("{list}[{}].{kind} has no {key}", quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "
apiVersion: v1
kind: Config
current-context: c
contexts: [{{ name: c, context: {{ cluster: a, user: b }} }}]
clusters:
- {{ name: other, cluster: {{ server: 'https://10.0.0.9', insecure-skip-tls-verify: true }} }}
- {{ name: a, cluster: {{ {cluster} }} }}
users:
- {{ name: other, user: {{ exec: {{ command: rm }} }} }}
- {{ name: b, user: {{ {user} }} }}
"
        )
    }

    const SERVER: &str = "server: 'https://10.0.0.1:6443/k8s/clusters/c-1'";
    const TOKEN: &str = "token: geheim";

    #[test]
    fn what_is_in_the_current_context_is_used() {
        let access = read(&kubeconfig(
            &format!(
                "{SERVER}, certificate-authority-data: Q0E=, insecure-skip-tls-verify: false, proxy-url: ''"
            ),
            &format!("{TOKEN}, client-certificate-data: Q0VSVA==, client-key-data: S0VZ, tokenFile: null"),
        ));
        let access = access.unwrap();
        assert_eq!(access.server.as_str(), "https://10.0.0.1:6443/k8s/clusters/c-1");
        assert_eq!(access.authorities.as_deref(), Some(&b"CA"[..]));
        assert_eq!(access.token.as_deref(), Some("geheim"));
        assert_eq!(access.certificate.as_deref(), Some(&b"CERT\nKEY"[..]));
        assert!(!format!("{access:?}").contains("geheim"));
    }

    #[test]
    fn what_would_act_in_the_controller_is_refused_by_its_name() {
        for (cluster, user, field) in [
            ("", "exec: { command: login }", "users[\"b\"].user.exec"),
            (
                "",
                "auth-provider: { name: oidc }",
                "users[\"b\"].user.auth-provider",
            ),
            (
                "",
                "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
                "user.tokenFile",
            ),
            ("", "client-certificate: /a", "user.client-certificate "),
            ("", "client-key: /a", "user.client-key "),
            ("", "as: system:admin", "user.as "),
            ("", "as-groups: [system:masters]", "user.as-groups"),
            ("", "as-user-extra: { a: [b] }", "user.as-user-extra"),
            ("", "username: a, password: geheim", "user."),
            ("", "new-field: 1", "user.new-field"),
            (
                "certificate-authority: /etc/passwd",
                "",
                "clusters[\"a\"].cluster.certificate-authority ",
            ),
            ("proxy-url: 'http://10.0.0.2'", "", "cluster.proxy-url"),
            (
                "insecure-skip-tls-verify: true",
                "",
                "cluster.insecure-skip-tls-verify",
            ),
            (
                "insecure-skip-tls-verify: 'true'",
                "",
                "cluster.insecure-skip-tls-verify",
            ),
            ("tls-server-name: a", "", "cluster.tls-server-name"),
        ] {
            let join = |one: &str, other: &str| [one, other].join(if other.is_empty() { "" } else { ", " });
            let error = read(&kubeconfig(&join(SERVER, cluster), &join(TOKEN, user))).unwrap_err();
            assert!(matches!(error, KubeconfigError::Unsafe { .. }), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains(field) && !text.contains("geheim"),
                "{field}: {text}"
            );
        }
    }

    #[test]
    fn what_is_missing_or_malformed_is_named_without_credentials() {
        for (text, expected) in [
            (String::new(), "no current-context"),
            ("[".to_owned(), "not YAML"),
            ("current-context: c".to_owned(), "contexts has no entry \"c\""),
            (kubeconfig(SERVER, ""), "neither token nor"),
            (
                kubeconfig("extensions: []", TOKEN),
                "clusters[\"a\"].cluster has no server",
            ),
            (
                kubeconfig(SERVER, "client-key-data: S0VZ"),
                "has no client-certificate-data",
            ),
            (
                kubeconfig(SERVER, "client-certificate-data: Z2VoZWlt"),
                "has no client-key-data",
            ),
            (
                kubeconfig(
                    "server: 'https://10.0.0.1', certificate-authority-data: '%geheim'",
                    TOKEN,
                ),
                "is not base64",
            ),
            (
                kubeconfig("server: 'http://10.0.0.1'", TOKEN),
                "must be a URL with https://",
            ),
            (kubeconfig("server: '10.0.0.1:6443'", TOKEN), "is not a URL"),
            (
                kubeconfig("server: 'https://a:geheim@10.0.0.1'", TOKEN),
                "without a login",
            ),
            (
                kubeconfig("server: 'https://10.0.0.1/?a=b'", TOKEN),
                "without ? and #",
            ),
            (
                format!("{}{}", kubeconfig(SERVER, TOKEN), " ".repeat(MAX_BYTES)),
                "at most 262144",
            ),
            // Aliases that expand to millions of values.
            (bomb(), "not YAML"),
            (format!("a: {}", "[".repeat(100_000)), "not YAML"),
        ] {
            let error = read(&text).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, KubeconfigError::Invalid(_)), "{message}");
            assert!(
                message.contains(expected) && !message.contains("geheim"),
                "{expected}: {message}"
            );
        }
    }

    fn bomb() -> String {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..10 {
            let alias = format!("*a{}", level - 1);
            text.push_str(
                &[
                    "a",
                    &level.to_string(),
                    ": &a",
                    &level.to_string(),
                    " [",
                    &[alias.as_str(); 10].join(","),
                    "]\n",
                ]
                .concat(),
            );
        }
        text
    }
}
