//! The proxy between a client and an API server, as kubectl chooses it.
//!
//! kube's own choice is another one: it compares `NO_PROXY` with the address of the proxy, and fails if the list ends with a comma. That
//! of the HTTP client for charts knows no ports, and no `*` for IP addresses, which most API servers have.

use std::net::IpAddr;

use http::{Uri, uri::Scheme};
use ipnet::IpNet;
use thiserror::Error;

/// The variables with the proxy for HTTPS; the first one that is not empty counts.
const PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// Those with the hosts that are reached without it.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// Ports of URLs without one.
const HTTPS_PORT: u16 = 443;
const SOCKS_PORT: u16 = 1080;

/// A proxy that cannot be used.
#[derive(Debug, Error)]
#[error("{field} {value:?} {problem}")]
pub struct InvalidProxy {
    field: &'static str,
    /// Without a login.
    value: String,
    problem: ProxyProblem,
}

/// Why it cannot be used, and what to do about it.
#[derive(Debug, Error)]
enum ProxyProblem {
    #[error("is not the URL of a proxy; set one such as http://proxy.example.com:3128")]
    NoUrl,
    #[error("has the scheme {0:?}; set the URL of a proxy with http, https or socks5")]
    Scheme(String),
    #[error("has a login, which SOCKS proxies are not sent; remove it, or set a proxy with http or https")]
    SocksLogin,
}

/// The proxy for an API server; `None` for none. `proxy_url` is that of the cluster in a kubeconfig: it counts for every address, and before
/// that of the environment. `environment` has the value of a variable.
///
/// # Errors
/// If the proxy that counts cannot be used.
pub(crate) fn proxy_for(
    server: &Uri,
    proxy_url: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, InvalidProxy> {
    if let Some(url) = proxy_url.filter(|url| !url.is_empty()) {
        return usable("proxy-url of the kubeconfig", url).map(Some);
    }
    let first = |names: [&'static str; 2]| {
        let mut values = names
            .into_iter()
            .filter_map(|name| Some((name, environment(name)?)));
        values.find(|(_, value)| !value.is_empty())
    };
    let (Some((name, url)), Some(server)) = (first(PROXY), Server::of(server)) else {
        return Ok(None);
    };
    let direct = first(NO_PROXY).is_some_and(|(_, list)| server.is_in(&list));
    if direct || server.is_loopback() {
        return Ok(None);
    }
    usable(name, &url).map(Some)
}

/// The URL of a proxy as the client takes it.
fn usable(field: &'static str, text: &str) -> Result<Uri, InvalidProxy> {
    let invalid = |problem| InvalidProxy {
        field,
        value: match text.rsplit_once('@') {
            Some((_, host)) => format!("…@{host}"),
            None => text.to_owned(),
        },
        problem,
    };
    let (scheme, rest) = text.trim().split_once("://").unwrap_or(("http", text.trim()));
    let scheme = scheme.to_ascii_lowercase();
    let url: Option<Uri> = format!("http://{rest}").parse().ok();
    let authority = url.as_ref().and_then(Uri::authority);
    let Some(authority) = authority.filter(|authority| !authority.host().is_empty()) else {
        return Err(invalid(ProxyProblem::NoUrl));
    };
    let url = match scheme.as_str() {
        "http" | "https" => format!("{scheme}://{authority}"),
        "socks5" | "socks5h" if authority.as_str().contains('@') => {
            return Err(invalid(ProxyProblem::SocksLogin));
        }
        // Both leave names to the proxy, as in Go.
        "socks5" | "socks5h" => {
            let port = authority.port_u16().unwrap_or(SOCKS_PORT);
            format!("socks5://{}:{port}", authority.host())
        }
        _ => return Err(invalid(ProxyProblem::Scheme(scheme))),
    };
    url.parse().map_err(|_| invalid(ProxyProblem::NoUrl))
}

/// An API server that is reached by HTTPS.
struct Server {
    host: String,
    /// The host, if it is an address.
    address: Option<IpAddr>,
    port: u16,
}

impl Server {
    fn of(url: &Uri) -> Option<Self> {
        if url.scheme() != Some(&Scheme::HTTPS) {
            return None;
        }
        let host = url.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
        Some(Self {
            address: address(&host),
            host,
            port: url.port_u16().unwrap_or(HTTPS_PORT),
        })
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.address.is_some_and(|address| address.is_loopback())
    }

    /// Whether it is in the list of `NO_PROXY`, as Go reads it. What is not an entry matches nothing.
    fn is_in(&self, list: &str) -> bool {
        list.split(',')
            .any(|entry| self.matches(&entry.trim().to_ascii_lowercase()))
    }

    fn matches(&self, entry: &str) -> bool {
        if entry == "*" {
            return true;
        }
        if let Ok(network) = entry.parse::<IpNet>() {
            return self.address.is_some_and(|address| network.contains(&address));
        }
        let (host, port) = match entry.rsplit_once(':') {
            // The colons in an IPv6 address without brackets separate no port.
            Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port),
            _ => (entry, ""),
        };
        if !port.is_empty() && port.parse() != Ok(self.port) {
            return false;
        }
        if let Some(own) = self.address {
            return address(host.trim_matches(['[', ']'])) == Some(own);
        }
        let domain = host.strip_prefix("*.").or_else(|| host.strip_prefix('.'));
        let below = self.host.strip_suffix(domain.unwrap_or(host));
        below.is_some_and(|below| below.ends_with('.') || (below.is_empty() && domain.is_none()))
    }
}

