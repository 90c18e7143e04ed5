//! The times of polls that no status shows.

use std::{
    collections::HashMap,
    sync::{Mutex, OnceLock},
    time::Duration,
};

use helmops_api::HelmOp;
use helmops_core::poll::PollHistory;
use helmops_process::lock;
use k8s_openapi::jiff::Timestamp;

use crate::work::HelmOpKey;

/// When HelmOps were polled last whose statuses show an earlier poll, because that would be their only change.
#[derive(Debug, Default)]
pub struct UnrecordedPolls {
    last: Mutex<HashMap<HelmOpKey, Timestamp>>,
    /// When this process made its first decision about a poll: another one may have polled until then.
    since: OnceLock<Timestamp>,
}

impl UnrecordedPolls {
    /// The polls of a HelmOp, with those that its status does not show.
    pub fn history(
        &self,
        key: &HelmOpKey,
        helmop: &HelmOp,
        interval: Option<Duration>,
        now: Timestamp,
    ) -> PollHistory {
        let since = *self.since.get_or_init(|| now);
        let history = PollHistory::of(helmop.status.as_ref()).seen_since(since, interval);
        history.with(lock(&self.last).get(key).copied())
    }

    /// A HelmOp was polled at this time.
    pub fn add(&self, key: &HelmOpKey, start: Timestamp) {
        lock(&self.last).insert(key.clone(), start);
    }

    /// The status of a HelmOp shows its last poll, or it is deleted.
    pub fn forget(&self, key: &HelmOpKey) {
        lock(&self.last).remove(key);
    }
}
