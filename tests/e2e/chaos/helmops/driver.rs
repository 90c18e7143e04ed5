//! Users, who continuously create, change and delete HelmOps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use helmops_bed::api::Api;
use helmops_bed::random::Rng;

use super::desired::{DesiredHelmOp, PollClass};
use super::repository::Repository;

/// The namespaces of the HelmOps.
pub const NAMESPACES: [&str; 3] = ["chaos-a", "chaos-b", "chaos-c"];
/// Number of HelmOps at the start, and the maximum.
const INITIAL: usize = 300;
const MAX: usize = 500;
/// Requests per round, and the pause between rounds: far below the limit of an API server that shares two cores with the test.
const REQUESTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(150);
/// On average, one of this many rounds publishes a version.
const PUBLISHING: usize = 6;

/// Namespace and name.
pub type Key = (&'static str, String);

/// The users, and the HelmOps that they want to exist.
pub struct Driver<'a> {
    pub desired: BTreeMap<Key, DesiredHelmOp>,
    pub tally: Tally,
    api: &'a Api,
    rng: Rng,
    /// Keys of deleted HelmOps, which can be used again.
    deleted: Vec<(Key, PollClass)>,
    /// Keys of HelmOps that are being deleted.
    deleting: Vec<(Key, PollClass)>,
    counter: usize,
}

/// The number of their actions.
#[derive(Debug, Default)]
pub struct Tally {
    created: u32,
    recreated: u32,
    changed: u32,
    poll_requests: u32,
    deleted: u32,
}

enum Action {
    Create,
    Patch,
    Delete,
}

impl<'a> Driver<'a> {
    pub fn new(api: &'a Api, rng: Rng) -> Self {
        Self {
            desired: BTreeMap::new(),
            tally: Tally::default(),
            api,
            rng,
            deleted: Vec::new(),
            deleting: Vec::new(),
            counter: 0,
        }
    }

    /// Creates the initial HelmOps.
    pub async fn start(&mut self, repository: &Repository) -> Result<()> {
        while self.desired.len() < INITIAL {
            let actions = (0..REQUESTS).map(|_| self.create()).collect();
            self.send(actions, repository).await?;
        }
        Ok(())
    }

    /// Some actions, and a pause.
    pub async fn round(&mut self, repository: &mut Repository) -> Result<()> {
        if self.rng.below(PUBLISHING) == 0 {
            repository.publish(&mut self.rng)?;
        }
        // At most one action per HelmOp and round.
        let mut touched = BTreeSet::new();
        let mut actions = Vec::new();
        for _ in 0..REQUESTS {
            actions.extend(self.action(&mut touched));
        }
        self.send(actions, repository).await?;
        self.deleted.append(&mut self.deleting);
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    /// Publishes newer versions, and requests a poll of all HelmOps that poll only on request.
    pub async fn finish(&mut self, repository: &mut Repository) -> Result<()> {
        repository.publish_all()?;
        let on_request: Vec<Key> = self
            .desired
            .iter()
            .filter(|(_, desired)| desired.class == PollClass::OnRequest)
            .map(|(key, _)| key.clone())
            .collect();
        for keys in on_request.chunks(REQUESTS) {
            let actions = keys.iter().map(|key| self.request_poll(key.clone())).collect();
            self.send(actions, repository).await?;
        }
        Ok(())
    }

    fn action(&mut self, touched: &mut BTreeSet<Key>) -> Option<(Key, Action)> {
        let choice = self.rng.below(100);
        if choice < 30 && self.desired.len() < MAX {
            let (key, action) = self.create();
            touched.insert(key.clone());
            return Some((key, action));
        }
        let key = self.any()?;
        if !touched.insert(key.clone()) {
            return None;
        }
        Some(match choice {
            30..50 => self.delete(key),
            50..70 if key.1.starts_with(PollClass::OnRequest.prefix()) => self.request_poll(key),
            _ => self.change(key),
        })
    }

    /// A random HelmOp that exists.
    fn any(&mut self) -> Option<Key> {
        let number = self.rng.below(self.desired.len().max(1));
        self.desired.keys().nth(number).cloned()
    }

    /// A HelmOp with a new name, or with the name of a deleted one.
    fn create(&mut self) -> (Key, Action) {
        let again = !self.deleted.is_empty() && self.rng.below(2) == 0;
        let (key, class) = if again {
            self.tally.recreated += 1;
            let number = self.rng.below(self.deleted.len());
            self.deleted.swap_remove(number)
        } else {
            self.counter += 1;
            let class = PollClass::random(&mut self.rng);
            let namespace = NAMESPACES[self.rng.below(NAMESPACES.len())];
            ((namespace, format!("{}-{}", class.prefix(), self.counter)), class)
        };
        self.tally.created += 1;
        let desired = DesiredHelmOp::new(class, &mut self.rng);
        self.desired.insert(key.clone(), desired);
        (key, Action::Create)
    }

    fn change(&mut self, key: Key) -> (Key, Action) {
        if let Some(desired) = self.desired.get_mut(&key) {
            desired.change(&mut self.rng);
        }
        self.tally.changed += 1;
        (key, Action::Patch)
    }

    fn request_poll(&mut self, key: Key) -> (Key, Action) {
        self.counter += 1;
        if let Some(desired) = self.desired.get_mut(&key) {
            desired.token = Some(self.counter);
        }
        self.tally.poll_requests += 1;
        (key, Action::Patch)
    }

    fn delete(&mut self, key: Key) -> (Key, Action) {
        if let Some(desired) = self.desired.remove(&key) {
            self.deleting.push((key.clone(), desired.class));
        }
        self.tally.deleted += 1;
        (key, Action::Delete)
    }

    async fn send(&self, actions: Vec<(Key, Action)>, repository: &Repository) -> Result<()> {
        let url = repository.url();
        let requests = actions.into_iter().map(|((namespace, name), action)| {
            let key = (namespace, name.clone());
            let object = self.desired.get(&key).map(|desired| desired.object(&name, &url));
            async move {
                match (action, object) {
                    (Action::Create, Some(object)) => {
                        self.api.create(namespace, "helmops", vec![object]).await
                    }
                    (Action::Patch, Some(object)) => {
                        self.api.patch(namespace, "helmops", &name, object).await
                    }
                    (Action::Delete, _) | (_, None) => self.api.delete(namespace, "helmops", &name).await,
                }
            }
        });
        try_join_all(requests).await.map(drop)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            created,
            recreated,
            changed,
            poll_requests,
            deleted,
        } = self;
        write!(
            f,
            "HelmOps: {created} created ({recreated} of them with the name of a deleted one), {changed} changed, \
             {poll_requests} polls requested, {deleted} deleted"
        )
    }
}
