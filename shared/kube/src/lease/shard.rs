//! The name of the Lease of the controllers, by shard.

use helmops_api::limits;
use thiserror::Error;

/// The name of the Lease of Fleet's own HelmOps controller; that of another shard has the shard as suffix.
pub const SHARD_LEASE: &str = "fleet-helmops-leader-election-shard";

/// The shard gives no valid object name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "--shard-id {0:?} is invalid: use lower-case letters, digits, '-' and '.', and end with a letter or digit"
)]
pub struct InvalidShard(String);

/// The name of the Lease of a shard, or of the default shard.
///
/// # Errors
/// If the shard gives no valid object name.
pub fn shard_lease(shard: Option<&str>) -> Result<String, InvalidShard> {
    let Some(shard) = shard.filter(|shard| !shard.is_empty()) else {
        return Ok(SHARD_LEASE.to_owned());
    };
    let name = format!("{SHARD_LEASE}-{shard}");
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let is_label = |label: &str| {
        label.bytes().all(inner) && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() <= limits::NAME && name.split('.').all(is_label) {
        Ok(name)
    } else {
        Err(InvalidShard(shard.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_has_the_name_of_fleets_own_controller() {
        for (shard, name) in [
            (None, "fleet-helmops-leader-election-shard"),
            (Some(""), "fleet-helmops-leader-election-shard"),
            (Some("blue"), "fleet-helmops-leader-election-shard-blue"),
        ] {
            assert_eq!(shard_lease(shard).unwrap(), name);
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        for shard in ["Blue", "a b", "a-", "a..b", "a_b", &"a".repeat(250)] {
            assert_eq!(shard_lease(Some(shard)), Err(InvalidShard(shard.to_owned())));
        }
    }
}
