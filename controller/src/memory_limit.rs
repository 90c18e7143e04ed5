//! How much memory the process may use: its budgets are parts of it.

use std::{fmt, fs, str::FromStr};

use thiserror::Error;

/// Where the kernel says what the container may use: control groups version 2, and version 1.
const CGROUP_FILES: [&str; 2] = [
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
];
/// Used where nothing limits the process. No cluster needs more for its HelmOps.
const UNLIMITED: MemoryLimit = MemoryLimit(Quantity(4 << 30));
/// Less than what an idle process takes is no limit that it could keep.
const LEAST: MemoryLimit = MemoryLimit(Quantity(64 << 20));

/// An amount of memory in bytes, written as a Kubernetes quantity: `256Mi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(usize);

/// Memory that the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryLimit(Quantity);

/// Why a text is not an amount of memory that can be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    /// It is not a quantity.
    #[error("{0:?} is not an amount of memory; write it as 256Mi or 1Gi")]
    Malformed(String),
    /// It is less than the process needs.
    #[error("{0:?} is too little; the process needs at least {LEAST}, and 256Mi by default")]
    TooLittle(String),
}

impl MemoryLimit {
    /// The limit of the container, or a default where it has none.
    pub fn detected() -> Self {
        let texts = CGROUP_FILES
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        Self::of_cgroups(texts)
    }

    /// The first limit that one of the files has. Without a limit they say `max`, or a number beyond any memory.
    fn of_cgroups(texts: impl Iterator<Item = String>) -> Self {
        let limits = texts.filter_map(|text| text.trim().parse().ok());
        let limits = limits.map(|bytes| Self(Quantity(bytes)));
        limits
            .min()
            .map_or(UNLIMITED, |limit| limit.clamp(LEAST, UNLIMITED))
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
        let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("", 1)];
        let parsed = units.iter().find_map(|(unit, bytes)| {
            let number: usize = text.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(*bytes).map(Self)
        });
        parsed.ok_or_else(|| QuantityError::Malformed(text.to_owned()))
    }
}

impl FromStr for MemoryLimit {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let limit = Self(text.parse()?);
        if limit < LEAST {
            return Err(QuantityError::TooLittle(text.to_owned()));
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
    fn quantities_are_those_of_kubernetes() {
        let bytes = |text: &str| text.parse().map(MemoryLimit::bytes);
        assert_eq!(bytes("256Mi"), Ok(256 << 20));
        assert_eq!(bytes("1Gi"), Ok(1 << 30));
        assert_eq!(bytes("131072Ki"), Ok(128 << 20));
        assert_eq!(bytes("268435456"), Ok(256 << 20));
        for text in ["", "Mi", "256MB", "-1Gi", "1Mi", "0", "99999999999999999999Gi"] {
            let error = bytes(text).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("256Mi"), "{error}");
        }
    }

    #[test]
    fn the_container_limits_the_process() {
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
