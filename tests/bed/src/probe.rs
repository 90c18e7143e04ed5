//! GET requests to servers on this machine.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Certificate, Client};

use crate::wait::eventually;

/// All servers are on loopback: one without a response within this time hangs.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP client that trusts only `ca` (PEM); without a CA, it supports plain HTTP only.
pub fn client(ca: Option<&str>) -> Result<Client> {
    // Only the first call in a process installs a provider; later calls find it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificates = match ca {
        Some(pem) => Certificate::from_pem_bundle(pem.as_bytes()).context("not a PEM certificate")?,
        None => Vec::new(),
    };
    Client::builder()
        .timeout(TIMEOUT)
        .no_proxy()
        .tls_certs_only(certificates)
        .build()
        .context("cannot create an HTTP client")
}

/// The body of a 200 response.
///
/// # Errors
/// With the status and the body of any other response.
pub async fn get(client: &Client, url: &str) -> Result<String> {
    let response = client.get(url).send().await?;
    let status = response.status();
    let body = response.text().await?;
    ensure!(status == 200, "GET {url}: {status}: {}", body.trim());
    Ok(body)
}

/// Waits until the response of `url` has the status 200.
pub async fn ready(client: &Client, url: &str, deadline: Duration) -> Result<()> {
    let body = eventually("readiness", deadline, async || get(client, url).await);
    body.await.map(drop)
}
