//! Logins, and why one does not work. Nothing here shows a part of a login.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_model::reason::Reason;
use reqwest::header::HeaderValue;
use thiserror::Error;

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// User name; empty for some tokens.
    pub username: String,
    /// Password or token.
    pub password: String,
}

/// Passwords stay out of logs.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

impl Login {
    /// The value of an `Authorization` header, RFC 7617.
    pub fn basic(&self) -> HeaderValue {
        let text = STANDARD.encode(format!("{}:{}", self.username, self.password));
        // Base64 is always a valid value.
        let mut value =
            HeaderValue::from_str(&format!("Basic {text}")).unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    /// What is unusual about it. A server may still accept it.
    pub fn blemish(&self) -> Option<Blemish> {
        let Self { username, password } = self;
        if username.is_empty() && password.is_empty() {
            return Some(Blemish::Empty("user name and password are"));
        }
        if password.is_empty() {
            return Some(Blemish::Empty("the password is"));
        }
        let blemish = |what, text: &str| {
            let (first, last) = (text.chars().next()?, text.chars().next_back()?);
            let found = [
                ("ends with", last.is_whitespace().then_some(last)),
                ("begins with", first.is_whitespace().then_some(first)),
                ("contains", text.chars().find(|c| c.is_control())),
            ];
            let mut found = found.into_iter();
            found.find_map(|(position, character)| {
                Some(Blemish::Character {
                    what,
                    position,
                    name: name(character?),
                })
            })
        };
        let colon = username.contains(':').then_some(Blemish::Colon);
        let of_password = || blemish("the password", password);
        of_password()
            .or_else(|| blemish("the user name", username))
            .or(colon)
    }
}

/// A character for a message.
fn name(character: char) -> &'static str {
    match character {
        '\n' | '\r' => "a line break",
        '\t' => "a tab",
        ' ' => "a space",
        _ if character.is_control() => "a control character",
        _ => "white space",
    }
}

/// What is unusual about a login.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Blemish {
    /// A part of it is empty.
    #[error("{0} empty")]
    Empty(&'static str),
    /// A character that texts of files have, and logins hardly ever.
    #[error("{what} {position} {name}")]
    Character {
        /// The user name or the password.
        what: &'static str,
        /// Where it has the character.
        position: &'static str,
        /// The character.
        name: &'static str,
    },
    /// The user name has a colon, which ends it for the server.
    #[error("the user name contains a colon, which no server takes for a part of it")]
    Colon,
}

/// Why a server refuses a request, as far as the configured login shows it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LoginProblem {
    /// There is no Secret.
    #[error(
        "no login was sent, because spec.helmSecretName is empty: put it into a Secret in the namespace of the HelmOp, with keys \
         username and password, and name the Secret there; or check spec.helm.repo, since some servers respond so to what does not exist"
    )]
    NoSecret,
    /// The Secret has no login at all.
    #[error("no login was sent, because Secret {secret} has none: set its keys username and password")]
    NoLogin {
        /// Name of the Secret.
        secret: String,
    },
    /// The token is refused.
    #[error(
        "the server refuses the token in key bearerToken of Secret {secret}: check that it has not ended, and may read the repository"
    )]
    Token {
        /// Name of the Secret.
        secret: String,
    },
    /// The login is for other hosts.
    #[error(
        "the server requires credentials, but those in Secret {secret} are for {hosts} and are not sent anywhere else; create a \
         separate HelmOp, or use a Secret of type kubernetes.io/dockerconfigjson with a login for each host"
    )]
    OtherHost {
        /// Name of the Secret.
        secret: String,
        /// The hosts that it is for.
        hosts: String,
    },
    /// The login is sent over HTTPS only.
    #[error(
        "the server requires credentials, but those in Secret {secret} are for HTTPS and are not sent unencrypted; start the URL \
         with https://, or set key basicHTTP of the Secret to true"
    )]
    NeedsHttps {
        /// Name of the Secret.
        secret: String,
    },
    /// The Docker configuration names the host, but has no login for it.
    #[error(
        "no login was sent: .dockerconfigjson in Secret {secret} {}: {entry}; create the Secret with `kubectl create secret \
         docker-registry`, and a user name and a password or token of the registry", named(.host)
    )]
    Entry {
        /// Name of the Secret.
        secret: String,
        /// The entry, as written; empty if the configuration has none for the host.
        host: String,
        /// What it has in place of a login.
        entry: EntryWithoutLogin,
    },
    /// The login was sent, and looks damaged.
    #[error(
        "the server refuses the login in {place}, and {blemish}; check whether that is intended, and create the Secret again \
         without it if not, such as with `kubectl create secret generic --from-literal`"
    )]
    Suspicious {
        /// Where the login is.
        place: String,
        /// What is unusual about it.
        blemish: Blemish,
    },
}

