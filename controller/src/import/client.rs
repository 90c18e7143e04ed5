//! Requests to the API server of a cluster that is imported: few, small and within a budget, since it may be hostile.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bounded_text::excerpt;
use helmops_fetch::{Exchange, ExchangeError, ExchangeRequest, ExchangeResponse, TlsConfig};
use helmops_join::import::{
    kubeconfig::{KubeconfigError, TargetAccess},
    target::{Managed, NotThatObject, managed, message},
};
use helmops_kube::path_segment;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
};
use kube::{
    Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

use serde_json::json;

use super::error::{TargetError, TargetFailure};
use crate::writes::FIELD_MANAGER;

/// Maximum length of one response, in bytes. A Secret or a Deployment of an agent has 10 KiB.
const MAX_RESPONSE: usize = 256 << 10;
/// Maximum length of all responses of an import, in bytes.
const MAX_RESPONSES: usize = 1536 << 10;
/// The longest message of the API server in an error, in bytes.
const MAX_MESSAGE: usize = 256;

/// A client for one import.
pub struct TargetClient<'a> {
    exchange: &'a Exchange,
    access: &'a TargetAccess,
    tls: Arc<TlsConfig>,
    headers: HeaderMap,
    /// What is left of the budget, in bytes.
    left: AtomicUsize,
}

impl<'a> TargetClient<'a> {
    /// A client that sends no request yet.
    ///
    /// # Errors
    /// If the token cannot be sent.
    pub fn new(exchange: &'a Exchange, access: &'a TargetAccess) -> Result<Self, KubeconfigError> {
        let authorities = access.authorities.iter();
        let authorities =
            authorities.map(|pem| (pem.clone(), "certificate-authority-data of the kubeconfig"));
        let tls = TlsConfig {
            ca_certificates: authorities.collect(),
            is_exclusive: access.authorities.is_some(),
            identity: access.certificate.clone(),
            ..TlsConfig::default()
        };
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = &access.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| {
                KubeconfigError::Invalid(
                    "the token has characters that no token has, such as a line break".to_owned(),
                )
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self {
            exchange,
            access,
            tls: Arc::new(tls),
            headers,
            left: AtomicUsize::new(MAX_RESPONSES),
        })
    }

