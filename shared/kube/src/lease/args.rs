//! The flags of leader election.

use std::time::Duration;

use thiserror::Error;

/// The flags, named as Kubernetes' own components name them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaseArgs {
    /// Enable leader election, so that only one of several replicas reconciles
    #[arg(
        long,
        env = "HELMOPS_LEADER_ELECT",
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub leader_elect: bool,

    /// How long other replicas wait after the last renewal of the Lease before they acquire it
    #[arg(long, env = "HELMOPS_LEASE_DURATION", default_value = "15s", value_parser = go_formats::duration::parse, value_name = "DURATION")]
    pub lease_duration: Duration,

    /// How long the leader keeps writing without renewing the Lease
    #[arg(long, env = "HELMOPS_RENEW_DEADLINE", default_value = "10s", value_parser = go_formats::duration::parse, value_name = "DURATION")]
    pub renew_deadline: Duration,

    /// Time between attempts to acquire or renew the Lease
    #[arg(long, env = "HELMOPS_RETRY_PERIOD", default_value = "2s", value_parser = go_formats::duration::parse, value_name = "DURATION")]
    pub retry_period: Duration,
}

/// Validated durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long other replicas wait: the lease duration in the Lease.
    pub lease: Duration,
    /// How long the leader keeps writing without a renewal.
    pub renew: Duration,
    /// Time between attempts.
    pub retry: Duration,
}

/// A wait is randomly up to a fifth (1/`JITTER`) longer, so that replicas do not send their requests at the same time.
const JITTER: u32 = 5;

/// The minimum retry period: a shorter one would only load the API server.
const MIN_RETRY_PERIOD: Duration = Duration::from_millis(100);

/// The maximum lease duration: a day without a leader is of no use, and the Lease stores seconds in 32 bits.
const MAX_LEASE_DURATION: Duration = Duration::from_hours(24);

/// The durations contradict each other.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TimingError {
    /// Other replicas would acquire the Lease while its holder still writes.
    #[error(
        "--lease-duration {lease:?} must be longer than --renew-deadline {renew:?}, or two replicas would write at the same time; the defaults are 15s and 10s"
    )]
    Overlap {
        /// The value of the flag.
        lease: Duration,
        /// The value of the flag.
        renew: Duration,
    },
    /// The holder would lose the Lease without any failure.
    #[error(
        "--renew-deadline {renew:?} must be longer than --retry-period {retry:?} and a fifth (waits vary by that much), or the leader would stop before it tries to renew; the defaults are 10s and 2s"
    )]
    DeadlineTooShort {
        /// The value of the flag.
        renew: Duration,
        /// The value of the flag.
        retry: Duration,
    },
    /// Requests would be sent without a pause.
    #[error("--retry-period {retry:?} is too short: at least {MIN_RETRY_PERIOD:?}")]
    RetryTooShort {
        /// The value of the flag.
        retry: Duration,
    },
    /// No other replica would take over.
    #[error(
        "--lease-duration {lease:?} is too long: at most 24h, because other replicas wait that long after the leader has died"
    )]
    LeaseTooLong {
        /// The value of the flag.
        lease: Duration,
    },
}

impl LeaseArgs {
    /// The validated durations.
    ///
    /// # Errors
    /// If flags contradict each other; the error names them.
    pub fn timing(&self) -> Result<Timing, TimingError> {
        Timing::new(self.lease_duration, self.renew_deadline, self.retry_period)
    }
}

impl Timing {
    /// Validates durations against each other.
    ///
    /// # Errors
    /// If flags contradict each other; the error names them.
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, TimingError> {
        if lease > MAX_LEASE_DURATION {
            return Err(TimingError::LeaseTooLong { lease });
        }
        if lease <= renew {
            return Err(TimingError::Overlap { lease, renew });
        }
        if renew <= longest_wait(retry) {
            return Err(TimingError::DeadlineTooShort { renew, retry });
        }
        if retry < MIN_RETRY_PERIOD {
            return Err(TimingError::RetryTooShort { retry });
        }
        Ok(Self { lease, renew, retry })
    }

