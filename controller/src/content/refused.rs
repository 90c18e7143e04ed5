//! Charts that cannot be stored, so that they are not downloaded again and again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use helmops_fair::lock;
use helmops_runtime::workers::Namespace;

use super::ContentError;

/// The charts that are remembered at most. More of them are downloaded again.
const MAX: usize = 1_000;

/// The charts that cannot be stored, with the cause, by the namespace of the HelmOp and their digests.
#[derive(Debug, Default)]
pub struct RefusedCharts(Mutex<BTreeMap<(Namespace, String), Arc<ContentError>>>);

impl RefusedCharts {
    /// Checks that the chart with this digest was not refused before.
    ///
    /// # Errors
    /// The same cause.
    pub fn check(&self, namespace: &Namespace, digest: &str) -> Result<(), ContentError> {
        let key = (Namespace::clone(namespace), digest.to_owned());
        match lock(&self.0).get(&key) {
            Some(cause) => Err(ContentError::Refused(Arc::clone(cause))),
            None => Ok(()),
        }
    }

    /// Remembers the cause, if it is the chart itself: another archive has another digest.
    pub fn remember(&self, namespace: &Namespace, digest: &str, error: ContentError) -> ContentError {
        if digest.is_empty() || !error.is_of_chart() {
            return error;
        }
        let (cause, mut refused) = (Arc::new(error), lock(&self.0));
        if refused.len() >= MAX {
            refused.clear();
        }
        let key = (Namespace::clone(namespace), digest.to_owned());
        refused.insert(key, Arc::clone(&cause));
        ContentError::Refused(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_refused_again_in_its_namespace_without_a_download() {
        let (refused, team) = (RefusedCharts::default(), Namespace::from("team"));
        let large = || ContentError::Memory {
            url: "https://h/web.tgz".to_owned(),
            needed: 2 << 20,
            limit: 1 << 20,
        };
        for (digest, error, is_remembered) in [
            ("a", large(), true),
            ("", large(), false),
            ("b", ContentError::Busy, false),
        ] {
            let text = error.to_string();
            let error = refused.remember(&team, digest, error);
            assert_eq!(error.to_string(), text);
            let again = refused.check(&team, digest);
            assert_eq!(
                again.err().map(|error| error.to_string()),
                is_remembered.then_some(text)
            );
            assert!(refused.check(&"other".into(), digest).is_ok());
        }
        for number in 0..MAX {
            refused.remember(&team, &number.to_string(), large());
        }
        assert!(lock(&refused.0).len() <= MAX);
    }
}
