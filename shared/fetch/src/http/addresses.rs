//! Which addresses requests may connect to.
//!
//! A HelmOp names a URL, and the server can redirect anywhere. So loopback addresses, link-local addresses and the metadata
//! services of clouds, which return credentials, are denied by default. Private networks are allowed: registries in the
//! cluster are normal.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use bounded_text::cut;
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

/// A text that is not a range of addresses.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a range of addresses; use a CIDR such as 10.0.0.0/8 or fd00::/8, or one address")]
pub struct CidrError(String);

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let invalid = || CidrError(cut(text.to_owned(), MAX_QUOTE));
        let (address, prefix) = text
            .split_once('/')
            .map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let max_prefix = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(max_prefix), str::parse).map_err(|_| invalid())?;
        (prefix <= max_prefix)
            .then_some(Self { address, prefix })
            .ok_or_else(invalid)
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

/// Which addresses requests may connect to.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Allowed although they are denied by default.
    pub allow: Vec<Cidr>,
    /// Always denied.
    pub deny: Vec<Cidr>,
}

/// Why an address is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenyReason {
    /// It belongs to a special-purpose range.
    SpecialPurpose(&'static str),
    /// It is in a range of the flag --deny-cidrs.
    Denied,
}

impl fmt::Display for DenyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SpecialPurpose(special_purpose) => write!(
                f,
                "{special_purpose}, which helmops does not connect to unless the controller's flag --allow-cidrs names it"
            ),
            Self::Denied => f.write_str("in a range that the controller's flag --deny-cidrs names"),
        }
    }
}

/// A host that requests must not connect to. The message does not contain the addresses of a name: they may be those of an
/// internal network, and the reader of the message a user who cannot resolve them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    /// An address in a URL.
    #[error("{address} is {reason}")]
    Literal {
        /// The address.
        address: IpAddr,
        /// The reason.
        reason: DenyReason,
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
    /// Creates an error for a name.
    pub fn name(host: &str) -> Self {
        Self::Name {
            host: cut(host.to_owned(), MAX_QUOTE),
        }
    }
}

impl Addresses {
    /// Checks the host of a URL if it is an address. Names are checked when they are resolved.
    ///
    /// # Errors
    /// If it is denied.
    pub fn check_url(&self, url: &Url) -> Result<(), AddressError> {
        let Some(address) = host_address(url) else {
            return Ok(());
        };
        self.check(address)
            .map_err(|reason| AddressError::Literal { address, reason })
    }

    /// Checks an address, and the IPv4 address that is embedded in it.
    ///
    /// # Errors
    /// If it is denied.
    pub fn check(&self, address: IpAddr) -> Result<(), DenyReason> {
        self.check_form(address)?;
        match address {
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(address) => embedded(address).map_or(Ok(()), |inner| self.check_form(inner.into())),
        }
    }

    fn check_form(&self, address: IpAddr) -> Result<(), DenyReason> {
        let is_in = |ranges: &[Cidr]| ranges.iter().any(|range| range.contains(address));
        if is_in(&self.deny) {
            return Err(DenyReason::Denied);
        }
        match special_purpose(address) {
            Some(special_purpose) if !is_in(&self.allow) => Err(DenyReason::SpecialPurpose(special_purpose)),
            _ => Ok(()),
        }
    }
}

/// The special-purpose range of an address that is denied by default.
fn special_purpose(address: IpAddr) -> Option<&'static str> {
    if METADATA.contains(&address) {
        return Some("an address of a cloud's metadata service");
    }
    let (is_link_local, is_unspecified) = match address {
        // Many systems treat all of 0.0.0.0/8 as this host.
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
    kinds
        .iter()
        .find(|(is, _)| *is)
        .map(|(_, special_purpose)| *special_purpose)
}

/// The IPv4 address that packets to an IPv6 address are delivered to.
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
    // NAT64 with a local prefix, RFC 8215.
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

/// The host of a URL if it is an address.
fn host_address(url: &Url) -> Option<IpAddr> {
    // A parsed URL is normalised: every notation of an address becomes the usual one, IPv6 in brackets.
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
    fn denied(addresses: &Addresses, host: &str) -> Option<String> {
        let url = Url::parse(&format!("http://{host}/")).unwrap();
        addresses.check_url(&url).err().map(|error| error.to_string())
    }

    #[test]
    fn local_and_metadata_addresses_are_denied() {
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
        for (host, expected) in cases {
            let reason = denied(&Addresses::default(), host).unwrap_or_else(|| panic!("{host}"));
            assert!(
                reason.contains(expected) && reason.contains("--allow-cidrs"),
                "{host}: {reason}"
            );
        }
    }

    #[test]
    fn embedded_ipv4_addresses_are_checked() {
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
            assert!(denied(&Addresses::default(), host).is_some(), "{host}");
        }
        let denied_range = addresses(&[], &["10.0.0.0/8"]);
        assert!(denied(&denied_range, "[::ffff:10.1.2.3]").is_some());
        assert!(denied(&denied_range, "[64:ff9b::10.1.2.3]").is_some());
        assert_eq!(denied(&denied_range, "[64:ff9b::8.8.8.8]"), None);
    }

    #[test]
    fn names_private_and_public_addresses_are_allowed() {
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
            assert_eq!(denied(&Addresses::default(), host), None, "{host}");
        }
    }

    #[test]
    fn flags_allow_and_deny_ranges_and_deny_takes_precedence() {
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
            assert_eq!(denied(&flags, host), None, "{host}");
        }
        for host in ["169.254.169.254", "10.255.255.255"] {
            assert!(denied(&flags, host).unwrap().contains("--deny-cidrs"), "{host}");
        }
        assert!(denied(&addresses(&[], &["0.0.0.0/0"]), "8.8.8.8").is_some());
        assert_eq!(denied(&addresses(&[], &["::/0"]), "8.8.8.8"), None);
    }

    #[test]
    fn ranges_are_parsed() {
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
