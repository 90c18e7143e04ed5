//! Where a repository is: a URL, or an address as `git clone` takes it.

use thiserror::Error;
use url::Url;

/// What the URL of a Git repository begins with in records, Bundles and messages, so that it is no Helm repository.
pub const GIT_PREFIX: &str = "git+";
/// The user of repositories on Git servers.
const GIT_USER: &str = "git";
/// The port of SSH.
const SSH_PORT: u16 = 22;

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Over HTTP: the URL, with its credentials, if it has any.
    Http(Url),
    /// Over SSH.
    Ssh(SshLocation),
}

/// A repository over SSH.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SshLocation {
    /// The user.
    pub user: String,
    /// The host, IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path on the server.
    pub path: String,
}

/// Why a text names no repository. It quotes nothing: the text may contain credentials.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LocationError {
    /// Neither a URL nor an address.
    #[error(
        "is not the URL of a Git repository; write it as https://git.example.com/group/name.git, ssh://git@git.example.com/group/name.git or git@git.example.com:group/name.git"
    )]
    Malformed,
    /// Another scheme.
    #[error("has a scheme that is not used for charts; use https:// or ssh://")]
    Scheme,
    /// No path.
    #[error("names no repository on the host; add its path, such as /group/name.git")]
    NoPath,
    /// A query or a fragment.
    #[error(
        "has a query or a fragment, which no Git server takes; remove what follows ? or #, and name branches and tags in ref"
    )]
    Query,
    /// A control character.
    #[error("contains a control character or white space; remove it")]
    Control,
    /// A path or a user that a shell or ssh could take for something else.
    #[error(
        "has a user or a path that begins with a hyphen, or a character that no repository needs (quotes, backslash, %, ?, #); use the address that your Git server shows"
    )]
    Unsafe,
    /// A password for SSH.
    #[error(
        "has a password, which is not used with ssh; put the private key into key identity of the Secret"
    )]
    Password,
}

impl Location {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(LocationError::Control);
        }
        let Some((scheme, _)) = text.split_once("://") else {
            return scp(text).map(Self::Ssh);
        };
        let url = Url::parse(text).map_err(|_| LocationError::Malformed)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(LocationError::Query);
        }
        match scheme.to_ascii_lowercase().as_str() {
            "https" | "http" if url.path().trim_matches('/').is_empty() => Err(LocationError::NoPath),
            "https" | "http" => Ok(Self::Http(url)),
            "ssh" | "git+ssh" | "ssh+git" => ssh(&url).map(Self::Ssh),
            _ => Err(LocationError::Scheme),
        }
    }

    /// Identifies the repository in records and messages: a URL with `git+` before its scheme, without credentials. Over SSH it has the user, if
    /// that is another one than `git`, since it decides where a path leads.
    #[must_use]
    pub fn identity(&self) -> String {
        match self {
            Self::Http(url) => {
                let path = url.path().trim_end_matches('/');
                let host = url.host_str().unwrap_or_default();
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                format!("{GIT_PREFIX}{}://{host}{port}{path}", url.scheme())
            }
            Self::Ssh(SshLocation {
                user,
                host,
                port,
                path,
            }) => {
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host.clone()
                };
                let port = match *port {
                    SSH_PORT => String::new(),
                    port => format!(":{port}"),
                };
                // Git servers have one user, and both forms of a path lead to the same repository.
                let (user, home) = match (&**user, path.starts_with('/')) {
                    (GIT_USER, _) => (String::new(), ""),
                    (user, true) => (format!("{user}@"), ""),
                    (user, false) => (format!("{user}@"), "~/"),
                };
                format!(
                    "{GIT_PREFIX}ssh://{user}{host}{port}/{home}{}",
                    path.trim_matches('/')
                )
            }
        }
    }

    /// The URL for requests over HTTP: `service` is what follows the path of the repository.
    #[must_use]
    pub fn service_url(repository: &Url, service: &str) -> Url {
        let mut url = repository.clone();
        let (path, query) = service
            .split_once('?')
            .map_or((service, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}/{path}", repository.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }
}

fn ssh(url: &Url) -> Result<SshLocation, LocationError> {
    if url.password().is_some() {
        return Err(LocationError::Password);
    }
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    checked(SshLocation {
        user: url.username().to_owned(),
        host: host.to_owned(),
        port: url.port().unwrap_or(SSH_PORT),
        path: url.path().to_owned(),
    })
}

/// `user@host:path`, as scp takes it. The path is relative to the home of the user.
fn scp(text: &str) -> Result<SshLocation, LocationError> {
    let (user, rest) = text.split_once('@').ok_or(LocationError::Malformed)?;
    let (host, path) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => rest.split_once(':'),
    }
    .ok_or(LocationError::Malformed)?;
    if user.contains(['/', ':']) {
        return Err(LocationError::Malformed);
    }
    checked(SshLocation {
        user: user.to_owned(),
        host: host.to_owned(),
        port: SSH_PORT,
        path: path.to_owned(),
    })
}

