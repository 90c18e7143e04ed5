//! The flags that every helmops binary takes, each with an environment twin.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::supervisor::Shutdown;

/// Flags shared by every helmops process; flatten them into the arguments of a binary.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// Address that serves /metrics over plain HTTP; /livez and /readyz too
    #[arg(
        long,
        env = "HELMOPS_METRICS_BIND_ADDRESS",
        default_value = "[::]:8081",
        value_name = "IP:PORT"
    )]
    pub metrics_bind_address: SocketAddr,

    /// Address that serves /livez and /readyz over plain HTTP, for the kubelet
    ///
    /// It is not the address of the metrics, so that whoever reaches those cannot keep the kubelet out.
    #[arg(
        long,
        env = "HELMOPS_HEALTH_PROBE_BIND_ADDRESS",
        default_value = "[::]:8082",
        value_name = "IP:PORT"
    )]
    pub health_probe_bind_address: SocketAddr,

    /// Form of the log lines written to stderr
    #[arg(long, env = "HELMOPS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,

    /// What to log: a level, or a filter such as `info,MODULE=debug`
    ///
    /// Levels are error, warn, info, debug, trace and off. Warnings of the client for the API server, which hold whole
    /// responses, are left out unless the filter names it (`kube_client=warn`).
    #[arg(
        long,
        env = "HELMOPS_LOG_LEVEL",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub log_level: String,

    /// Seconds to go on serving, but unready, after SIGTERM, so that Service endpoints leave first
    #[arg(
        long,
        env = "HELMOPS_SHUTDOWN_DELAY_SECONDS",
        default_value_t = 0,
        value_name = "SECONDS"
    )]
    pub shutdown_delay_seconds: u64,

    /// Seconds that work under way gets to end after the delay; delay and timeout together must fit into
    /// the pod's terminationGracePeriodSeconds (30 unless set)
    #[arg(
        long,
        env = "HELMOPS_SHUTDOWN_TIMEOUT_SECONDS",
        default_value_t = 25,
        value_parser = clap::value_parser!(u64).range(1..),
        value_name = "SECONDS"
    )]
    pub shutdown_timeout_seconds: u64,
}

/// Time between the end of a server's own drain and the supervisor's patience: a server that gives up on
/// its last connections still has to return and to be reaped.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);

impl ProcessArgs {
    /// How the supervisor shuts down by these flags.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown {
            delay: Duration::from_secs(self.shutdown_delay_seconds),
            timeout: Duration::from_secs(self.shutdown_timeout_seconds),
        }
    }

    /// How long a server may drain ([`super::Limits::drain`]) so that it ends before the supervisor's
    /// timeout: two seconds less than it, but at least half of it.
    pub fn drain(&self) -> Duration {
        let timeout = Duration::from_secs(self.shutdown_timeout_seconds);
        timeout.saturating_sub(DRAIN_MARGIN).max(timeout / 2)
    }
}

/// The form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line, for log collectors.
    Json,
    /// One line of text an event, for people.
    Text,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Text => "text",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        process: ProcessArgs,
    }

    fn parse(args: &[&str]) -> Result<ProcessArgs, clap::Error> {
        Cli::try_parse_from([&["x"], args].concat()).map(|cli| cli.process)
    }

    #[test]
    fn the_defaults_fit_the_kubelets_grace_period() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.metrics_bind_address, "[::]:8081".parse().unwrap());
        assert_eq!(args.health_probe_bind_address, "[::]:8082".parse().unwrap());
        assert_eq!(args.log_format, LogFormat::Json);
        assert_eq!(args.log_level, "info");
        let shutdown = args.shutdown();
        assert!(shutdown.delay + shutdown.timeout < Duration::from_secs(30));
        assert!(args.drain() < shutdown.timeout);
    }

    #[test]
    fn every_flag_has_an_environment_twin_of_the_same_name() {
        for arg in Cli::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let twin = format!("HELMOPS_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(
                arg.get_env().and_then(|e| e.to_str()),
                Some(twin.as_str()),
                "--{long}"
            );
        }
    }

    #[test]
    fn a_drain_is_shorter_than_the_timeout_and_never_nothing() {
        for (timeout, drain) in [("1", 0.5), ("3", 1.5), ("4", 2.0), ("25", 23.0)] {
            let args = parse(&["--shutdown-timeout-seconds", timeout]).unwrap();
            assert!((args.drain().as_secs_f64() - drain).abs() < 1e-9, "{timeout}");
        }
    }

    #[test]
    fn a_timeout_of_nothing_and_an_unknown_format_are_refused() {
        assert!(parse(&["--shutdown-timeout-seconds", "0"]).is_err());
        assert!(parse(&["--log-format", "xml"]).is_err());
        assert_eq!(
            parse(&["--log-format", "text"]).unwrap().log_format,
            LogFormat::Text
        );
    }
}
