//! Errors of a certificate and its key.

use std::io;

use thiserror::Error;

/// Maximum size of a file, in bytes: more than any chain and key, and little enough if a path points to the wrong file. It is
/// also the limit of the API server for a Secret.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Why a pair of files cannot be served. Each error names the file and the fix.
#[derive(Debug, Error)]
pub enum PairError {
    /// A file cannot be read.
    #[error("cannot read {file}; is the Secret mounted there, with the keys tls.crt and tls.key?")]
    Read {
        /// The path.
        file: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file is far larger than any certificate.
    #[error("{file} is larger than {MAX_BYTES} bytes and no certificate or key; check the path")]
    TooLarge {
        /// The path.
        file: String,
    },
    /// A file ends in the middle of a PEM block, or a block is damaged.
    #[error("{file} contains a damaged PEM block ({reason}); was it only partly written or copied?")]
    MalformedPem {
        file: String,
        /// What is wrong with the block, without its text: it may be part of a key.
        reason: &'static str,
    },
    /// No certificate in the certificate file.
    #[error("{file} contains no certificate; expected PEM that begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate { file: String },
    /// The certificate cannot be served.
    #[error(
        "the first certificate in {file} is unusable ({reason}); issue it again as an X.509 v3 certificate"
    )]
    UnusableCertificate {
        file: String,
        /// Why.
        reason: String,
    },
    /// No key in the key file.
    #[error("{file} contains no private key; expected PEM that begins with -----BEGIN PRIVATE KEY-----")]
    NoKey { file: String },
    /// The key is protected by a passphrase, which a server cannot enter.
    #[error(
        "the private key in {file} is encrypted; store it decrypted (openssl pkey -in {file} -out tls.key)"
    )]
    EncryptedKey { file: String },
    /// The key is damaged, or of a type that the TLS library does not support.
    #[error(
        "the private key in {file} is unusable; use ECDSA P-256 or P-384, Ed25519 or RSA of 2048 to 8192 bits"
    )]
    UnusableKey {
        file: String,
        /// The error of the TLS library.
        #[source]
        source: rustls::Error,
    },
    /// The key does not match the certificate.
    #[error(
        "the private key in {key} is not that of the first certificate in {cert}; \
         install files that were issued together, the serving certificate before its issuers"
    )]
    Mismatch {
        /// The certificate's file.
        cert: String,
        /// The key's file.
        key: String,
    },
}
