//! Limits of the size of a status.
//!
//! etcd rejects objects above 1.5 MiB, and the status of a rejected object can no longer be updated. The parts that grow with the
//! number of clusters and objects get 1 MiB together, which is Fleet's limit for the names of clusters alone; the other
//! 0.5 MiB are for the spec, conditions and managed fields. If something must be omitted, it is what is ready.

/// For all parts that grow, in bytes.
pub const TOTAL: usize = 1 << 20;
/// For the deployments that are not ready: ten, with the objects that are not ready or modified. Fleet's agent lists ten of
/// each, some 300 bytes long, so that usually nothing is truncated.
pub const NON_READY: usize = TOTAL / 8;
/// For the list of objects without the names of their clusters: some 700 of usual length.
pub const RESOURCES: usize = TOTAL / 4;
/// For the counts of each cluster: some 1,200 clusters. What this and the list of objects do not use is for the names of
/// clusters.
pub const CLUSTER_COUNTS: usize = TOTAL * 3 / 8;

/// The remaining bytes of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(usize);

impl Budget {
    /// A budget of this size.
    pub const fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes `bytes` if that many remain.
    pub const fn take(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(remaining) => {
                self.0 = remaining;
                true
            }
            None => false,
        }
    }

    /// The remaining bytes.
    pub const fn remaining(self) -> usize {
        self.0
    }
}

/// Bytes of a text as a JSON string, including quotes and the comma after it. The text comes from agents, and may contain
/// anything.
pub fn text(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    bytes.sum::<usize>() + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_text_is_never_underestimated() {
        for sample in ["", "fleet-default/c1", "\"\\", "a\nb\u{1}\u{7f}", "ä…"] {
            let json = serde_json::to_string(sample).unwrap();
            assert!(
                (json.len() + 1..=json.len() + 9).contains(&text(sample)),
                "{sample:?}"
            );
        }
        assert_eq!(text("fleet-default/c1"), "\"fleet-default/c1\",".len());
    }

    #[test]
    fn no_more_than_the_budget_is_taken() {
        let mut budget = Budget::of(5);
        assert_eq!(
            (budget.take(3), budget.take(3), budget.take(2), budget.remaining()),
            (true, false, true, 0)
        );
    }
}
