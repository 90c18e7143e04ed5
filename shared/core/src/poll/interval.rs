//! The polling interval.

use std::time::Duration;

use go_formats::duration::{self, DurationError};

/// The user is warned about shorter intervals: registries limit requests.
pub const SHORT_INTERVAL: Duration = Duration::from_secs(15);

/// The minimum interval of a controller without another one in its flags; shorter ones are raised to it.
pub const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// Parses `spec.pollingInterval`: `None` if polling is off, that is, if the interval is missing or `0s`.
///
/// # Errors
/// If the text is not a valid duration.
pub fn interval(text: Option<&str>) -> Result<Option<Duration>, DurationError> {
    let interval = text.map(duration::parse).transpose()?;
    Ok(interval.filter(|interval| !interval.is_zero()))
}
