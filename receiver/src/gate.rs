//! What becomes of a request whose body has arrived.

use std::{sync::Mutex, time::Duration};

use helmops_api::NamespacedName;
use helmops_notify::push::{
    Announcement, BodyError, GoogleKeys, Headers, ProofError, ReceiverType, ReplayWindow, RequestDigest,
    announcements, verify,
};
use helmops_process::lock;
use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use crate::{
    limits::{REPLAY_WINDOW, REPLAYS},
    table::Hook,
};

/// What all Receivers share.
#[derive(Debug)]
pub struct Gate {
    replays: Mutex<ReplayWindow<NamespacedName>>,
}

/// A request that is accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum Passed {
    /// It announces pushes, which have to be recorded.
    Pushed {
        announcements: Vec<Announcement>,
        /// Identifies the request after it was handled; `None` if equal requests are different pushes.
        request: Option<RequestDigest>,
    },
    /// It announces nothing, such as a deletion.
    Ignored,
    /// It was handled before.
    Replayed,
}

/// Why a request is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// The proof is missing or wrong.
    #[error(transparent)]
    Unauthorized(#[from] ProofError),
    /// The body is not what the type requires.
    #[error(transparent)]
    Malformed(#[from] BodyError),
}

/// A request to a Receiver.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    pub path_digest: &'a str,
    pub headers: &'a Headers<'a>,
    pub body: &'a [u8],
    /// The time of the wall clock.
    pub time: Timestamp,
    /// The time since the start of the process.
    pub now: Duration,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            replays: Mutex::new(ReplayWindow::new(REPLAY_WINDOW, REPLAYS)),
        }
    }
}

impl Gate {
    /// Decides on a request. There is no limit for the number of pushes: some registries do not repeat what is refused. Many of them become
    /// one write with one push for each repository, so their number costs nothing that a rate would save.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn pass(&self, hook: &Hook, keys: &GoogleKeys, incoming: Incoming<'_>) -> Result<Passed, Refused> {
        let Incoming {
            headers, body, now, ..
        } = incoming;
        let signed_time = verify(
            hook.receiver_type,
            &hook.credentials,
            keys,
            headers,
            body,
            incoming.time,
        )?;
        let announcements = announcements(hook.receiver_type, &hook.events, headers, body)?;
        if announcements.is_empty() {
            return Ok(Passed::Ignored);
        }
        let request = is_unique(hook.receiver_type, &announcements)
            .then(|| RequestDigest::of(incoming.path_digest, signed_time, body));
        let was_handled =
            |request: &RequestDigest| lock(&self.replays).was_handled(&hook.receiver, request, now);
        if request.as_ref().is_some_and(was_handled) {
            return Ok(Passed::Replayed);
        }
        Ok(Passed::Pushed {
            announcements,
            request,
        })
    }

    /// The pushes of a request are recorded: it is known from now on.
    pub fn handled(&self, hook: &Hook, request: RequestDigest, now: Duration) {
        lock(&self.replays).handled(&hook.receiver, request, now);
    }
}

/// Whether two equal bodies are the same push. A generic sender that names no tag sends the same body for each push, and proves with each
/// that it has the token.
fn is_unique(receiver_type: ReceiverType, announcements: &[Announcement]) -> bool {
    receiver_type != ReceiverType::Generic
        || announcements
            .iter()
            .any(|announcement| !announcement.tag.is_empty())
}
