//! Prints the sum of durations in seconds.
//!
//! `cargo run --example sum -- 1h30m 90s .5s`

#![expect(clippy::print_stdout, reason = "it is the output of a program")]

use std::{env, error::Error, time::Duration};

use go_formats::duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut sum = Duration::ZERO;
    for text in env::args().skip(1) {
        let duration = duration::parse(&text).map_err(|error| format!("{text:?}: {error}"))?;
        sum = sum.checked_add(duration).ok_or("the sum is too long")?;
    }
    println!("{}", sum.as_secs_f64());
    Ok(())
}
