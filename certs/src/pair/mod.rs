//! A checked certificate chain with its private key.

mod error;
mod files;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{ASN1Time, X509Certificate};

pub use self::error::PairError;
pub(crate) use self::files::PairContents;
pub use self::files::PairPaths;

/// The bytes of a PEM file and its name in messages.
#[derive(Clone, Copy)]
pub struct PemFile<'a> {
    /// Its path, or another name by which a user finds it.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// A certificate chain and the private key of its first certificate, ready to serve.
pub struct ServingPair {
    key: Arc<CertifiedKey>,
    not_before: ASN1Time,
    not_after: ASN1Time,
    names: Vec<String>,
}

/// Whether a certificate is valid at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Its lifetime has not started.
    NotYet,
    /// Within its lifetime.
    Valid,
    /// Its lifetime is over.
    Expired,
}

impl ServingPair {
    /// Checks a chain and a key: at least one certificate, the serving one first, and its matching key. The lifetime is not
    /// checked (the clock may be wrong, and an expired certificate is easier to diagnose than a closed port): see
    /// [`ServingPair::validity`].
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn from_pem(cert: PemFile<'_>, key: PemFile<'_>) -> Result<Self, PairError> {
        let chain = parse_chain(cert)?;
        let leaf = chain.first().ok_or_else(|| PairError::NoCertificate {
            file: cert.name.into(),
        })?;
        let x509 = parse_x509(leaf, cert.name)?;
        let (not_before, not_after) = (x509.validity().not_before, x509.validity().not_after);
        let names = alternative_names(&x509);
        let signing_key = ring::default_provider()
            .key_provider
            .load_private_key(parse_key(key)?)
            .map_err(|source| PairError::UnusableKey {
                file: key.name.into(),
                source,
            })?;
        let certified = CertifiedKey::new(chain, signing_key);
        check_match(&certified, cert, key)?;
        Ok(Self {
            key: Arc::new(certified),
            not_before,
            not_after,
            names,
        })
    }

    /// Reads both files (at most 1 MiB each) and checks them as [`ServingPair::from_pem`] does.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub async fn load(paths: &PairPaths) -> Result<Self, PairError> {
        paths.read().await?.parse(paths)
    }

    /// The first second after the certificate's lifetime, in seconds since 1970.
    pub fn not_after(&self) -> i64 {
        self.not_after.timestamp()
    }

    /// The DNS names and IP addresses of the certificate, in its order. Empty if it has only a common name, which no API server
    /// accepts any more.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The first second of the certificate's lifetime, in seconds since 1970.
    #[cfg(feature = "managed")]
    pub(crate) fn not_before(&self) -> i64 {
        self.not_before.timestamp()
    }

    /// The certificates, the serving one first.
    #[cfg(feature = "managed")]
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.key.cert
    }

    /// Whether the certificate is valid at `now`.
    pub fn validity(&self, now: SystemTime) -> Validity {
        let now = unix_seconds(now);
        if now < self.not_before.timestamp() {
            Validity::NotYet
        } else if now >= self.not_after.timestamp() {
            Validity::Expired
        } else {
            Validity::Valid
        }
    }

    /// The end of the lifetime, for messages.
    pub(crate) fn expires(&self) -> impl fmt::Display {
        self.not_after
    }

    /// The start of the lifetime, for messages.
    pub(crate) fn starts(&self) -> impl fmt::Display {
        self.not_before
    }

    pub(crate) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }
}

/// Without the key.
impl fmt::Debug for ServingPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingPair")
            .field("names", &self.names)
            .field("not_after", &self.not_after())
            .finish_non_exhaustive()
    }
}

pub(crate) fn parse_chain(cert: PemFile<'_>) -> Result<Vec<CertificateDer<'static>>, PairError> {
    CertificateDer::pem_slice_iter(cert.bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| malformed(cert.name, &error))
}

pub(crate) fn parse_key(key: PemFile<'_>) -> Result<PrivateKeyDer<'static>, PairError> {
    let file = || key.name.into();
    PrivateKeyDer::from_pem_slice(key.bytes).map_err(|error| match error {
        PemError::NoItemsFound if contains_bytes(key.bytes, b"BEGIN ENCRYPTED PRIVATE KEY") => {
            PairError::EncryptedKey { file: file() }
        }
        PemError::NoItemsFound => PairError::NoKey { file: file() },
        error => malformed(key.name, &error),
    })
}

/// Replaces the messages of the library: they quote the damaged line, which may be part of a key.
fn malformed(file: &str, error: &PemError) -> PairError {
    let reason = match error {
        PemError::MissingSectionEnd { .. } => "its END line is missing",
        PemError::IllegalSectionStart { .. } => "its BEGIN line is malformed",
        PemError::Base64Decode(_) => "its base64 text is malformed",
        _ => "it cannot be decoded",
    };
    PairError::MalformedPem {
        file: file.into(),
        reason,
    }
}

pub(crate) fn parse_x509<'a>(
    der: &'a CertificateDer<'_>,
    file: &str,
) -> Result<X509Certificate<'a>, PairError> {
    match x509_parser::parse_x509_certificate(der) {
        Ok((_, x509)) => Ok(x509),
        Err(error) => Err(PairError::UnusableCertificate {
            file: file.into(),
            reason: error.to_string(),
        }),
    }
}

fn check_match(certified: &CertifiedKey, cert: PemFile<'_>, key: PemFile<'_>) -> Result<(), PairError> {
    match certified.keys_match() {
        // Some types of key cannot be compared; a handshake shows a mismatch.
        Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(TlsError::InconsistentKeys(_)) => Err(PairError::Mismatch {
            cert: cert.name.into(),
            key: key.name.into(),
        }),
        Err(error) => Err(PairError::UnusableCertificate {
            file: cert.name.into(),
            reason: error.to_string(),
        }),
    }
}

fn alternative_names(x509: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = x509.subject_alternative_name() else {
        return Vec::new();
    };
    extension
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => ip_address(bytes).map(|ip| ip.to_string()),
            _ => None,
        })
        .collect()
}

fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn contains_bytes(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Seconds since 1970, negative before.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    let seconds = |d: std::time::Duration| i64::try_from(d.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => seconds(after),
        Err(before) => -seconds(before.duration()),
    }
}

#[cfg(test)]
mod tests;
