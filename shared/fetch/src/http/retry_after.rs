//! The header `Retry-After`.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderValue;

/// Longest backoff that a server can request.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// Parses a `Retry-After` header, RFC 9110 section 10.2.3: seconds, or a date. `None` if it is missing or invalid.
pub fn parse(value: Option<&HeaderValue>, now: SystemTime) -> Option<Duration> {
    let text = value?.to_str().ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        // A number that overflows is practically infinite.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_parsed() {
        let now = httpdate::parse_http_date("Sat, 21 Nov 2026 17:00:00 GMT").unwrap();
        let seconds = |text: &'static str| {
            parse(Some(&HeaderValue::from_static(text)), now).map(|after| after.as_secs())
        };
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(seconds("Sat, 21 Nov 2026 17:01:30 GMT"), Some(90));
        assert_eq!(
            seconds("Sat, 21 Nov 2026 16:00:00 GMT"),
            Some(0),
            "a date in the past"
        );
        assert_eq!(seconds(""), None);
        assert_eq!(seconds("-1"), None);
        assert_eq!(seconds("soon"), None);
        assert_eq!(parse(None, now), None);
    }
}
