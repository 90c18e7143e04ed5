//! What Helm reads in the records of a release, made to fit to the cluster before Helm runs.
//!
//! Helm deletes what a record has and the next revision has not, although another release may own it now. And it does nothing at all if
//! the API server does not have the kind of one object, such as after the removal of an API version or of an operator. So the
//! record is changed ([`manifest::edit()`]):
//!
//! | the live object | Helm replaces or uninstalls the revision | Helm restores it |
//! |---|---|---|
//! | belongs to another release | it is left out | it is left out |
//! | was created again by something else | it is left out | it is taken over, as in an upgrade |
//! | has another version of its API | it gets this version | it gets this version |
//! | cannot exist: the cluster does not have its kind | it is left out | Helm fails, and names the kind |
//! | cannot be read | the error; an uninstallation leaves it out, and does not end | the error |
//!
//! What changes while Helm runs, its hooks included, is not seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Instant,
};

use futures::{StreamExt, stream};
use helmops_kube::with_managers;
use helmops_process::exit::with_causes;
use helmops_release::{
    manifest::{self, Edit},
    names::{ReleaseKey, SetId},
    object::ObjectId,
    owner::OtherOwner,
    record::Status,
};
use helmops_runtime::client::CallError;
use kube::{Client, ResourceExt};

use super::fields::renew_managers;
use crate::{
    context::Context,
    error::AgentError,
    live::{Objects, Served},
    monitor::recorded_ids,
    session::ReleaseSession,
};

/// How many objects are read at the same time.
const CONCURRENCY: usize = 8;
/// How many objects the log names that are not as they were recorded.
const MAX_LOGGED: usize = 10;

/// What Helm does with a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is replaced: what the next revision does not have is deleted.
    Replaced,
    /// It is restored.
    Restored,
    /// It is uninstalled.
    Uninstalled,
}

impl Role {
    /// What is not done with what is left out.
    const fn not_done(self) -> &'static str {
        match self {
            Self::Replaced | Self::Uninstalled => "not deleted",
            Self::Restored => "not restored",
        }
    }
}

/// The records of a release.
pub struct RecordedObjects<'r> {
    pub context: &'r Context,
    /// The cluster, as the account that deploys.
    pub deployer: &'r Client,
    /// The cluster, as the account that changes the records. Those of another owner are changed as the one that deploys.
    pub writer: &'r Client,
    pub release: &'r ReleaseKey,
    pub set: SetId,
}

/// The records of the release of a session. Own records are changed as the agent.
pub fn of<'r>(session: &'r ReleaseSession<'_>, deployer: &'r Client, is_own: bool) -> RecordedObjects<'r> {
    RecordedObjects {
        context: session.context,
        deployer,
        writer: if is_own {
            &session.context.downstream
        } else {
            deployer
        },
        release: &session.release,
        set: session.set(),
    }
}

/// What is known of a revision that Helm may work on.
#[derive(Debug, Default)]
pub struct PreparedRecord {
    /// Why an object could not be read. The others are uninstalled all the same.
    pub unread: Option<CallError>,
    /// Helm has uninstalled it already but for objects that could not be read.
    pub was_incomplete: bool,
}

/// What the cluster has of a recorded object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    served: Served,
    /// The owner of the live object, if it is another one.
    owner: Option<OtherOwner>,
}

/// Why Helm does not get an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeftOut {
    Owner(OtherOwner),
    NoKind,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(owner) => owner.fmt(f),
            Self::NoKind => f.write_str(
                "is of a kind that the cluster does not have any more, so it is gone with its CRD, or out of reach with the server of its API",
            ),
        }
    }
}

