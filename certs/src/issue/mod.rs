//! Issues a CA and a serving certificate. Keys come from the random generator of the system; the time is a parameter.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::pki_types::DnsName;
use thiserror::Error;

use crate::pair::{PairError, PemFile, ServingPair, parse_chain, parse_x509, unix_seconds};

/// Ten years. A longer lifetime is more likely a mistake than intended.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);

/// A certificate is valid from this long before it is issued: clocks of nodes differ.
pub const BACKDATED: Duration = Duration::from_hours(1);

/// Common name of the webhook's own CA.
pub const CA_COMMON_NAME: &str = "helmops webhook CA";

/// Common name of the certificate, for users only: no client verifies it.
const LEAF_COMMON_NAME: &str = "helmops serving certificate";

/// Why nothing was issued.
#[derive(Debug, Error)]
pub enum IssueError {
    /// No client accepts a certificate without a name.
    #[error("no DNS name and no IP address given; the API server needs SERVICE.NAMESPACE.svc")]
    NoNames,
    /// Not a DNS name.
    #[error("{name:?} is not a DNS name; expected something like helmops-webhook.helmops-system.svc")]
    DnsName {
        /// The invalid name.
        name: String,
    },
    /// The lifetime is too short or too long.
    #[error("a lifetime of {} hours is not between one hour and ten years", lifetime.as_secs() / 3600)]
    Lifetime {
        /// The requested lifetime.
        lifetime: Duration,
    },
    /// The certificate would be valid for longer than its CA, so that it would stop working unexpectedly.
    #[error("the certificate would outlive its CA by {hours} hours; request fewer days, or issue a new CA")]
    OutlivesCa {
        /// By how much, rounded up.
        hours: u64,
    },
    /// The CA's files are unusable.
    #[error("cannot use the CA")]
    CaFiles(#[source] PairError),
    /// The given certificate is not that of a CA.
    #[error("the certificate in {file} is not a CA; use the CA's own certificate")]
    NotACa { file: String },
    /// The certificate library refused.
    #[error("cannot issue the certificate")]
    Library(#[source] rcgen::Error),
}

/// A certificate authority with its key.
pub struct Ca {
    cert_pem: String,
    issuer: Issuer<'static, KeyPair>,
    not_after: i64,
}

/// A serving certificate with its key.
pub struct Leaf {
    /// The certificate, PEM.
    pub cert_pem: String,
    /// Its private key, PKCS#8 PEM.
    pub key_pem: String,
}

/// Without the key.
impl fmt::Debug for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ca")
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// Without the key.
impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").finish_non_exhaustive()
    }
}

impl Ca {
    /// Loads a CA from its files, to issue another certificate that `caBundle` already trusts.
    ///
    /// # Errors
    /// A file is unusable, the key does not match the certificate, or the certificate is not that of a CA.
    pub fn from_pem(cert: PemFile<'_>, key: PemFile<'_>) -> Result<Self, IssueError> {
        let pair = ServingPair::from_pem(cert, key).map_err(IssueError::CaFiles)?;
        let chain = parse_chain(cert).map_err(IssueError::CaFiles)?;
        let no_certificate = || {
            IssueError::CaFiles(PairError::NoCertificate {
                file: cert.name.into(),
            })
        };
        let der = chain.first().ok_or_else(no_certificate)?;
        if !parse_x509(der, cert.name).map_err(IssueError::CaFiles)?.is_ca() {
            return Err(IssueError::NotACa {
                file: cert.name.into(),
            });
        }
        let key_pair = KeyPair::from_pem(&String::from_utf8_lossy(key.bytes)).map_err(IssueError::Library)?;
        let issuer = Issuer::from_ca_cert_der(der, key_pair).map_err(IssueError::Library)?;
        let cert_pem = String::from_utf8_lossy(cert.bytes).into_owned();
        Ok(Self {
            cert_pem,
            issuer,
            not_after: pair.not_after(),
        })
    }

    /// Its certificate for `caBundle`, PEM.
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// Its private key, PKCS#8 PEM. With it, one can impersonate the webhook.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }
}

/// A new self-signed CA (ECDSA P-256) that may sign serving certificates, but no further CAs.
///
/// # Errors
/// The lifetime is out of bounds.
pub fn issue_ca(name: &str, not_before: SystemTime, lifetime: Duration) -> Result<Ca, IssueError> {
    let mut params = params(name, not_before, lifetime)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = new_key()?;
    let cert = params.self_signed(&key).map_err(IssueError::Library)?;
    let not_after = unix_seconds(not_before + lifetime);
    Ok(Ca {
        cert_pem: cert.pem(),
        issuer: Issuer::new(params, key),
        not_after,
    })
}

/// A serving certificate (ECDSA P-256) for these names, signed by `ca`.
///
/// # Errors
/// No name, an invalid name, a lifetime that is out of bounds or longer than that of the CA.
pub fn issue_leaf(
    ca: &Ca,
    dns_names: &[String],
    ips: &[IpAddr],
    not_before: SystemTime,
    lifetime: Duration,
) -> Result<Leaf, IssueError> {
    let mut params = params(LEAF_COMMON_NAME, not_before, lifetime)?;
    let excess = unix_seconds(not_before + lifetime).saturating_sub(ca.not_after);
    if excess > 0 {
        return Err(IssueError::OutlivesCa {
            hours: excess.unsigned_abs().div_ceil(3600),
        });
    }
    params.subject_alt_names = alternative_names(dns_names, ips)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Lets a verifier with two CAs of the same name (during a rotation) find the right one.
    params.use_authority_key_identifier_extension = true;
    let key = new_key()?;
    let cert = params.signed_by(&key, &ca.issuer).map_err(IssueError::Library)?;
    Ok(Leaf {
        cert_pem: cert.pem(),
        key_pem: key.serialize_pem(),
    })
}

fn params(name: &str, not_before: SystemTime, lifetime: Duration) -> Result<CertificateParams, IssueError> {
    if !(Duration::from_hours(1)..=LONGEST).contains(&lifetime) {
        return Err(IssueError::Lifetime { lifetime });
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = not_before.into();
    params.not_after = (not_before + lifetime).into();
    Ok(params)
}

fn new_key() -> Result<KeyPair, IssueError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(IssueError::Library)
}

fn alternative_names(dns_names: &[String], ips: &[IpAddr]) -> Result<Vec<SanType>, IssueError> {
    let dns = dns_names.iter().map(|name| dns_name(name));
    let names: Vec<_> = dns
        .chain(ips.iter().map(|ip| Ok(SanType::IpAddress(*ip))))
        .collect::<Result<_, _>>()?;
    if names.is_empty() {
        Err(IssueError::NoNames)
    } else {
        Ok(names)
    }
}

fn dns_name(name: &str) -> Result<SanType, IssueError> {
    let invalid = || IssueError::DnsName {
        name: name.to_owned(),
    };
    DnsName::try_from(name.strip_prefix("*.").unwrap_or(name)).map_err(|_| invalid())?;
    Ok(SanType::DnsName(name.try_into().map_err(|_| invalid())?))
}

#[cfg(test)]
mod tests;
