//! Prints the lines of the input as rows of a Markdown table: their length, and what fits into 60 bytes.
//!
//! `cargo run --example cells < README.md`

#![expect(clippy::print_stdout, reason = "it is the output of a program")]

use std::io;

use bounded_text::{cut, table_cell};

fn main() -> io::Result<()> {
    println!("| bytes | text |\n|---|---|");
    for line in io::read_to_string(io::stdin())?.lines() {
        println!("| {} | {} |", line.len(), cut(table_cell(line), 60));
    }
    Ok(())
}
