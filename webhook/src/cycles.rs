//! Whether a HelmOp would wait for itself, over others that are stored.
//!
//! These are read from the API server, one after the other, and only if the dependencies of a HelmOp change. Whatever cannot be read in time
//! denies nothing and warns of nothing: agents name those that wait for each other as well.

use std::{fmt, sync::Arc, time::Duration};

use helmops_api::{Decoded, HelmOp};
use helmops_core::admit::cycle::{CycleSearch, certain};
use helmops_fair::FairSemaphore;
use helmops_model::validation::FieldErrors;
use kube::{Api, Client};
use thiserror::Error;
use tokio::time::timeout;

/// How long a search takes at most. The shipped webhook configurations have a timeout of 5 s.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How many HelmOps are read at a time, and of them how many for one namespace: each may have more than a megabyte.
const READS: (usize, usize) = (4, 2);

/// Reads HelmOps to find those that wait for each other.
#[derive(Clone)]
pub struct Cycles {
    client: Client,
    reads: FairSemaphore<Arc<str>>,
}

impl fmt::Debug for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cycles").finish_non_exhaustive()
    }
}

/// Why HelmOps that wait for each other may not have been found.
#[derive(Debug, Error)]
pub enum SearchError {
    #[error("{0}")]
    Call(#[from] kube::Error),
    #[error("the API server did not respond within {}s", TIMEOUT.as_secs())]
    Timeout(#[from] tokio::time::error::Elapsed),
}

impl Cycles {
    pub fn new(client: Client) -> Self {
        let reads = FairSemaphore::new(READS.0, READS.1);
        Self { client, reads }
    }

    /// The error of a HelmOp that would wait for itself. `stored` is that HelmOp as it is stored, and called only if that matters.
    ///
    /// # Errors
    /// If another HelmOp cannot be read.
    pub async fn find(
        &self,
        helmop: &HelmOp,
        stored: impl FnOnce() -> Option<HelmOp> + Send,
    ) -> Result<Option<FieldErrors>, SearchError> {
        let mut search = CycleSearch::of(helmop);
        if search.is_over() || helmop.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        if stored().is_some_and(|stored| certain(&stored).eq(certain(helmop))) {
            return Ok(None);
        }
        timeout(TIMEOUT, async {
            let namespace: Arc<str> = Arc::from(helmop.metadata.namespace.as_deref().unwrap_or_default());
            let _permit = self.reads.acquire(namespace).await;
            while let Some(way) = search.next_way() {
                let api = Api::<Decoded<HelmOp>>::namespaced(self.client.clone(), &way.last.namespace);
                let found = api.get_opt(&way.last.name).await?;
                let found = found.as_ref().and_then(|found| found.valid());
                if let Some(errors) = found.and_then(|found| search.follow(&way, found)) {
                    return Ok(Some(errors));
                }
            }
            Ok(None)
        })
        .await?
    }
}
