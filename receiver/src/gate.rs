//! What becomes of a request whose body has arrived.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

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
    replays: Mutex<ReplayWindow>,
    /// The requests whose pushes are being recorded: at most as many as there are connections.
    in_flight: Mutex<HashSet<RequestDigest>>,
}

/// A request that is accepted.
#[derive(Debug)]
pub enum Passed {
    /// It announces pushes, which have to be recorded.
    Pushed {
        /// The pushes.
        announcements: Vec<Announcement>,
        /// Identifies the request after it was handled; `None` if equal requests are different pushes.
        request: Option<InFlight>,
        /// Whether there were too many requests, so that it counts as a push to all repositories.
        is_collapsed: bool,
    },
    /// It announces nothing, such as a deletion.
    Ignored,
    /// It was handled before.
    Replayed,
}

/// A request whose pushes are being recorded, until it is dropped.
#[derive(Debug)]
pub struct InFlight {
    gate: Arc<Gate>,
    request: RequestDigest,
    /// Whether an equal request was in flight before.
    is_repeated: bool,
}

impl InFlight {
    /// Its pushes are recorded: it is known from now on.
    pub fn handled(self, now: Duration) {
        lock(&self.gate.replays).handled(self.request, now);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.is_repeated {
            lock(&self.gate.in_flight).remove(&self.request);
        }
    }
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
    /// The digest in its path.
    pub path_digest: &'a str,
    /// Its headers.
    pub headers: &'a Headers<'a>,
    /// Its body.
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
            in_flight: Mutex::default(),
        }
    }
}

impl Gate {
    /// Decides on a request. Only one with a proof costs a permit of the rate limit: others must not change what becomes of the pushes of
    /// the owner of the token.
    ///
    /// A push above the rate is not refused: some registries do not repeat it. It becomes a push to all repositories of the Receiver, so
    /// that all of them together cost one poll of each HelmOp, and their names need no memory. A request that is repeated while it is being
    /// recorded costs no permit: it says nothing new.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn pass(
        self: &Arc<Self>,
        hook: &Hook,
        keys: &GoogleKeys,
        incoming: Incoming<'_>,
    ) -> Result<Passed, Refused> {
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
            .then(|| self.begin(RequestDigest::of(incoming.path_digest, signed_time, body)));
        // It is in flight before this is read, so that an equal one is seen here or there.
        let was_handled = |request: &InFlight| lock(&self.replays).was_handled(&request.request, now);
        if request.as_ref().is_some_and(was_handled) {
            return Ok(Passed::Replayed);
        }
        let is_repeated = request.as_ref().is_some_and(|request| request.is_repeated);
        let is_collapsed = !is_repeated && lock(&hook.bucket).take(now).is_err();
        Ok(Passed::Pushed {
            announcements: if is_collapsed {
                vec![Announcement::of_all()]
            } else {
                announcements
            },
            request,
            is_collapsed,
        })
    }

    fn begin(self: &Arc<Self>, request: RequestDigest) -> InFlight {
        InFlight {
            gate: Arc::clone(self),
            request,
            is_repeated: !lock(&self.in_flight).insert(request),
        }
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
