//! GET requests to what runs on this machine.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Certificate, Client};

use crate::wait::eventually;

/// Everything asked is on loopback: no answer within this time is none.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP client that trusts `ca` (PEM) and nobody else; without one, it is good for plain HTTP only.
pub fn client(ca: Option<&str>) -> Result<Client> {
    // The second call in a process finds one installed, which is as good.
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
        .context("cannot make an HTTP client")
}

/// The body of a 200 answer.
///
/// # Errors
/// With the status and the body of any other answer.
pub async fn get(client: &Client, url: &str) -> Result<String> {
    let response = client.get(url).send().await?;
    let status = response.status();
    let body = response.text().await?;
    ensure!(status == 200, "GET {url}: {status}: {}", body.trim());
    Ok(body)
}

/// Waits until `url` answers 200.
pub async fn ready(client: &Client, url: &str, deadline: Duration) -> Result<()> {
    let answer = eventually("readiness", deadline, async || get(client, url).await);
    answer.await.map(drop)
}
