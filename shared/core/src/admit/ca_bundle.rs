//! The certificates in `spec.caBundle`.

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_model::{
    reason::Reason,
    validation::{FieldErrors, Path},
};

/// The first line of a certificate, RFC 7468.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";
/// A part of the first line of a private key.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Checks that there are certificates. Whether a server has one of theirs shows when it is connected to. The text is not quoted: it may
/// be a key.
pub fn check(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        return;
    }
    let decoded = STANDARD.decode(text).ok();
    // Comments between the certificates may be in any encoding.
    let pem = decoded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let problem = match &pem {
        None if text.contains(CERTIFICATE) => "it is PEM, and has to be that in base64: base64 -w0 ca.pem",
        None => "not base64 of a PEM file; write what base64 -w0 ca.pem prints",
        Some(pem) if pem.contains(PRIVATE_KEY) => {
            "it has a private key, which everyone who reads HelmOps could see; remove the key, and replace it where it is used"
        }
        Some(pem) if !pem.contains(CERTIFICATE) => {
            "base64 of something without a certificate; write what base64 -w0 ca.pem prints"
        }
        Some(_) => return,
    };
    errors.invalid(path, Reason::CertificateError, "", problem);
}

#[cfg(test)]
mod tests {
    use helmops_model::validation::FieldError;

    use super::*;

    #[test]
    fn certificates_are_base64_of_pem_without_keys() {
        let encoded = |pem: &str| STANDARD.encode(pem);
        let certificate = format!("{CERTIFICATE}\nMIIB\n-----END CERTIFICATE-----\n");
        let with_key = format!("{certificate}-----BEGIN EC PRIVATE KEY-----\n");
        for (text, expected) in [
            (String::new(), None),
            (encoded(&certificate), None),
            (certificate.clone(), Some("it is PEM")),
            ("geheim".to_owned(), Some("not base64 of a PEM file")),
            (encoded("geheim"), Some("without a certificate")),
            (encoded(&with_key), Some("it has a private key")),
        ] {
            let mut errors = FieldErrors::default();
            check(&mut errors, &Path::root("spec").field("caBundle"), &text);
            let found: Vec<_> = errors.reported().iter().map(FieldError::message).collect();
            assert_eq!(found.len(), usize::from(expected.is_some()), "{text} {found:?}");
            if let Some(expected) = expected {
                assert!(found[0].contains(expected), "{found:?}");
                assert!(!found[0].contains("geheim"), "{found:?}");
            }
        }
    }
}
