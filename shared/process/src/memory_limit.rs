//! The memory limit of the process. All memory budgets are fractions of it.

use std::{fmt, fs, str::FromStr};

use go_formats::quantity;
use thiserror::Error;

/// The files with the memory limit of the container: cgroup v2 and v1.
const CGROUP_FILES: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];
/// The default if the container has no limit. No cluster needs more for its HelmOps.
const UNLIMITED: MemoryLimit = MemoryLimit(Quantity(4 << 30));
/// The minimum: a limit below the memory of an idle process could not be kept.
const MIN: MemoryLimit = MemoryLimit(Quantity(64 << 20));

/// An amount of memory in bytes, written as a Kubernetes quantity: `256Mi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(usize);

/// The memory limit of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryLimit(Quantity);

/// A memory limit that does not parse, or is too small.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    /// Not a quantity.
    #[error("{0:?} is not an amount of memory; write it like 256Mi or 1Gi")]
    Malformed(String),
    /// Less than the process needs.
    #[error("{0:?} is too small; the process needs at least {MIN}")]
    TooSmall(String),
}

impl MemoryLimit {
    /// The limit of the container, or a default if it has none.
    pub fn detected() -> Self {
        let texts = CGROUP_FILES
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        Self::of_cgroups(texts)
    }

    /// The smallest limit in the files. Without a limit they contain `max`, or a number beyond any memory.
    fn of_cgroups(texts: impl Iterator<Item = String>) -> Self {
        let limits = texts.filter_map(|text| text.trim().parse().ok());
        let limits = limits.map(|bytes| Self(Quantity(bytes)));
        limits
            .min()
            .map_or(UNLIMITED, |limit| limit.clamp(MIN, UNLIMITED))
    }

    /// In bytes.
    pub const fn bytes(self) -> usize {
        self.0.bytes()
    }
}

impl Quantity {
    /// In bytes.
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parsed = quantity::bytes(text).map(Self);
        parsed.ok_or_else(|| QuantityError::Malformed(text.to_owned()))
    }
}

impl FromStr for MemoryLimit {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let limit = Self(text.parse()?);
        if limit < MIN {
            return Err(QuantityError::TooSmall(text.to_owned()));
        }
        Ok(limit)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Mi", self.bytes() >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_quantities_are_parsed() {
        let bytes = |text: &str| text.parse().map(MemoryLimit::bytes);
        assert_eq!(bytes("256Mi"), Ok(256 << 20));
        assert_eq!(bytes("1Gi"), Ok(1 << 30));
        assert_eq!(bytes("131072Ki"), Ok(128 << 20));
        assert_eq!(bytes("268435456"), Ok(256 << 20));
        for text in ["", "Mi", "256MB", "-1Gi", "1Mi", "0", "99999999999999999999Gi"] {
            let error = bytes(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("Mi"), "{error}");
        }
    }

    #[test]
    fn the_limit_of_the_container_is_detected() {
        let limit = |texts: &[&str]| {
            let texts = texts.iter().map(|text| format!("{text}\n"));
            MemoryLimit::of_cgroups(texts).to_string()
        };
        assert_eq!(limit(&["268435456"]), "256Mi");
        assert_eq!(limit(&["max"]), "4096Mi");
        assert_eq!(limit(&["9223372036854771712"]), "4096Mi");
        assert_eq!(limit(&[]), "4096Mi");
        assert_eq!(limit(&["1"]), "64Mi");
    }
}
