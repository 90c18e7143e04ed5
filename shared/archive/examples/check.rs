//! Checks archives of charts, and prints what they contain.
//!
//! `helm pull oci://registry.example.com/charts/web && cargo run --example check -- web-*.tgz`

#![expect(clippy::print_stdout, reason = "it is the output of a program")]

use std::{env, error::Error, fs::File};

use helm_archive::{Limits, check};

fn main() -> Result<(), Box<dyn Error>> {
    for path in env::args().skip(1) {
        let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        let chart = check(file, Limits::default());
        let chart = chart.map_err(|error| format!("{path}: {error}"))?;
        println!(
            "{} {}: {} files, {} bytes",
            chart.name, chart.version, chart.files, chart.bytes
        );
    }
    Ok(())
}
