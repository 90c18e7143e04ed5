//! What a response that is no success means: the servers say it by a status, a code in XML, and a header.

use crate::{Credentials, Provider, credentials::keys_of};

/// The longest code.
const MAX_CODE: usize = 64;

/// What was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The list of objects.
    List,
    /// An object.
    Get,
    /// A token for the requests after it.
    Token,
}

/// A response that is no success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Its status.
    pub status: u16,
    /// What the server names the error; empty if it does not.
    pub code: String,
    /// The region that the bucket is in, if the server says it; otherwise empty.
    pub region: String,
}

/// What a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The credentials are wrong, or missing.
    Credentials,
    /// The credentials have no permission.
    Permission,
    /// The bucket does not exist.
    NoBucket,
    /// The object does not exist.
    NoObject,
    /// The bucket is in another region, or on another server.
    Region,
    /// The clock is wrong.
    Clock,
    /// Anything else.
    Other,
}

impl Refusal {
    /// Reads a response. Of its body only the code is used: the rest may contain what was signed.
    pub fn new(status: u16, body: &[u8], region: &str) -> Self {
        let is_region =
            region.len() <= MAX_CODE && region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        Self {
            status,
            code: code(&String::from_utf8_lossy(body))
                .unwrap_or_default()
                .to_owned(),
            region: if is_region {
                region.to_owned()
            } else {
                String::new()
            },
        }
    }

    /// What it is about.
    pub fn cause(&self, operation: Operation) -> RefusalCause {
        if operation == Operation::Token {
            return RefusalCause::Credentials;
        }
        match (self.status, &*self.code) {
            (_, "RequestTimeTooSkewed") => RefusalCause::Clock,
            (301 | 307, _)
            | (
                _,
                "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException",
            ) => RefusalCause::Region,
            (_, "NoSuchBucket" | "ContainerNotFound") => RefusalCause::NoBucket,
            (_, "NoSuchKey" | "BlobNotFound") => RefusalCause::NoObject,
            (
                _,
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "AuthenticationFailed"
                | "InvalidAuthenticationInfo"
                | "NoAuthenticationInformation"
                | "PublicAccessNotPermitted"
                | "ExpiredToken"
                | "InvalidToken",
            )
            | (401, _) => RefusalCause::Credentials,
            (403, _) => RefusalCause::Permission,
            (404 | 410, _) if operation == Operation::Get => RefusalCause::NoObject,
            (404 | 410, _) => RefusalCause::NoBucket,
            _ => RefusalCause::Other,
        }
    }

    /// What it means, and the fix.
    pub fn explain(&self, operation: Operation, provider: Provider, credentials: &Credentials) -> String {
        let code = match &*self.code {
            "" => String::new(),
            code => format!(" {code}"),
        };
        let meaning = self.meaning(operation, provider, credentials);
        format!("error code: {}{code}: {meaning}", self.status)
    }

    fn meaning(&self, operation: Operation, provider: Provider, credentials: &Credentials) -> String {
        let keys = keys_of(provider);
        let is_anonymous = matches!(credentials, Credentials::Anonymous);
        match self.cause(operation) {
            RefusalCause::Credentials | RefusalCause::Permission if is_anonymous => format!(
                "the bucket is not public, and requests are not signed, because there are no credentials (those of the machine are not used): \
                 name a Secret with the keys {keys} in secretRef"
            ),
            RefusalCause::Credentials => format!(
                "the server does not accept the credentials: check {} of the Secret",
                wrong_key(&self.code, credentials)
            ),
            // It has all permissions.
            RefusalCause::Permission if matches!(credentials, Credentials::AccountKey(_)) => {
                "the server does not accept key accountKey of the Secret, or not the address of this machine: check the key, and the firewall of \
                 the storage account"
                    .to_owned()
            }
            RefusalCause::Permission => format!(
                "the credentials ({}) have no permission to {}",
                used(credentials),
                permission(operation, provider)
            ),
            RefusalCause::NoBucket => "there is no bucket of this name on this server, or the credentials may not know of it: check bucketName, \
                                       endpoint and region"
                .to_owned(),
            RefusalCause::NoObject => {
                "the object is not there any more, or the credentials may not read it; retrying with a new list".to_owned()
            }
            RefusalCause::Region if self.region.is_empty() => {
                "the bucket is in another region, or on another server: correct region and endpoint".to_owned()
            }
            RefusalCause::Region => format!("the bucket is in region {0}: set region: {0}, and the endpoint of that region", self.region),
            RefusalCause::Clock => "the clock of this machine and that of the server differ by more than the server accepts: check the time \
                                    synchronization (NTP) of both"
                .to_owned(),
            RefusalCause::Other => "the server does not accept the request: check provider, endpoint and bucketName".to_owned(),
        }
    }
}

/// The key that is wrong.
fn wrong_key(code: &str, credentials: &Credentials) -> &'static str {
    match (code, credentials) {
        ("InvalidAccessKeyId", _) => "key accesskey",
        ("SignatureDoesNotMatch", Credentials::AccessKey { .. }) => "key secretkey (and region)",
        (_, credentials) => used(credentials),
    }
}

