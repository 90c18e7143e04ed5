//! A gate that an endpoint decides.

use std::{ops::RangeInclusive, time::Duration};

use bounded_text::{cut, excerpt};
use helmops_api::rollout::PartitionGate;
use helmops_model::{chart::location, validation::names};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use url::Url;

use super::{GateProblem, GateState, InvalidGate, Verdict, invalid};

/// How often an endpoint is requested by default.
const INTERVAL: Duration = Duration::from_mins(1);
/// A shorter one is a load for the endpoint, and a longer one more likely a mistake.
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_hours(24);

/// How long to wait for a response by default.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The Bundle is not deployed while it waits.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(10);

/// Longest time until the next request after one that has failed: what was wrong may be corrected before `interval` is over.
const RETRY: Duration = Duration::from_mins(1);
/// So many requests in a row may fail for reasons that usually resolve themselves before a user is called.
const MAX_TRANSIENT: usize = 5;

/// Maximum length of a response, in bytes.
const MAX_RESPONSE: usize = 4 << 10;
/// Maximum length of its message, in bytes.
const MAX_MESSAGE: usize = 256;
/// Maximum length of a host in a message, in bytes.
const MAX_HOST: usize = 100;

/// An endpoint that decides whether a partition may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateEndpoint {
    /// Its URL, with scheme `https` and without credentials.
    pub url: Url,
    /// The Secret with the login and the trust; empty for none.
    pub secret_name: String,
    /// How long a response counts.
    pub interval: Duration,
    /// How long to wait for one.
    pub timeout: Duration,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointFailure {
    /// The cause, with the remedy.
    pub cause: String,
    /// Whether it usually resolves itself.
    pub is_transient: bool,
    /// How long the endpoint does not accept requests.
    pub retry_after: Option<Duration>,
    /// How many requests have failed one after the other, with this one.
    pub in_a_row: usize,
}

/// What an endpoint responds.
#[derive(Debug, Deserialize)]
struct GateResponse {
    open: bool,
    #[serde(default)]
    message: String,
}

impl GateEndpoint {
    pub(super) fn parse(gate: &PartitionGate) -> Result<Self, InvalidGate> {
        let name = &*gate.secret_name;
        if !name.is_empty() {
            names::subdomain(name)
                .map_err(|problem| invalid("secretName", name, GateProblem::Name(problem)))?;
        }
        Ok(Self {
            url: parse_url(&gate.url).map_err(|problem| invalid("url", &gate.url, problem))?,
            secret_name: name.to_owned(),
            interval: parse_duration("interval", gate.interval.as_deref(), INTERVAL, &INTERVALS)?,
            timeout: parse_duration("timeout", gate.timeout.as_deref(), TIMEOUT, &TIMEOUTS)?,
        })
    }

    /// What a response decides from now on.
    pub fn responded(&self, response: &[u8], now: Timestamp) -> GateState {
        match self.verdict(response) {
            Verdict::Failed(cause) => self.retried(Verdict::Failed, &cause, None, now),
            verdict => GateState {
                verdict,
                again: Some(later(now, self.interval)),
            },
        }
    }

    /// What follows from a request without a response. It is not the mistake of a user as long as it may resolve itself.
    pub fn failed(&self, failure: &EndpointFailure, now: Timestamp) -> GateState {
        let is_calm = failure.is_transient && failure.in_a_row < MAX_TRANSIENT;
        let verdict = if is_calm { Verdict::Closed } else { Verdict::Failed };
        let cause = format!("{}: {}", self.host(), failure.cause);
        self.retried(verdict, &cause, failure.retry_after, now)
    }

    fn retried(
        &self,
        verdict: fn(String) -> Verdict,
        cause: &str,
        retry_after: Option<Duration>,
        now: Timestamp,
    ) -> GateState {
        let delay = self.interval.min(RETRY).max(retry_after.unwrap_or_default());
        GateState {
            verdict: verdict(format!("{cause}; the next request follows in {delay:?}")),
            again: Some(later(now, delay)),
        }
    }

    /// What a response to a request decides.
    fn verdict(&self, response: &[u8]) -> Verdict {
        if response.len() > MAX_RESPONSE {
            return self.unusable(&format!("the response has more than {} KiB", MAX_RESPONSE >> 10));
        }
        match serde_json::from_slice(response) {
            Ok(GateResponse { open: true, .. }) => Verdict::Open,
            Ok(GateResponse { message, .. }) if message.is_empty() => {
                Verdict::Closed(format!("{} responds that it is closed", self.host()))
            }
            Ok(GateResponse { message, .. }) => Verdict::Closed(format!(
                "{} responds: {}",
                self.host(),
                excerpt(&message, MAX_MESSAGE)
            )),
            // The error of the decoder would quote the response.
            Err(_) => self.unusable("the response is not JSON such as {\"open\": true}"),
        }
    }

    fn unusable(&self, cause: &str) -> Verdict {
        Verdict::Failed(format!("{}: {cause}", self.host()))
    }

    fn host(&self) -> String {
        cut(self.url.host_str().unwrap_or_default().to_owned(), MAX_HOST)
    }
}

fn later(now: Timestamp, delay: Duration) -> Timestamp {
    now.saturating_add(delay).unwrap_or(Timestamp::MAX)
}

fn parse_url(text: &str) -> Result<Url, GateProblem> {
    let url = location::url(text).map_err(|error| GateProblem::Url(error.to_string()))?;
    let problem = if url.scheme() != "https" {
        "the state of the rollout and the login are sent over HTTPS only; write https://"
    } else if !url.has_host() {
        "it has no host"
    } else if !url.username().is_empty() || url.password().is_some() {
        "a login in the URL is readable for everyone who can read the HelmOp; write it into the Secret in secretName"
    } else {
        return Ok(url);
    };
    Err(GateProblem::Url(problem.to_owned()))
}

fn parse_duration(
    field: &'static str,
    text: Option<&str>,
    default: Duration,
    allowed: &RangeInclusive<Duration>,
) -> Result<Duration, InvalidGate> {
    let Some(text) = text else { return Ok(default) };
    let problem = match go_formats::duration::parse(text) {
        Ok(duration) if allowed.contains(&duration) => return Ok(duration),
        Ok(_) => format!("must be from {:?} to {:?}", allowed.start(), allowed.end()),
        Err(error) => format!("{error}; use a Go duration such as 30s or 5m"),
    };
    Err(invalid(field, text, GateProblem::Duration(problem)))
}
