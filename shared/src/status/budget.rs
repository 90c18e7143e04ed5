//! How large a status may grow.
//!
//! etcd refuses objects above 1.5 MiB, and an object that is refused can no longer say anything. What grows with the
//! number of clusters and objects gets 1 MiB together, Fleet's limit for the names of clusters alone; the other half
//! MiB is for the spec, conditions and managed fields. Where something must be left out, it is what is as it should be.

/// For everything that grows.
pub const TOTAL: usize = 1 << 20;
/// For the deployments that are not ready: ten, with the objects that are not ready or were changed. Fleet's agent
/// lists ten of each, some 300 bytes long, so that nothing is cut as a rule.
pub const NON_READY: usize = TOTAL / 8;
/// For the list of objects without the clusters that each is on: some 700 of usual length.
pub const RESOURCES: usize = TOTAL / 4;
/// For the counts of each cluster: some 1,200 clusters. What is left of it, and of the list of objects, goes to the
/// names of clusters.
pub const CLUSTER_COUNTS: usize = TOTAL * 3 / 8;

/// Bytes of JSON that may still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(usize);

impl Budget {
    /// So many bytes.
    pub const fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes `bytes` if there are so many.
    pub const fn take(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }

    /// What is left.
    pub const fn left(self) -> usize {
        self.0
    }
}

/// Bytes of a text as a JSON string, its quotes and the comma after it included. Agents write what is counted here, so
/// that it may hold anything.
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
    fn a_text_never_counts_less_than_it_takes() {
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
    fn nothing_is_taken_that_is_not_there() {
        let mut budget = Budget::of(5);
        assert_eq!(
            (budget.take(3), budget.take(3), budget.take(2), budget.left()),
            (true, false, true, 0)
        );
    }
}
