//! `explain`: what a reason means, and what to do about it.

use helmops_core::reason::Reason;

use crate::{
    cluster::alike::alike,
    failure::Failure,
    terminal::{
        Console,
        style::Style,
        table::{Cell, Table},
    },
};

/// The arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What a condition with this reason means, and what to do
  kubectl helmop explain VersionNotFound

  # All reasons
  kubectl helmop explain")]
pub struct ExplainArgs {
    /// The reason, in any case; all reasons are listed without one
    pub reason: Option<String>,
}

/// Prints the meaning and the remedy of a reason, or all reasons.
pub fn run(args: &ExplainArgs, console: &mut Console<'_>) -> Result<(), Failure> {
    let Some(name) = &args.reason else {
        return list(console);
    };
    let Some(reason) = Reason::ALL
        .iter()
        .find(|reason| reason.as_str().eq_ignore_ascii_case(name))
    else {
        return Err(unknown(name));
    };
    let heading = console.styles.paint(Style::Strong, reason.as_str());
    writeln!(console.out, "{heading}\n  {}", reason.meaning())?;
    if !reason.remedy().is_empty() {
        writeln!(console.out, "\nWhat to do:\n  {}", reason.remedy())?;
    }
    Ok(())
}

fn list(console: &mut Console<'_>) -> Result<(), Failure> {
    let mut table = Table::new(&["REASON", "MEANING"]);
    for reason in Reason::ALL {
        table.row([reason.as_str().into(), Cell::from(reason.meaning())]);
    }
    Ok(table.write(console.out, console.styles)?)
}

fn unknown(name: &str) -> Failure {
    let alike = alike(name, Reason::ALL.iter().map(|reason| reason.as_str()));
    let failure = Failure::negative(format!("there is no reason {name:?}"));
    failure.with_hint(match alike.as_slice() {
        [] => "list all with: kubectl helmop explain".to_owned(),
        alike => format!("these are alike: {}", alike.join(", ")),
    })
}
