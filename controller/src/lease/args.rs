//! The flags of leader election.

use std::time::Duration;

use helmops_shared::api::duration;
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
    #[arg(long, env = "HELMOPS_LEASE_DURATION", default_value = "15s", value_parser = duration::parse, value_name = "DURATION")]
    pub lease_duration: Duration,

    /// How long the leader keeps writing without renewing the Lease
    #[arg(long, env = "HELMOPS_RENEW_DEADLINE", default_value = "10s", value_parser = duration::parse, value_name = "DURATION")]
    pub renew_deadline: Duration,

    /// Time between attempts to acquire or renew the Lease
    #[arg(long, env = "HELMOPS_RETRY_PERIOD", default_value = "2s", value_parser = duration::parse, value_name = "DURATION")]
    pub retry_period: Duration,
}

/// Durations that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait; what the Lease says.
    pub lease: Duration,
    /// How long the leader writes without a renewal.
    pub renew: Duration,
    /// Between tries.
    pub retry: Duration,
}

/// A wait is up to a fifth longer, by chance, so that replicas do not ask together.
pub const JITTER: u32 = 5;

/// The shortest retry period: less would only load the API server.
const SHORTEST: Duration = Duration::from_millis(100);

/// The longest lease: a day without a leader helps nobody, and what the Lease holds are seconds in 32 bits.
const LONGEST: Duration = Duration::from_hours(24);

/// The durations contradict each other.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TimingError {
    /// Others would take the Lease while its holder still writes.
    #[error(
        "--lease-duration {lease:?} must be longer than --renew-deadline {renew:?}, or two replicas would write at the same time; the defaults are 15s and 10s"
    )]
    Overlap {
        /// As given.
        lease: Duration,
        /// As given.
        renew: Duration,
    },
    /// The holder would lose the Lease without a fault of anybody.
    #[error(
        "--renew-deadline {renew:?} must be longer than --retry-period {retry:?} and a fifth (waits vary by that much), or the leader would stop before it has tried to renew; the defaults are 10s and 2s"
    )]
    NoTry {
        /// As given.
        renew: Duration,
        /// As given.
        retry: Duration,
    },
    /// Requests without a pause.
    #[error("--retry-period {retry:?} is too short: at least {SHORTEST:?}")]
    Hasty {
        /// As given.
        retry: Duration,
    },
    /// Nobody would take over.
    #[error(
        "--lease-duration {lease:?} is too long: at most 24h, and others wait that long for a leader that died"
    )]
    Endless {
        /// As given.
        lease: Duration,
    },
}

impl LeaseArgs {
    /// The durations, if they go together.
    ///
    /// # Errors
    /// Names the flags that contradict each other.
    pub fn timing(&self) -> Result<Timing, TimingError> {
        Timing::new(self.lease_duration, self.renew_deadline, self.retry_period)
    }
}

impl Timing {
    /// Checks durations against each other.
    ///
    /// # Errors
    /// Names the flags that contradict each other.
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, TimingError> {
        if lease > LONGEST {
            return Err(TimingError::Endless { lease });
        }
        if lease <= renew {
            return Err(TimingError::Overlap { lease, renew });
        }
        if renew <= longest_wait(retry) {
            return Err(TimingError::NoTry { renew, retry });
        }
        if retry < SHORTEST {
            return Err(TimingError::Hasty { retry });
        }
        Ok(Self { lease, renew, retry })
    }

    /// Longest time for one request: two must fit into the deadline, so that one that hangs is not the last.
    pub fn request(&self) -> Duration {
        self.renew / 2
    }

    /// Longest time without a sign of life of the election: it gives one before each request and each wait.
    pub fn silence(&self) -> Duration {
        self.lease + self.renew
    }
}

/// The longest that a wait becomes by chance.
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
    fn the_defaults_go_together_and_elect() {
        let args = parse(&[]);
        assert!(args.leader_elect);
        let timing = args.timing().unwrap();
        let seconds = [timing.lease, timing.renew, timing.retry].map(|duration| duration.as_secs());
        assert_eq!(seconds, [15, 10, 2]);
    }

    #[test]
    fn election_is_switched_off_as_kubernetes_components_do_it() {
        assert!(!parse(&["--leader-elect=false"]).leader_elect);
        assert!(parse(&["--leader-elect"]).leader_elect);
        assert!(parse(&["--leader-elect=true"]).leader_elect);
    }

    #[test]
    fn every_flag_has_an_environment_variable_of_the_same_name() {
        for arg in Cli::command().get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let twin = format!("HELMOPS_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(twin.as_str()));
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_the_flags_named() {
        for (durations, words) in [
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
            let [lease, renew, retry] = durations.map(|text| duration::parse(text).unwrap());
            let text = Timing::new(lease, renew, retry).unwrap_err().to_string();
            assert!(text.starts_with(words), "{text}");
        }
        let just = ["15s", "2401ms", "2s"].map(|text| duration::parse(text).unwrap());
        assert!(Timing::new(just[0], just[1], just[2]).is_ok());
    }
}
