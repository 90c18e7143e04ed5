//! What every host is spared: too many requests at a time, and requests while it is in trouble.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use helmops_shared::runtime::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault::Fault;
use crate::backoff::Pace;

/// Requests at a time to one host: as many as a browser opens connections.
const PER_HOST: usize = 6;
/// Hosts that are remembered. Those that nobody asks at the moment, and that are well, can be forgotten at any time.
const MAX_HOSTS: usize = 4096;
/// Pauses of our own making: a host that is back is noticed within the longest.
const TROUBLE: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(30),
};
/// Longest pause that a server can ask for.
pub const LONGEST_ASKED: Duration = Duration::from_hours(1);
/// Pauses after a 429 that names no time.
const LIMITED: Pace = Pace {
    first: Duration::from_secs(10),
    longest: LONGEST_ASKED,
};

/// The hosts that are asked, by scheme, host and port.
#[derive(Debug, Default)]
pub struct Hosts {
    known: Mutex<HashMap<String, Arc<Host>>>,
}

#[derive(Debug)]
struct Host {
    slots: Arc<Semaphore>,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    failures: u32,
    pause: Option<(Instant, Fault)>,
}

/// The right to one request to a host. Tell it what came of the request.
#[derive(Debug)]
pub struct Turn {
    host: Arc<Host>,
    _slot: OwnedSemaphorePermit,
}

impl Hosts {
    /// Waits until a request to a host is allowed.
    ///
    /// # Errors
    /// What the host failed with last, while it is spared.
    pub async fn turn(&self, origin: &str) -> Result<Turn, Fault> {
        let host = self.host(origin);
        host.check()?;
        // The semaphore is never closed.
        let slot = Arc::clone(&host.slots).acquire_owned().await;
        let slot = slot.map_err(|_| Fault::Client("the controller is stopping".to_owned()))?;
        // It may have failed while this one waited.
        host.check()?;
        Ok(Turn { host, _slot: slot })
    }

    fn host(&self, origin: &str) -> Arc<Host> {
        let mut known = lock(&self.known);
        if let Some(host) = known.get(origin) {
            return Arc::clone(host);
        }
        if known.len() >= MAX_HOSTS {
            known.retain(|_, host| Arc::strong_count(host) > 1 || lock(&host.health).failures > 0);
        }
        let host = Arc::new(Host {
            slots: Arc::new(Semaphore::new(PER_HOST)),
            health: Mutex::default(),
        });
        known.insert(origin.to_owned(), Arc::clone(&host));
        host
    }
}

impl Host {
    fn check(&self) -> Result<(), Fault> {
        match &lock(&self.health).pause {
            Some((until, fault)) if Instant::now() < *until => Err(fault.clone()),
            _ => Ok(()),
        }
    }
}

impl Health {
    /// Whether the host has asked to be left alone until some time to come.
    fn is_limited(&self) -> bool {
        matches!(&self.pause, Some((until, Fault::RateLimited { .. })) if Instant::now() < *until)
    }
}

impl Turn {
    /// The host answered.
    pub fn answered(&self) {
        let mut health = lock(&self.host.health);
        // What it asked for meanwhile holds, whatever comes of requests that were under way already.
        if !health.is_limited() {
            *health = Health::default();
        }
    }

    /// The host did not, or wants to be left alone.
    pub fn failed(&self, fault: &Fault) {
        if !fault.is_of_host() {
            return self.answered();
        }
        let now = Instant::now();
        let mut health = lock(&self.host.health);
        let paused = health
            .pause
            .as_ref()
            .map(|(until, _)| *until)
            .filter(|until| *until > now);
        // What was under way together fails together, and counts once.
        if paused.is_none() {
            health.failures = health.failures.saturating_add(1);
        }
        let until = now + pause(fault, health.failures.saturating_sub(1));
        if paused.is_none_or(|paused| paused < until) {
            health.pause = Some((until, fault.clone()));
        }
    }
}

