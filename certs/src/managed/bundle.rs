//! The CA certificates of a `caBundle`, as PEM and parsed.

use std::fmt;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::ASN1Time;

use crate::issue::Ca;
use crate::pair::unix_seconds;

/// Characters of base64 in a line of PEM.
const LINE: usize = 64;

/// The certificate of a CA. Two are equal if all their bytes are.
#[derive(Clone)]
pub(crate) struct CaCertificate {
    der: CertificateDer<'static>,
    not_before: ASN1Time,
    not_after: ASN1Time,
    serial: String,
}

impl PartialEq for CaCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for CaCertificate {}

/// The serial number as `openssl x509 -text` shows it.
impl fmt::Display for CaCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CA {} (until {})", self.serial, self.not_after)
    }
}

impl fmt::Debug for CaCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl CaCertificate {
    /// `None` if it is not a certificate, or not that of a CA.
    pub(crate) fn from_der(der: CertificateDer<'static>) -> Option<Self> {
        let (_, x509) = x509_parser::parse_x509_certificate(&der).ok()?;
        if !x509.is_ca() {
            return None;
        }
        let (not_before, not_after) = (x509.validity().not_before, x509.validity().not_after);
        let serial = x509.raw_serial_as_string();
        Some(Self {
            der,
            not_before,
            not_after,
            serial,
        })
    }

    /// The certificate of `ca`.
    pub(crate) fn of(ca: &Ca) -> Option<Self> {
        Self::from_der(CertificateDer::from_pem_slice(ca.cert_pem().as_bytes()).ok()?)
    }

    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub(crate) fn is_valid(&self, now: SystemTime) -> bool {
        let now = unix_seconds(now);
        self.not_before.timestamp() <= now && now < self.not_after.timestamp()
    }

    /// Seconds since 1970.
    pub(crate) fn not_before(&self) -> i64 {
        self.not_before.timestamp()
    }

    /// Seconds since 1970.
    pub(crate) fn not_after(&self) -> i64 {
        self.not_after.timestamp()
    }

    pub(crate) fn pem(&self) -> String {
        let text = STANDARD.encode(&self.der);
        let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(LINE.min(rest.len()));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }
}

/// The CA certificates in a PEM text, without duplicates. Damaged certificates and those of no CA are left out.
pub(crate) fn read(pem: &[u8]) -> Vec<CaCertificate> {
    let certificates = CertificateDer::pem_slice_iter(pem).map_while(Result::ok);
    distinct(certificates.filter_map(CaCertificate::from_der))
}

/// The values without duplicates, in their order.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// The text of a bundle: the same for the same authorities in the same order.
pub(crate) fn pem(authorities: &[CaCertificate]) -> String {
    authorities.iter().map(CaCertificate::pem).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::issue::issue_ca;

    const DAY: Duration = Duration::from_hours(24);

    fn ca() -> Ca {
        issue_ca("test CA", SystemTime::now() - DAY, 3 * DAY).unwrap()
    }

    #[test]
    fn a_bundle_round_trips() {
        let (one, other) = (ca(), ca());
        let text = format!("{}{}", one.cert_pem(), other.cert_pem()).replace("\r\n", "\n");
        let authorities = read(text.as_bytes());
        assert_eq!(pem(&authorities), text);
        assert_eq!(
            authorities,
            [&one, &other].map(|ca| CaCertificate::of(ca).unwrap())
        );
    }

    #[test]
    fn damaged_duplicate_and_non_ca_certificates_are_left_out() {
        let ca = ca();
        let leaf =
            crate::issue::issue_leaf(&ca, &["a.b.svc".to_owned()], &[], SystemTime::now(), DAY).unwrap();
        let authority = CaCertificate::of(&ca).unwrap();
        for text in [
            format!("{0}{0}", ca.cert_pem()),
            format!("{}{}", leaf.cert_pem, ca.cert_pem()),
            format!("{}-----BEGIN CERTIFICATE-----\nAAAA", ca.cert_pem()),
            format!("garbage\n{}", ca.cert_pem()),
        ] {
            assert_eq!(read(text.as_bytes()), std::slice::from_ref(&authority), "{text}");
        }
        assert_eq!(read(b""), []);
        assert_eq!(read(&[0xff; 64]), []);
    }

    #[test]
    fn a_ca_is_valid_within_its_validity_period() {
        let authority = CaCertificate::of(&ca()).unwrap();
        let now = SystemTime::now();
        assert!(authority.is_valid(now));
        assert!(!authority.is_valid(now - 2 * DAY));
        assert!(!authority.is_valid(now + 3 * DAY));
    }
}
