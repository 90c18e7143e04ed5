//! Client authentication: clients need a certificate from a CA in a file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    ServerConfig, SignatureScheme,
};
use thiserror::Error as ThisError;
use tokio_util::sync::CancellationToken;
use x509_parser::extensions::GeneralName;

use crate::causes::with_causes;
use crate::resolver::CertResolver;

/// A list of CAs has some kilobytes.
const MAX_FILE: u64 = 1 << 20;

/// Why the client CAs cannot be used.
#[derive(Debug, ThisError)]
pub enum ClientCaError {
    /// The file cannot be read.
    #[error("cannot read --client-ca-file {}", file.display())]
    Read {
        file: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any list of CAs.
    #[error("--client-ca-file {} has more than {MAX_FILE} bytes; it should contain only the CA of the API server's client certificate", file.display())]
    TooLarge { file: PathBuf },
    /// The file is not PEM, or contains no certificate that can be a CA.
    #[error("--client-ca-file {} has no usable CA certificate ({reason}); it must contain at least one in PEM", file.display())]
    Unusable {
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A certificate from a known CA, for a name that is not allowed.
#[derive(Debug, ThisError)]
#[error("the client certificate is for {found}, and --allowed-client-names allows {allowed}")]
struct NameNotAllowed {
    found: String,
    allowed: String,
}

/// Verifies client certificates against CAs that can be replaced at any time.
#[derive(Debug)]
pub struct Clients {
    file: PathBuf,
    /// Allowed names; empty for any name.
    names: Vec<String>,
    verifier: ArcSwap<Verifier>,
}

/// A struct, because `ArcSwap` takes only sized values.
#[derive(Debug)]
struct Verifier {
    text: Vec<u8>,
    inner: Arc<dyn ClientCertVerifier>,
}

impl Clients {
    /// Allows clients with a certificate from a CA in `file` that has one of `names` as common name or DNS name; any name if
    /// `names` is empty.
    ///
    /// # Errors
    /// If the file has no usable CA.
    pub async fn read(file: PathBuf, names: Vec<String>) -> Result<Arc<Self>, ClientCaError> {
        let verifier = ArcSwap::from_pointee(Verifier::parse(&file, text(&file).await?)?);
        Ok(Arc::new(Self {
            file,
            names,
            verifier,
        }))
    }

    /// Reads the file every `interval` and uses its CAs from the next handshake on. Each error is logged once, and the last
    /// valid CAs stay. Returns only on `stop`.
    pub async fn watch(self: Arc<Self>, interval: Duration, stop: CancellationToken) {
        let mut logged = None;
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            match self.reload().await {
                Ok(()) => logged = None,
                Err(error) => {
                    let reason = with_causes(&error);
                    if logged.as_ref() != Some(&reason) {
                        tracing::warn!("failed to reload the client CA; keeping the previous one: {reason}");
                        logged = Some(reason);
                    }
                }
            }
        }
    }

    async fn reload(&self) -> Result<(), ClientCaError> {
        let text = text(&self.file).await?;
        if self.verifier.load().text != text {
            self.verifier.store(Arc::new(Verifier::parse(&self.file, text)?));
            tracing::info!(file = %self.file.display(), "loaded client CA");
        }
        Ok(())
    }

    fn check_name(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if self.names.is_empty() {
            return Ok(());
        }
        let found = names_of(certificate);
        if found.iter().any(|name| self.names.contains(name)) {
            return Ok(());
        }
        let error = NameNotAllowed {
            found: truncated(&format!("{found:?}")),
            allowed: format!("{:?}", self.names),
        };
        Err(CertificateError::Other(OtherError(Arc::new(error))).into())
    }
}

impl Verifier {
    fn parse(file: &std::path::Path, text: Vec<u8>) -> Result<Self, ClientCaError> {
        let unusable = |reason: String| ClientCaError::Unusable {
            file: file.to_owned(),
            reason,
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| unusable(error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let inner = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Self { text, inner })
    }
}

async fn text(file: &std::path::Path) -> Result<Vec<u8>, ClientCaError> {
    let failed = |source| ClientCaError::Read {
        file: file.to_owned(),
        source,
    };
    let length = tokio::fs::metadata(file).await.map_err(failed)?.len();
    if length > MAX_FILE {
        return Err(ClientCaError::TooLarge {
            file: file.to_owned(),
        });
    }
    tokio::fs::read(file).await.map_err(failed)
}

/// The start of a text from an unknown client: messages must not grow with it.
fn truncated(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Common names and DNS names.
fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else {
        return Vec::new();
    };
    let common = certificate
        .subject()
        .iter_common_name()
        .filter_map(|name| name.as_str().ok().map(str::to_owned));
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let dns = alternative
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
    common.chain(dns).collect()
}

impl ClientCertVerifier for Clients {
    /// Empty: a client has one certificate for this server and sends it.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let current = self.verifier.load();
        let verified = current.inner.verify_client_cert(end_entity, intermediates, now)?;
        self.check_name(end_entity)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier
            .load()
            .inner
            .verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier
            .load()
            .inner
            .verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.load().inner.supported_verify_schemes()
    }
}

/// Like [`crate::server_config`], but requires client certificates. Sessions are not resumed: a resumed session would bypass
/// the verification.
///
/// # Errors
/// Only if ring lacks what TLS 1.2 or 1.3 needs, which the build decides.
pub fn server_config_for(resolver: Arc<CertResolver>, clients: Arc<Clients>) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

#[cfg(test)]
mod tests;
