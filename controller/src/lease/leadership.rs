//! What the rest of the process knows of the election.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

/// Whether, and for how long, this process leads. Clones share one state.
#[derive(Clone, Debug)]
pub struct Leadership(Option<watch::Receiver<Held>>);

/// Where the election says so.
#[derive(Debug)]
pub struct LeadershipSender(watch::Sender<Held>);

/// Until when this process leads, if it does, and in which term.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    until: Option<Instant>,
    term: Term,
}

/// A time during which this process leads without a break. Others may have led between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term(u64);

/// A term of leadership has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed;

/// The election has ended, and this process will lead no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl Leadership {
    /// Without an election: it leads for ever.
    pub fn always() -> Self {
        Self(None)
    }

    /// It leads when the seat says so.
    pub fn elected() -> (LeadershipSender, Self) {
        let (sender, receiver) = watch::channel(Held::default());
        (LeadershipSender(sender), Self(Some(receiver)))
    }

    /// How long this process may still write, if nothing renews its leadership; `None` while it does not lead.
    pub fn remaining(&self) -> Option<Duration> {
        let Some(until) = &self.0 else {
            return Some(Duration::MAX);
        };
        until.borrow().left()
    }

    /// The term in which this process leads; `None` while it does not lead.
    pub fn term(&self) -> Option<Term> {
        let Some(held) = &self.0 else {
            return Some(Term::default());
        };
        let held = *held.borrow();
        held.left().map(|_| held.term)
    }

    /// Checks that a term goes on.
    ///
    /// # Errors
    /// Where it has passed.
    pub fn check(&self, term: Term) -> Result<(), Passed> {
        if self.term() == Some(term) {
            Ok(())
        } else {
            Err(Passed)
        }
    }

    /// Waits until this process leads.
    ///
    /// # Errors
    /// Where the election has ended.
    pub async fn held(&self) -> Result<(), Ended> {
        match &self.0 {
            Some(until) if self.remaining().is_none() => {
                let mut until = until.clone();
                let waited = until.wait_for(|held| held.left().is_some()).await;
                waited.map(drop).map_err(|_| Ended)
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl LeadershipSender {
    /// This process leads until then, or not at all.
    pub fn set(&self, until: Option<Instant>) {
        self.0.send_if_modified(|held| {
            if held.left().is_none() {
                held.term = Term(held.term.0 + 1);
            }
            std::mem::replace(&mut held.until, until) != until
        });
    }
}

impl Held {
    fn left(&self) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_passes_by_itself_and_comes_back_with_a_renewal() {
        let (seat, leadership) = Leadership::elected();
        assert_eq!(leadership.remaining(), None);
        let second = Duration::from_secs(1);
        seat.set(Some(Instant::now() + second));
        assert_eq!(leadership.remaining(), Some(second));
        assert_eq!(leadership.held().await, Ok(()));
        tokio::time::advance(second).await;
        assert_eq!(leadership.remaining(), None);
        let held = leadership.held();
        tokio::pin!(held);
        assert!(futures::poll!(&mut held).is_pending());
        seat.set(Some(Instant::now() + second));
        assert_eq!(held.await, Ok(()));
        seat.set(None);
        assert_eq!(leadership.remaining(), None);
    }

    #[tokio::test]
    async fn the_end_of_the_election_ends_the_wait() {
        let (seat, leadership) = Leadership::elected();
        drop(seat);
        assert_eq!(leadership.held().await, Err(Ended));
    }

    #[tokio::test]
    async fn without_an_election_it_leads_for_ever() {
        let leadership = Leadership::always();
        assert_eq!(leadership.remaining(), Some(Duration::MAX));
        assert_eq!(leadership.held().await, Ok(()));
    }
}
