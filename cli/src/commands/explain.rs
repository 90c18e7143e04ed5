//! `explain`: what a reason means, and what to do about it.

use crate::{
    cluster::alike::alike,
    failure::Failure,
    terminal::{
        Console,
        style::Style,
        table::{Cell, Table},
    },
    validate::explained,
};

/// The arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # What a condition with this reason means, and what to do
  kubectl helmop explain VersionNotFound

  # What a mistake that validate has found means
  kubectl helmop explain UnknownField

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
    let Some(reason) = explained().find(|known| known.name.eq_ignore_ascii_case(name)) else {
        return Err(unknown(name));
    };
    let heading = console.styles.paint(Style::Strong, reason.name);
    writeln!(console.out, "{heading}\n  {}", reason.meaning)?;
    if !reason.remedy.is_empty() {
        writeln!(console.out, "\nWhat to do:\n  {}", reason.remedy)?;
    }
    Ok(())
}

fn list(console: &mut Console<'_>) -> Result<(), Failure> {
    let mut table = Table::new(&["REASON", "MEANING"]);
    for reason in explained() {
        table.row([reason.name.into(), Cell::from(reason.meaning)]);
    }
    Ok(table.write(&mut console.out, console.styles)?)
}

fn unknown(name: &str) -> Failure {
    let alike = alike(name, explained().map(|reason| reason.name));
    let failure = Failure::negative(format!("there is no reason {name:?}"));
    failure.with_hint(match alike.as_slice() {
        [] => "list all with: kubectl helmop explain".to_owned(),
        alike => format!("these are alike: {}", alike.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::buffers::Buffers;

    fn printed(reason: Option<&str>) -> Result<String, Failure> {
        let mut buffers = Buffers::default();
        let args = ExplainArgs {
            reason: reason.map(str::to_owned),
        };
        run(&args, &mut buffers.console())?;
        Ok(buffers.out())
    }

    #[test]
    fn reasons_of_helmops_and_of_validate_are_explained() {
        assert_eq!(
            printed(Some("unknownfield")).unwrap(),
            "UnknownField\n  The CRD has no such field: kubectl rejects it, and other clients lose it.\n\nWhat to do:\n  \
             Correct the name or the indentation of the field, or remove it. A field of a newer CRD needs a newer kubectl-helmop.\n"
        );
        assert!(printed(Some("ChartRequired")).unwrap().contains("What to do:"));
        let all = printed(None).unwrap();
        for reason in explained() {
            let text = printed(Some(reason.name)).unwrap();
            assert!(text.contains(reason.meaning), "{text}");
            assert!(all.contains(reason.name) && !reason.meaning.is_empty());
        }
    }

    #[test]
    fn a_name_has_one_meaning() {
        let mut names: Vec<_> = explained().map(|reason| reason.name.to_lowercase()).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_name_that_does_not_exist_leads_to_those_that_do() {
        let failure = printed(Some("UnknownFeld")).unwrap_err();
        assert_eq!(failure.message, "there is no reason \"UnknownFeld\"");
        assert_eq!(failure.hint, "these are alike: UnknownField");
        assert_eq!(failure.code, crate::failure::NEGATIVE);
    }
}
