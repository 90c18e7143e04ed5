use std::time::Duration;

use super::*;
use crate::issue::{Ca, Leaf, issue_ca, issue_leaf};

const DAY: Duration = Duration::from_hours(24);

fn ca(now: SystemTime) -> Ca {
    issue_ca("test CA", now, DAY).unwrap()
}

fn leaf(ca: &Ca, now: SystemTime) -> Leaf {
    let names = ["a.b.svc".to_owned(), "*.example".to_owned()];
    issue_leaf(
        ca,
        &names,
        &["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
        now,
        DAY,
    )
    .unwrap()
}

fn pair(cert: &str, key: &str) -> Result<ServingPair, PairError> {
    ServingPair::from_pem(
        PemFile {
            name: "/tls/tls.crt",
            bytes: cert.as_bytes(),
        },
        PemFile {
            name: "/tls/tls.key",
            bytes: key.as_bytes(),
        },
    )
}

#[test]
fn a_pair_has_its_names_and_its_expiry_and_hides_its_key() {
    let now = SystemTime::now();
    let Leaf { cert_pem, key_pem } = leaf(&ca(now), now);
    let pair = pair(&cert_pem, &key_pem).unwrap();
    assert_eq!(pair.names(), ["a.b.svc", "*.example", "10.0.0.1", "::1"]);
    assert_eq!(pair.not_after(), unix_seconds(now + DAY));
    let secret = key_pem.lines().nth(1).unwrap();
    assert!(!format!("{pair:?}").contains(secret));
}

#[test]
fn the_validity_is_reported_and_not_enforced() {
    let now = SystemTime::now();
    let Leaf { cert_pem, key_pem } = leaf(&ca(now), now);
    let pair = pair(&cert_pem, &key_pem).unwrap();
    let second = Duration::from_secs(1);
    assert_eq!(
        pair.validity(now.checked_sub(2 * second).unwrap()),
        Validity::NotYet
    );
    assert_eq!(pair.validity(now + second), Validity::Valid);
    assert_eq!(
        pair.validity(now + DAY.checked_sub(2 * second).unwrap()),
        Validity::Valid
    );
    assert_eq!(pair.validity(now + DAY), Validity::Expired);
}

#[test]
fn the_serving_certificate_comes_first_in_a_chain() {
    let now = SystemTime::now();
    let ca = ca(now);
    let Leaf { cert_pem, key_pem } = leaf(&ca, now);
    let good = pair(&(cert_pem.clone() + ca.cert_pem()), &key_pem).unwrap();
    assert_eq!(good.key.cert.len(), 2);
    let reversed = pair(&(ca.cert_pem().to_owned() + &cert_pem), &key_pem).unwrap_err();
    assert!(matches!(reversed, PairError::Mismatch { .. }), "{reversed}");
}

#[test]
fn a_key_of_another_certificate_is_rejected_with_both_files_named() {
    let now = SystemTime::now();
    let ca = ca(now);
    let error = pair(&leaf(&ca, now).cert_pem, &leaf(&ca, now).key_pem).unwrap_err();
    assert!(matches!(error, PairError::Mismatch { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("/tls/tls.crt") && text.contains("/tls/tls.key"),
        "{text}"
    );
}

#[test]
fn missing_or_damaged_content_is_reported_without_its_text() {
    let now = SystemTime::now();
    let Leaf { cert_pem, key_pem } = leaf(&ca(now), now);
    let half = |pem: &str| pem[..pem.len() / 2].to_owned();
    let glued = key_pem.replacen("-----\n", "", 1);
    let cases = [
        (
            String::new(),
            key_pem.clone(),
            "/tls/tls.crt contains no certificate",
        ),
        (
            key_pem.clone(),
            key_pem.clone(),
            "/tls/tls.crt contains no certificate",
        ),
        (
            half(&cert_pem),
            key_pem.clone(),
            "/tls/tls.crt contains a damaged PEM block (its END line is missing)",
        ),
        (
            cert_pem.clone(),
            half(&key_pem),
            "/tls/tls.key contains a damaged PEM block (its END line is missing)",
        ),
        (
            cert_pem.clone(),
            glued,
            "/tls/tls.key contains a damaged PEM block (its BEGIN line is malformed)",
        ),
        (
            cert_pem.clone(),
            String::new(),
            "/tls/tls.key contains no private key",
        ),
        (
            cert_pem.clone(),
            cert_pem.clone(),
            "/tls/tls.key contains no private key",
        ),
        (
            cert_pem.clone(),
            key_pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
            "the private key in /tls/tls.key is encrypted",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            key_pem.clone(),
            "the first certificate in /tls/tls.crt is unusable",
        ),
        (
            cert_pem.clone(),
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".to_owned(),
            "the private key in /tls/tls.key is unusable",
        ),
    ];
    let secret = &key_pem.lines().nth(1).unwrap()[..20];
    for (cert, key, expected) in cases {
        let error = pair(&cert, &key).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(expected), "{text}");
        assert!(
            !text.contains(secret) && !format!("{error:?}").contains(secret),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn missing_and_oversized_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let paths = PairPaths {
        cert: dir.path().join("tls.crt"),
        key: dir.path().join("tls.key"),
    };
    let error = ServingPair::load(&paths).await.unwrap_err();
    assert!(matches!(error, PairError::Read { .. }), "{error}");
    assert!(
        error.to_string().contains("tls.crt; is the Secret mounted there"),
        "{error}"
    );

    std::fs::write(&paths.cert, vec![b'\n'; (1 << 20) + 1]).unwrap();
    let error = ServingPair::load(&paths).await.unwrap_err();
    assert!(matches!(error, PairError::TooLarge { .. }), "{error}");

    std::fs::write(&paths.cert, vec![b'\n'; 1 << 20]).unwrap();
    std::fs::write(&paths.key, "").unwrap();
    let error = ServingPair::load(&paths).await.unwrap_err();
    assert!(
        matches!(error, PairError::NoCertificate { .. }),
        "1 MiB is still read: {error}"
    );
}
