//! What the exposed process knows of a Receiver: an entry of the Secret that the notifier writes.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{credentials::Credentials, receiver_type::ReceiverType, secret::Token};

/// Name of the Secret with the entries, in the namespace of helmops. Its keys are the digests in the paths.
pub const SECRET: &str = "helmops-receivers";

/// Key of that Secret with the public keys of Google, so that the exposed process needs no connection to the internet.
pub const GOOGLE_KEYS: &str = "google-keys";

/// Bytes of all entries. Kubernetes stores a Secret of at most 1 MiB, and its metadata need some of it.
pub const MAX_ENTRIES_BYTES: usize = 900 << 10;

/// Bytes of the entries of a namespace: about 200 Receivers.
pub const MAX_NAMESPACE_BYTES: usize = 64 << 10;

/// A Receiver that accepts requests.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Entry {
    /// Namespace of the Receiver.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub r#type: String,
    /// The token.
    pub token: String,
    /// For `gcr`: the ServiceAccount of Google that sends.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    /// For `gcr`: the audience of its tokens.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub audience: String,
    /// The events that are accepted; all that announce an artifact if it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Whether the Receiver is suspended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
}

/// Why an entry cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    /// Not JSON.
    #[error("the entry is not JSON of a Receiver")]
    Json,
    /// An unknown type.
    #[error("the entry has a type that this version does not have")]
    Type,
}

impl Entry {
    /// The entry as bytes.
    pub fn encode(&self) -> Vec<u8> {
        // Strings and booleans always encode.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// If it is not JSON of one.
    pub fn parse(bytes: &[u8]) -> Result<Self, EntryError> {
        serde_json::from_slice(bytes).map_err(|_| EntryError::Json)
    }

    /// Reads an entry: the Receiver, its type, and what its senders must prove.
    ///
    /// # Errors
    /// If it was not written by this version of the notifier.
    pub fn decode(bytes: &[u8]) -> Result<(Self, ReceiverType, Credentials), EntryError> {
        let entry = Self::parse(bytes)?;
        let receiver_type = ReceiverType::parse(&entry.r#type).ok_or(EntryError::Type)?;
        let credentials = Credentials {
            token: Token::new(entry.token.as_bytes()),
            email: entry.email.clone(),
            audience: entry.audience.clone(),
        };
        Ok((entry, receiver_type, credentials))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({} {}/{})", self.r#type, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_encoding_and_shows_no_token() {
        let entry = Entry {
            namespace: "default".into(),
            name: "harbor".into(),
            r#type: "harbor".into(),
            token: "0123456789abcdef".into(),
            events: vec!["x".into()],
            suspended: true,
            ..Entry::default()
        };
        let (decoded, receiver_type, credentials) = Entry::decode(&entry.encode()).unwrap();
        assert_eq!((decoded, receiver_type), (entry.clone(), ReceiverType::Harbor));
        assert!(credentials.token.is(b"0123456789abcdef") && !credentials.token.is(b"0123456789abcdeg"));
        assert!(!format!("{entry:?} {credentials:?}").contains("0123"));
        assert_eq!(Entry::decode(b"{").unwrap_err(), EntryError::Json);
        assert_eq!(Entry::decode(br#"{"type":"new"}"#).unwrap_err(), EntryError::Type);
    }
}
