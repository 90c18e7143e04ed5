//! Opens the browser of the user.

use std::process::{Command, Stdio};

/// The programs that open a URL, in the order in which they are tried.
#[cfg(target_os = "macos")]
const PROGRAMS: &[&str] = &["open"];
#[cfg(not(target_os = "macos"))]
const PROGRAMS: &[&str] = &["xdg-open", "wslview", "x-www-browser"];

/// Opens a URL. Returns whether a program for that was found.
pub fn open(url: &str) -> bool {
    PROGRAMS.iter().any(|program| {
        let started = Command::new(program)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        started.is_ok()
    })
}
