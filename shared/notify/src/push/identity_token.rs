//! Identity tokens of Google: JSON Web Tokens that Pub/Sub sends with each request.

use base64::{
    Engine,
    engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD},
};
use k8s_openapi::jiff::Timestamp;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::credentials::{Credentials, ProofError};

/// Bytes of a token. Those of Google have about 1,000.
const MAX_TOKEN: usize = 8 << 10;

/// Keys that are kept. Google publishes two or three.
const MAX_KEYS: usize = 16;

/// Seconds by which clocks may differ.
const LEEWAY: i64 = 60;

const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];

const MALFORMED: ProofError = ProofError::Malformed("Authorization");

/// The public keys with which Google signs.
#[derive(Clone, Debug, Default)]
pub struct GoogleKeys(Vec<PublicKey>);

#[derive(Clone, Debug)]
struct PublicKey {
    id: String,
    modulus: Vec<u8>,
    exponent: Vec<u8>,
}

/// Why a response has no keys.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeysError {
    /// Not a set of JSON Web Keys.
    #[error("the response is not a set of JSON Web Keys")]
    Json,
    /// No key that can verify RS256.
    #[error("the response has no RSA key for RS256 with an ID (kid)")]
    Empty,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct JsonKey {
    kid: String,
    kty: String,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default, rename = "use")]
    purpose: Option<String>,
    n: String,
    e: String,
}

impl JsonKey {
    /// The key, if it can verify RS256. Others of a set are ignored, as RFC 7517 says.
    fn public(self) -> Option<PublicKey> {
        let is_for = |value: Option<String>, expected: &str| value.is_none_or(|value| value == expected);
        // Without an ID, it would verify the tokens that name none.
        let is_usable = self.kty == "RSA"
            && !self.kid.is_empty()
            && is_for(self.alg, "RS256")
            && is_for(self.purpose, "sig");
        if !is_usable {
            return None;
        }
        Some(PublicKey {
            modulus: unpadded(self.n.as_bytes())?,
            exponent: unpadded(self.e.as_bytes())?,
            id: self.kid,
        })
    }
}

impl GoogleKeys {
    /// Parses a set of JSON Web Keys.
    ///
    /// # Errors
    /// If there is no key that can be used.
    pub fn parse(json: &[u8]) -> Result<Self, KeysError> {
        let set: KeySet = serde_json::from_slice(json).map_err(|_| KeysError::Json)?;
        let keys = set.keys.into_iter();
        let keys = keys.filter_map(|key| serde_json::from_value::<JsonKey>(key).ok()?.public());
        let keys: Vec<_> = keys.take(MAX_KEYS).collect();
        if keys.is_empty() {
            Err(KeysError::Empty)
        } else {
            Ok(Self(keys))
        }
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    iss: String,
    #[serde(default)]
    aud: String,
    #[serde(default)]
    email: String,
    #[serde(default)]
    email_verified: bool,
    exp: i64,
    #[serde(default)]
    iat: Option<i64>,
}

/// Verifies a token: first its signature, then what it claims.
pub(super) fn verify(
    token: &[u8],
    credentials: &Credentials,
    keys: &GoogleKeys,
    now: Timestamp,
) -> Result<(), ProofError> {
    if token.len() > MAX_TOKEN {
        return Err(MALFORMED);
    }
    let mut parts = token.split(|byte| *byte == b'.');
    let (Some(header), Some(claims), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(MALFORMED);
    };
    let signed = token.get(..header.len() + 1 + claims.len()).ok_or(MALFORMED)?;
    let header: Header = decode(header)?;
    // Never what the token itself prefers: `none`, or the public key as the key of an HMAC.
    if header.alg != "RS256" {
        return Err(MALFORMED);
    }
    let key = keys.0.iter().find(|key| key.id == header.kid);
    let key = key.ok_or(ProofError::UnknownKey)?;
    let components = RsaPublicKeyComponents {
        n: &key.modulus,
        e: &key.exponent,
    };
    let signature = unpadded(signature).ok_or(MALFORMED)?;
    components
        .verify(&RSA_PKCS1_2048_8192_SHA256, signed, &signature)
        .map_err(|_| ProofError::Wrong)?;
    check(&decode(claims)?, credentials, now)
}

fn check(claims: &Claims, credentials: &Credentials, now: Timestamp) -> Result<(), ProofError> {
    let now = now.as_second();
    let is_from_now = claims
        .iat
        .is_none_or(|issued| issued <= now.saturating_add(LEEWAY));
    if claims.exp < now.saturating_sub(LEEWAY) || !is_from_now {
        return Err(ProofError::Expired);
    }
    // An empty email or audience in the Secret accepts nothing.
    let is_for_us = ISSUERS.contains(&&*claims.iss)
        && !credentials.audience.is_empty()
        && claims.aud == credentials.audience
        && !credentials.email.is_empty()
        && claims.email == credentials.email
        && claims.email_verified;
    is_for_us.then_some(()).ok_or(ProofError::Wrong)
}

fn decode<T: serde::de::DeserializeOwned>(part: &[u8]) -> Result<T, ProofError> {
    let json = unpadded(part).ok_or(MALFORMED)?;
    serde_json::from_slice(&json).map_err(|_| MALFORMED)
}

/// Base64 for URLs. The standard forbids the padding at the end; Google's older keys had it.
fn unpadded(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD
        .decode(text)
        .or_else(|_| URL_SAFE.decode(text))
        .ok()
}

#[cfg(test)]
mod tests;
