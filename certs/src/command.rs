//! The command line: arguments in, files and instructions out.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};
use helmops_certs::issue::{BACKDATED, CA_COMMON_NAME};
use helmops_certs::{Ca, IssueError, PemFile, issue_ca, issue_leaf};

use crate::output::{Existing, OutputError, OutputFile, Permissions, write_all};

/// Serving certificates of the helmops webhook
#[derive(Debug, Parser)]
#[command(name = "helmops-certs", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Issue a serving certificate, and a CA for it unless one is given
    Issue(Issue),
}

/// Arguments of `issue`.
#[derive(Debug, Args)]
pub(crate) struct Issue {
    /// DNS name to issue for, may be repeated [default: helmops-webhook.NAMESPACE.svc, unless --ip is given]
    #[arg(long = "dns-name", value_name = "NAME")]
    dns_names: Vec<String>,

    /// IP address to issue for, may be repeated
    #[arg(long = "ip", value_name = "ADDR")]
    ips: Vec<IpAddr>,

    /// Days from now until the certificate expires
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=3649), value_name = "N")]
    days: u64,

    /// Directory to write ca.crt, tls.crt and tls.key to; created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Namespace of the webhook
    #[arg(long, default_value = "helmops-system")]
    namespace: String,

    /// Also write the new CA's key, ca.key, to issue further certificates that the same caBundle trusts; such
    /// a CA is valid for ten years
    #[arg(long, conflicts_with = "ca_cert")]
    keep_ca_key: bool,

    /// Certificate of an existing CA to issue from
    #[arg(long, requires = "ca_key", value_name = "FILE")]
    ca_cert: Option<PathBuf>,

    /// Key of that CA
    #[arg(long, requires = "ca_cert", value_name = "FILE")]
    ca_key: Option<PathBuf>,

    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// Nothing was issued.
    #[error("nothing issued")]
    Issue(#[source] IssueError),
    /// A CA file cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The files were not written.
    #[error("cannot write the files")]
    Output(#[source] OutputError),
    /// The files are written, but the report is not.
    #[error("the files are written, but standard output is closed")]
    Report(#[source] io::Error),
}

/// A CA whose key is stored must outlive many certificates: replacing it requires a change of every `caBundle`.
const STORED_CA_LIFETIME: Duration = Duration::from_hours(3650 * 24);

/// The Service in the manifests.
const SERVICE: &str = "helmops-webhook";
/// A Secret other than that of the managed certificate, which the manifests create.
const SECRET: &str = "helmops-webhook-own-tls";

/// Runs `command` at the time `now`, and writes to `out` what was done and what to do next.
pub(crate) fn run(command: &Command, now: SystemTime, out: &mut impl Write) -> Result<(), CommandError> {
    match command {
        Command::Issue(args) => issue(args, now, out),
    }
}

fn issue(args: &Issue, now: SystemTime, out: &mut impl Write) -> Result<(), CommandError> {
    let lifetime = BACKDATED + Duration::from_hours(24 * args.days);
    let not_before = now.checked_sub(BACKDATED).unwrap_or(SystemTime::UNIX_EPOCH);
    let ca = ca_for(args, not_before, lifetime)?;
    let dns_names = dns_names(args);
    let leaf = issue_leaf(&ca, &dns_names, &args.ips, not_before, lifetime).map_err(CommandError::Issue)?;
    let mut files = vec![
        OutputFile {
            name: "ca.crt",
            content: ca.cert_pem().to_owned(),
            permissions: Permissions::Public,
        },
        OutputFile {
            name: "tls.crt",
            content: leaf.cert_pem,
            permissions: Permissions::Public,
        },
        OutputFile {
            name: "tls.key",
            content: leaf.key_pem,
            permissions: Permissions::Private,
        },
    ];
    if args.keep_ca_key {
        files.push(OutputFile {
            name: "ca.key",
            content: ca.key_pem(),
            permissions: Permissions::Private,
        });
    }
    let existing = if args.force {
        Existing::Overwrite
    } else {
        Existing::Fail
    };
    // The certificate of a new CA next to the key of an old CA would look like a pair, but not match.
    let forbidden = (args.ca_cert.is_none() && !args.keep_ca_key).then_some("ca.key");
    let written = write_all(&args.out, &files, forbidden, existing).map_err(CommandError::Output)?;
    report(args, &dns_names, &written, out).map_err(CommandError::Report)
}

fn ca_for(args: &Issue, not_before: SystemTime, lifetime: Duration) -> Result<Ca, CommandError> {
    let (Some(cert), Some(key)) = (&args.ca_cert, &args.ca_key) else {
        // A CA without its key is useless after its only certificate expires.
        let lifetime = if args.keep_ca_key {
            STORED_CA_LIFETIME
        } else {
            lifetime
        };
        return issue_ca(CA_COMMON_NAME, not_before, lifetime).map_err(CommandError::Issue);
    };
    let (cert_bytes, key_bytes) = (read(cert)?, read(key)?);
    Ca::from_pem(
        PemFile {
            name: &cert.to_string_lossy(),
            bytes: &cert_bytes,
        },
        PemFile {
            name: &key.to_string_lossy(),
            bytes: &key_bytes,
        },
    )
    .map_err(CommandError::Issue)
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path).map_err(|source| CommandError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The API server verifies exactly this name if the webhook configuration names a Service.
fn dns_names(args: &Issue) -> Vec<String> {
    if args.dns_names.is_empty() && args.ips.is_empty() {
        return vec![format!("{SERVICE}.{}.svc", args.namespace)];
    }
    args.dns_names.clone()
}

fn report(args: &Issue, dns_names: &[String], written: &[PathBuf], out: &mut impl Write) -> io::Result<()> {
    let names = dns_names
        .iter()
        .cloned()
        .chain(args.ips.iter().map(ToString::to_string));
    let names: Vec<_> = names.collect();
    writeln!(
        out,
        "Issued for {}, valid for {} days:",
        names.join(", "),
        args.days
    )?;
    for path in written {
        writeln!(out, "  {}", path.display())?;
    }
    let file = |name: &str| shell_quoted(&args.out.join(name).to_string_lossy());
    writeln!(out, "\nCreate the Secret that the webhook mounts:")?;
    writeln!(
        out,
        "  kubectl -n {} create secret tls {SECRET} --cert={} --key={}",
        shell_quoted(&args.namespace),
        file("tls.crt"),
        file("tls.key")
    )?;
    writeln!(out, "\nThe caBundle for both webhook configurations:")?;
    writeln!(out, "  base64 -w0 {}", file("ca.crt"))?;
    out.flush()
}

/// The text as one word of a POSIX shell.
fn shell_quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
