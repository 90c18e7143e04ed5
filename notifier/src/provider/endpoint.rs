//! The endpoint of an AlertProvider: its address, credentials, trust and proxy, from its spec and its Secrets.
//!
//! It is made for each request and dropped afterwards, so that no credential stays in memory and a corrected one is used immediately.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use go_formats::yaml::{Quota, read};
use helmops_api::{AlertProvider, notifications::LocalReference};
use helmops_fetch::{ProxyConfig, TlsConfig};
use helmops_kube::path_segment;
use helmops_model::{reason::Reason, validation::FieldErrors};
use helmops_notify::{admit::Validate, message_format::Format};
use helmops_runtime::{
    client::{ApiError, CallError, bounded},
    error_class::{Class, Classified, ClassifiedError, classified},
};
use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use thiserror::Error;
use url::Url;

/// Maximum time of one request by default.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum number of headers of a Secret.
const MAX_HEADERS: usize = 32;
/// Headers that belong to the connection, and those with which a proxy says who its client or its user is, and what was requested: a service
/// of the cluster that trusts them would take the notifier for that proxy.
const RESERVED: [&str; 16] = [
    "client-ip",
    "connection",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "true-client-ip",
    "upgrade",
    "x-client-ip",
    "x-cluster-client-ip",
];
/// The starts of the names of others. Those with which a client logs in at the same proxies have other names, such as
/// `CF-Access-Client-Id`, and stay allowed.
const RESERVED_PREFIXES: [&str; 29] = [
    "cf-access-authenticated-",
    "cf-access-jwt-",
    "cf-connecting-",
    "content-",
    "impersonate-",
    "remote-",
    "ssl-client-",
    "tailscale-user-",
    "x-amzn-mtls-",
    "x-amzn-oidc-",
    "x-auth-request-",
    "x-authenticated-",
    "x-authentik-",
    "x-client-cert",
    "x-client-verify",
    "x-consumer-",
    "x-envoy-",
    "x-forwarded-",
    "x-goog-authenticated-",
    "x-goog-iap-",
    "x-http-method",
    "x-ms-client-principal",
    "x-original-",
    "x-pomerium-claim-",
    "x-pomerium-jwt-",
    "x-real-",
    "x-remote-",
    "x-rewrite-",
    "x-webauth-",
];

/// The endpoint of an AlertProvider.
#[derive(Clone)]
pub struct Endpoint {
    pub format: Format,
    pub address: Url,
    /// Headers, including credentials.
    pub headers: HeaderMap,
    /// The key of signatures; empty if there are none.
    pub key: Vec<u8>,
    pub tls: Arc<TlsConfig>,
    pub proxy: Option<Arc<ProxyConfig>>,
    /// Maximum time of one request.
    pub timeout: Duration,
}

/// Why an AlertProvider has no endpoint.
#[derive(Debug, Error)]
pub enum EndpointError {
    /// The spec of the AlertProvider is invalid.
    #[error("{0}")]
    Spec(FieldErrors),
    /// A Secret does not exist.
    #[error(
        "{field} names Secret {name}, which does not exist; create it in namespace {namespace}, or correct the name"
    )]
    SecretNotFound {
        /// The field with its name.
        field: &'static str,
        name: String,
        namespace: String,
    },
    /// A key of a Secret is missing or invalid.
    #[error("key {key} of Secret {name} ({field}): {problem}")]
    Secret {
        /// The field with its name.
        field: &'static str,
        name: String,
        key: &'static str,
        /// What is wrong, without its content.
        problem: &'static str,
    },
    /// A Secret cannot be read.
    #[error(transparent)]
    Api(#[from] CallError),
}

impl ClassifiedError for EndpointError {
    fn classify(&self) -> Classified {
        match self {
            Self::Spec(errors) => classified(
                errors.reason().unwrap_or(Reason::InvalidNotification),
                Class::Permanent,
            ),
            Self::SecretNotFound { .. } => classified(Reason::SecretNotFound, Class::Absent),
            Self::Secret { .. } => classified(Reason::InvalidSecret, Class::Absent),
            Self::Api(error) => error.classify(),
        }
    }
}

/// A Secret of an AlertProvider; without data if the spec names none.
#[derive(Default)]
struct Keys {
    field: &'static str,
    name: String,
    data: BTreeMap<String, ByteString>,
}

