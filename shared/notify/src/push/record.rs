//! The pushes in the status of a Receiver.
//!
//! The exposed process adds pushes, the notifier handles them. Both write the status with the version that they have read, and a push
//! has a number that is never used again, so none is lost or handled twice.

use helmops_api::notifications::{Push, ReceiverStatus};

use super::repository::Announcement;

/// Pushes in one status. More repositories than that become one push to all.
pub const MAX_PUSHES: usize = 20;

/// The pushes that are not handled.
pub fn pending(status: &ReceiverStatus) -> impl Iterator<Item = &Push> {
    status
        .pushes
        .iter()
        .filter(|push| push.number > status.handled_push)
}

/// The pushes of the status with those that are announced. A second push to a repository replaces the first, with a higher number.
pub fn recorded(status: &ReceiverStatus, announced: &[Announcement], time: &str) -> Vec<Push> {
    let mut pushes: Vec<Push> = pending(status).cloned().collect();
    let last = status.pushes.iter().map(|push| push.number).max();
    let mut number = last.unwrap_or_default().max(status.handled_push).max(0);
    for announcement in announced {
        number = number.saturating_add(1);
        pushes.retain(|push| push.repository != announcement.repository);
        pushes.push(Push {
            number,
            repository: announcement.repository.clone(),
            tag: announcement.tag.clone(),
            time: time.to_owned(),
        });
    }
    if pushes.len() > MAX_PUSHES {
        pushes = vec![Push {
            number,
            time: time.to_owned(),
            ..Push::default()
        }];
    }
    pushes
}

/// Whether a push names no repository, so that it polls every HelmOp of its Receiver.
pub const fn is_of_all(push: &Push) -> bool {
    push.repository.is_empty()
}

/// Removes the pushes that are handled, up to a number. Those that wait get numbers above it, since all below count as handled.
pub fn set_handled(status: &mut ReceiverStatus, last: i64, waiting: Vec<Push>) {
    status.handled_push = last;
    let mut number = last;
    status.pushes = waiting
        .into_iter()
        .map(|push| {
            number = push.number.max(number.saturating_add(1));
            Push { number, ..push }
        })
        .collect();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn announcement(repository: &str, tag: &str) -> Announcement {
        Announcement {
            repository: repository.into(),
            tag: tag.into(),
        }
    }

    fn shown(pushes: &[Push]) -> Vec<(i64, &str, &str)> {
        pushes
            .iter()
            .map(|push| (push.number, &*push.repository, &*push.tag))
            .collect()
    }

    #[test]
    fn a_second_push_to_a_repository_replaces_the_first() {
        let mut status = ReceiverStatus {
            handled_push: 3,
            ..ReceiverStatus::default()
        };
        status.pushes = recorded(&status, &[announcement("a", "1"), announcement("b", "1")], "t");
        assert_eq!(shown(&status.pushes), [(4, "a", "1"), (5, "b", "1")]);
        status.pushes = recorded(&status, &[announcement("a", "2")], "t");
        assert_eq!(shown(&status.pushes), [(5, "b", "1"), (6, "a", "2")]);
        // The notifier has handled what it has read, before the last push.
        status.handled_push = 5;
        assert_eq!(
            shown(&pending(&status).cloned().collect::<Vec<_>>()),
            [(6, "a", "2")]
        );
    }

    #[test]
    fn numbers_go_on_after_all_pushes_are_handled() {
        let status = ReceiverStatus {
            handled_push: 7,
            ..ReceiverStatus::default()
        };
        assert_eq!(
            shown(&recorded(&status, &[announcement("a", "1")], "t")),
            [(8, "a", "1")]
        );
    }

    #[test]
    fn a_push_that_waits_is_pending_whatever_was_handled_meanwhile() {
        for (waits, expected) in [(1, 4), (2, 4), (5, 5)] {
            let push = Push {
                number: waits,
                ..Push::default()
            };
            let mut status = ReceiverStatus::default();
            set_handled(&mut status, 3, vec![push]);
            assert_eq!(shown(&status.pushes), [(expected, "", "")]);
            assert_eq!(pending(&status).count(), 1);
            // The next push has a number of its own.
            let next = recorded(&status, &[announcement("a", "1")], "t");
            assert_eq!(shown(&next), [(expected, "", ""), (expected + 1, "a", "1")]);
        }
    }

    #[test]
    fn too_many_repositories_become_one_push_to_all() {
        let many: Vec<_> = (0..MAX_PUSHES)
            .map(|index| announcement(&index.to_string(), "1"))
            .collect();
        let mut status = ReceiverStatus::default();
        status.pushes = recorded(&status, &many, "t");
        assert_eq!(status.pushes.len(), MAX_PUSHES);
        status.pushes = recorded(&status, &[announcement("one more", "1")], "t");
        assert_eq!(shown(&status.pushes), [(21, "", "")]);
    }

    proptest! {
        /// Whatever is recorded, and whenever the notifier handles it: each repository of a push is polled after the push.
        #[test]
        fn no_push_is_lost(steps in prop::collection::vec((any::<bool>(), prop::option::of((0..40_u8, 0..3_usize))), 1..200)) {
            let mut status = ReceiverStatus::default();
            let mut waiting = std::collections::BTreeSet::new();
            for (waits, step) in steps {
                if let Some((repository, more)) = step {
                    let announced: Vec<_> = (0..=more).map(|n| announcement(&format!("{}", usize::from(repository) + n), "1")).collect();
                    waiting.extend(announced.iter().map(|announcement| announcement.repository.clone()));
                    status.pushes = recorded(&status, &announced, "t");
                } else {
                    let (later, now): (Vec<_>, Vec<_>) = pending(&status).cloned().partition(|push| waits && is_of_all(push));
                    for push in &now {
                        if is_of_all(push) { waiting.clear() } else { waiting.remove(&push.repository); }
                    }
                    let last = now.iter().map(|push| push.number).max().unwrap_or(status.handled_push);
                    let has_later = !later.is_empty();
                    set_handled(&mut status, last, later);
                    prop_assert!(waiting.is_empty() || has_later && pending(&status).any(is_of_all), "{waiting:?}");
                }
                prop_assert!(status.pushes.len() <= MAX_PUSHES);
                prop_assert!(status.pushes.is_sorted_by_key(|push| push.number));
            }
        }
    }
}
