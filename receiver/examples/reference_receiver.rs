//! Writes the reference page of the receiver; `make manifests` calls it.

use std::io::{self, Write};

fn main() -> anyhow::Result<()> {
    io::stdout().write_all(helmops_receiver::reference()?.as_bytes())?;
    Ok(())
}
