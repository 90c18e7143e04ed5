//! Texts that fit into a status.

/// Longest message of a condition, in bytes: a few lines for a person, and nothing that a server could blow up.
const MAX_MESSAGE: usize = 1024;

/// Cuts a message off where it is too long.
pub fn bounded(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let cut = message.floor_char_boundary(MAX_MESSAGE - '…'.len_utf8());
    format!("{}…", message.get(..cut).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        let long = "ä".repeat(1000);
        let cut = bounded(&long);
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with("ä…"));
        assert_eq!(bounded("short"), "short");
    }
}
