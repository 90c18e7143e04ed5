//! Why no version could be resolved.

use std::time::Duration;

use helmops_model::reason::Reason;
use helmops_runtime::error_class::{Class, Classified, ClassifiedError, classified};
use thiserror::Error;

use super::{oci::RegistryError, packed::PackedError, repository::RepositoryError, secret::SecretError};

/// Why no version could be resolved.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// The Secret is missing or invalid.
    #[error(transparent)]
    Secret(SecretError),
    /// A Helm repository could not be read, or lists no matching version.
    #[error(transparent)]
    Repository(RepositoryError),
    /// An OCI registry could not be read, or has no matching version.
    #[error(transparent)]
    Registry(RegistryError),
    /// A chart could not be packed from its files.
    #[error(transparent)]
    Packed(PackedError),
    /// All resolutions of the HelmOp together took too long.
    #[error(
        "resolving the charts of this HelmOp took longer than {} s in total; check the server and the network, or \
         use fewer charts in one HelmOp",
        limit.as_secs()
    )]
    Deadline {
        /// The time limit.
        limit: Duration,
    },
}

impl ResolveError {
    /// Whether the versions were listed, and none of them is selected.
    pub const fn is_of_selection(&self) -> bool {
        matches!(
            self,
            Self::Repository(RepositoryError::Select { .. }) | Self::Registry(RegistryError::Select { .. })
        )
    }
}

impl ClassifiedError for ResolveError {
    fn classify(&self) -> Classified {
        match self {
            Self::Secret(error) => error.classify(),
            Self::Repository(error) => error.classify(),
            Self::Registry(error) => error.classify(),
            Self::Packed(error) => error.classify(),
            Self::Deadline { .. } => classified(Reason::Timeout, Class::TRANSIENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helmop_over_its_time_limit_is_retried() {
        let limit = Duration::from_mins(5);
        let error = ResolveError::Deadline { limit };
        assert_eq!(error.classify(), classified(Reason::Timeout, Class::TRANSIENT));
        assert!(error.to_string().contains("300 s"), "{error}");
    }
}
