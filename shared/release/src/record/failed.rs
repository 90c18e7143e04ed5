//! Why a revision that Helm has deployed counts as failed.

use std::{fmt, str::FromStr};

/// Start of the description of a revision that did not become ready.
const NOT_READY: &str = "not ready: ";
/// Start of the description of a revision whose tests failed.
const TEST_FAILED: &str = "test failed: ";
/// Maximum bytes of a cause. It is in the record, which has to fit into a Secret.
const MAX_CAUSE: usize = 4 << 10;

/// Why a revision that Helm has deployed counts as failed: the description in its record, which `helm history` shows.
///
/// ```
/// use helmops_release::record::FailedBy;
///
/// let failed = FailedBy::NotReady("Deployment shop/web: 0 of 2 pods are ready".to_owned());
/// assert_eq!(failed.to_string(), "not ready: Deployment shop/web: 0 of 2 pods are ready");
/// assert_eq!(failed.to_string().parse(), Ok(failed));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailedBy {
    /// Its objects did not become ready in time, or never will.
    NotReady(String),
    /// A test failed.
    Test(String),
}

impl fmt::Display for FailedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, cause) = match self {
            Self::NotReady(cause) => (NOT_READY, cause),
            Self::Test(cause) => (TEST_FAILED, cause),
        };
        write!(f, "{start}{}", bounded_text::cut(cause.clone(), MAX_CAUSE))
    }
}

/// The text is the description of another revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherDescription;

impl FromStr for FailedBy {
    type Err = OtherDescription;

    fn from_str(text: &str) -> Result<Self, OtherDescription> {
        let not_ready = text.strip_prefix(NOT_READY).map(str::to_owned);
        let failed = text.strip_prefix(TEST_FAILED).map(str::to_owned);
        not_ready
            .map(Self::NotReady)
            .or_else(|| failed.map(Self::Test))
            .ok_or(OtherDescription)
    }
}