/// How long a host is spared after a failure, `failures` others before it.
fn pause(fault: &Fault, failures: u32) -> Duration {
    match fault {
        Fault::RateLimited {
            after: Some(after), ..
        } => (*after).clamp(TROUBLE.first, LONGEST_ASKED),
        Fault::RateLimited { after: None, .. } => LIMITED.after(failures),
        _ => TROUBLE.after(failures),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let secs = |failures| pause(&Fault::Refused, failures).as_secs();
        assert_eq!([secs(0), secs(1), secs(4), secs(5), secs(99)], [1, 2, 16, 30, 30]);
        let limited = |after: Option<u64>, failures| {
            let after = after.map(Duration::from_secs);
            let status = StatusCode::TOO_MANY_REQUESTS;
            pause(&Fault::RateLimited { status, after }, failures).as_secs()
        };
        assert_eq!(limited(Some(7), 5), 7, "the server's word counts");
        assert_eq!(limited(Some(0), 0), 1);
        assert_eq!(limited(Some(u64::MAX), 0), 3600);
        assert_eq!([limited(None, 0), limited(None, 1)], [10, 20]);
    }

    #[tokio::test]
    async fn a_host_in_trouble_is_spared_and_others_are_not() {
        let hosts = Hosts::default();
        let turn = hosts.turn("https://a").await.unwrap();
        turn.failed(&Fault::Refused);
        assert!(matches!(hosts.turn("https://a").await, Err(Fault::Refused)));
        assert!(hosts.turn("https://a:8443").await.is_ok());
        turn.answered();
        assert!(hosts.turn("https://a").await.is_ok());
    }

    /// How long a host is spared after these.
    async fn spared(faults: &[&Fault]) -> Duration {
        let hosts = Hosts::default();
        for fault in faults {
            let host = hosts.host("https://a");
            let turn = Turn {
                _slot: Arc::clone(&host.slots).acquire_owned().await.unwrap(),
                host,
            };
            turn.failed(fault);
        }
        let host = hosts.host("https://a");
        let (until, _) = lock(&host.health).pause.clone().unwrap();
        until - Instant::now()
    }

    #[tokio::test]
    async fn what_was_under_way_together_fails_together_and_counts_once() {
        let six = spared(&[&Fault::Refused; 6]).await;
        assert!(six <= TROUBLE.first, "{six:?}");
    }

    #[tokio::test]
    async fn what_the_host_asks_for_is_not_cut_short() {
        let limited = Fault::RateLimited {
            status: StatusCode::TOO_MANY_REQUESTS,
            after: Some(LONGEST_ASKED),
        };
        for faults in [[&limited, &Fault::Refused], [&Fault::Refused, &limited]] {
            let pause = spared(&faults).await;
            assert!(pause > TROUBLE.longest, "{pause:?}");
        }
        let hosts = Hosts::default();
        let (limit, under_way) = (
            hosts.turn("https://a").await.unwrap(),
            hosts.turn("https://a").await.unwrap(),
        );
        limit.failed(&limited);
        under_way.answered();
        assert!(hosts.turn("https://a").await.is_err());
    }

    #[tokio::test]
    async fn after_a_success_the_first_pause_is_short_again() {
        let hosts = Hosts::default();
        let turn = hosts.turn("https://a").await.unwrap();
        for _ in 0..2 {
            lock(&turn.host.health).failures = 5;
            turn.answered();
            turn.failed(&Fault::Refused);
            let (until, _) = lock(&turn.host.health).pause.clone().unwrap();
            assert!(until <= Instant::now() + TROUBLE.first);
        }
    }

    #[tokio::test]
    async fn what_is_wrong_with_one_url_is_not_held_against_its_host() {
        let hosts = Hosts::default();
        let turn = hosts.turn("https://a").await.unwrap();
        turn.failed(&Fault::Status(StatusCode::NOT_FOUND));
        assert!(hosts.turn("https://a").await.is_ok());
    }

    #[tokio::test]
    async fn a_host_is_asked_a_few_things_at_a_time() {
        let hosts = Hosts::default();
        let mut turns = Vec::new();
        for _ in 0..PER_HOST {
            turns.push(hosts.turn("https://a").await.unwrap());
        }
        let waiting = hosts.turn("https://a");
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        turns.pop();
        assert!(waiting.await.is_ok());
    }
}
