//! How often to look.

use std::time::Duration;

use crate::api::duration::{self, DurationError};

/// Intervals below this are told to the user: registries notice them.
pub const SHORT: Duration = Duration::from_secs(15);

/// Reads `spec.pollingInterval`: `None` where polling is off, which is what an absent interval and `0s` say.
///
/// # Errors
/// Says what is wrong with the text.
pub fn interval(text: Option<&str>) -> Result<Option<Duration>, DurationError> {
    let interval = text.map(duration::parse).transpose()?;
    Ok(interval.filter(|interval| !interval.is_zero()))
}
