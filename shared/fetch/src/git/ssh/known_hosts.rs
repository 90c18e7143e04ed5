//! The host keys of SSH servers, in the format of OpenSSH: `known_hosts`.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;
use thiserror::Error;

/// What a hashed name begins with.
const HASHED: &str = "|1|";
/// The port that is left out.
const SSH_PORT: u16 = 22;
/// The largest number of lines: each is compared with a host.
const MAX_LINES: usize = 10_000;

/// Why a server is not trusted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HostKeyError {
    /// It is not in the list.
    #[error(
        "key known_hosts of the Secret has no key of this host, so it may be any server; compare the output of \
         `ssh-keyscan -p {port} HOST` with the keys that your Git server publishes, and add it"
    )]
    Unknown {
        /// Its port.
        port: u16,
    },
    /// It has another key.
    #[error(
        "the server has another host key than key known_hosts of the Secret has for it (REMOTE HOST IDENTIFICATION HAS CHANGED): this may be \
         another server; if its key was replaced, add the new one"
    )]
    Changed,
    /// Its key was revoked.
    #[error("the host key of the server is revoked in key known_hosts of the Secret")]
    Revoked,
}

/// A line of the list.
struct Line<'a> {
    is_revoked: bool,
    hosts: &'a str,
    kind: &'a str,
    key: Vec<u8>,
}

/// Whether a server with this key is the host, according to a list.
///
/// # Errors
/// If it is not.
pub fn check(list: &str, host: &str, port: u16, key: &[u8]) -> Result<(), HostKeyError> {
    let name = name(host, port);
    let own: Vec<_> = lines(list).filter(|line| is_for(line.hosts, &name)).collect();
    let has = |is_revoked: bool| {
        let mut lines = own.iter().filter(|line| line.is_revoked == is_revoked);
        lines.any(|line| line.key == key)
    };
    if has(true) {
        Err(HostKeyError::Revoked)
    } else if has(false) {
        Ok(())
    } else if own.is_empty() {
        Err(HostKeyError::Unknown { port })
    } else {
        Err(HostKeyError::Changed)
    }
}

/// The kinds of keys that a list has for a host. The server has to prove one of these, and may have others besides.
pub fn kinds<'l>(list: &'l str, host: &str, port: u16) -> Vec<&'l str> {
    let name = name(host, port);
    let own = lines(list).filter(|line| !line.is_revoked && is_for(line.hosts, &name));
    own.map(|line| line.kind).collect()
}

fn name(host: &str, port: u16) -> String {
    let host = host.to_ascii_lowercase();
    if port == SSH_PORT {
        host
    } else {
        format!("[{host}]:{port}")
    }
}

fn lines(list: &str) -> impl Iterator<Item = Line<'_>> {
    list.lines().take(MAX_LINES).filter_map(|line| {
        let mut words = line.split_whitespace();
        let first = words.next().filter(|first| !first.starts_with('#'))?;
        let (is_revoked, hosts) = match first {
            // Certificates of hosts are not supported.
            "@cert-authority" => return None,
            "@revoked" => (true, words.next()?),
            hosts => (false, hosts),
        };
        let kind = words.next()?;
        let key = STANDARD.decode(words.next()?).ok()?;
        Some(Line {
            is_revoked,
            hosts,
            kind,
            key,
        })
    })
}

/// Whether a list of patterns is for a name.
fn is_for(hosts: &str, name: &str) -> bool {
    if let Some(hashed) = hosts.strip_prefix(HASHED) {
        return is_hash_of(hashed, name).unwrap_or(false);
    }
    let mut is_for = false;
    for pattern in hosts.split(',') {
        match pattern.strip_prefix('!') {
            Some(excluded) if matches(excluded, name) => return false,
            Some(_) => {}
            None => is_for |= matches(pattern, name),
        }
    }
    is_for
}

/// Whether `salt|hash` is that of a name.
fn is_hash_of(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let (salt, hash) = (STANDARD.decode(salt).ok()?, STANDARD.decode(hash).ok()?);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    Some(hmac::verify(&key, name.as_bytes(), &hash).is_ok())
}

/// Whether a pattern with `*` and `?` matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_lowercase().into_bytes(), name.as_bytes());
    let (mut at, mut of_pattern) = (0, 0);
    let mut star = None;
    while at < name.len() || of_pattern < pattern.len() {
        match (pattern.get(of_pattern), name.get(at)) {
            (Some(b'*'), _) => {
                star = Some((of_pattern, at));
                of_pattern += 1;
            }
            (Some(own), Some(byte)) if own == byte || *own == b'?' => {
                of_pattern += 1;
                at += 1;
            }
            _ => match star {
                Some((after, start)) if start < name.len() => {
                    star = Some((after, start + 1));
                    (of_pattern, at) = (after + 1, start + 1);
                }
                _ => return false,
            },
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str = "ssh-ed25519";

    fn line(hosts: &str, key: &str) -> String {
        format!("{hosts} {ED} {} comment\n", STANDARD.encode(key))
    }

    #[test]
    fn a_host_is_known_by_its_key() {
        let list = [
            "# comment\n\nbroken\nh.example.com ssh-ed25519 not-base64!\n".to_owned(),
            line("h.example.com,10.0.0.1", "one"),
            line("[h.example.com]:2222", "two"),
            line("*.wild.example.com,!no.wild.example.com", "three"),
            line("@revoked *", "four"),
            line("@cert-authority h.example.com", "five"),
        ]
        .concat();
        let unknown = |port| Err(HostKeyError::Unknown { port });
        for (host, port, key, expected) in [
            ("h.example.com", 22, "one", Ok(())),
            ("H.Example.com", 22, "one", Ok(())),
            ("10.0.0.1", 22, "one", Ok(())),
            ("h.example.com", 2222, "two", Ok(())),
            ("a.wild.example.com", 22, "three", Ok(())),
            ("h.example.com", 22, "two", Err(HostKeyError::Changed)),
            ("h.example.com", 22, "five", Err(HostKeyError::Changed)),
            ("h.example.com", 22, "four", Err(HostKeyError::Revoked)),
        ] {
            assert_eq!(check(&list, host, port, key.as_bytes()), expected, "{host} {key}");
        }
        let list = line("h.example.com", "one");
        assert_eq!(check(&list, "other", 22, b"one"), unknown(22));
        assert_eq!(check(&list, "h.example.com", 2222, b"one"), unknown(2222));
        let list = line("*.wild.example.com,!no.wild.example.com", "three");
        assert_eq!(check(&list, "no.wild.example.com", 22, b"three"), unknown(22));
        assert_eq!(kinds(&list, "a.wild.example.com", 22), [ED]);
        assert!(kinds(&list, "other", 22).is_empty());
    }

    /// As `ssh-keygen -H` writes it.
    #[test]
    fn a_hashed_name_is_compared() {
        let salt = [7; 20];
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
        let hash = hmac::sign(&key, b"[h]:2222");
        let name = format!(
            "{HASHED}{}|{}",
            STANDARD.encode(salt),
            STANDARD.encode(hash.as_ref())
        );
        let list = line(&name, "one");
        assert_eq!(check(&list, "h", 2222, b"one"), Ok(()));
        assert_eq!(
            check(&list, "h", 22, b"one"),
            Err(HostKeyError::Unknown { port: 22 })
        );
    }
}
