//! Times in statuses.

use k8s_openapi::jiff::Timestamp;

/// A time in the format of the API: RFC 3339, in whole seconds.
pub fn timestamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
