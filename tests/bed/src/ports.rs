//! Free ports, for programs that cannot choose one themselves and report it.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// Ports on 127.0.0.1 that are currently free.
///
/// Another process may bind one before it is used.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All listeners stay open until all ports are chosen, so that no port is returned twice.
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}