    /// The timeout of one request: one that hangs is not the last before the deadline.
    pub fn request_timeout(&self) -> Duration {
        self.renew / 3
    }

    /// The time until the next attempt. `random` is between 0 and 1.
    pub fn retry_after(&self, random: f64) -> Duration {
        self.retry + (self.retry / JITTER).mul_f64(random)
    }

    /// The time until the next renewal after one that succeeded. That leaves time for the attempts after one that fails, and costs the API
    /// server fewer writes than a renewal in each `--retry-period`. `random` is between 0 and 1.
    pub fn renew_after(&self, random: f64) -> Duration {
        self.retry_after(random).max(self.renew / 3)
    }

    /// The timeout of the heartbeat of the election: there is a beat before each request and each wait.
    pub fn heartbeat_timeout(&self) -> Duration {
        self.lease + self.renew
    }
}

/// The maximum wait, with jitter.
fn longest_wait(retry: Duration) -> Duration {
    retry.saturating_add(retry / JITTER)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        lease: LeaseArgs,
    }

    fn parse(args: &[&str]) -> LeaseArgs {
        Cli::try_parse_from([&["x"], args].concat()).unwrap().lease
    }

    #[test]
    fn the_defaults_are_valid_and_enable_the_election() {
        let args = parse(&[]);
        assert!(args.leader_elect);
        let timing = args.timing().unwrap();
        let seconds = [timing.lease, timing.renew, timing.retry].map(|duration| duration.as_secs());
        assert_eq!(seconds, [15, 10, 2]);
    }

    #[test]
    fn the_election_is_disabled_as_in_kubernetes_components() {
        assert!(!parse(&["--leader-elect=false"]).leader_elect);
        assert!(parse(&["--leader-elect"]).leader_elect);
        assert!(parse(&["--leader-elect=true"]).leader_elect);
    }

    #[test]
    fn every_flag_has_an_environment_variable_of_the_same_name() {
        for arg in Cli::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let expected = format!("HELMOPS_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(
                arg.get_env().and_then(|env| env.to_str()),
                Some(expected.as_str())
            );
        }
    }

    #[test]
    fn a_wait_is_up_to_a_fifth_longer_than_the_retry_period() {
        let timing = parse(&["--retry-period=2s"]).timing().unwrap();
        let waits = [0.0, 0.5, 1.0].map(|random| timing.retry_after(random).as_millis());
        assert_eq!(waits, [2000, 2200, 2400]);
        assert_eq!(timing.retry_after(1.0), longest_wait(timing.retry));
    }

    #[test]
    fn contradicting_durations_are_rejected_and_the_error_names_the_flags() {
        for (durations, expected) in [
            (
                ["10s", "10s", "2s"],
                "--lease-duration 10s must be longer than --renew-deadline 10s",
            ),
            (
                ["15s", "2400ms", "2s"],
                "--renew-deadline 2.4s must be longer than --retry-period 2s",
            ),
            (
                ["15s", "10s", "0s"],
                "--retry-period 0ns is too short: at least 100ms",
            ),
            (
                ["25h", "10s", "2s"],
                "--lease-duration 90000s is too long: at most 24h",
            ),
            (["2562047h", "2562046h", "2562045h"], "--lease-duration"),
        ] {
            let [lease, renew, retry] = durations.map(|text| go_formats::duration::parse(text).unwrap());
            let text = Timing::new(lease, renew, retry).unwrap_err().to_string();
            assert!(text.starts_with(expected), "{text}");
        }
        let valid = ["15s", "2401ms", "2s"].map(|text| go_formats::duration::parse(text).unwrap());
        assert!(Timing::new(valid[0], valid[1], valid[2]).is_ok());
    }
}
