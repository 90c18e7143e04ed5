//! The leadership of this process, as the other modules see it.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// Whether, and for how long, this process is the leader. Clones share one state.
#[derive(Clone, Debug)]
pub struct Leadership(Option<watch::Receiver<Held>>);

/// The election publishes leadership here.
#[derive(Debug)]
pub struct LeadershipSender(watch::Sender<Held>);

/// Until when this process is the leader, if it is, and in which term.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    until: Option<Instant>,
    term: Term,
}

/// A period in which this process is the leader without interruption. Between two terms another replica may have been the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term(u64);

/// A term of leadership has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermEnded;

/// The election has ended, and this process will never be the leader again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionEnded;

impl Leadership {
    /// Without an election: always the leader.
    pub const fn always() -> Self {
        Self(None)
    }

    /// With an election: the leader while the sender has set a time in the future.
    pub fn elected() -> (LeadershipSender, Self) {
        let (sender, receiver) = watch::channel(Held::default());
        (LeadershipSender(sender), Self(Some(receiver)))
    }

    /// How long this process may still write without a renewal; `None` if it is not the leader.
    pub fn remaining(&self) -> Option<Duration> {
        let Some(held) = &self.0 else {
            return Some(Duration::MAX);
        };
        held.borrow().remaining()
    }

    /// The current term of this process; `None` if it is not the leader.
    pub fn term(&self) -> Option<Term> {
        let Some(held) = &self.0 else {
            return Some(Term::default());
        };
        let held = *held.borrow();
        held.remaining().map(|_| held.term)
    }

    /// Checks that a term has not ended.
    ///
    /// # Errors
    /// If it has ended.
    pub fn check(&self, term: Term) -> Result<(), TermEnded> {
        if self.term() == Some(term) {
            Ok(())
        } else {
            Err(TermEnded)
        }
    }

    /// Waits until this process is the leader.
    ///
    /// # Errors
    /// If the election has ended.
    pub async fn wait_until_held(&self) -> Result<(), ElectionEnded> {
        match &self.0 {
            Some(held) if self.remaining().is_none() => {
                let mut held = held.clone();
                let waited = held.wait_for(|held| held.remaining().is_some()).await;
                waited.map(drop).map_err(|_| ElectionEnded)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until the present term of this process has ended. Without one it does not wait.
    pub async fn until_lost(&self) {
        let Some(held) = &self.0 else {
            return std::future::pending().await;
        };
        let mut held = held.clone();
        let term = held.borrow_and_update().term;
        loop {
            let now = *held.borrow_and_update();
            let Some(remaining) = now.remaining().filter(|_| now.term == term) else {
                return;
            };
            tokio::select! {
                () = sleep(remaining) => {}
                Ok(()) = held.changed() => {}
            }
        }
    }
}

impl LeadershipSender {
    /// Sets until when this process is the leader; `None` if it is not.
    pub fn set(&self, until: Option<Instant>) {
        self.0.send_if_modified(|held| {
            if held.remaining().is_none() {
                held.term = Term(held.term.0 + 1);
            }
            std::mem::replace(&mut held.until, until) != until
        });
    }
}

impl Held {
    fn remaining(&self) -> Option<Duration> {
        let remaining = self.until?.saturating_duration_since(Instant::now());
        (!remaining.is_zero()).then_some(remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leadership_expires_and_returns_with_a_renewal() {
        let (sender, leadership) = Leadership::elected();
        assert_eq!(leadership.remaining(), None);
        let second = Duration::from_secs(1);
        sender.set(Some(Instant::now() + second));
        assert_eq!(leadership.remaining(), Some(second));
        assert_eq!(leadership.wait_until_held().await, Ok(()));
        tokio::time::advance(second).await;
        assert_eq!(leadership.remaining(), None);
        let held = leadership.wait_until_held();
        tokio::pin!(held);
        assert!(futures::poll!(&mut held).is_pending());
        sender.set(Some(Instant::now() + second));
        assert_eq!(held.await, Ok(()));
        sender.set(None);
        assert_eq!(leadership.remaining(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_term_is_noticed_although_another_one_begins() {
        let second = Duration::from_secs(1);
        let (sender, leadership) = Leadership::elected();
        leadership.until_lost().await;
        sender.set(Some(Instant::now() + second));
        let lost = leadership.until_lost();
        tokio::pin!(lost);
        assert!(futures::poll!(&mut lost).is_pending());
        // A renewal.
        sender.set(Some(Instant::now() + 3 * second));
        tokio::time::advance(2 * second).await;
        assert!(futures::poll!(&mut lost).is_pending());
        tokio::time::advance(second).await;
        sender.set(Some(Instant::now() + second));
        lost.await;
        // The election has ended, but its last term has not.
        drop(sender);
        let start = Instant::now();
        leadership.until_lost().await;
        assert_eq!(start.elapsed(), second);
        let always = Leadership::always();
        let never = always.until_lost();
        tokio::pin!(never);
        assert!(futures::poll!(&mut never).is_pending());
    }

    #[tokio::test]
    async fn the_end_of_the_election_ends_the_wait() {
        let (sender, leadership) = Leadership::elected();
        drop(sender);
        assert_eq!(leadership.wait_until_held().await, Err(ElectionEnded));
    }

    #[tokio::test]
    async fn without_an_election_this_process_is_always_the_leader() {
        let leadership = Leadership::always();
        assert_eq!(leadership.remaining(), Some(Duration::MAX));
        assert_eq!(leadership.wait_until_held().await, Ok(()));
    }
}
