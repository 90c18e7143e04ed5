//! Prints the version of a chart that satisfies a range, and the URL of its archive.
//!
//! `curl -s https://example.com/charts/index.yaml | cargo run --example newest -- web '^1.2'`

#![expect(clippy::print_stdout, reason = "it is the output of a program")]

use std::{env, error::Error, io};

use helm_index::{ChartFilter, Layout, VersionRequest, read, select};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let chart = arguments.next().ok_or("the name of a chart is missing")?;
    let range = arguments.next().unwrap_or_default();
    let request = VersionRequest::parse(&range)?;
    // The input cannot be read twice, so it is read by the general reader.
    let index = read(
        io::stdin().lock(),
        &ChartFilter::from([chart.clone()]),
        Layout::General,
    )?;
    let chosen = select(&chart, index.versions(&chart)?, &request)?;
    println!("{} {}", chosen.version, chosen.url);
    Ok(())
}
