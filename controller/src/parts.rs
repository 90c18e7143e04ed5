//! How a reconciliation ends of which some parts may have failed: none of them delays another one.

use std::{cmp::Reverse, time::Duration};

use helmops_process::exit::with_causes;
use helmops_runtime::{error_class::ClassifiedError, queue::RequeueAfter, retry_state::Done};

/// What is due already waits for this long after an error: the error may be one that lasts.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// How a reconciliation ends whose parts had these errors, and when the next one is due by itself: that does not wait for the backoff.
///
/// # Errors
/// With the error that determines the backoff, if nothing else is due.
pub fn done<E: ClassifiedError>(errors: Vec<E>, next: RequeueAfter) -> Result<Done, E> {
    match (select_error(errors), next) {
        (Some(error), None) => Err(error),
        (Some(error), Some(next)) => Ok(Done::after(&error, Some(next.max(MIN_WAIT)))),
        (None, next) => Ok(Done {
            requeue_after: next,
            ..Done::UNTIL_CHANGE
        }),
    }
}

/// The error that determines the backoff. If it is benign, another one is logged: nothing else would show it.
fn select_error<E: ClassifiedError>(mut errors: Vec<E>) -> Option<E> {
    errors.sort_by_key(|error| Reverse(error.class().retry_priority()));
    let mut errors = errors.into_iter();
    let selected = errors.next()?;
    let mut failures = errors.filter(|error| !error.is_benign());
    if selected.is_benign()
        && let Some(failure) = failures.next()
    {
        tracing::warn!(
            reason = failure.reason().as_str(),
            error = with_causes(&failure),
            "a part of the reconciliation failed; retrying"
        );
    }
    Some(selected)
}

#[cfg(test)]
mod tests {
    use helmops_model::reason::Reason;
    use helmops_runtime::{
        error_class::{Class, Classified, classified},
        retry_state::Failures,
    };

    use super::*;

    /// An error of a class.
    #[derive(Debug, PartialEq, thiserror::Error)]
    #[error("it failed")]
    struct Failed(Class);

    impl ClassifiedError for Failed {
        fn classify(&self) -> Classified {
            classified(Reason::Progressing, self.0)
        }
    }

    /// A backoff of minutes must not delay a partition that begins in a second.
    #[test]
    fn an_error_does_not_delay_what_is_due() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (next, expected) in [(2, 2), (1, 1), (0, 1)] {
            let retried = done(vec![Failed(Class::TRANSIENT)], seconds(next)).unwrap();
            assert_eq!(retried.requeue_after, seconds(expected));
            assert!(matches!(retried.failures, Failures::Another(_)), "{retried:?}");
            assert!(retried.counts_as.is_some());
        }
        assert!(
            done(vec![Failed(Class::TRANSIENT)], None).is_err(),
            "the backoff alone decides"
        );
        for next in [None, seconds(0), seconds(2)] {
            let succeeded = done(Vec::<Failed>::new(), next).unwrap();
            assert_eq!(succeeded.requeue_after, next);
            assert_eq!(succeeded.failures, Failures::Reset);
        }
    }

    #[test]
    fn the_error_that_is_most_likely_gone_soon_determines_the_backoff() {
        let (absent, transient, conflict) = (Class::Absent, Class::TRANSIENT, Class::Conflict);
        for (classes, selected) in [
            (vec![], None),
            (vec![absent, transient, absent], Some(transient)),
            (vec![transient, conflict, absent], Some(conflict)),
        ] {
            let errors = classes.into_iter().map(Failed).collect();
            assert_eq!(select_error(errors), selected.map(Failed));
        }
    }
}
