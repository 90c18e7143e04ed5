//! Labels that clusters may request when they register themselves.
//!
//! Targets select clusters by their labels, and what they get may include Secrets. So a label that an agent chooses itself can attract what
//! is meant for other clusters. A Policy that does not decode may forbid anything, so nothing is registered until it is fixed.

use super::{Policies, chart::PolicySubject};

impl Policies {
    /// Checks whether the agent of a new cluster may set a label with this key. Empty lists allow all.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn check_registration_label(&self, key: &str) -> Result<(), String> {
        self.registration_labels.check(&PolicySubject {
            field: "clusterLabels",
            text: key,
            candidates: Ok(vec![key.into()]),
        })
    }

    /// Why nothing is known of what is allowed: a Policy does not decode.
    pub fn undecoded(&self) -> Option<String> {
        self.invalid.as_ref().map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::{Decoded, Policy};
    use serde_json::{Value, json};

    use super::*;

    fn policies(policy: &Value) -> Policies {
        let policy: Decoded<Policy> = serde_json::from_str(&policy.to_string()).unwrap();
        Policies::of_watched([&policy])
    }

    #[test]
    fn a_policy_limits_the_labels_of_clusters_that_register_themselves() {
        let named =
            |labels: Value| json!({ "metadata": { "name": "p" }, "allowedRegistrationLabels": labels });
        let allowed = |labels, key: &str| policies(&named(labels)).check_registration_label(key).is_ok();
        assert!(allowed(json!([]), "env"));
        let some = json!(["zone", "example\\.com/.*"]);
        assert!(allowed(some.clone(), "zone") && allowed(some.clone(), "example.com/room"));
        assert!(!allowed(some.clone(), "env") && !allowed(some.clone(), "zones"));
        let error = policies(&named(some))
            .check_registration_label("env")
            .unwrap_err();
        assert!(
            error.contains("registration label env")
                && error.contains("allowedRegistrationLabels of Policy \"p\""),
            "{error}"
        );
    }

    #[test]
    fn a_policy_that_does_not_decode_is_known() {
        let invalid = json!({ "metadata": { "name": "p" }, "allowedRegistrationLabels": 1 });
        assert!(policies(&invalid).undecoded().unwrap().contains("\"p\""));
        assert_eq!(Policies::default().undecoded(), None);
    }
}