/// Reads the Secrets of an AlertProvider, and returns its endpoint.
///
/// # Errors
/// If its spec or one of the Secrets is invalid.
pub async fn endpoint(client: &Client, provider: &AlertProvider) -> Result<Endpoint, EndpointError> {
    let errors = provider.errors();
    if !errors.is_empty() {
        return Err(EndpointError::Spec(errors));
    }
    let spec = &provider.spec;
    let namespace = provider.metadata.namespace.as_deref().unwrap_or_default();
    let keys = async |field: &'static str, reference: &Option<LocalReference>| match reference {
        None => Ok(Keys::default()),
        Some(reference) => read_secret(client, namespace, field, &reference.name).await,
    };
    let own = keys("spec.secretRef", &spec.secret_ref).await?;
    let certificates = keys("spec.certSecretRef", &spec.cert_secret_ref).await?;
    let proxy = keys("spec.proxySecretRef", &spec.proxy_secret_ref).await?;
    of(provider, &own, &certificates, &proxy)
}

async fn read_secret(
    client: &Client,
    namespace: &str,
    field: &'static str,
    name: &str,
) -> Result<Keys, EndpointError> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    match bounded(secrets.get(&path_segment(name))).await {
        Ok(secret) => Ok(Keys {
            field,
            name: name.to_owned(),
            data: secret.data.unwrap_or_default(),
        }),
        Err(error) if error.is_not_found() => Err(EndpointError::SecretNotFound {
            field,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        }),
        Err(error) => Err(call_error(name, error).into()),
    }
}

fn call_error(name: &str, error: ApiError) -> CallError {
    CallError::of("read", format!("Secret {name}"))(error)
}

