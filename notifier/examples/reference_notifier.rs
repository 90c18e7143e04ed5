//! Writes the reference page of the notifier; `make manifests` calls it.

use std::io::{self, Write};

fn main() -> anyhow::Result<()> {
    io::stdout().write_all(helmops_notifier::reference()?.as_bytes())?;
    Ok(())
}
