//! The names that Kubernetes and Helm allow.
//!
//! Each check returns what is wrong, for a message that starts with the offending text.

use helmops_api::limits;

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
    if name.len() > limits::LABEL {
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

/// Objects of any kind: what fits into the path of a request. Roles have names such as `system:node`.
pub fn path_segment(name: &str) -> Result<(), &'static str> {
    if name.len() > limits::NAME {
        return Err("longer than 253 characters");
    }
    if matches!(name, "." | "..") || name.contains(['/', '%']) {
        return Err("not a name of an object: it is neither . nor .., and has no '/' and no '%'");
    }
    Ok(())
}

/// Helm's release names: a DNS subdomain of at most 53 characters.
pub fn release(name: &str) -> Result<(), &'static str> {
    if name.len() > limits::RELEASE_NAME {
        return Err("longer than 53 characters, which Helm does not accept");
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
    if name.len() > limits::LABEL {
        return Err("the name is longer than 63 characters");
    }
    if is_qualified(name) {
        Ok(())
    } else {
        Err(
            "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, and at most one '/'",
        )
    }
}

/// Values of labels.
pub fn label_value(value: &str) -> Result<(), &'static str> {
    if value.len() > limits::LABEL {
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
    fn dns_subdomains_are_valid() {
        for valid in ["a", "a-b", "a.b", "1", &"a".repeat(253)] {
            assert_eq!(subdomain(valid), Ok(()), "{valid}");
        }
        for invalid in [
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
            assert!(subdomain(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn namespaces_are_dns_labels() {
        assert_eq!(namespace("kube-system"), Ok(()));
        for invalid in ["a.b", "-", "", "A", &"a".repeat(64)] {
            assert!(namespace(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn release_names_have_at_most_53_characters() {
        assert_eq!(release(&"a".repeat(53)), Ok(()));
        assert!(release(&"a".repeat(54)).is_err());
    }

    #[test]
    fn label_keys_and_values_follow_the_kubernetes_rules() {
        for valid in ["a", "A_b.c-9", "example.com/Name", &"a".repeat(63)] {
            assert_eq!(label_key(valid), Ok(()), "{valid}");
        }
        for invalid in [
            "",
            "/a",
            "a/",
            "a/b/c",
            "Example.com/a",
            "-a",
            "a b",
            &"a".repeat(64),
        ] {
            assert!(label_key(invalid).is_err(), "{invalid}");
        }
        for valid in ["", "a", "A_b.c-9"] {
            assert_eq!(label_value(valid), Ok(()), "{valid}");
        }
        for invalid in ["-a", "a-", "a/b", "a b", &"a".repeat(64)] {
            assert!(label_value(invalid).is_err(), "{invalid}");
        }
    }
}
