//! Writes the reference page of labels, annotations and finalizers; `make manifests` calls it.

use std::io::{self, Write};

use helmops_api::labels;

const HEAD: &str = "\
# Labels, annotations and finalizers

<!-- Generated from shared/api/src/labels.rs by `make manifests`. Do not edit. -->

| Key | Type | On | Meaning |
|---|---|---|---|
";

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(HEAD.as_bytes())?;
    for (key, used_as, objects, meaning) in labels::ALL {
        writeln!(out, "| `{key}` | {} | {objects} | {meaning} |", used_as.as_str())?;
    }
    Ok(())
}
