//! Ports for programs that cannot be told to choose one and say which.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Ports on 127.0.0.1 that nobody listened on a moment ago.
///
/// Somebody else may take one before it is used.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held until all are known, so that none is given twice.
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
