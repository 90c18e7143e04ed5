//! Where changes are shown, and when.

use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::time::timeout;

use crate::{
    failure::Failure,
    terminal::{Console, writer::Control},
};

/// Changes that follow each other more closely are shown together: a status of one object leads to that of the next.
const PAUSE: Duration = Duration::from_millis(100);

/// How old the ages on a terminal may be.
const REFRESH: Duration = Duration::from_secs(5);

/// Where changes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// The newest state replaces the one before.
    Terminal,
    /// Each change is a line.
    Lines,
}

impl Screen {
    /// The screen for standard output.
    pub const fn of(is_terminal: bool) -> Self {
        if is_terminal { Self::Terminal } else { Self::Lines }
    }

    pub(super) fn clear(self, console: &mut Console<'_>) -> Result<(), Failure> {
        match self {
            Self::Terminal => Ok(console.out.control(Control::ClearScreen)?),
            Self::Lines => Ok(()),
        }
    }
}

/// The next change, and those that follow closely; on a terminal also nothing, after a while, so that ages are current. Returns `None`
/// when the watch ends.
pub(super) async fn next<C>(
    changes: &mut (impl Stream<Item = Result<C, Failure>> + Unpin),
    screen: Screen,
    mut apply: impl FnMut(C),
) -> Result<Option<()>, Failure> {
    let first = match screen {
        Screen::Lines => changes.next().await,
        Screen::Terminal => match timeout(REFRESH, changes.next()).await {
            Ok(first) => first,
            Err(_) => return Ok(Some(())),
        },
    };
    let Some(first) = first else {
        return Ok(None);
    };
    apply(first?);
    while let Ok(Some(change)) = timeout(PAUSE, changes.next()).await {
        apply(change?);
    }
    Ok(Some(()))
}
