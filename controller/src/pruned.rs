//! What the API server does not store of the objects that are written.

use std::sync::{Arc, Mutex};

use bounded_text::cut;
use helmops_api::{PrunedFields, unknown_fields::VisitUnknown};
use helmops_process::lock;

/// Maximum length of the paths in the log, in bytes.
const MAX_LOGGED: usize = 1024;

/// The unknown fields of a kind that its CRD lacks, as the responses to writes show. The process forgets them at its end, and
/// learns them again with a write that changes nothing.
#[derive(Debug, Default)]
pub struct Pruned(Mutex<Arc<PrunedFields>>);

impl Pruned {
    /// What is known now.
    pub fn get(&self) -> Arc<PrunedFields> {
        Arc::clone(&lock(&self.0))
    }

    /// Learns from a write: `kind` is that of the object, `sent` its spec, and `stored` the spec in the response.
    pub fn learn<S: VisitUnknown + Clone + PartialEq>(&self, kind: &'static str, sent: &S, stored: &S) {
        let mut known = lock(&self.0);
        if sent == stored && **known == PrunedFields::default() {
            return;
        }
        let fields = Arc::make_mut(&mut known);
        if fields.learn(sent, stored) {
            let fields = cut(fields.to_string(), MAX_LOGGED);
            tracing::info!(
                kind,
                fields,
                "the CRD in the cluster lacks these fields, so they are not passed on"
            );
        }
    }
}
