//! Writes the documentation of all reasons; `make manifests` calls it.

use helmops_model::reason::Reason;
use std::{
    io::{self, Write},
    process::ExitCode,
};

const HEAD: &str = "\
# Reasons

Every outcome has one reason. It is used in the conditions of HelmOps and Bundles, in events, in the log (`reason`) and in the labels
of metrics. The message next to it names the field or the URL.

<!-- Made from shared/model/src/reason.rs by `make manifests`. Do not edit. -->
";

fn main() -> ExitCode {
    match write(&mut io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reasons: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(out: &mut impl Write) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    for (group, reasons) in Reason::GROUPS {
        write!(
            out,
            "\n## {group}\n\n| Reason | Meaning | What to do |\n|---|---|---|\n"
        )?;
        for reason in *reasons {
            writeln!(out, "| `{reason}` | {} | {} |", reason.meaning(), reason.remedy())?;
        }
    }
    Ok(())
}
