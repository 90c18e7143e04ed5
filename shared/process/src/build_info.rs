//! Version and commit of the build, for `--version` and `helmops_build_info`.

use std::sync::LazyLock;

/// The version of the workspace, such as `0.1.0`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built: the value of `HELMOPS_COMMIT` at build time, or `unknown`.
pub const COMMIT: &str = match option_env!("HELMOPS_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What `--version` prints after the binary's name, such as `0.1.0 (commit abc)`.
pub fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{VERSION} (commit {COMMIT})"));
    &TEXT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_commit() {
        assert_eq!(version(), format!("{VERSION} (commit {COMMIT})"));
        assert!(!COMMIT.is_empty());
    }
}