    /// Reads an object, and decodes the fields that matter; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn get<T>(
        &self,
        path: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, NotThatObject>,
    ) -> Result<Option<T>, TargetError> {
        let action = format!("read {path}");
        let response = self.send(Method::GET, path, "", None, &action).await?;
        if response.status == StatusCode::NOT_FOUND && message(&response.body).is_some() {
            return Ok(None);
        }
        let body = self.accepted(response, &action)?;
        let decoded =
            decode(&body).map_err(|NotThatObject| self.failed(&action, TargetFailure::NotThatObject))?;
        Ok(Some(decoded))
    }

    /// Creates an object.
    ///
    /// # Errors
    /// If it exists, or the API server rejects it.
    pub async fn create(&self, object: &DynamicObject) -> Result<(), TargetError> {
        let (path, _) = paths(object);
        let query = format!("fieldManager={FIELD_MANAGER}");
        self.write(Method::POST, &path, &query, "application/json", object, "create")
            .await
    }

    /// Applies an object (server-side apply), whatever other field managers have set. If it has a resource version, only over that one.
    ///
    /// # Errors
    /// If the API server rejects it.
    pub async fn apply(&self, object: &DynamicObject) -> Result<(), TargetError> {
        let (_, path) = paths(object);
        let query = format!("fieldManager={FIELD_MANAGER}&force=true");
        let content_type = "application/apply-patch+yaml";
        self.write(Method::PATCH, &path, &query, content_type, object, "apply")
            .await
    }

    /// Has this field manager own what another one has applied: then fields that it does not apply itself are removed. It does nothing if
    /// this one has applied the object before.
    ///
    /// # Errors
    /// If the API server rejects it.
    pub async fn take_over(&self, object: &DynamicObject, other: &str) -> Result<(), TargetError> {
        let (_, path) = paths(object);
        let found = self
            .get(&path, |body| managed(body, FIELD_MANAGER, other))
            .await?;
        let Some(Managed {
            resource_version,
            position: Some(position),
        }) = found
        else {
            return Ok(());
        };
        let action = format!("take over {}", helmops_join::object::name_of(object));
        let change = json!([
            { "op": "replace", "path": format!("/metadata/managedFields/{position}/manager"), "value": FIELD_MANAGER },
            { "op": "replace", "path": "/metadata/resourceVersion", "value": resource_version },
        ]);
        let body = Some(("application/json-patch+json", change.to_string().into_bytes()));
        let query = format!("fieldManager={FIELD_MANAGER}");
        let response = self.send(Method::PATCH, &path, &query, body, &action).await?;
        self.accepted(response, &action).map(drop)
    }

    /// Deletes an object, if it exists.
    ///
    /// # Errors
    /// If the API server rejects it.
    pub async fn delete(&self, path: &str) -> Result<(), TargetError> {
        let action = format!("delete {path}");
        let response = self.send(Method::DELETE, path, "", None, &action).await?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        self.accepted(response, &action).map(drop)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        query: &str,
        content_type: &'static str,
        object: &DynamicObject,
        verb: &str,
    ) -> Result<(), TargetError> {
        let action = format!("{verb} {}", helmops_join::object::name_of(object));
        // An object is made of what JSON has.
        let body = serde_json::to_vec(object).unwrap_or_default();
        let response = self
            .send(method, path, query, Some((content_type, body)), &action)
            .await?;
        self.accepted(response, &action).map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &str,
        body: Option<(&'static str, Vec<u8>)>,
        action: &str,
    ) -> Result<ExchangeResponse, TargetError> {
        let mut url = self.access.server.clone();
        let full = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&full);
        url.set_query((!query.is_empty()).then_some(query));
        if url.path() != full {
            return Err(self.failed(action, TargetFailure::Url(path.to_owned())));
        }
        let mut headers = self.headers.clone();
        let body = match body {
            Some((content_type, body)) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                body
            }
            None => Vec::new(),
        };
        let limit = MAX_RESPONSE.min(self.left.load(Ordering::Relaxed));
        let request = ExchangeRequest {
            method,
            url,
            headers,
            body,
            tls: Arc::clone(&self.tls),
            limit,
        };
        let response = self.exchange.send(request).await.map_err(|error| {
            let failure = match error {
                ExchangeError::TooLarge { .. } if limit < MAX_RESPONSE => {
                    TargetFailure::TooMuch(MAX_RESPONSES)
                }
                error => TargetFailure::NoResponse(Box::new(error)),
            };
            self.failed(action, failure)
        })?;
        // Never below zero: no response is longer than what is left, and requests are sent one after the other.
        self.left.fetch_sub(response.body.len(), Ordering::Relaxed);
        Ok(response)
    }

    /// The body of a success. Nothing is quoted of what is no error of an API server: it may be a server that the reader must not read.
    fn accepted(&self, response: ExchangeResponse, action: &str) -> Result<Vec<u8>, TargetError> {
        let status = response.status;
        if status.is_success() {
            return Ok(response.body);
        }
        let own = message(&response.body).map(|message| excerpt(&message, MAX_MESSAGE));
        let message = own.unwrap_or_else(|| match status.as_u16() {
            401 => "the credentials in the kubeconfig are not valid".to_owned(),
            403 => "the user of the kubeconfig lacks the permission".to_owned(),
            300..=399 => {
                "it redirects, which is not followed; correct the address in the kubeconfig".to_owned()
            }
            _ => "it is no success, and not a response of an API server".to_owned(),
        });
        let failure = TargetFailure::Rejected {
            status: status.as_u16(),
            message,
        };
        Err(self.failed(action, failure))
    }

    /// The error for a response that cannot be that of an API server.
    pub fn unexpected(&self, action: &str) -> TargetError {
        self.failed(action, TargetFailure::NotThatObject)
    }

    fn failed(&self, action: &str, failure: TargetFailure) -> TargetError {
        TargetError {
            action: action.to_owned(),
            server: self.access.server.origin().ascii_serialization(),
            failure,
        }
    }
}

/// The paths of the list of an object, where it is created, and of the object itself.
fn paths(object: &DynamicObject) -> (String, String) {
    let types = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&types).unwrap_or_else(|_| GroupVersionKind::gvk("", "", ""));
    let resource = ApiResource::from_gvk(&kind);
    let namespace = object.metadata.namespace.as_deref().map(path_segment);
    let list = DynamicObject::url_path(&resource, namespace.as_deref());
    let name = path_segment(object.metadata.name.as_deref().unwrap_or_default());
    let own = format!("{list}/{name}");
    (list, own)
}

#[cfg(test)]
mod tests {
    use helmops_fetch::Addresses;
    use helmops_join::{
        agent_objects::{AgentOptions, objects},
        import::target::uid,
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        task::JoinSet,
    };

