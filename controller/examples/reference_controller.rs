//! Writes the reference page of the controller; `make manifests` calls it.

use std::io::{self, Write};

fn main() -> anyhow::Result<()> {
    io::stdout().write_all(helmops_controller::reference()?.as_bytes())?;
    Ok(())
}