/// The keys that are used.
const fn used(credentials: &Credentials) -> &'static str {
    match credentials {
        Credentials::Anonymous => "none",
        Credentials::AccessKey { .. } => "keys accesskey and secretkey",
        Credentials::ServiceAccount(_) => "key serviceaccount",
        Credentials::AccountKey(_) => "key accountKey",
        Credentials::SharedAccessSignature(_) => "key sasKey, which may have expired",
        Credentials::ServicePrincipal { .. } => {
            "keys tenantId, clientId and clientSecret, which may have expired"
        }
    }
}

/// The permission that is missing.
const fn permission(operation: Operation, provider: Provider) -> &'static str {
    match (provider, operation) {
        (Provider::Generic | Provider::Aws, Operation::Get) => {
            "read the object: allow s3:GetObject on the objects of the bucket"
        }
        (Provider::Generic | Provider::Aws, _) => "list the bucket: allow s3:ListBucket on it",
        (Provider::Gcp, Operation::Get) => "read the object: grant roles/storage.objectViewer on the bucket",
        (Provider::Gcp, _) => "list the bucket: grant roles/storage.objectViewer on it",
        (Provider::Azure, Operation::Get) => {
            "read the blob: assign Storage Blob Data Reader, or a signature with read (r) and list (l)"
        }
        (Provider::Azure, _) => {
            "list the container: assign Storage Blob Data Reader, or a signature with read (r) and list (l)"
        }
    }
}

/// The code in a body of XML.
fn code(body: &str) -> Option<&str> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code =
        !code.is_empty() && code.len() <= MAX_CODE && code.chars().all(|c| c.is_ascii_alphanumeric());
    is_code.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<?xml version=\"1.0\"?><Error><Code>#</Code><Message>geheim</Message><StringToSign>geheim</StringToSign></Error>";

    fn of(status: u16, code: &str) -> Refusal {
        Refusal::new(status, XML.replace('#', code).as_bytes(), "")
    }

    #[test]
    fn a_refusal_has_a_cause_and_says_what_to_do() {
        use RefusalCause::{Clock, Credentials as Wrong, NoBucket, NoObject, Other, Permission, Region};

        let key = Credentials::AccessKey {
            id: "geheim".to_owned(),
            secret: "geheim".to_owned(),
        };
        let (list, get) = (Operation::List, Operation::Get);
        for (status, code, operation, cause, expected) in [
            (403, "AccessDenied", list, Permission, "s3:ListBucket"),
            (403, "AccessDenied", get, Permission, "s3:GetObject"),
            (403, "InvalidAccessKeyId", list, Wrong, "check key accesskey of"),
            (403, "SignatureDoesNotMatch", list, Wrong, "check key secretkey"),
            (403, "RequestTimeTooSkewed", list, Clock, "NTP"),
            (404, "NoSuchBucket", list, NoBucket, "check bucketName"),
            (404, "NoSuchKey", get, NoObject, "not there any more"),
            (404, "", get, NoObject, "error code: 404: the object"),
            (404, "", list, NoBucket, "no bucket of this name"),
            (301, "PermanentRedirect", list, Region, "another region"),
            (
                400,
                "AuthorizationHeaderMalformed",
                list,
                Region,
                "another region",
            ),
            (
                400,
                "InvalidArgument",
                list,
                Other,
                "error code: 400 InvalidArgument",
            ),
            (401, "", Operation::Token, Wrong, "check keys accesskey"),
        ] {
            let refusal = of(status, code);
            let text = refusal.explain(operation, Provider::Aws, &key);
            assert_eq!(refusal.cause(operation), cause, "{text}");
            assert!(
                text.contains(expected) && !text.contains("geheim"),
                "{expected:?} is missing in: {text}"
            );
        }
        let text = of(403, "AccessDenied").explain(list, Provider::Aws, &Credentials::Anonymous);
        assert!(
            text.contains("the keys accesskey and secretkey in secretRef"),
            "{text}"
        );
    }

    #[test]
    fn the_region_is_that_of_the_server_if_it_is_one() {
        let explain = |region| {
            Refusal::new(301, b"", region).explain(Operation::List, Provider::Aws, &Credentials::Anonymous)
        };
        assert!(explain("eu-west-1").contains("set region: eu-west-1"));
        assert!(explain("<geheim>").contains("another region"));
    }

    #[test]
    fn only_codes_are_taken_from_a_response() {
        for body in [
            "<Code>a b</Code>",
            "<Code></Code>",
            "<Code>a",
            &format!("<Code>{}</Code>", "a".repeat(65)),
            "\u{0}",
        ] {
            assert_eq!(Refusal::new(400, body.as_bytes(), "").code, "");
        }
    }

    #[test]
    fn each_provider_names_its_permission() {
        let (key, signature) = (
            Credentials::AccountKey(String::new()),
            Credentials::SharedAccessSignature(String::new()),
        );
        let account = Credentials::ServiceAccount(String::new());
        for (provider, credentials, expected) in [
            (Provider::Gcp, account, "roles/storage.objectViewer"),
            (Provider::Azure, signature, "Storage Blob Data Reader"),
            (Provider::Azure, key, "check the key, and the firewall"),
        ] {
            for operation in [Operation::List, Operation::Get] {
                let text = of(403, "AuthorizationFailure").explain(operation, provider, &credentials);
                assert!(text.contains(expected), "{text}");
            }
        }
    }
}
