//! Writes the reference page of the plugin; `make manifests` calls it.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(helmops_cli::reference().as_bytes())
}
