//! Writes the reference page of the agent; `make manifests` calls it.

use std::io::{self, Write};

fn main() -> anyhow::Result<()> {
    io::stdout().write_all(helmops_agent::reference()?.as_bytes())?;
    Ok(())
}
