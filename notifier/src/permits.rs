//! Permits for requests. Endpoints that hang keep theirs until the timeout of the request, so those that have failed share a part of them.

use std::sync::Arc;

use helmops_fair::{FairPermit, FairSemaphore};

type Namespace = Arc<str>;

/// Requests at a time.
const ALL: usize = 64;
/// Requests of the AlertProviders of one namespace at a time.
const OF_NAMESPACE: usize = 16;
/// Requests at a time to endpoints whose last request has failed.
const FAILING: usize = 16;
/// The same of one namespace.
const FAILING_OF_NAMESPACE: usize = 4;

/// Permits for requests, shared between namespaces.
#[derive(Debug)]
pub struct Permits {
    all: FairSemaphore<Namespace>,
    failing: FairSemaphore<Namespace>,
}

/// A permit for a request.
#[derive(Debug)]
pub struct Permit {
    _one: FairPermit<Namespace>,
    _of_failing: Option<FairPermit<Namespace>>,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            all: FairSemaphore::new(ALL, OF_NAMESPACE),
            failing: FairSemaphore::new(FAILING, FAILING_OF_NAMESPACE),
        }
    }
}

impl Permits {
    /// Waits for a permit for a request to an endpoint, whose last request may have failed.
    pub async fn acquire(&self, namespace: Namespace, has_failed: bool) -> Permit {
        // First, so that one that waits for it has no other.
        let of_failing = if has_failed {
            Some(self.failing.acquire(Arc::clone(&namespace)).await)
        } else {
            None
        };
        Permit {
            _one: self.all.acquire(namespace).await,
            _of_failing: of_failing,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn endpoints_that_have_failed_leave_permits_for_others() {
        let permits = Permits::default();
        let acquire = |namespace: usize, has_failed| {
            let namespace = namespace.to_string().into();
            permits.acquire(namespace, has_failed).now_or_never()
        };
        // Many namespaces, and many endpoints in each.
        let numbers = || (0..10 * ALL).map(|number| number % 10);
        let failing: Vec<_> = numbers()
            .filter_map(|namespace| acquire(namespace, true))
            .collect();
        assert_eq!(failing.len(), FAILING);
        let others: Vec<_> = numbers()
            .filter_map(|namespace| acquire(namespace, false))
            .collect();
        assert_eq!(others.len(), ALL - FAILING);
        drop((failing, others));
        // Those of one namespace.
        let failing: Vec<_> = (0..ALL).filter_map(|_| acquire(1, true)).collect();
        let others: Vec<_> = (0..ALL).filter_map(|_| acquire(1, false)).collect();
        assert_eq!(
            (failing.len(), others.len()),
            (FAILING_OF_NAMESPACE, OF_NAMESPACE - FAILING_OF_NAMESPACE)
        );
    }
}
