//! The credentials for a bucket, in the keys of a Secret that Flux has.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use thiserror::Error;

use crate::Provider;

/// The keys of a Secret that are read for buckets. Not all of them are supported: the others are refused by their name.
pub const KEYS: &[&str] = &[
    ACCESS_KEY,
    SECRET_KEY,
    SERVICE_ACCOUNT,
    ACCOUNT_KEY,
    SAS_KEY,
    TENANT,
    CLIENT,
    CLIENT_SECRET,
    CLIENT_CERTIFICATE,
    AUTHORITY_HOST,
];
const ACCESS_KEY: &str = "accesskey";
const SECRET_KEY: &str = "secretkey";
const SERVICE_ACCOUNT: &str = "serviceaccount";
const ACCOUNT_KEY: &str = "accountKey";
const SAS_KEY: &str = "sasKey";
const TENANT: &str = "tenantId";
const CLIENT: &str = "clientId";
const CLIENT_SECRET: &str = "clientSecret";
const CLIENT_CERTIFICATE: &str = "clientCertificate";
const AUTHORITY_HOST: &str = "authorityHost";

/// The values of these keys in a Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct BucketKeys(pub BTreeMap<&'static str, String>);

/// The credentials for a bucket.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// None: requests are not signed.
    Anonymous,
    /// Of S3.
    AccessKey {
        /// Which key it is.
        id: String,
        /// The key that requests are signed with.
        secret: String,
    },
    /// Of Google Cloud: the JSON of a service account with its private key.
    ServiceAccount(String),
    /// Of Azure: the key of the storage account.
    AccountKey(String),
    /// Of Azure: the query of a signed URL.
    SharedAccessSignature(String),
    /// Of Azure: an application with a secret.
    ServicePrincipal {
        /// The directory that it is in.
        tenant: String,
        /// Which application it is.
        client: String,
        /// Its secret.
        secret: String,
        /// The server that logs in, if it is another one than that of the public cloud.
        authority: Option<String>,
    },
}

/// Why the keys of a Secret are no credentials for a bucket.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CredentialsError {
    /// One key of several is missing.
    #[error("{present} is set, but {missing} isn't; set both keys")]
    Incomplete {
        /// The key that is set.
        present: &'static str,
        /// The key that is missing.
        missing: &'static str,
    },
    /// The keys are those of another provider.
    #[error("{present} is set, which provider {provider} has not; its keys are {keys}", provider = .provider.as_str(), keys = keys_of(*.provider))]
    OtherProvider {
        /// The key that is set.
        present: &'static str,
        /// The provider of the bucket.
        provider: Provider,
    },
    /// A kind of login that is not supported.
    #[error(
        "{present} is set without {CLIENT_SECRET}: managed identities, workload identities and certificates are not supported; set {TENANT}, \
         {CLIENT} and {CLIENT_SECRET}, or {ACCOUNT_KEY} or {SAS_KEY}"
    )]
    Identity {
        /// The key that is set.
        present: &'static str,
    },
    /// The value of a key cannot be used.
    #[error("{key} {problem}")]
    Invalid {
        /// The key.
        key: &'static str,
        /// What is wrong with it, and the fix.
        problem: &'static str,
    },
}

/// The keys of a provider, for a message.
pub const fn keys_of(provider: Provider) -> &'static str {
    match provider {
        Provider::Generic | Provider::Aws => "accesskey and secretkey",
        Provider::Gcp => "serviceaccount",
        Provider::Azure => "accountKey, or sasKey, or tenantId, clientId and clientSecret",
    }
}

/// Credentials stay out of logs.
impl fmt::Debug for BucketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Credentials stay out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::AccessKey { .. } => "AccessKey(…)",
            Self::ServiceAccount(_) => "ServiceAccount(…)",
            Self::AccountKey(_) => "AccountKey(…)",
            Self::SharedAccessSignature(_) => "SharedAccessSignature(…)",
            Self::ServicePrincipal { .. } => "ServicePrincipal(…)",
        })
    }
}

