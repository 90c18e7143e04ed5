//! The DNS resolver of the HTTP clients.

use std::{net::SocketAddr, sync::Arc};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::addresses::{AddressError, Addresses};

/// Resolves names with the resolver of the system, and removes denied addresses. A connection uses the addresses that were
/// checked, so a name that resolves differently the next time (DNS rebinding) does not bypass the check.
#[derive(Debug)]
pub struct DnsResolver(pub Arc<Addresses>);

impl Resolve for DnsResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.0);
        Box::pin(async move {
            // The connector replaces this port by that of the URL.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let is_resolved = !found.is_empty();
            let allowed_addresses: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| allowed.check(address.ip()).is_ok())
                .collect();
            if is_resolved && allowed_addresses.is_empty() {
                return Err(AddressError::name(name.as_str()).into());
            }
            Ok(Box::new(allowed_addresses.into_iter()) as Addrs)
        })
    }
}