fn address(host: &str) -> Option<IpAddr> {
    Some(host.parse::<IpAddr>().ok()?.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORPORATE: &str = "http://proxy.corp.example:3128";

    fn of(server: &str, proxy_url: Option<&str>, variables: &[(&str, &str)]) -> Result<String, String> {
        let environment = |name: &str| {
            let variable = variables.iter().find(|(other, _)| *other == name);
            variable.map(|(_, value)| (*value).to_owned())
        };
        let proxy = proxy_for(&server.parse().unwrap(), proxy_url, environment);
        let proxy = proxy.map_err(|error| error.to_string())?;
        let proxy = proxy.map(|url| url.to_string().trim_end_matches('/').to_owned());
        Ok(proxy.unwrap_or_else(|| "none".to_owned()))
    }

    /// The result of each row is that of golang.org/x/net/http/httpproxy, which kubectl uses.
    #[test]
    fn no_proxy_is_read_as_in_kubectl() {
        for (server, no_proxy, is_direct) in [
            ("https://api.example.com:6443", "", false),
            ("https://api.example.com:6443", "api.example.com", true),
            ("https://API.example.com:6443", "Api.Example.Com", true),
            ("https://api.example.com:6443", "example.com", true),
            ("https://api.example.com:6443", ".example.com", true),
            ("https://api.example.com:6443", "*.example.com", true),
            ("https://api.example.com:6443", "other.com, .example.com", true),
            ("https://example.com", ".example.com", false),
            ("https://example.com", "*.example.com", false),
            ("https://badexample.com", "example.com", false),
            ("https://api.example.com:6443", "com.", false),
            ("https://api.example.com:6443", "*", true),
            ("https://10.1.2.3:6443", "*", true),
            ("https://10.1.2.3:6443", "a.example,*", true),
            ("https://10.1.2.3:6443", "10.1.2.3", true),
            ("https://10.1.2.3:6443", "10.1.2.4", false),
            ("https://10.1.2.3:6443", "10.0.0.0/8", true),
            ("https://10.1.2.3:6443", "10.9.9.9/8", true),
            ("https://11.1.2.3:6443", "10.0.0.0/8", false),
            ("https://api.example.com:6443", "10.0.0.0/8", false),
            ("https://10.1.2.3:6443", "2.3", false),
            ("https://10.1.2.3:6443", "::ffff:10.1.2.3", true),
            ("https://[fd00::1]:6443", "fd00::1", true),
            ("https://[fd00::1]:6443", "fd00::/8", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
            ("https://[fd00::1]:6443", "[fd00::1]:443", false),
            ("https://[fd00::1]:6443", "fd00::2", false),
            // Ports.
            ("https://api.example.com:6443", "example.com:6443", true),
            ("https://api.example.com:6443", "example.com:443", false),
            ("https://api.example.com", "example.com:443", true),
            ("https://api.example.com:6443", "example.com:", true),
            ("https://10.1.2.3:6443", "10.1.2.3:6443", true),
            ("https://10.1.2.3:6443", "10.1.2.3:443", false),
            // Entries that are none.
            ("https://10.1.2.3:6443", "10.0.0.0/8,", true),
            ("https://10.1.2.3:6443", ",,10.0.0.0/8", true),
            ("https://api.example.com:6443", ",", false),
            (
                "https://api.example.com:6443",
                ".,<local>,a/b,:6443,[,10.0/8,% ",
                false,
            ),
            // Never through a proxy.
            ("https://localhost:6443", "", true),
            ("https://127.0.0.1:6443", "", true),
            ("https://127.8.0.1:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("https://[::ffff:127.0.0.1]:6443", "", true),
            ("https://0.0.0.0:6443", "", false),
            ("https://kubernetes.localhost:6443", "", false),
        ] {
            let expected = if is_direct { "none" } else { CORPORATE };
            let variables = [("HTTPS_PROXY", CORPORATE), ("NO_PROXY", no_proxy)];
            assert_eq!(
                of(server, None, &variables).as_deref(),
                Ok(expected),
                "{server} with NO_PROXY={no_proxy:?}"
            );
        }
    }

    const SERVER: &str = "https://10.1.2.3:6443";

    #[test]
    fn the_first_variable_that_is_not_empty_counts() {
        for (variables, expected) in [
            (&[][..], "none"),
            (
                &[("HTTPS_PROXY", "http://a"), ("https_proxy", "http://b")],
                "http://a",
            ),
            (&[("HTTPS_PROXY", ""), ("https_proxy", "http://b")], "http://b"),
            (&[("https_proxy", "http://b"), ("no_proxy", "10.1.2.3")], "none"),
            (
                &[("https_proxy", "http://b"), ("NO_PROXY", ""), ("no_proxy", "*")],
                "none",
            ),
            (
                &[("https_proxy", "http://b"), ("NO_PROXY", "x"), ("no_proxy", "*")],
                "http://b",
            ),
            // kubectl knows neither of both for an API server.
            (&[("ALL_PROXY", "http://a"), ("HTTP_PROXY", "http://b")], "none"),
        ] {
            assert_eq!(
                of(SERVER, None, variables).as_deref(),
                Ok(expected),
                "{variables:?}"
            );
        }
        let insecure = of("http://10.1.2.3:8080", None, &[("HTTPS_PROXY", CORPORATE)]);
        assert_eq!(insecure.as_deref(), Ok("none"));
    }

    #[test]
    fn the_proxy_of_the_kubeconfig_counts_for_every_address() {
        let variables = [("HTTPS_PROXY", "http://other"), ("NO_PROXY", "*,")];
        for server in [SERVER, "https://127.0.0.1:6443", "http://localhost:8080"] {
            assert_eq!(of(server, Some(CORPORATE), &variables).as_deref(), Ok(CORPORATE));
        }
        assert_eq!(of(SERVER, Some(""), &variables).as_deref(), Ok("none"));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_without_its_login() {
        for (url, expected) in [
            ("proxy:3128", Ok("http://proxy:3128")),
            (" proxy/ ", Ok("http://proxy")),
            (
                "HTTP://user:p%40ss@proxy:3128/path",
                Ok("http://user:p%40ss@proxy:3128"),
            ),
            ("https://proxy", Ok("https://proxy")),
            ("socks5://proxy", Ok("socks5://proxy:1080")),
            ("socks5h://[fd00::1]:1081", Ok("socks5://[fd00::1]:1081")),
            (
                "ftp://proxy:21",
                Err(
                    "\"ftp://proxy:21\" has the scheme \"ftp\"; set the URL of a proxy with http, https or socks5",
                ),
            ),
            (
                "socks5://u:secret@proxy",
                Err(
                    "\"…@proxy\" has a login, which SOCKS proxies are not sent; remove it, or set a proxy with http or https",
                ),
            ),
            (
                "http://u:sec ret@proxy",
                Err("\"…@proxy\" is not the URL of a proxy; set one such as http://proxy.example.com:3128"),
            ),
            (
                "http://:3128",
                Err(
                    "\"http://:3128\" is not the URL of a proxy; set one such as http://proxy.example.com:3128",
                ),
            ),
        ] {
            let named = |field: &str| expected.map_err(|problem: &str| format!("{field} {problem}"));
            let of_variable = of(SERVER, None, &[("https_proxy", url)]);
            assert_eq!(of_variable, named("https_proxy").map(str::to_owned));
            let of_kubeconfig = of(SERVER, Some(url), &[]);
            assert_eq!(
                of_kubeconfig,
                named("proxy-url of the kubeconfig").map(str::to_owned)
            );
        }
    }

    #[test]
    fn a_proxy_that_is_not_used_is_not_read() {
        let variables = [("HTTPS_PROXY", "ftp://proxy"), ("NO_PROXY", "10.0.0.0/8")];
        assert_eq!(of(SERVER, None, &variables).as_deref(), Ok("none"));
    }
}