impl LoginProblem {
    /// The reason, unless it is that of the response.
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::OtherHost { .. } | Self::NeedsHttps { .. } => Some(Reason::CredentialsNotForHost),
            Self::NoSecret
            | Self::NoLogin { .. }
            | Self::Token { .. }
            | Self::Entry { .. }
            | Self::Suspicious { .. } => None,
        }
    }
}

fn named(host: &str) -> String {
    if host.is_empty() {
        "has no login for this host".to_owned()
    } else {
        format!("has no login in its entry {host:?}")
    }
}

/// What an entry of a Docker configuration has in place of a login.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EntryWithoutLogin {
    /// The entry is empty.
    #[error("it is empty")]
    Empty,
    /// The login is kept by a program on the machine of the user.
    #[error("it leaves the login to a credential helper{}, a program that exists on the machine of a user only", quoted(.0))]
    Helper(String),
    /// A token that is exchanged for others.
    #[error("it has an identity token only, such as `az acr login` writes it, which is not supported")]
    IdentityToken,
    /// A token of a registry.
    #[error("it has a registry token only, which is not supported")]
    RegistryToken,
}

/// The name of a program, if it is one and no text that may be confidential.
fn quoted(name: &str) -> String {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.is_empty() && name.len() <= 40 && name.bytes().all(is_name) {
        format!(" ({name:?})")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unusual_about_a_login_is_named_and_not_shown() {
        for (username, password, expected) in [
            ("robot", "geheim", None),
            // Tokens may have no user name, and passwords may have colons and blanks.
            ("", "geheim", None),
            ("robot", "ge:he im", None),
            ("robot$ci", "gehéim", None),
            ("robot", "geheim\n", Some("the password ends with a line break")),
            ("robot", "geheim\r\n", Some("the password ends with a line break")),
            ("robot", " geheim", Some("the password begins with a space")),
            ("robot", "geheim\t", Some("the password ends with a tab")),
            (
                "robot",
                "geheim\u{a0}",
                Some("the password ends with white space"),
            ),
            ("robot", "ge\nheim", Some("the password contains a line break")),
            (
                "robot",
                "ge\0heim",
                Some("the password contains a control character"),
            ),
            ("robot\n", "geheim", Some("the user name ends with a line break")),
            (
                "robot:ci",
                "geheim",
                Some("the user name contains a colon, which no server takes for a part of it"),
            ),
            ("robot", "", Some("the password is empty")),
            ("", "", Some("user name and password are empty")),
        ] {
            let login = Login {
                username: username.to_owned(),
                password: password.to_owned(),
            };
            let found = login.blemish().map(|blemish| blemish.to_string());
            assert_eq!(found.as_deref(), expected, "{username:?} {password:?}");
        }
    }

    #[test]
    fn only_names_of_helpers_are_shown() {
        let text = |name: &str| EntryWithoutLogin::Helper(name.to_owned()).to_string();
        assert!(text("ecr-login").contains("credential helper (\"ecr-login\"),"));
        for name in ["", "two words", &"x".repeat(41)] {
            assert!(text(name).contains("credential helper, a program"), "{name}");
        }
    }

    #[test]
    fn a_login_stays_out_of_logs() {
        let login = Login {
            username: "robot".to_owned(),
            password: "geheim".to_owned(),
        };
        assert!(login.basic().is_sensitive());
        assert_eq!(format!("{login:?}"), "Login(…)");
    }
}
