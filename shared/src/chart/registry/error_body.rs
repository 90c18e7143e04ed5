//! What a registry says when it refuses: `{"errors":[{"code":"NAME_UNKNOWN","message":"…"}]}`.

use std::fmt;

use serde_json::Value;

use crate::text::cut;

/// The longest body that is read, in bytes. A longer one is not worth the reading.
pub const MAX_LEN: usize = 64 * 1024;

/// How much of the registry's own words fits into a message, in bytes.
const MAX_TOLD: usize = 256;

/// An error as a registry tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryError {
    /// What it is.
    pub code: RegistryCode,
    /// The registry's own words, in one line and cut to what fits into a message. May be empty.
    pub message: String,
}

/// The codes of the distribution specification that make a difference here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryCode {
    /// The registry has no such repository. Some say the same where the credentials do not suffice.
    NameUnknown,
    /// No repository can have such a name.
    NameInvalid,
    /// The repository has no such tag or digest.
    ManifestUnknown,
    /// The credentials do not suffice.
    Denied,
    /// There are no credentials, or wrong ones.
    Unauthorized,
    /// Too many requests.
    TooManyRequests,
    /// The registry cannot do what was asked.
    Unsupported,
    /// Any other code, cut to what fits into a message; empty where the body has none.
    Other(String),
}

impl RegistryCode {
    /// Reads a code. Capitals and underscores make no difference: some registries differ in them.
    pub fn of(code: &str) -> Self {
        let bare: String = code.chars().filter(|c| *c != '_').take(MAX_TOLD).collect();
        match bare.to_ascii_uppercase().as_str() {
            "NAMEUNKNOWN" => Self::NameUnknown,
            "NAMEINVALID" => Self::NameInvalid,
            "MANIFESTUNKNOWN" => Self::ManifestUnknown,
            "DENIED" => Self::Denied,
            "UNAUTHORIZED" => Self::Unauthorized,
            "TOOMANYREQUESTS" => Self::TooManyRequests,
            "UNSUPPORTED" => Self::Unsupported,
            _ => Self::Other(one_line(code)),
        }
    }

    /// The code as the specification spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::NameUnknown => "NAME_UNKNOWN",
            Self::NameInvalid => "NAME_INVALID",
            Self::ManifestUnknown => "MANIFEST_UNKNOWN",
            Self::Denied => "DENIED",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::TooManyRequests => "TOOMANYREQUESTS",
            Self::Unsupported => "UNSUPPORTED",
            Self::Other(code) => code,
        }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code.as_str(), self.message.as_str()) {
            ("", message) => f.write_str(message),
            (code, "") => f.write_str(code),
            (code, message) => write!(f, "{code}: {message}"),
        }
    }
}

/// Reads the body of a failure; `None` where it says nothing that can be understood.
///
/// Of several errors the first one counts. Token servers and proxies have forms of their own: `error` with
/// `error_description`, `message`, `details`.
pub fn decode(body: &[u8]) -> Option<RegistryError> {
    if body.len() > MAX_LEN {
        return None;
    }
    let Ok(Value::Object(body)) = serde_json::from_slice(body) else {
        return None;
    };
    let text = |of: &serde_json::Map<String, Value>, fields: &[&str]| {
        let found = fields.iter().find_map(|field| of.get(*field)?.as_str());
        one_line(found.unwrap_or_default())
    };
    let first = body.get("errors").and_then(|errors| errors.get(0)?.as_object());
    let (code, message) = match first {
        Some(error) => (text(error, &["code"]), text(error, &["message", "detail"])),
        None => (
            text(&body, &["error", "code"]),
            text(&body, &["error_description", "message", "details", "errors"]),
        ),
    };
    if code.is_empty() && message.is_empty() {
        return None;
    }
    Some(RegistryError {
        code: RegistryCode::of(&code),
        message,
    })
}

/// A text without line breaks, cut to what fits into a message.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    cut(words.join(" "), MAX_TOLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str) -> Option<String> {
        decode(body.as_bytes()).map(|error| error.to_string())
    }

    #[test]
    fn codes() {
        use RegistryCode::{
            Denied, ManifestUnknown, NameInvalid, NameUnknown, Other, TooManyRequests, Unauthorized,
            Unsupported,
        };
        for (code, expected) in [
            ("NAME_UNKNOWN", NameUnknown),
            ("NAME_INVALID", NameInvalid),
            ("MANIFEST_UNKNOWN", ManifestUnknown),
            ("DENIED", Denied),
            ("UNAUTHORIZED", Unauthorized),
            ("TOOMANYREQUESTS", TooManyRequests),
            ("TOO_MANY_REQUESTS", TooManyRequests),
            ("UNSUPPORTED", Unsupported),
            ("unauthorized", Unauthorized),
            ("NOT_FOUND", Other("NOT_FOUND".to_owned())),
            ("", Other(String::new())),
        ] {
            assert_eq!(RegistryCode::of(code), expected, "{code}");
            let body = format!(r#"{{"errors":[{{"code":"{code}","message":"m","detail":{{"a":[1]}}}}]}}"#);
            assert_eq!(decode(body.as_bytes()).unwrap().code, expected);
        }
    }

    #[test]
    fn words() {
        for (body, expected) in [
            (
                r#"{"errors":[{"code":"NAME_UNKNOWN","message":"repository name not known to registry"}]}"#,
                Some("NAME_UNKNOWN: repository name not known to registry"),
            ),
            (
                r#"{"errors":[{"code":"DENIED","message":"no\n\taccess "},{"code":"UNKNOWN"}]}"#,
                Some("DENIED: no access"),
            ),
            (
                r#"{"errors":[{"code":"DENIED","detail":"why"}]}"#,
                Some("DENIED: why"),
            ),
            (r#"{"errors":[{"code":"DENIED"}]}"#, Some("DENIED")),
            (r#"{"errors":[{"message":"m"}]}"#, Some("m")),
            // Token servers and proxies.
            (
                r#"{"details":"incorrect username or password"}"#,
                Some("incorrect username or password"),
            ),
            (
                r#"{"error":"invalid_grant","error_description":"expired"}"#,
                Some("invalid_grant: expired"),
            ),
            (r#"{"message":"not found"}"#, Some("not found")),
            (r#"{"errors":"broken"}"#, Some("broken")),
            // Nothing.
            (r#"{"errors":[]}"#, None),
            (r#"{"errors":[{}]}"#, None),
            (r#"{"errors":[1]}"#, None),
            ("{}", None),
            ("[]", None),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(told(body).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn hostile_bodies_are_bounded() {
        let long = "ä".repeat(1000);
        let body = format!(r#"{{"errors":[{{"code":"{long}","message":"{long}"}}]}}"#);
        assert!(told(&body).unwrap().len() <= 2 * MAX_TOLD + 2);
        assert_eq!(decode(&vec![b'['; MAX_LEN]), None);
        assert_eq!(decode(&vec![b' '; MAX_LEN + 1]), None);
    }
}
