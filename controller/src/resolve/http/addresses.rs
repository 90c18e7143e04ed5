//! Which addresses requests may go to.
//!
//! A HelmOp names a URL, and a server that it names can redirect anywhere. So the addresses of this machine, of its link
//! and of the metadata services of clouds, which give out credentials, are refused by default. Private networks are not:
//! registries in the cluster are normal.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use helmops_shared::text::cut;
use reqwest::Url;
use thiserror::Error;

/// Addresses of metadata services outside of the link-local ranges: Azure, Alibaba Cloud, Oracle Cloud (IPv4); AWS (two),
/// Google Cloud, Oracle Cloud (IPv6).
const METADATA: [IpAddr; 7] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
];

/// Longest text that an error quotes, in bytes.
const MAX_QUOTE: usize = 64;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

/// A text that is no range of addresses.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a range of addresses; give it as 10.0.0.0/8 or fd00::/8, or one address")]
pub struct CidrError(String);

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError(cut(text.to_owned(), MAX_QUOTE));
        let (address, prefix) = text
            .split_once('/')
            .map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), str::parse).map_err(|_| wrong())?;
        (prefix <= longest)
            .then_some(Self { address, prefix })
            .ok_or_else(wrong)
    }
}

impl Cidr {
    fn contains(&self, address: IpAddr) -> bool {
        let common = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        common >= u32::from(self.prefix)
    }
}

/// Which addresses requests may go to.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Allowed although they are refused by default.
    pub allow: Vec<Cidr>,
    /// Refused in any case.
    pub deny: Vec<Cidr>,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is one of these by nature.
    Kind(&'static str),
    /// It is in a range that the flag names.
    Denied,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(
                f,
                "{kind}, which helmops does not connect to unless the controller's flag --allow-cidrs names it"
            ),
            Self::Denied => f.write_str("in a range that the controller's flag --deny-cidrs names"),
        }
    }
}

/// A host that no request may go to. The message does not have the addresses of a name: they may be those of an internal
/// network, and the reader of the message somebody who cannot resolve them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    /// An address in a URL.
    #[error("{address} is {why}")]
    Literal {
        /// The address.
        address: IpAddr,
        /// Why.
        why: Refused,
    },
    /// A name.
    #[error(
        "host {host:?} has only addresses that helmops does not connect to: those of this machine, of its link or of a \
         metadata service, or those that the controller's flag --deny-cidrs names; see its flag --allow-cidrs"
    )]
    Name {
        /// The name.
        host: String,
    },
}

impl AddressError {
    /// About a name.
    pub fn name(host: &str) -> Self {
        Self::Name {
            host: cut(host.to_owned(), MAX_QUOTE),
        }
    }
}

impl Addresses {
    /// Checks the host of a URL, where that is an address. Names are checked when they are resolved.
    ///
    /// # Errors
    /// Where it is refused.
    pub fn check_url(&self, url: &Url) -> Result<(), AddressError> {
        let Some(address) = host_address(url) else {
            return Ok(());
        };
        self.check(address)
            .map_err(|why| AddressError::Literal { address, why })
    }

    /// Checks an address, in each form in which a packet can reach it.
    ///
    /// # Errors
    /// Where it is refused.
    pub fn check(&self, address: IpAddr) -> Result<(), Refused> {
        self.check_form(address)?;
        match address {
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(address) => embedded(address).map_or(Ok(()), |inner| self.check_form(inner.into())),
        }
    }

    fn check_form(&self, address: IpAddr) -> Result<(), Refused> {
        let is_in = |ranges: &[Cidr]| ranges.iter().any(|range| range.contains(address));
        if is_in(&self.deny) {
            return Err(Refused::Denied);
        }
        match kind(address) {
            Some(kind) if !is_in(&self.allow) => Err(Refused::Kind(kind)),
            _ => Ok(()),
        }
    }
}

/// What an address is that is refused by default.
fn kind(address: IpAddr) -> Option<&'static str> {
    if METADATA.contains(&address) {
        return Some("an address of a cloud's metadata service");
    }
    let (is_link_local, is_unspecified) = match address {
        // All of 0.0.0.0/8 is this machine to many systems.
        IpAddr::V4(address) => (address.is_link_local(), address.octets().starts_with(&[0])),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.is_unspecified()),
    };
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    let kinds = [
        (address.is_loopback(), "a loopback address"),
        (is_link_local, "a link-local address"),
        (is_unspecified, "an unspecified address"),
        (address.is_multicast(), "a multicast address"),
        (is_broadcast, "a broadcast address"),
    ];
    kinds.iter().find(|(is, _)| *is).map(|(_, kind)| *kind)
}