impl BucketKeys {
    /// The credentials for a provider. A Secret without any has other things, such as certificates, and requests are not signed.
    ///
    /// # Errors
    /// If they are not complete, or those of another provider.
    pub fn credentials(&self, provider: Provider) -> Result<Credentials, CredentialsError> {
        let found = match provider {
            Provider::Generic | Provider::Aws => self.access_key(),
            Provider::Gcp => self.service_account(),
            Provider::Azure => self.azure(),
        }?;
        match (found, self.first()) {
            (Some(credentials), _) => Ok(credentials),
            (None, None) => Ok(Credentials::Anonymous),
            (None, Some(present)) => Err(CredentialsError::OtherProvider { present, provider }),
        }
    }

    /// Size of the values, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.values().map(String::len).sum()
    }

    fn first(&self) -> Option<&'static str> {
        KEYS.iter().find(|key| self.get(key).is_some()).copied()
    }

    fn get(&self, key: &str) -> Option<String> {
        let value = self.0.get(key)?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn access_key(&self) -> Result<Option<Credentials>, CredentialsError> {
        let incomplete = |present, missing| Err(CredentialsError::Incomplete { present, missing });
        match (self.get(ACCESS_KEY), self.get(SECRET_KEY)) {
            (Some(id), Some(secret)) => Ok(Some(Credentials::AccessKey { id, secret })),
            (None, None) => Ok(None),
            (Some(_), None) => incomplete(ACCESS_KEY, SECRET_KEY),
            (None, Some(_)) => incomplete(SECRET_KEY, ACCESS_KEY),
        }
    }

    fn service_account(&self) -> Result<Option<Credentials>, CredentialsError> {
        let Some(text) = self.get(SERVICE_ACCOUNT) else {
            return Ok(None);
        };
        let json = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let has = |field: &str| json.get(field).is_some_and(Value::is_string);
        if ["client_email", "private_key", "private_key_id"]
            .into_iter()
            .all(has)
        {
            return Ok(Some(Credentials::ServiceAccount(text)));
        }
        Err(CredentialsError::Invalid {
            key: SERVICE_ACCOUNT,
            problem: "is not the JSON key of a service account, with client_email, private_key and private_key_id; workload identities are not \
                      supported; create a key with `gcloud iam service-accounts keys create`",
        })
    }

    fn azure(&self) -> Result<Option<Credentials>, CredentialsError> {
        if let Some(secret) = self.get(CLIENT_SECRET) {
            return self.service_principal(secret).map(Some);
        }
        if let Some(key) = self.get(ACCOUNT_KEY) {
            return Ok(Some(Credentials::AccountKey(key)));
        }
        if let Some(signature) = self.get(SAS_KEY) {
            if signature.contains("sig=") && !signature.contains("://") {
                return Ok(Some(Credentials::SharedAccessSignature(signature)));
            }
            return Err(CredentialsError::Invalid {
                key: SAS_KEY,
                problem: "is not a shared access signature; write what follows the question mark of its URL, which has sig= in it",
            });
        }
        let identity = [CLIENT, CLIENT_CERTIFICATE, TENANT];
        match identity.into_iter().find(|key| self.get(key).is_some()) {
            Some(present) => Err(CredentialsError::Identity { present }),
            None => Ok(None),
        }
    }

    fn service_principal(&self, secret: String) -> Result<Credentials, CredentialsError> {
        let required = |missing| {
            self.get(missing).ok_or(CredentialsError::Incomplete {
                present: CLIENT_SECRET,
                missing,
            })
        };
        let authority = self.get(AUTHORITY_HOST);
        // The constants of Azure's libraries end with a slash.
        let authority = authority.map(|host| host.trim_end_matches('/').to_owned());
        if authority
            .as_ref()
            .is_some_and(|host| !host.starts_with("https://"))
        {
            return Err(CredentialsError::Invalid {
                key: AUTHORITY_HOST,
                problem: "is not a URL with https, which the secret is sent to; write it as https://login.microsoftonline.com, or leave it out",
            });
        }
        Ok(Credentials::ServicePrincipal {
            tenant: required(TENANT)?,
            client: required(CLIENT)?,
            secret,
            authority,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(provider: Provider, keys: &[(&'static str, &str)]) -> Result<Credentials, CredentialsError> {
        let keys = keys.iter().map(|(key, value)| (*key, (*value).to_owned()));
        BucketKeys(keys.collect()).credentials(provider)
    }

    const ACCOUNT: &str = r#"{"client_email": "a@b", "private_key": "geheim", "private_key_id": "1"}"#;

    #[test]
    fn each_provider_has_its_keys() {
        let text = str::to_owned;
        let access_key = Credentials::AccessKey {
            id: text("a"),
            secret: text("b"),
        };
        let principal = |authority: Option<&str>| Credentials::ServicePrincipal {
            tenant: text("t"),
            client: text("c"),
            secret: text("s"),
            authority: authority.map(text),
        };
        let app: &[(&str, &str)] = &[(TENANT, "t"), (CLIENT, "c"), (CLIENT_SECRET, "s")];
        let host = (AUTHORITY_HOST, "https://login.example.com");
        for (provider, keys, expected) in [
            (
                Provider::Aws,
                &[(ACCESS_KEY, " a\n"), (SECRET_KEY, "b\n")][..],
                access_key.clone(),
            ),
            (
                Provider::Generic,
                &[(ACCESS_KEY, "a"), (SECRET_KEY, "b"), (SAS_KEY, "")],
                access_key,
            ),
            (
                Provider::Gcp,
                &[(SERVICE_ACCOUNT, ACCOUNT)],
                Credentials::ServiceAccount(text(ACCOUNT)),
            ),
            (
                Provider::Azure,
                &[(ACCOUNT_KEY, "a")],
                Credentials::AccountKey(text("a")),
            ),
            (
                Provider::Azure,
                &[(SAS_KEY, "?a=1&sig=b")],
                Credentials::SharedAccessSignature(text("?a=1&sig=b")),
            ),
            (Provider::Azure, app, principal(None)),
            (Provider::Azure, &[app, &[host]].concat(), principal(Some(host.1))),
            (Provider::Azure, &[], Credentials::Anonymous),
            (Provider::Generic, &[(ACCESS_KEY, " ")], Credentials::Anonymous),
        ] {
            assert_eq!(of(provider, keys), Ok(expected), "{keys:?}");
        }
    }

    #[test]
    fn keys_that_are_no_credentials_are_named() {
        for (provider, keys, expected) in [
            (
                Provider::Aws,
                &[(ACCESS_KEY, "geheim")][..],
                "accesskey is set, but secretkey isn't",
            ),
            (
                Provider::Aws,
                &[(SECRET_KEY, "geheim")],
                "secretkey is set, but accesskey isn't",
            ),
            (
                Provider::Aws,
                &[(ACCOUNT_KEY, "geheim")],
                "accountKey is set, which provider aws has not; its keys are accesskey and secretkey",
            ),
            (
                Provider::Azure,
                &[(ACCESS_KEY, "geheim")],
                "accesskey is set, which provider azure",
            ),
            (
                Provider::Gcp,
                &[(SERVICE_ACCOUNT, "{\"geheim\": 1}")],
                "serviceaccount is not the JSON key",
            ),
            (
                Provider::Azure,
                &[(CLIENT, "geheim")],
                "clientId is set without clientSecret: managed",
            ),
            (
                Provider::Azure,
                &[(CLIENT_CERTIFICATE, "geheim")],
                "clientCertificate is set without",
            ),
            (
                Provider::Azure,
                &[(CLIENT_SECRET, "geheim")],
                "clientSecret is set, but tenantId isn't",
            ),
            (
                Provider::Azure,
                &[(SAS_KEY, "https://geheim?sig=a")],
                "sasKey is not a shared",
            ),
            (
                Provider::Azure,
                &[(CLIENT_SECRET, "geheim"), (AUTHORITY_HOST, "http://h")],
                "authorityHost is not a URL with https",
            ),
        ] {
            let error = of(provider, keys).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("geheim"), "{error}");
        }
    }

    #[test]
    fn no_credential_is_shown() {
        let keys = BucketKeys(
            [
                (SECRET_KEY, "geheim".to_owned()),
                (ACCESS_KEY, "geheim".to_owned()),
            ]
            .into(),
        );
        let shown = format!("{keys:?} {:?}", keys.credentials(Provider::Aws));
        assert!(
            shown.contains("secretkey") && !shown.contains("geheim"),
            "{shown}"
        );
    }
}
