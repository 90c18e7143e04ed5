use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error as TlsError, RootCertStore};

use super::*;

const DAY: Duration = Duration::from_hours(24);

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Verifies `leaf` for `name` at `when`, trusting only `ca`.
fn verify(ca: &Ca, leaf: &Leaf, name: &str, when: SystemTime) -> Result<(), TlsError> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.cert_pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let cert = CertificateDer::from_pem_slice(leaf.cert_pem.as_bytes()).unwrap();
    let when = UnixTime::since_unix_epoch(when.duration_since(SystemTime::UNIX_EPOCH).unwrap());
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier
        .verify_server_cert(&cert, &[], &name, &[], when)
        .map(drop)
}

#[test]
fn a_leaf_is_trusted_only_for_its_names_and_its_lifetime() {
    // A time in the past: no code here may read the clock.
    let start = SystemTime::UNIX_EPOCH + 365 * 40 * DAY;
    let ca = issue_ca("test CA", start, 3 * DAY).unwrap();
    let ip = "10.1.2.3".parse().unwrap();
    let leaf = issue_leaf(&ca, &names(&["a.b.svc", "*.c.svc"]), &[ip], start + DAY, DAY).unwrap();
    let noon = start + DAY + DAY / 2;
    for name in ["a.b.svc", "x.c.svc", "10.1.2.3"] {
        assert_eq!(verify(&ca, &leaf, name, noon), Ok(()), "{name}");
    }
    let rejected = |name, when| match verify(&ca, &leaf, name, when) {
        Err(TlsError::InvalidCertificate(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        rejected("z.b.svc", noon),
        CertificateError::NotValidForNameContext { .. }
    ));
    assert!(matches!(
        rejected("a.b.svc", start),
        CertificateError::NotValidYetContext { .. }
    ));
    assert!(matches!(
        rejected("a.b.svc", start + 2 * DAY + DAY / 2),
        CertificateError::ExpiredContext { .. }
    ));
    let other_ca = issue_ca("test CA", start, 3 * DAY).unwrap();
    assert!(verify(&other_ca, &leaf, "a.b.svc", noon).is_err());
}

#[test]
fn a_ca_loaded_from_files_issues_certificates_that_its_certificate_verifies() {
    let now = SystemTime::now();
    let first = issue_ca("test CA", now, 2 * DAY).unwrap();
    let key = first.key_pem();
    let cert = PemFile {
        name: "ca.crt",
        bytes: first.cert_pem().as_bytes(),
    };
    let loaded = Ca::from_pem(
        cert,
        PemFile {
            name: "ca.key",
            bytes: key.as_bytes(),
        },
    )
    .unwrap();
    assert_eq!(loaded.cert_pem(), first.cert_pem());
    let leaf = issue_leaf(&loaded, &names(&["a.b.svc"]), &[], now, DAY).unwrap();
    assert_eq!(verify(&first, &leaf, "a.b.svc", now + DAY / 2), Ok(()));
    let error = issue_leaf(&loaded, &names(&["a.b.svc"]), &[], now, 3 * DAY).unwrap_err();
    assert!(matches!(error, IssueError::OutlivesCa { hours: 24 }), "{error}");
}

#[test]
fn a_leaf_or_a_key_of_another_certificate_is_not_a_ca() {
    let now = SystemTime::now();
    let ca = issue_ca("test CA", now, DAY).unwrap();
    let leaf = issue_leaf(&ca, &names(&["a.b.svc"]), &[], now, DAY).unwrap();
    let leaf_cert = PemFile {
        name: "tls.crt",
        bytes: leaf.cert_pem.as_bytes(),
    };
    let leaf_key = PemFile {
        name: "tls.key",
        bytes: leaf.key_pem.as_bytes(),
    };
    let error = Ca::from_pem(leaf_cert, leaf_key).unwrap_err();
    assert!(
        matches!(&error, IssueError::NotACa { file } if file == "tls.crt"),
        "{error}"
    );
    let ca_cert = PemFile {
        name: "ca.crt",
        bytes: ca.cert_pem().as_bytes(),
    };
    let error = Ca::from_pem(ca_cert, leaf_key).unwrap_err();
    assert!(
        matches!(error, IssueError::CaFiles(PairError::Mismatch { .. })),
        "{error}"
    );
}

#[test]
fn invalid_names_and_lifetimes_are_rejected() {
    let now = SystemTime::now();
    let ca = issue_ca("test CA", now, DAY).unwrap();
    let error = issue_leaf(&ca, &[], &[], now, DAY).unwrap_err();
    assert!(matches!(error, IssueError::NoNames), "{error}");
    for bad in ["", "a b", "https://a", "a..b", "*.", "ä.svc", "a.*.svc"] {
        let error = issue_leaf(&ca, &names(&[bad]), &[], now, DAY).unwrap_err();
        assert!(
            matches!(&error, IssueError::DnsName { name } if name == bad),
            "{bad}: {error}"
        );
    }
    for lifetime in [Duration::ZERO, LONGEST + DAY, Duration::MAX] {
        let error = issue_ca("test CA", now, lifetime).unwrap_err();
        assert!(matches!(error, IssueError::Lifetime { .. }), "{error}");
    }
}

#[test]
fn keys_stay_out_of_debug_output() {
    let now = SystemTime::now();
    let ca = issue_ca("test CA", now, DAY).unwrap();
    let leaf = issue_leaf(&ca, &names(&["a.b.svc"]), &[], now, DAY).unwrap();
    for (key, output) in [
        (ca.key_pem(), format!("{ca:?}")),
        (leaf.key_pem.clone(), format!("{leaf:?}")),
    ] {
        assert!(!output.contains(key.lines().nth(1).unwrap()), "{output}");
    }
}
