//! Prints the versions of the input, one in each line, that satisfy a constraint, the highest first.
//!
//! `git tag | cargo run --example filter -- '^1.2 || ~3.1'`

#![expect(clippy::print_stdout, reason = "it is the output of a program")]

use std::{env, error::Error, io};

use masterminds_semver::{Constraint, Version};

fn main() -> Result<(), Box<dyn Error>> {
    let argument = env::args()
        .nth(1)
        .ok_or("a constraint is missing, such as ^1.2")?;
    let constraint: Constraint = argument.parse()?;
    let mut matching: Vec<_> = io::read_to_string(io::stdin())?
        .lines()
        .filter_map(|line| Version::parse(line.trim()).ok())
        .filter(|version| constraint.matches(version))
        .collect();
    matching.sort_by(|one, other| other.precedence(one));
    for version in matching {
        println!("{}", version.original());
    }
    Ok(())
}
