//! The end of the log of a container.
//!
//! It goes into messages and events, which more people can read than logs, and a log can contain everything. So it is short.

use bounded_text::printable;
use helmops_model::chart::url::redacted_urls;
use helmops_runtime::client::{ApiError, bounded};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};

/// What is shown of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogExcerpt {
    /// The maximum number of lines.
    lines: usize,
    /// The maximum number of bytes.
    bytes: usize,
    /// What separates lines.
    separator: &'static str,
}

/// Of a test, whose log has its result.
pub const LONG: LogExcerpt = LogExcerpt {
    lines: 20,
    bytes: 2 << 10,
    separator: "\n",
};

/// Of a container that crashes, on one line, in at most so many bytes.
pub const fn short(bytes: usize) -> LogExcerpt {
    LogExcerpt {
        lines: 3,
        bytes,
        separator: " | ",
    }
}

/// Bytes of a log that are read. The API server counts them from the first of the lines.
const MAX_READ: i64 = 64 << 10;

/// What the kubelet responds, with the status 200, in place of the log of a container that was just removed.
const NO_LOG: &str = "unable to retrieve container logs for ";

/// Reads the last lines of the log of a container: as many as any excerpt has. It is empty if the container is gone.
///
/// # Errors
/// If it cannot be read.
pub async fn read(
    pods: &Api<Pod>,
    pod: &str,
    container: Option<&str>,
    is_previous: bool,
) -> Result<String, ApiError> {
    let params = LogParams {
        container: container.map(str::to_owned),
        previous: is_previous,
        tail_lines: i64::try_from(LONG.lines).ok(),
        limit_bytes: Some(MAX_READ),
        ..LogParams::default()
    };
    let log = bounded(pods.logs(pod, &params)).await?;
    Ok(if is_missing(&log) { String::new() } else { log })
}

fn is_missing(log: &str) -> bool {
    log.starts_with(NO_LOG) && log.lines().count() == 1
}

/// The end of a log, without control characters and credentials of URLs.
pub fn end(log: &str, excerpt: LogExcerpt) -> String {
    let printable = printable(log);
    let printable = redacted_urls(&printable);
    let lines: Vec<_> = printable.trim_end().lines().map(str::trim_end).collect();
    let lines = lines
        .get(lines.len().saturating_sub(excerpt.lines)..)
        .unwrap_or_default();
    let shown = lines.join(excerpt.separator);
    let start = shown.ceil_char_boundary(shown.len().saturating_sub(excerpt.bytes));
    let shown = shown.get(start..).unwrap_or_default();
    shown.trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_cut_from_its_start() {
        let lines: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
        let shown = end(&lines.join("\n"), LONG);
        assert_eq!(shown.lines().count(), LONG.lines);
        assert!(
            shown.starts_with("line 80\n") && shown.ends_with("line 99"),
            "{shown}"
        );
        let shown = end(&format!("start{}end", "é".repeat(LONG.bytes)), LONG);
        assert!(shown.len() <= LONG.bytes && shown.ends_with("éend"), "{shown}");
    }

    #[test]
    fn what_the_kubelet_writes_in_place_of_a_log_is_none() {
        assert!(is_missing(
            "unable to retrieve container logs for containerd://abf8ffbc"
        ));
        assert!(!is_missing(
            "unable to retrieve container logs for x\nof the application"
        ));
        assert!(!is_missing("fatal: unable to retrieve container logs for x"));
    }

    #[test]
    fn a_log_has_no_control_characters() {
        let table = [
            ("\u{1b}[31mred\u{1b}[0m\ttab\r\n\u{7}bell\u{0}", "red\ttab\nbell"),
            ("\n\n  indented\n\n", "  indented"),
            ("", ""),
        ];
        for (log, expected) in table {
            assert_eq!(end(log, LONG), expected, "{log:?}");
        }
    }

    #[test]
    fn a_short_excerpt_is_one_line() {
        let log = "one\ntwo\nget http://user:secret@db/x\n\tat main\n\n";
        let shown = end(log, short(100));
        assert!(
            shown.starts_with("two | get http://") && shown.ends_with(" | \tat main"),
            "{shown}"
        );
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(end(log, short(4)), "main");
    }
}
