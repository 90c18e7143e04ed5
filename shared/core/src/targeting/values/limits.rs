//! The limits for the values of a Bundle on all its clusters.

use std::time::Duration;

use gotmpl::{Exceeded, Limits};
use thiserror::Error;

/// The limits for the values of a Bundle, within a processor time to which each cluster adds a millisecond; see
/// docs/standalone.md. Templates of 10 KB with 160 actions take about 3 million units and 1.5 ms for a cluster, so 2,000 clusters
/// fit.
pub const fn limits(time: Duration) -> Limits {
    Limits {
        work: 1_000_000_000,
        work_per_item: 3_000_000,
        retained: 64 << 20,
        retained_per_item: 16 << 10,
        time,
        time_per_item: Duration::from_millis(1),
    }
}

/// The values of a Bundle exceed one of its [`limits`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{}", message(.0))]
pub struct ValuesLimitExceeded(pub Exceeded);

impl From<Exceeded> for ValuesLimitExceeded {
    fn from(exceeded: Exceeded) -> Self {
        Self(exceeded)
    }
}

fn message(exceeded: &Exceeded) -> String {
    match exceeded {
        Exceeded::Work { limit } => format!(
            "the templates of this Bundle take more work than {limit} units on its clusters together; use shorter loops, \
             texts and patterns, or several Bundles"
        ),
        Exceeded::Time { limit } => format!(
            "the values of this Bundle take more than {} ms of processor time for its clusters together; use shorter \
             templates, or several Bundles with fewer clusters each",
            limit.as_millis()
        ),
        Exceeded::Memory { limit } => format!(
            "the values and options of this Bundle for its clusters, each counted once, have more than {limit} bytes \
             together; use smaller ones, valuesFrom, or several Bundles with fewer clusters each"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_limit_and_a_remedy() {
        let text = |exceeded| ValuesLimitExceeded(exceeded).to_string();
        assert_eq!(
            text(Exceeded::Work { limit: 5 }),
            "the templates of this Bundle take more work than 5 units on its clusters together; use shorter loops, texts and \
             patterns, or several Bundles"
        );
        assert_eq!(
            text(Exceeded::Time {
                limit: Duration::from_secs(2)
            }),
            "the values of this Bundle take more than 2000 ms of processor time for its clusters together; use shorter \
             templates, or several Bundles with fewer clusters each"
        );
        assert_eq!(
            text(Exceeded::Memory { limit: 7 }),
            "the values and options of this Bundle for its clusters, each counted once, have more than 7 bytes together; use \
             smaller ones, valuesFrom, or several Bundles with fewer clusters each"
        );
    }
}
