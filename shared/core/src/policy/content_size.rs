//! How many bytes the charts of a namespace may take in the management cluster.

use go_formats::quantity;
use helmops_api::HelmOpPolicy;

/// What a Policy says; `None` if it says nothing. A text that is no quantity, which the CRD of helmops refuses, allows nothing.
pub(super) fn of(policy: &HelmOpPolicy) -> Option<u64> {
    let text = &policy.content_size;
    (!text.is_empty()).then(|| quantity::bytes(text).unwrap_or_default() as u64)
}

#[cfg(test)]
mod tests {
    use helmops_api::Policy;
    use serde_json::json;

    use crate::policy::Policies;

    #[test]
    fn the_largest_size_counts() {
        for (sizes, expected) in [
            (&[][..], None),
            (&[""], None),
            (&["1Mi"], Some(1 << 20)),
            (&["1Mi", "", "2Mi"], Some(2 << 20)),
            (&["0"], Some(0)),
            (&["many"], Some(0)),
        ] {
            let policies: Vec<Policy> = sizes
                .iter()
                .enumerate()
                .map(|(number, size)| {
                    let policy = json!({ "metadata": { "name": format!("p{number}") }, "helmOp": { "contentSize": size } });
                    serde_json::from_value(policy).unwrap()
                })
                .collect();
            assert_eq!(Policies::of(&policies).content_size(), expected, "{sizes:?}");
        }
    }
}