fn checked(location: SshLocation) -> Result<SshLocation, LocationError> {
    let SshLocation { user, host, path, .. } = &location;
    let is_unsafe =
        |text: &str| text.starts_with('-') || text.contains(['\'', '"', '\\', '`', '%', '?', '#']);
    let is_host = |c: char| c.is_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || host.starts_with('-') || !host.chars().all(is_host) {
        Err(LocationError::Malformed)
    } else if path.trim_matches('/').is_empty() {
        Err(LocationError::NoPath)
    } else if user.is_empty() {
        Err(LocationError::Malformed)
    } else if is_unsafe(user) || is_unsafe(path) {
        Err(LocationError::Unsafe)
    } else {
        Ok(location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_addresses_name_a_repository() {
        let ssh = |user: &str, host: &str, port, path: &str| {
            Ok(Location::Ssh(SshLocation {
                user: user.to_owned(),
                host: host.to_owned(),
                port,
                path: path.to_owned(),
            }))
        };
        let http = |text: &str| Ok(Location::Http(Url::parse(text).unwrap()));
        for (text, expected) in [
            ("https://h/g/n.git", http("https://h/g/n.git")),
            ("http://u:p@h:8080/n", http("http://u:p@h:8080/n")),
            ("ssh://git@h/g/n.git", ssh("git", "h", 22, "/g/n.git")),
            ("ssh://git@h:2222/g/n.git", ssh("git", "h", 2222, "/g/n.git")),
            ("ssh://git@[::1]:2222/n", ssh("git", "::1", 2222, "/n")),
            ("git@h:g/n.git", ssh("git", "h", 22, "g/n.git")),
            ("git@[::1]:n", ssh("git", "::1", 22, "n")),
            ("h/g/n.git", Err(LocationError::Malformed)),
            ("ssh://h/n", Err(LocationError::Malformed)),
            ("git@:n", Err(LocationError::Malformed)),
            ("git@-oProxyCommand=x:n", Err(LocationError::Malformed)),
            ("git@h:", Err(LocationError::NoPath)),
            ("git@h:-x", Err(LocationError::Unsafe)),
            ("git@h:a'b", Err(LocationError::Unsafe)),
            ("git@h:a?b", Err(LocationError::Unsafe)),
            ("https://h/", Err(LocationError::NoPath)),
            ("https://h/n?ref=main", Err(LocationError::Query)),
            ("https://h/n#main", Err(LocationError::Query)),
            ("file:///etc", Err(LocationError::Scheme)),
            ("git://h/n", Err(LocationError::Scheme)),
            ("ext::sh -c x", Err(LocationError::Control)),
            ("ssh://git:p@h/n", Err(LocationError::Password)),
        ] {
            assert_eq!(Location::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn an_identity_has_no_credentials() {
        for (text, identity) in [
            (
                "https://user:pass@H.example:443/g/n.git/",
                "git+https://h.example/g/n.git",
            ),
            ("http://h:8080/n", "git+http://h:8080/n"),
            ("ssh://git@h:2222/g/n.git", "git+ssh://h:2222/g/n.git"),
            ("ssh://git@[::1]/n", "git+ssh://[::1]/n"),
            ("git@h:g/n.git", "git+ssh://h/g/n.git"),
            ("ssh://eve@h/g/n.git", "git+ssh://eve@h/g/n.git"),
            ("eve@h:g/n.git", "git+ssh://eve@h/~/g/n.git"),
        ] {
            assert_eq!(Location::parse(text).unwrap().identity(), identity, "{text}");
        }
    }

    #[test]
    fn requests_are_below_the_repository() {
        let url = Url::parse("https://h/g/n.git/").unwrap();
        assert_eq!(
            Location::service_url(&url, "info/refs?service=git-upload-pack").as_str(),
            "https://h/g/n.git/info/refs?service=git-upload-pack"
        );
        assert_eq!(
            Location::service_url(&url, "git-upload-pack").as_str(),
            "https://h/g/n.git/git-upload-pack"
        );
    }
}
