//! Why what a server sends cannot be used.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use helmops_git::{PackError, wire::WireError};

use super::GitError;
use crate::http::{FetchError, FetchErrorKind, read_error};

/// A response that is waited for. Its reader is on a thread, and stops when this is dropped, or at the deadline.
pub(super) struct Awaited {
    held: Arc<()>,
    deadline: Instant,
}

impl Awaited {
    /// For this long.
    pub fn lasting(time: Duration) -> Self {
        Self {
            held: Arc::default(),
            deadline: Instant::now() + time,
        }
    }

    /// Whether the reader has to stop.
    pub fn is_over(&self) -> impl Fn() -> bool + Send + use<> {
        let (held, deadline) = (Arc::downgrade(&self.held), self.deadline);
        move || held.strong_count() == 0 || Instant::now() >= deadline
    }
}

/// Why what a server sends cannot be used.
pub(super) enum ReadFailure {
    Wire(WireError),
    Pack(PackError),
}

impl From<WireError> for ReadFailure {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<PackError> for ReadFailure {
    fn from(error: PackError) -> Self {
        Self::Pack(error)
    }
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        Self::Wire(WireError::Input(error))
    }
}

impl ReadFailure {
    /// Separates errors of the connection. The server may have reported one of its own within a pack.
    pub fn of_connection(self) -> Result<Self, FetchErrorKind> {
        match self {
            Self::Wire(WireError::Input(error)) | Self::Pack(PackError::Input(error)) => {
                let inner = error.downcast::<WireError>();
                inner.map(Self::Wire).map_err(|error| read_error(&error))
            }
            other => Ok(other),
        }
    }
}

/// The error of a request to this URL.
pub(super) fn git_error(url: String, failure: ReadFailure) -> GitError {
    match failure.of_connection() {
        Err(kind) => GitError::Fetch(FetchError { url, kind }),
        Ok(ReadFailure::Wire(source)) => GitError::Wire {
            url,
            source: Arc::new(source),
        },
        Ok(ReadFailure::Pack(source)) => GitError::Pack {
            url,
            source: Arc::new(source),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_stops_when_it_is_not_waited_for() {
        let awaited = Awaited::lasting(Duration::from_mins(1));
        let is_over = awaited.is_over();
        assert!(!is_over());
        drop(awaited);
        assert!(is_over());
        let late = Awaited::lasting(Duration::ZERO);
        assert!(late.is_over()());
    }
}
