//! Amounts of bytes as Kubernetes writes them.

/// The bytes of a quantity such as `256Mi`: a number of bytes, or of `Ki`, `Mi` or `Gi`. `None` for any other text, and for more than an address
/// space has.
#[must_use]
pub fn bytes(text: &str) -> Option<usize> {
    let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("", 1)];
    units.iter().find_map(|(unit, bytes)| {
        let number = text.strip_suffix(unit)?;
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        let number: usize = is_number.then(|| number.parse().ok())??;
        number.checked_mul(*bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_units_are_read() {
        for (text, expected) in [
            ("256Mi", Some(256 << 20)),
            ("1Gi", Some(1 << 30)),
            ("131072Ki", Some(128 << 20)),
            ("0", Some(0)),
            ("268435456", Some(256 << 20)),
            ("", None),
            ("Mi", None),
            ("256MB", None),
            ("1M", None),
            ("-1Gi", None),
            ("+1Gi", None),
            ("1.5Gi", None),
            ("99999999999999999999Gi", None),
            ("18446744073709551615Ki", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
