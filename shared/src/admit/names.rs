//! The names that Kubernetes and Helm allow.
//!
//! Each check gives what is wrong, to stand behind the offending text, or nothing.

use crate::api::limits;

/// Longest DNS label, label value and name part of a label key.
pub const MAX_LABEL: usize = 63;

/// Most object names: a DNS subdomain (RFC 1123).
pub fn subdomain(name: &str) -> Result<(), &'static str> {
    if name.len() > limits::NAME {
        return Err("longer than 253 characters");
    }
    if name.split('.').all(is_label) {
        Ok(())
    } else {
        Err(
            "not a DNS name: lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit",
        )
    }
}

/// Namespaces: a DNS label (RFC 1123).
pub fn namespace(name: &str) -> Result<(), &'static str> {
    if name.len() > MAX_LABEL {
        return Err("longer than 63 characters");
    }
    if is_label(name) {
        Ok(())
    } else {
        Err(
            "not a DNS label: lower-case letters, digits and '-', beginning and ending with a letter or digit",
        )
    }
}

/// Helm's release names: a DNS subdomain of 53 characters at the most.
pub fn release(name: &str) -> Result<(), &'static str> {
    if name.len() > limits::RELEASE_NAME {
        return Err("longer than 53 characters, which Helm does not take");
    }
    subdomain(name)
}

/// Keys of labels and annotations: a name of 63 characters, after an optional DNS prefix and a slash.
pub fn label_key(key: &str) -> Result<(), &'static str> {
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) => {
            if subdomain(prefix).is_err() {
                return Err("the part before '/' is not a DNS name such as example.com");
            }
            name
        }
    };
    if name.is_empty() {
        return Err("the name is empty");
    }
    if name.len() > MAX_LABEL {
        return Err("the name is longer than 63 characters");
    }
    if is_qualified(name) {
        Ok(())
    } else {
        Err(
            "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, and one '/' at the most",
        )
    }
}

/// Values of labels.
pub fn label_value(value: &str) -> Result<(), &'static str> {
    if value.len() > MAX_LABEL {
        return Err("longer than 63 characters");
    }
    if value.is_empty() || is_qualified(value) {
        Ok(())
    } else {
        Err(
            "not a label value: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
        )
    }
}

fn is_label(text: &str) -> bool {
    let ends = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    is_made_of(text, ends, |c| ends(c) || c == b'-')
}

fn is_qualified(text: &str) -> bool {
    is_made_of(
        text,
        |c| c.is_ascii_alphanumeric(),
        |c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'),
    )
}

fn is_made_of(text: &str, ends: impl Fn(u8) -> bool, all: impl Fn(u8) -> bool) -> bool {
    match (text.bytes().next(), text.bytes().next_back()) {
        (Some(first), Some(last)) => ends(first) && ends(last) && text.bytes().all(all),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains() {
        for good in ["a", "a-b", "a.b", "1", &"a".repeat(253)] {
            assert_eq!(subdomain(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "A",
            "a_b",
            "-a",
            "a-",
            "a..b",
            ".a",
            "a.",
            "ä",
            "a b",
            &"a".repeat(254),
        ] {
            assert!(subdomain(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn namespaces_have_no_dots() {
        assert_eq!(namespace("kube-system"), Ok(()));
        for bad in ["a.b", "-", "", "A", &"a".repeat(64)] {
            assert!(namespace(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn releases_are_short() {
        assert_eq!(release(&"a".repeat(53)), Ok(()));
        assert!(release(&"a".repeat(54)).is_err());
    }

    #[test]
    fn labels() {
        for good in ["a", "A_b.c-9", "example.com/Name", &"a".repeat(63)] {
            assert_eq!(label_key(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/a",
            "a/",
            "a/b/c",
            "Example.com/a",
            "-a",
            "a b",
            &"a".repeat(64),
        ] {
            assert!(label_key(bad).is_err(), "{bad}");
        }
        for good in ["", "a", "A_b.c-9"] {
            assert_eq!(label_value(good), Ok(()), "{good}");
        }
        for bad in ["-a", "a-", "a/b", "a b", &"a".repeat(64)] {
            assert!(label_value(bad).is_err(), "{bad}");
        }
    }
}