/// The IPv4 address that a packet to an IPv6 address ends at.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let [_, second, third, .., seventh, last] = address.segments();
    let last = joined(seventh, last);
    let is_in = |range: Ipv6Addr, prefix: u32| (range.to_bits() ^ bits).leading_zeros() >= prefix;
    let at = |segments: [u16; 4]| {
        let [a, b, c, d] = segments;
        Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)
    };
    let mapped = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0);
    let translated = Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0);
    if is_in(mapped, 96) || is_in(translated, 96) || is_in(at([0x64, 0xff9b, 0, 0]), 96) {
        return Some(last);
    }
    // NAT64 with a prefix of the network's own, RFC 8215.
    if is_in(at([0x64, 0xff9b, 1, 0]), 48) {
        return Some(last);
    }
    // IPv4-compatible, RFC 4291; the first two of them are :: and ::1.
    if is_in(Ipv6Addr::UNSPECIFIED, 96) && bits > 1 {
        return Some(last);
    }
    // 6to4, RFC 3056.
    if is_in(at([0x2002, 0, 0, 0]), 16) {
        return Some(joined(second, third));
    }
    // Teredo, RFC 4380: the address of the client, inverted.
    is_in(at([0x2001, 0, 0, 0]), 32).then(|| Ipv4Addr::from_bits(!last.to_bits()))
}

fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// The address that a URL names in place of a name.
fn host_address(url: &Url) -> Option<IpAddr> {
    // A URL is normalised: an address of whatever notation stands here as usual, IPv6 in brackets.
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(allow: &[&str], deny: &[&str]) -> Addresses {
        let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Addresses {
            allow: read(allow),
            deny: read(deny),
        }
    }

    #[track_caller]
    fn refused(addresses: &Addresses, host: &str) -> Option<String> {
        let url = Url::parse(&format!("http://{host}/")).unwrap();
        addresses.check_url(&url).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_near_or_gives_out_credentials_is_refused() {
        let cases = [
            (
                "127.0.0.1",
                "127.0.0.1 is a loopback address, which helmops does not connect to",
            ),
            ("127.255.1.2", "loopback"),
            ("2130706433", "127.0.0.1 is a loopback"),
            ("0x7f.1", "127.0.0.1 is a loopback"),
            ("[::1]", "::1 is a loopback"),
            ("169.254.169.254", "link-local"),
            ("169.254.170.2", "link-local"),
            ("[fe80::1]", "link-local"),
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("[::]", "unspecified"),
            ("224.0.0.1", "multicast"),
            ("[ff02::1]", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("168.63.129.16", "metadata"),
            ("100.100.100.200", "metadata"),
            ("192.0.0.192", "metadata"),
            ("[fd00:ec2::254]", "metadata"),
            ("[fd00:ec2::23]", "metadata"),
            ("[fd20:ce::254]", "metadata"),
            ("[fd00:c1::a9fe:a9fe]", "metadata"),
        ];
        for (host, word) in cases {
            let why = refused(&Addresses::default(), host).unwrap_or_else(|| panic!("{host}"));
            assert!(
                why.contains(word) && why.contains("--allow-cidrs"),
                "{host}: {why}"
            );
        }
    }

    #[test]
    fn another_form_of_an_address_is_no_way_around() {
        let forms = [
            "[::ffff:169.254.169.254]",
            "[::ffff:0:169.254.169.254]",
            "[::169.254.169.254]",
            "[::127.0.0.1]",
            "[64:ff9b::169.254.169.254]",
            "[64:ff9b:1::169.254.169.254]",
            "[2002:a9fe:a9fe::]",
            "[2002:7f00:1::5]",
            "[2001:0:1:2:3:4:5601:5601]",
        ];
        for host in forms {
            assert!(refused(&Addresses::default(), host).is_some(), "{host}");
        }
        let denied = addresses(&[], &["10.0.0.0/8"]);
        assert!(refused(&denied, "[::ffff:10.1.2.3]").is_some());
        assert!(refused(&denied, "[64:ff9b::10.1.2.3]").is_some());
        assert_eq!(refused(&denied, "[64:ff9b::8.8.8.8]"), None);
    }

    #[test]
    fn names_private_and_public_addresses_are_not() {
        for host in [
            "charts.example.com",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "8.8.8.8",
            "[fd00::1]",
            "[2001:db8::1]",
            "[::ffff:10.0.0.1]",
        ] {
            assert_eq!(refused(&Addresses::default(), host), None, "{host}");
        }
    }

    #[test]
    fn flags_allow_and_deny_and_deny_wins() {
        let flags = addresses(
            &["127.0.0.0/8", "::1/128", "169.254.0.0/16"],
            &["169.254.169.254", "10.0.0.0/8"],
        );
        for host in [
            "127.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "169.254.1.1",
            "11.0.0.0",
        ] {
            assert_eq!(refused(&flags, host), None, "{host}");
        }
        for host in ["169.254.169.254", "10.255.255.255"] {
            assert!(refused(&flags, host).unwrap().contains("--deny-cidrs"), "{host}");
        }
        assert!(refused(&addresses(&[], &["0.0.0.0/0"]), "8.8.8.8").is_some());
        assert_eq!(refused(&addresses(&[], &["::/0"]), "8.8.8.8"), None);
    }

    #[test]
    fn ranges_are_read() {
        for text in ["10.0.0.0/8", "10.1.2.3", "::/0", "fd00::/8", "0.0.0.0/0"] {
            assert!(text.parse::<Cidr>().is_ok(), "{text}");
        }
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "example.com",
            "10.0.0.0/8/8",
        ] {
            let error = text.parse::<Cidr>().unwrap_err().to_string();
            assert!(error.contains("10.0.0.0/8 or fd00::/8"), "{error}");
        }
        assert!("x".repeat(1000).parse::<Cidr>().unwrap_err().to_string().len() < 250);
    }
}
