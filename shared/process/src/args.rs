//! The flags that every helmops binary takes. Each can also be set through an environment variable.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::supervisor::Shutdown;

/// Flags shared by every helmops process; flatten them into the arguments of a binary.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// Address to serve /metrics on, over plain HTTP; also serves /livez and /readyz
    #[arg(
        long,
        env = "HELMOPS_METRICS_BIND_ADDRESS",
        default_value = "[::]:8081",
        value_name = "IP:PORT"
    )]
    pub metrics_bind_address: SocketAddr,

    /// Address to serve /livez and /readyz on, over plain HTTP, for the probes of the kubelet
    ///
    /// It is separate from the metrics, so that clients of the metrics cannot make the probes fail.
    #[arg(
        long,
        env = "HELMOPS_HEALTH_PROBE_BIND_ADDRESS",
        default_value = "[::]:8082",
        value_name = "IP:PORT"
    )]
    pub health_probe_bind_address: SocketAddr,

    /// Format of the log, which is written to stderr
    #[arg(long, env = "HELMOPS_LOG_FORMAT", value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,

    /// Log level, or a filter such as `info,MODULE=debug`
    ///
    /// Levels are error, warn, info, debug, trace and off. Warnings of the Kubernetes client contain whole responses and are
    /// logged only if the filter names it (`kube_client=warn`).
    #[arg(
        long,
        env = "HELMOPS_LOG_LEVEL",
        default_value = "info",
        value_name = "FILTER"
    )]
    pub log_level: String,

    /// How long to keep serving after SIGTERM while unready, so that the endpoints of Services are removed first
    #[arg(long, env = "HELMOPS_SHUTDOWN_DELAY", default_value = "0s", value_parser = go_formats::duration::parse, value_name = "DURATION")]
    pub shutdown_delay: Duration,

    /// How long work in progress may take to finish after --shutdown-delay, at least 1s; both together must fit into the
    /// terminationGracePeriodSeconds of the pod (30 by default)
    #[arg(long, env = "HELMOPS_SHUTDOWN_TIMEOUT", default_value = "25s", value_parser = timeout, value_name = "DURATION")]
    pub shutdown_timeout: Duration,
}

/// Time between the end of a server's drain and the timeout of the supervisor: a server that has closed its last connections
/// still has to return.
const DRAIN_MARGIN: Duration = Duration::from_secs(2);

impl ProcessArgs {
    /// The delay and timeout of the shutdown.
    pub fn shutdown(&self) -> Shutdown {
        Shutdown {
            delay: self.shutdown_delay,
            timeout: self.shutdown_timeout,
        }
    }

    /// How long a server may drain ([`super::Limits::drain`]) so that it ends before the timeout of the
    /// supervisor: two seconds less than the timeout, but at least half of it.
    pub fn drain(&self) -> Duration {
        let timeout = self.shutdown_timeout;
        timeout.saturating_sub(DRAIN_MARGIN).max(timeout / 2)
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    let timeout = go_formats::duration::parse(text).map_err(|error| error.to_string())?;
    if timeout < Duration::from_secs(1) {
        return Err("too short; at least 1s".to_owned());
    }
    Ok(timeout)
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line, for log collectors.
    Json,
    /// One line of text per event, for people.
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

/// The file with the namespace of the pod's ServiceAccount.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The default of flags for the namespace of this process: that of the pod's ServiceAccount; `None` outside of a pod, and in one
/// without a ServiceAccount.
pub fn own_namespace() -> Option<String> {
    let namespace = std::fs::read_to_string(NAMESPACE_FILE).ok()?;
    let namespace = namespace.trim();
    (!namespace.is_empty()).then(|| namespace.to_owned())
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
    fn the_defaults_fit_into_the_default_grace_period() {
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
    fn every_flag_has_an_environment_variable_of_the_same_name() {
        for arg in Cli::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let variable = format!("HELMOPS_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(
                arg.get_env().and_then(|e| e.to_str()),
                Some(variable.as_str()),
                "--{long}"
            );
        }
    }

    #[test]
    fn a_drain_is_shorter_than_the_timeout_and_never_zero() {
        for (timeout, drain) in [("1s", 0.5), ("3s", 1.5), ("4s", 2.0), ("25s", 23.0)] {
            let args = parse(&["--shutdown-timeout", timeout]).unwrap();
            assert!((args.drain().as_secs_f64() - drain).abs() < 1e-9, "{timeout}");
        }
    }

    #[test]
    fn a_zero_timeout_and_an_unknown_log_format_are_rejected() {
        assert!(parse(&["--shutdown-timeout", "0s"]).is_err());
        assert!(parse(&["--shutdown-timeout", "25"]).is_err());
        assert!(parse(&["--log-format", "xml"]).is_err());
        assert_eq!(
            parse(&["--log-format", "text"]).unwrap().log_format,
            LogFormat::Text
        );
    }
}
