//! Names of hosts, and the addresses of theirs that may be connected to.

use std::{net::SocketAddr, sync::Arc};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::addresses::{AddressError, Addresses};

/// Resolves names as the system does, and leaves out the addresses that are refused. A connection is made to what was
/// checked, so a name that resolves differently the next time is no way around.
#[derive(Debug)]
pub struct Names(pub Arc<Addresses>);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.0);
        Box::pin(async move {
            // The connector puts the URL's port in place of this one.
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let is_known = !found.is_empty();
            let usable: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| allowed.check(address.ip()).is_ok())
                .collect();
            if is_known && usable.is_empty() {
                return Err(AddressError::name(name.as_str()).into());
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}
