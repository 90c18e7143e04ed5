//! Valid and invalid certificates.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

const DAY: Duration = Duration::from_hours(24);

/// A private CA.
pub struct Ca {
    /// Its certificate, PEM.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both PEM.
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// The properties of a certificate.
pub struct Leaf {
    /// Name or address that it is for.
    pub name: &'static str,
    /// First and last day of its validity, relative to now.
    pub days: (i32, i32),
}

impl Default for Leaf {
    fn default() -> Self {
        Self {
            name: "127.0.0.1",
            days: (-1, 1),
        }
    }
}

impl Ca {
    /// Creates a CA.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = dated((-400, 400));
        params.distinguished_name.push(DnType::CommonName, "CA of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self {
            pem: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate for servers and clients.
    pub fn issue(&self, leaf: &Leaf) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = leaf.params().signed_by(&key, &self.issuer).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A server configuration with a valid certificate of this CA.
    pub fn serving(&self) -> TlsAcceptor {
        server_tls(&self.issue(&Leaf::default()), None)
    }
}

impl Leaf {
    /// A self-signed certificate.
    pub fn self_signed(&self) -> Pair {
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: self.params().self_signed(&key).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::new([self.name.to_owned()]).unwrap();
        let dated = dated(self.days);
        (params.not_before, params.not_after) = (dated.not_before, dated.not_after);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params
    }
}

impl Pair {
    /// Certificate and key, as read from `tls.crt` and `tls.key` of a Secret.
    pub fn identity(&self) -> Vec<u8> {
        format!("{}\n{}\n", self.certificate, self.key).into_bytes()
    }
}

/// A server configuration with this certificate; with `clients`, a client certificate of this CA is required.
pub fn server_tls(pair: &Pair, clients: Option<&Ca>) -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&ca.pem)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let config = config
        .with_single_cert(vec![certificate(&pair.certificate)], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn dated((first, last): (i32, i32)) -> CertificateParams {
    let day = |days: i32| {
        let away = DAY * days.unsigned_abs();
        let now = SystemTime::now();
        if days < 0 { now - away } else { now + away }
    };
    let mut params = CertificateParams::default();
    params.not_before = day(first).into();
    params.not_after = day(last).into();
    params
}
