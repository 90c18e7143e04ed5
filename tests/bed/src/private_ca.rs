//! A private certificate authority for tests.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

/// How long certificates and tokens of a control plane are valid. It may run for weeks; the certificate that the API server makes for
/// itself lasts as long.
pub const LIFETIME: Duration = Duration::from_hours(365 * 24);
/// The clocks of a host and its virtual machines differ a little.
const BACKDATED: Duration = Duration::from_hours(1);

/// A CA that is trusted only by clients that get its certificate.
#[derive(Debug)]
pub struct PrivateCa {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A serving certificate and its key, both PEM.
#[derive(Debug)]
pub struct Issued {
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

impl PrivateCa {
    /// Creates a CA.
    pub fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = dated(CertificateParams::default());
        params.distinguished_name = common_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            pem,
            issuer: Issuer::new(params, key),
        })
    }

    /// Its certificate, PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate for a server with these names or addresses.
    pub fn issue(&self, names: &[&str]) -> Result<Issued> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = dated(CertificateParams::new(names)?);
        params.distinguished_name = common_name("helmops test server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

fn dated(mut params: CertificateParams) -> CertificateParams {
    let now = SystemTime::now();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + LIFETIME).into();
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
