//! Writes the reference page of the webhook; `make manifests` calls it.

use std::io::{self, Write};

fn main() -> anyhow::Result<()> {
    io::stdout().write_all(helmops_webhook::reference()?.as_bytes())?;
    Ok(())
}
