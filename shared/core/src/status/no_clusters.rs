//! Why no cluster is targeted.

use bounded_text::listed;
use helmops_api::BundleTarget;

/// How many targets the message names.
const NAMED: usize = 5;

/// Why no cluster of a namespace gets anything from these targets. `default` is what applies if there are none.
pub fn message(targets: &[BundleTarget], default: &str, namespace: &str) -> String {
    let why = if targets.is_empty() {
        format!("spec.targets is empty{default}")
    } else {
        let held: Vec<_> = targets
            .iter()
            .enumerate()
            .filter(|(_, target)| target.do_not_deploy)
            .collect();
        match held.len() {
            0 => format!("spec.targets match no Cluster in namespace {namespace}"),
            count if count == targets.len() => "all targets in spec.targets have doNotDeploy".to_owned(),
            _ => {
                let named = held.iter().map(|(index, _)| format!("spec.targets[{index}]"));
                format!(
                    "of each Cluster in namespace {namespace}, the first target that matches it has doNotDeploy ({}), or there is none",
                    listed(&named.collect::<Vec<_>>(), NAMED)
                )
            }
        }
    };
    format!("no cluster is targeted: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_with_do_not_deploy_are_named() {
        for (held, expected) in [
            (&[][..], "spec.targets is empty, so nothing"),
            (
                &[false, false],
                "spec.targets match no Cluster in namespace fleet",
            ),
            (&[true], "all targets in spec.targets have doNotDeploy"),
            (&[true, true], "all targets in spec.targets have doNotDeploy"),
            (
                &[true, false, true],
                "of each Cluster in namespace fleet, the first target that matches it has doNotDeploy (spec.targets[0], \
                 spec.targets[2]), or there is none",
            ),
        ] {
            let target = |held: &bool| BundleTarget {
                do_not_deploy: *held,
                ..BundleTarget::default()
            };
            let targets: Vec<_> = held.iter().map(target).collect();
            let found = message(&targets, ", so nothing", "fleet");
            assert_eq!(found, format!("no cluster is targeted: {expected}"), "{held:?}");
        }
        let mut many = vec![BundleTarget::default()];
        many.resize_with(10, || BundleTarget {
            do_not_deploy: true,
            ..BundleTarget::default()
        });
        let found = message(&many, "", "fleet");
        assert!(found.contains("spec.targets[5] and 4 more)"), "{found}");
    }
}