    use super::*;

    /// A server with the same response to everything, which ends with the set.
    async fn server(status: u16, body: String) -> (TargetAccess, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut request = [0; 16 << 10];
                let _ = connection.read(&mut request).await;
                let head = format!(
                    "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = connection.write_all(head.as_bytes()).await;
                let _ = connection.write_all(body.as_bytes()).await;
            }
        });
        let access = TargetAccess {
            server: format!("http://127.0.0.1:{port}/base").parse().unwrap(),
            authorities: None,
            token: Some("geheim".to_owned()),
            certificate: None,
        };
        (access, tasks)
    }

    fn exchange() -> Exchange {
        // As the process does at its start.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Exchange::new(Addresses {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            deny: Vec::new(),
        })
    }

    async fn get(status: u16, body: &str) -> Result<Option<String>, String> {
        let (access, _tasks) = server(status, body.to_owned()).await;
        let exchange = exchange();
        let client = TargetClient::new(&exchange, &access).unwrap();
        let found = client.get("/api/v1/namespaces/kube-system", uid).await;
        found.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn only_errors_of_an_api_server_are_quoted() {
        let status = r#"{"kind":"Status","message":"namespaces is forbidden"}"#;
        assert_eq!(
            get(200, r#"{"metadata":{"uid":"u"}}"#).await,
            Ok(Some("u".to_owned()))
        );
        assert_eq!(get(404, status).await, Ok(None));
        for (code, body, expected) in [
            (403, status, "namespaces is forbidden (403)"),
            (403, "internal", "lacks the permission (403)"),
            (
                401,
                "internal",
                "credentials in the kubeconfig are not valid (401)",
            ),
            (404, "internal", "not a response of an API server (404)"),
            (302, "internal", "redirects, which is not followed"),
            (500, "internal", "not a response of an API server (500)"),
            (200, "internal", "check the address in the kubeconfig"),
        ] {
            let error = get(code, body).await.unwrap_err();
            assert!(
                error.starts_with(
                    "cannot read /api/v1/namespaces/kube-system on the cluster at http://127.0.0.1:"
                ),
                "{error}"
            );
            assert!(
                error.contains(expected) && !error.contains("internal") && !error.contains("geheim"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn one_response_and_all_of_them_are_bounded() {
        let body = |bytes: usize| format!(r#"{{"metadata":{{"uid":"u"}},"status":"{}"}}"#, "x".repeat(bytes));
        let (access, _tasks) = server(200, body(200 << 10)).await;
        let exchange = exchange();
        let client = TargetClient::new(&exchange, &access).unwrap();
        for _ in 0..7 {
            assert!(client.get("/a", uid).await.is_ok());
        }
        let error = client.get("/a", uid).await.unwrap_err().to_string();
        assert!(error.contains("more than 1536 KiB together"), "{error}");
        let error = get(200, &body(256 << 10)).await.unwrap_err();
        assert!(error.contains("more than 256 KiB"), "{error}");
    }

    #[test]
    fn a_token_with_a_line_break_is_refused() {
        let access = TargetAccess {
            server: "https://10.0.0.1".parse().unwrap(),
            authorities: None,
            token: Some("geheim\nX-Header: a".to_owned()),
            certificate: None,
        };
        let error = TargetClient::new(&exchange(), &access).err().unwrap().to_string();
        assert!(
            error.contains("line break") && !error.contains("geheim"),
            "{error}"
        );
    }

    #[test]
    fn each_object_has_its_path() {
        let all = objects(&AgentOptions::default()).unwrap();
        let paths: Vec<_> = all.iter().map(|object| paths(object).1).collect();
        let expected = [
            "/api/v1/namespaces/cattle-fleet-system",
            "/api/v1/namespaces/cattle-fleet-system/serviceaccounts/helmops-agent",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/cattle-fleet-system/roles/helmops-agent",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/cattle-fleet-system/rolebindings/helmops-agent",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/helmops-agent",
            "/apis/networking.k8s.io/v1/namespaces/cattle-fleet-system/networkpolicies/helmops-agent",
            "/api/v1/namespaces/cattle-fleet-system/services/helmops-agent",
            "/apis/policy/v1/namespaces/cattle-fleet-system/poddisruptionbudgets/helmops-agent",
            "/apis/apps/v1/namespaces/cattle-fleet-system/deployments/helmops-agent",
        ];
        assert_eq!(paths, expected);
    }
}