impl RecordedObjects<'_> {
    /// Changes the record of a revision.
    ///
    /// # Errors
    /// If the record or an object cannot be read, or the record cannot be written.
    pub async fn prepare(&self, revision: u64, role: Role) -> Result<PreparedRecord, AgentError> {
        let Some((ids, was_incomplete)) = self.ids(revision).await? else {
            return Ok(PreparedRecord::default());
        };
        let now = Instant::now();
        let client = with_managers(self.deployer);
        let found: Vec<_> = stream::iter(ids)
            .map(|id| async {
                let found = self.find(&client, &id, role, now).await;
                (id, found)
            })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let (mut edits, mut left_out, mut unread) = (BTreeMap::new(), Vec::new(), None);
        for (id, found) in found {
            let edit = match found {
                Ok(found) => {
                    let (edit, why) = decision(role, &found);
                    let named = found.served.identity(&id);
                    let named = named.as_ref().unwrap_or(&id);
                    left_out.extend(why.map(|why| format!("{named} {why}")));
                    edit
                }
                // Helm does not delete what it cannot read.
                Err(error) if role == Role::Replaced && error.is_rejected() => {
                    left_out.push(error.to_string());
                    Some(Edit::LeaveOut)
                }
                Err(error) if role == Role::Uninstalled => {
                    tracing::warn!(release = %self.release, object = %id, error = with_causes(&error), "an object is not deleted now");
                    unread.get_or_insert(error);
                    Some(Edit::Postpone)
                }
                Err(error) => return Err(error.into()),
            };
            edits.extend(edit.map(|edit| (id, edit)));
        }
        let records = &self.context.records;
        let is_changed = records
            .edit_objects(self.writer, self.release, revision, &edits)
            .await?;
        if is_changed {
            let (count, first) = (edits.len(), edits.iter().take(MAX_LOGGED).collect::<Vec<_>>());
            tracing::info!(release = %self.release, revision, ?role, count, ?first, "changed what the record has");
            if !left_out.is_empty() {
                let what = format!("{}: {}", role.not_done(), left_out.join("; "));
                self.context.reports.kept(self.release, &what);
            }
        }
        Ok(PreparedRecord {
            unread,
            was_incomplete,
        })
    }

    /// The objects of a revision, and whether it was uninstalled but for some; `None` if there is no record, or Helm refuses what it has.
    async fn ids(&self, revision: u64) -> Result<Option<(BTreeSet<ObjectId>, bool)>, AgentError> {
        let Some(record) = self.context.records.read_known(self.release, revision).await? else {
            return Ok(None);
        };
        let was_incomplete =
            record.info.status == Status::Uninstalled && manifest::is_incomplete(&record.manifest);
        let Ok(ids) = recorded_ids(&record, &self.release.namespace) else {
            return Ok(None);
        };
        Ok(Some((ids.into_iter().collect(), was_incomplete)))
    }

    async fn find(
        &self,
        client: &Client,
        id: &ObjectId,
        role: Role,
        now: Instant,
    ) -> Result<Found, CallError> {
        let kinds = &self.context.kinds;
        let objects = Objects { kinds, client };
        let (served, live) = objects.resolve(id, now).await?;
        let owner = live
            .as_ref()
            .and_then(|live| OtherOwner::of(live.annotations(), &[self.release], &self.set));
        if let (Some(id), Some(live), None) = (served.identity(id), &live, &owner)
            && role != Role::Uninstalled
        {
            match renew_managers(objects, &id, live, now).await {
                // Then Helm's change of the object may fail, and says so.
                Err(error) if error.is_rejected() => {
                    tracing::warn!(release = %self.release, error = with_causes(&error), "the managers of an object stay as they are");
                }
                renewed => renewed?,
            }
        }
        Ok(Found { served, owner })
    }
}

/// What is changed of a recorded object, and why it is left out.
fn decision(role: Role, found: &Found) -> (Option<Edit>, Option<LeftOut>) {
    let left_out = |why| (Some(Edit::LeaveOut), Some(why));
    match (&found.served, &found.owner) {
        (Served::Nothing, _) if role == Role::Restored => (None, None),
        (Served::Nothing, _) => left_out(LeftOut::NoKind),
        (_, Some(owner)) if role != Role::Restored || *owner != OtherOwner::None => {
            left_out(LeftOut::Owner(owner.clone()))
        }
        (Served::Moved(kind), _) => {
            let version = kind.resource.api_version.clone();
            (Some(Edit::ApiVersion(version)), None)
        }
        (Served::Same(_), _) => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::NamespacedName;
    use kube::core::ApiResource;

    use super::*;
    use crate::live::ResourceKind;

    fn kind(version: &str) -> ResourceKind {
        ResourceKind {
            resource: ApiResource {
                group: "example.com".to_owned(),
                version: version.to_owned(),
                api_version: format!("example.com/{version}"),
                kind: "Widget".to_owned(),
                plural: "widgets".to_owned(),
            },
            is_namespaced: true,
        }
    }

    #[test]
    fn helm_gets_what_exists_and_belongs_to_the_release() {
        let base = OtherOwner::Release(NamespacedName::new("shop", "base"));
        let (same, moved) = (Served::Same(kind("v1")), Served::Moved(kind("v2")));
        let version = || Some(Edit::ApiVersion("example.com/v2".to_owned()));
        let out = || Some(Edit::LeaveOut);
        for (served, owner, replaced, restored) in [
            (&same, None, None, None),
            (&moved, None, version(), version()),
            (&Served::Nothing, None, out(), None),
            (&same, Some(&base), out(), out()),
            (&moved, Some(&base), out(), out()),
            (&same, Some(&OtherOwner::None), out(), None),
            (&moved, Some(&OtherOwner::None), out(), version()),
        ] {
            let found = Found {
                served: served.clone(),
                owner: owner.cloned(),
            };
            for (role, expected) in [
                (Role::Replaced, &replaced),
                (Role::Uninstalled, &replaced),
                (Role::Restored, &restored),
            ] {
                let (edit, why) = decision(role, &found);
                assert_eq!(edit, *expected, "{role:?} {found:?}");
                assert_eq!(why.is_some(), edit == Some(Edit::LeaveOut), "{role:?} {found:?}");
            }
        }
    }
}
