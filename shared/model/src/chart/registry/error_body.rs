//! The body of a registry's error response: `{"errors":[{"code":"NAME_UNKNOWN","message":"…"}]}`.

use std::fmt;

use bounded_text::cut;
use serde_json::Value;

/// The longest body that is parsed, in bytes.
pub const MAX_LEN: usize = 64 * 1024;

/// How much of the registry's text is quoted in a message, in bytes.
const MAX_QUOTED: usize = 256;

/// An error that a registry reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryError {
    /// The error code.
    pub code: RegistryCode,
    /// The registry's message, in one line and truncated. May be empty.
    pub message: String,
}

/// The codes of the distribution specification that make a difference here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryCode {
    /// The registry has no such repository. Some registries report the same for insufficient credentials.
    NameUnknown,
    /// The name of the repository is invalid.
    NameInvalid,
    /// The repository has no such tag or digest.
    ManifestUnknown,
    /// The credentials are insufficient.
    Denied,
    /// Credentials are missing or wrong.
    Unauthorized,
    /// Too many requests.
    TooManyRequests,
    /// The registry does not support the operation.
    Unsupported,
    /// Any other code, truncated; empty if the body has none.
    Other(String),
}

impl RegistryCode {
    /// Parses a code. Case and underscores are ignored: registries differ in them.
    pub fn of(code: &str) -> Self {
        let bare: String = code.chars().filter(|c| *c != '_').take(MAX_QUOTED).collect();
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

/// Parses the body of an error response; `None` if it contains no known error format.
///
/// Of several errors the first one is used. Token servers and proxies have other formats: `error` with `error_description`,
/// `message`, `details`.
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

/// A text without line breaks, truncated for messages.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    cut(words.join(" "), MAX_QUOTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> Option<String> {
        decode(body.as_bytes()).map(|error| error.to_string())
    }

    #[test]
    fn codes_are_recognised_in_any_notation() {
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
    fn messages_are_taken_from_all_known_formats() {
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
            assert_eq!(message(body).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn hostile_bodies_are_bounded() {
        let long = "ä".repeat(1000);
        let body = format!(r#"{{"errors":[{{"code":"{long}","message":"{long}"}}]}}"#);
        assert!(message(&body).unwrap().len() <= 2 * MAX_QUOTED + 2);
        assert_eq!(decode(&vec![b'['; MAX_LEN]), None);
        assert_eq!(decode(&vec![b' '; MAX_LEN + 1]), None);
    }
}
