//! Users: they create, change and delete HelmOps all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use helmops_tests::api::Api;
use helmops_tests::random::Chance;

use super::repository::Repository;
use super::wanted::{Class, Wanted};

/// Where HelmOps are.
pub const NAMESPACES: [&str; 3] = ["chaos-a", "chaos-b", "chaos-c"];
/// At the beginning, and at most.
const FIRST: usize = 300;
const MOST: usize = 500;
/// What is asked for at a time, and how often: well below what an API server can do on two cores with all this around it.
const AT_A_TIME: usize = 10;
const PAUSE: Duration = Duration::from_millis(150);
/// One round in so many publishes a version.
const PUBLISHING: usize = 6;

/// Namespace and name.
pub type Name = (&'static str, String);

/// The users, and what they want by now.
pub struct Driver<'a> {
    pub wanted: BTreeMap<Name, Wanted>,
    pub tally: Tally,
    api: &'a Api,
    chance: Chance,
    /// Names that can be had again.
    gone: Vec<(Name, Class)>,
    /// Those that are being deleted.
    going: Vec<(Name, Class)>,
    counter: usize,
}

/// What they did.
#[derive(Debug, Default)]
pub struct Tally {
    created: u32,
    recreated: u32,
    changed: u32,
    asked: u32,
    deleted: u32,
}

enum Deed {
    Create,
    Patch,
    Delete,
}

impl<'a> Driver<'a> {
    pub fn new(api: &'a Api, chance: Chance) -> Self {
        Self {
            wanted: BTreeMap::new(),
            tally: Tally::default(),
            api,
            chance,
            gone: Vec::new(),
            going: Vec::new(),
            counter: 0,
        }
    }

    /// Creates the first HelmOps.
    pub async fn begin(&mut self, repository: &Repository) -> Result<()> {
        while self.wanted.len() < FIRST {
            let deeds = (0..AT_A_TIME).map(|_| self.create()).collect();
            self.send(deeds, repository).await?;
        }
        Ok(())
    }

    /// A few things, and a pause.
    pub async fn round(&mut self, repository: &mut Repository) -> Result<()> {
        if self.chance.below(PUBLISHING) == 0 {
            repository.publish(&mut self.chance)?;
        }
        // One thing at a time for each of them.
        let mut touched = BTreeSet::new();
        let mut deeds = Vec::new();
        for _ in 0..AT_A_TIME {
            deeds.extend(self.deed(&mut touched));
        }
        self.send(deeds, repository).await?;
        self.gone.append(&mut self.going);
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    /// A newer version of everything, and a look for all that are asked.
    pub async fn end(&mut self, repository: &mut Repository) -> Result<()> {
        repository.publish_all()?;
        let asked: Vec<Name> = self
            .wanted
            .iter()
            .filter(|(_, wanted)| wanted.class == Class::Asked)
            .map(|(name, _)| name.clone())
            .collect();
        for names in asked.chunks(AT_A_TIME) {
            let deeds = names.iter().map(|name| self.ask(name.clone())).collect();
            self.send(deeds, repository).await?;
        }
        Ok(())
    }

    fn deed(&mut self, touched: &mut BTreeSet<Name>) -> Option<(Name, Deed)> {
        let deed = self.chance.below(100);
        if deed < 30 && self.wanted.len() < MOST {
            let (name, deed) = self.create();
            touched.insert(name.clone());
            return Some((name, deed));
        }
        let name = self.any()?;
        if !touched.insert(name.clone()) {
            return None;
        }
        Some(match deed {
            30..50 => self.delete(name),
            50..70 if name.1.starts_with(Class::Asked.word()) => self.ask(name),
            _ => self.change(name),
        })
    }

    /// A HelmOp that is there.
    fn any(&mut self) -> Option<Name> {
        let number = self.chance.below(self.wanted.len().max(1));
        self.wanted.keys().nth(number).cloned()
    }

    /// A new one, or one of a name that had another before.
    fn create(&mut self) -> (Name, Deed) {
        let again = !self.gone.is_empty() && self.chance.below(2) == 0;
        let (name, class) = if again {
            self.tally.recreated += 1;
            let number = self.chance.below(self.gone.len());
            self.gone.swap_remove(number)
        } else {
            self.counter += 1;
            let class = Class::by(&mut self.chance);
            let namespace = NAMESPACES[self.chance.below(NAMESPACES.len())];
            ((namespace, format!("{}-{}", class.word(), self.counter)), class)
        };
        self.tally.created += 1;
        let wanted = Wanted::new(class, &mut self.chance);
        self.wanted.insert(name.clone(), wanted);
        (name, Deed::Create)
    }

    fn change(&mut self, name: Name) -> (Name, Deed) {
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.change(&mut self.chance);
        }
        self.tally.changed += 1;
        (name, Deed::Patch)
    }

    fn ask(&mut self, name: Name) -> (Name, Deed) {
        self.counter += 1;
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.token = Some(self.counter);
        }
        self.tally.asked += 1;
        (name, Deed::Patch)
    }

    fn delete(&mut self, name: Name) -> (Name, Deed) {
        if let Some(wanted) = self.wanted.remove(&name) {
            self.going.push((name.clone(), wanted.class));
        }
        self.tally.deleted += 1;
        (name, Deed::Delete)
    }

    async fn send(&self, deeds: Vec<(Name, Deed)>, repository: &Repository) -> Result<()> {
        let url = repository.url();
        let requests = deeds.into_iter().map(|((namespace, name), deed)| {
            let key = (namespace, name.clone());
            let object = self.wanted.get(&key).map(|wanted| wanted.object(&name, &url));
            async move {
                match (deed, object) {
                    (Deed::Create, Some(object)) => self.api.create(namespace, "helmops", vec![object]).await,
                    (Deed::Patch, Some(object)) => self.api.patch(namespace, "helmops", &name, object).await,
                    (Deed::Delete, _) | (_, None) => self.api.delete(namespace, "helmops", &name).await,
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
            asked,
            deleted,
        } = self;
        write!(
            f,
            "HelmOps: {created} created ({recreated} of them under a name that another had before), {changed} changed, \
             {asked} asked to look, {deleted} deleted"
        )
    }
}
