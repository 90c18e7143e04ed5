//! Requests to a bucket with one permit, one after the other.

use std::sync::Mutex;

use bounded_text::excerpt;
use helmops_bucket::CredentialsError;
use helmops_chart::ListedFile;
use helmops_process::{exit::with_causes, lock};
use object_store::{
    GetOptions, ObjectMeta,
    client::HttpClient,
    list::{PaginatedListOptions, PaginatedListResult},
    path::Path,
};
use reqwest::Url;

use super::{
    Arc, BucketError, BucketLocation, Credentials, Operation, RequestPermit, Source,
    exchange::{Exchange, Failure, Service, SessionMemory},
    store::{Store, store},
};

/// The longest text of the store in a message, in bytes.
const MAX_CAUSE: usize = 300;
/// What the tag of an object begins with that has no `ETag`.
const CHANGED: &str = "changed ";

/// Requests with one permit, one after the other.
pub(super) struct Session {
    store: Box<dyn Store>,
    exchange: Arc<Exchange>,
    location: BucketLocation,
    credentials: Credentials,
}

impl Session {
    /// Requests for this, each with a response of at most `limit` bytes.
    ///
    /// # Errors
    /// If the credentials cannot be used.
    pub fn new(
        source: Source<'_>,
        permit: RequestPermit,
        operation: Operation,
        limit: usize,
    ) -> Result<Self, BucketError> {
        let Source { access, location, .. } = source;
        let exchange = Arc::new(Exchange {
            http: Arc::clone(source.http),
            access: Arc::clone(access),
            permit,
            operation,
            url: Url::parse(&location.shown()).unwrap_or_else(|_| location.endpoint.clone()),
            identity: access.identity(None),
            limit: limit as u64,
            memory: Mutex::new(SessionMemory {
                meter: source.memory(),
                kept: 0,
            }),
            failure: Mutex::default(),
        });
        let client = HttpClient::new(Service(Arc::clone(&exchange)));
        let store = store(location, source.credentials, client).map_err(|_| BucketError::Credentials {
            secret: access.secret.clone(),
            source: unusable(source.credentials),
        })?;
        Ok(Self {
            store,
            exchange,
            location: location.clone(),
            credentials: source.credentials.clone(),
        })
    }

    /// A page of the list of objects with this prefix.
    pub async fn page(
        &self,
        prefix: &str,
        page_token: Option<String>,
        max_keys: usize,
    ) -> Result<PaginatedListResult, BucketError> {
        let options = PaginatedListOptions {
            max_keys: Some(max_keys),
            page_token,
            ..PaginatedListOptions::default()
        };
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        let page = self.store.list_paginated(prefix, options).await;
        page.map_err(|error| self.failed("", &error))
    }

    /// The content of an object that was listed.
    pub async fn object(&self, name: &str, listed: &ListedFile) -> Result<Arc<[u8]>, BucketError> {
        let failed = |error: object_store::Error| self.failed(name, &error);
        let path = Path::parse(name).map_err(|error| failed(error.into()))?;
        let found = self.store.get_opts(&path, GetOptions::default()).await;
        let found = found.map_err(failed)?;
        let tag = tag(&found.meta);
        let content = found.bytes().await.map_err(failed)?;
        let has_tags = !tag.starts_with(CHANGED) && !listed.tag.starts_with(CHANGED);
        if has_tags && tag != listed.tag || content.len() as u64 != listed.size {
            return Err(BucketError::Changed {
                bucket: self.location.shown(),
                object: name.to_owned(),
            });
        }
        Ok(Arc::from(&*content))
    }

    /// This much more is kept of the responses.
    pub fn keep(&self, bytes: usize) {
        lock(&self.exchange.memory).kept += bytes;
    }

    fn failed(&self, object: &str, error: &object_store::Error) -> BucketError {
        let (bucket, object) = (self.location.shown(), object.to_owned());
        match lock(&self.exchange.failure).take() {
            Some(Failure::Fetch(error)) => BucketError::Fetch(error),
            Some(Failure::Refused(refusal, operation)) => BucketError::Refused {
                bucket,
                object,
                cause: refusal.cause(operation),
                text: refusal.explain(operation, self.location.provider, &self.credentials),
            },
            Some(Failure::Redirected(to)) => BucketError::Redirected { bucket, to },
            Some(Failure::Memory) => BucketError::Memory,
            None => BucketError::Response {
                bucket,
                object,
                cause: excerpt(&with_causes(error), MAX_CAUSE),
            },
        }
    }
}

/// What distinguishes the content of an object from others at its path.
pub(super) fn tag(object: &ObjectMeta) -> String {
    match &object.e_tag {
        // In lists and in headers, and with and without compression, it is written differently.
        Some(tag) => tag.trim_start_matches("W/").trim_matches('"').to_owned(),
        None => format!("{CHANGED}{}", object.last_modified.timestamp_millis()),
    }
}

/// Why a store cannot use credentials. Its own error could quote them.
fn unusable(credentials: &Credentials) -> CredentialsError {
    let (key, problem) = match credentials {
        Credentials::ServiceAccount(_) => (
            "serviceaccount",
            "has a private_key that cannot be read; create the key again with `gcloud iam service-accounts keys create`",
        ),
        Credentials::AccountKey(_) => (
            "accountKey",
            "is not Base64, as the key of a storage account is; copy it again from the portal",
        ),
        Credentials::SharedAccessSignature(_) => (
            "sasKey",
            "cannot be read; write what follows the question mark of the signed URL, and nothing else",
        ),
        _ => (
            "accesskey",
            "cannot be used; check all keys of the Secret for this provider",
        ),
    };
    CredentialsError::Invalid { key, problem }
}