fn of(
    provider: &AlertProvider,
    own: &Keys,
    certificates: &Keys,
    proxy: &Keys,
) -> Result<Endpoint, EndpointError> {
    let spec = &provider.spec;
    // The spec is valid.
    let format = Format::parse(&spec.r#type).unwrap_or(Format::Generic);
    let address = match own.text("address")? {
        Some(address) => own.url("address", address)?,
        None => Url::parse(spec.address.trim())
            .map_err(|_| own.problem("address", "missing, and spec.address is empty"))?,
    };
    let token = own.text("token")?;
    let key = match (format, token) {
        (Format::GenericHmac, Some(token)) => token.as_bytes().to_vec(),
        (Format::GenericHmac, None) => {
            return Err(own.problem("token", "missing: it is the key of the signature"));
        }
        _ => Vec::new(),
    };
    let timeout = spec
        .timeout
        .as_deref()
        .and_then(|text| go_formats::duration::parse(text).ok());
    Ok(Endpoint {
        format,
        address: format.address(address),
        headers: own.headers(token.filter(|_| format != Format::GenericHmac))?,
        key,
        tls: Arc::new(certificates.tls()?),
        proxy: proxy.proxy()?.map(Arc::new),
        timeout: timeout.unwrap_or(TIMEOUT),
    })
}

impl Keys {
    fn problem(&self, key: &'static str, problem: &'static str) -> EndpointError {
        EndpointError::Secret {
            field: self.field,
            name: self.name.clone(),
            key,
            problem,
        }
    }

    /// The text of a key, without white space around it; `None` if it is missing or empty.
    fn text(&self, key: &'static str) -> Result<Option<&str>, EndpointError> {
        let Some(bytes) = self.data.get(key) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes.0).map_err(|_| self.problem(key, "not UTF-8 text"))?;
        Ok(Some(text.trim()).filter(|text| !text.is_empty()))
    }

    /// The text of the first of two keys: Flux has had other names.
    fn either(&self, key: &'static str, old: &'static str) -> Result<Option<&str>, EndpointError> {
        Ok(match self.text(key)? {
            Some(text) => Some(text),
            None => self.text(old)?,
        })
    }

    fn url(&self, key: &'static str, text: &str) -> Result<Url, EndpointError> {
        let url = Url::parse(text).map_err(|_| self.problem(key, "not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(self.problem(key, "not a URL that begins with https:// or http://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let problem = "the URL has a user or a password; put these into the keys username and password";
            return Err(self.problem(key, problem));
        }
        Ok(url)
    }

    fn headers(&self, token: Option<&str>) -> Result<HeaderMap, EndpointError> {
        let mut headers = HeaderMap::new();
        let authorization = match (token, self.login()?) {
            (Some(token), _) => Some(("token", format!("Bearer {token}"))),
            (None, Some((username, password))) => Some(("password", basic(&username, &password))),
            (None, None) => None,
        };
        if let Some((key, value)) = authorization {
            headers.insert(AUTHORIZATION, self.value(key, &value)?);
        }
        let Some(text) = self.text("headers")? else {
            return Ok(headers);
        };
        let invalid = || self.problem("headers", "not a YAML map of header names to texts");
        let all = read(text, &mut Quota::default()).map_err(|_| invalid())?;
        let all = all.as_object().ok_or_else(invalid)?;
        if all.len() > MAX_HEADERS {
            return Err(self.problem("headers", "more than 32 headers"));
        }
        for (name, value) in all {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            if is_reserved(&name) {
                let problem = "headers of the connection, Content-* and those with which a proxy says who its client or user is, such as \
                               X-Forwarded-* and Remote-*, cannot be set; remove them";
                return Err(self.problem("headers", problem));
            }
            let value = value.as_str().ok_or_else(invalid)?;
            headers.insert(name, self.value("headers", value)?);
        }
        Ok(headers)
    }

    fn value(&self, key: &'static str, text: &str) -> Result<HeaderValue, EndpointError> {
        let value = HeaderValue::from_str(text);
        let mut value = value.map_err(|_| self.problem(key, "it has characters that no header can have"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn login(&self) -> Result<Option<(String, String)>, EndpointError> {
        match (self.text("username")?, self.text("password")?) {
            (Some(username), Some(password)) => Ok(Some((username.to_owned(), password.to_owned()))),
            (None, None) => Ok(None),
            (Some(_), None) => Err(self.problem("password", "missing, while username is set")),
            (None, Some(_)) => Err(self.problem("username", "missing, while password is set")),
        }
    }

    fn tls(&self) -> Result<TlsConfig, EndpointError> {
        let ca = self.either("ca.crt", "caFile")?;
        let certificate = self.either("tls.crt", "certFile")?;
        let key = self.either("tls.key", "keyFile")?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(format!("{certificate}\n{key}\n").into_bytes()),
            (None, None) => None,
            (Some(_), None) => return Err(self.problem("tls.key", "missing, while tls.crt is set")),
            (None, Some(_)) => return Err(self.problem("tls.crt", "missing, while tls.key is set")),
        };
        Ok(TlsConfig {
            ca_certificates: ca
                .map(|pem| (pem.as_bytes().to_vec(), "key ca.crt of the Secret"))
                .into_iter()
                .collect(),
            identity,
            ..TlsConfig::default()
        })
    }

    fn proxy(&self) -> Result<Option<ProxyConfig>, EndpointError> {
        if self.name.is_empty() {
            return Ok(None);
        }
        let address = self
            .text("address")?
            .ok_or_else(|| self.problem("address", "missing"))?;
        Ok(Some(ProxyConfig {
            address: self.url("address", address)?,
            login: self.login()?,
        }))
    }
}

/// Whether a header cannot be set. Some servers read `_` in a name as `-`.
fn is_reserved(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    RESERVED.contains(&&*name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The value of a header for basic authentication, RFC 7617.
fn basic(username: &str, password: &str) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{username}:{password}"))
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn keys(field: &'static str, data: &[(&str, &str)]) -> Keys {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        Keys {
            field,
            name: "s".to_owned(),
            data: data.collect(),
        }
    }

    fn endpoint_of(spec: &Value, own: &[(&str, &str)]) -> Result<Endpoint, EndpointError> {
        let provider = json!({ "metadata": { "name": "p", "namespace": "a" }, "spec": spec });
        let provider: AlertProvider = serde_json::from_str(&provider.to_string()).unwrap();
        of(
            &provider,
            &keys("spec.secretRef", own),
            &Keys::default(),
            &Keys::default(),
        )
    }

    fn error(spec: &Value, own: &[(&str, &str)]) -> String {
        let error = endpoint_of(spec, own).err().unwrap();
        assert_eq!(error.reason(), Reason::InvalidSecret);
        assert!(!error.to_string().contains("geheim"), "{error}");
        error.to_string()
    }

    #[test]
    fn the_address_of_the_secret_takes_precedence() {
        let spec = json!({ "type": "discord", "address": "https://a.example/x" });
        assert_eq!(
            endpoint_of(&spec, &[]).unwrap().address.as_str(),
            "https://a.example/x/slack"
        );
        let endpoint = endpoint_of(&spec, &[("address", " https://b.example/geheim\n")]).unwrap();
        assert_eq!(endpoint.address.as_str(), "https://b.example/geheim/slack");
        assert_eq!(endpoint.timeout, TIMEOUT);
    }

    #[test]
    fn credentials_are_sent_as_the_format_needs_them() {
        let spec = |r#type: &str| json!({ "type": r#type, "address": "https://a", "timeout": "3s" });
        let own = [
            ("token", "geheim"),
            ("username", "u"),
            ("password", "p"),
            ("headers", "X-Team: web\nx-n: \"1\""),
        ];
        let generic = endpoint_of(&spec("generic"), &own).unwrap();
        assert_eq!(generic.headers[AUTHORIZATION], "Bearer geheim");
        assert_eq!(
            (&generic.headers["x-team"], &generic.headers["X-N"]),
            (&HeaderValue::from_static("web"), &HeaderValue::from_static("1"))
        );
        assert!(generic.headers[AUTHORIZATION].is_sensitive() && generic.key.is_empty());
        let hmac = endpoint_of(&spec("generic-hmac"), &own).unwrap();
        assert_eq!(
            (&*hmac.key, &hmac.headers[AUTHORIZATION]),
            (&b"geheim"[..], &HeaderValue::from_static("Basic dTpw"))
        );
        assert_eq!(hmac.timeout, Duration::from_secs(3));
    }

    #[test]
    fn errors_name_field_secret_and_key() {
        let spec = json!({ "type": "generic", "address": "https://a" });
        for (key, value, expected) in [
            (
                "address",
                "geheim",
                "key address of Secret s (spec.secretRef): not a URL",
            ),
            ("address", "ftp://geheim/x", "begins with https:// or http://"),
            ("address", "https://u:geheim@a", "has a user or a password"),
            (
                "username",
                "geheim",
                "key password of Secret s (spec.secretRef): missing, while username is set",
            ),
            (
                "headers",
                "[geheim]",
                "key headers of Secret s (spec.secretRef): not a YAML map",
            ),
            ("headers", "a: 1", "not a YAML map of header names to texts"),
            ("headers", "Host: geheim", "cannot be set"),
            ("token", "geheim\nx", "it has characters that no header can have"),
        ] {
            let error = error(&spec, &[(key, value)]);
            assert!(error.contains(expected), "{error}");
        }
        let hmac = json!({ "type": "generic-hmac", "address": "https://a" });
        assert!(error(&hmac, &[]).contains("key token of Secret s (spec.secretRef): missing: it is the key"));
        assert!(error(&json!({ "type": "slack" }), &[]).contains("spec.address is empty"));
    }

    #[test]
    fn headers_that_services_trust_cannot_be_set() {
        let spec = json!({ "type": "generic", "address": "https://a" });
        for name in [
            "Host",
            "Connection",
            "keep-alive",
            "Proxy-Authorization",
            "TE",
            "Upgrade",
            "Content-Type",
            "Content-Length",
            "Transfer-Encoding",
            "Forwarded",
            "X-Forwarded-For",
            "X-FORWARDED-CLIENT-CERT",
            "X-Forwarded-User",
            "X_Forwarded_User",
            "X-Real-IP",
            "X-Remote-User",
            "X-Remote-Extra-Scopes",
            "Impersonate-User",
            "X-WEBAUTH-USER",
            "Remote-User",
            "Remote_Groups",
            "X-Auth-Request-Email",
            "X-Goog-Authenticated-User-Email",
            "X-Goog-IAP-JWT-Assertion",
            "X-Amzn-Oidc-Data",
            "Cf-Access-Jwt-Assertion",
            "Cf-Access-Authenticated-User-Email",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Method-Override",
            "X-Client-IP",
            "True-Client-IP",
            "X-MS-CLIENT-PRINCIPAL",
        ] {
            let error = error(&spec, &[("headers", &*format!("{name}: geheim"))]);
            assert!(
                error.contains("X-Forwarded-*") && error.contains("cannot be set; remove them"),
                "{name}: {error}"
            );
        }
        let allowed = [(
            "headers",
            "Authorization: Bearer x\nX-Scope-OrgID: team\nUser-Agent: x\nX-Forward: z\nX-Auth-Token: x\nX-Client-Id: x\n\
             CF-Access-Client-Id: x\nCF-Access-Client-Secret: x",
        )];
        assert_eq!(endpoint_of(&spec, &allowed).unwrap().headers.len(), 8);
    }

    #[test]
    fn trust_and_proxy_come_from_their_secrets() {
        let tls = keys(
            "spec.certSecretRef",
            &[("caFile", "CA"), ("tls.crt", "CERT"), ("tls.key", "KEY")],
        )
        .tls()
        .unwrap();
        assert_eq!(
            (tls.ca_certificates.len(), tls.identity.as_deref()),
            (1, Some(&b"CERT\nKEY\n"[..]))
        );
        assert!(keys("spec.certSecretRef", &[("tls.crt", "CERT")]).tls().is_err());
        let proxy = keys(
            "spec.proxySecretRef",
            &[
                ("address", "http://proxy:3128"),
                ("username", "u"),
                ("password", "p"),
            ],
        );
        let proxy = proxy.proxy().unwrap().unwrap();
        assert_eq!(
            (proxy.address.as_str(), proxy.login.is_some()),
            ("http://proxy:3128/", true)
        );
        assert!(keys("spec.proxySecretRef", &[]).proxy().is_err());
        assert!(Keys::default().proxy().unwrap().is_none());
    }
}
