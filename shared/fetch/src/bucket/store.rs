//! The store of a provider: it writes and signs requests. Whatever the environment of the process has, it uses the credentials of the Secret,
//! and without them it signs nothing: the metadata service of the machine is never one of its sources.

use std::{sync::Arc, time::Duration};

use helmops_bucket::{BucketLocation, Credentials, Provider};
use object_store::{
    ClientOptions, ObjectStore, Result, RetryConfig, StaticCredentialProvider,
    aws::{AmazonS3Builder, AwsCredential},
    azure::{AzureConfigKey, AzureCredential, MicrosoftAzureBuilder},
    client::{HttpClient, HttpConnector},
    gcp::{GcpCredential, GcpSigningCredential, GoogleCloudStorageBuilder},
    list::PaginatedListStore,
};

/// A store with lists by page.
pub(super) trait Store: ObjectStore + PaginatedListStore {}

impl<S: ObjectStore + PaginatedListStore> Store for S {}

/// Gives the store this client, whatever options it has.
#[derive(Clone, Debug)]
struct Connector(HttpClient);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> Result<HttpClient> {
        Ok(self.0.clone())
    }
}

/// The store of a bucket, which sends its requests by `client`.
///
/// # Errors
/// If it cannot use the credentials.
pub(super) fn store(
    location: &BucketLocation,
    credentials: &Credentials,
    client: HttpClient,
) -> Result<Box<dyn Store>> {
    let connector = Connector(client);
    match location.provider {
        Provider::Generic | Provider::Aws => s3(location, credentials, connector),
        Provider::Gcp => gcs(location, credentials, connector),
        Provider::Azure => azure(location, credentials, connector),
    }
}

/// The controller retries, with its own backoff.
fn no_retries() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        retry_timeout: Duration::ZERO,
        ..RetryConfig::default()
    }
}

fn endpoint(location: &BucketLocation) -> &str {
    location.endpoint.as_str().trim_end_matches('/')
}

fn s3(location: &BucketLocation, credentials: &Credentials, connector: Connector) -> Result<Box<dyn Store>> {
    let builder = AmazonS3Builder::new()
        .with_endpoint(endpoint(location))
        .with_bucket_name(&location.name)
        .with_region(&location.region)
        .with_virtual_hosted_style_request(location.is_in_host())
        .with_retry(no_retries())
        .with_http_connector(connector);
    let builder = match credentials {
        Credentials::AccessKey { id, secret } => {
            builder.with_access_key_id(id).with_secret_access_key(secret)
        }
        _ => builder
            .with_skip_signature(true)
            .with_credentials(unused(AwsCredential {
                key_id: String::new(),
                secret_key: String::new(),
                token: None,
            })),
    };
    Ok(Box::new(builder.build()?))
}

fn gcs(location: &BucketLocation, credentials: &Credentials, connector: Connector) -> Result<Box<dyn Store>> {
    let builder = GoogleCloudStorageBuilder::new()
        .with_base_url(endpoint(location))
        .with_bucket_name(&location.name)
        .with_retry(no_retries())
        .with_signing_credentials(unused(GcpSigningCredential {
            email: String::new(),
            private_key: None,
        }))
        .with_http_connector(connector);
    let builder = match credentials {
        Credentials::ServiceAccount(json) => builder.with_service_account_key(json),
        _ => builder
            .with_skip_signature(true)
            .with_credentials(unused(GcpCredential {
                bearer: String::new(),
            })),
    };
    Ok(Box::new(builder.build()?))
}

fn azure(
    location: &BucketLocation,
    credentials: &Credentials,
    connector: Connector,
) -> Result<Box<dyn Store>> {
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(location.azure_account().unwrap_or_default())
        .with_endpoint(endpoint(location).to_owned())
        .with_container_name(&location.name)
        .with_retry(no_retries())
        .with_http_connector(connector);
    builder = match credentials {
        Credentials::AccountKey(key) => builder.with_access_key(key),
        Credentials::SharedAccessSignature(signature) => {
            builder.with_config(AzureConfigKey::SasKey, signature)
        }
        Credentials::ServicePrincipal {
            tenant,
            client,
            secret,
            authority,
        } => {
            let builder = builder.with_client_secret_authorization(client, secret, tenant);
            match authority {
                Some(authority) => builder.with_authority_host(authority),
                None => builder,
            }
        }
        _ => builder
            .with_skip_signature(true)
            .with_credentials(unused(AzureCredential::BearerToken(String::new()))),
    };
    Ok(Box::new(builder.build()?))
}

/// Credentials in place of those that a store would look for.
fn unused<T>(credential: T) -> Arc<StaticCredentialProvider<T>> {
    Arc::new(StaticCredentialProvider::new(credential))
}
