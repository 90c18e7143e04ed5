//! The type of a scalar for the decoder that Helm uses: YAML 1.1, without base 60.

/// A scalar of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scalar<'t> {
    pub(super) text: &'t str,
    pub(super) style: Style,
}

/// How a scalar is written, as far as its type depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes or tag: the text determines the type.
    Plain,
    /// Of a known type, whatever the text.
    Is(ScalarType),
}

/// The types that make a difference for the fields of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarType {
    /// Null: as if the key were missing.
    Null,
    Bool(bool),
    Text,
    /// Numbers and binary data, which are invalid in the text fields of a chart.
    Other,
}

impl<'t> Scalar<'t> {
    pub(super) const NULL: Self = Self {
        text: "",
        style: Style::Is(ScalarType::Null),
    };

    pub(super) fn plain(text: &'t str) -> Self {
        let style = Style::Plain;
        Self { text, style }
    }

    pub(super) fn text(text: &'t str) -> Self {
        Self::with(text, ScalarType::Text)
    }

    pub(super) fn with(text: &'t str, scalar_type: ScalarType) -> Self {
        let style = Style::Is(scalar_type);
        Self { text, style }
    }

    pub(super) fn scalar_type(self) -> ScalarType {
        match self.style {
            Style::Plain => plain(self.text),
            Style::Is(scalar_type) => scalar_type,
        }
    }

    /// Whether this is a key that merges another mapping into its own.
    pub(super) fn merges(self) -> bool {
        self.style == Style::Plain && self.text == "<<"
    }
}

/// The type of a text without quotes.
fn plain(text: &str) -> ScalarType {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => ScalarType::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            ScalarType::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            ScalarType::Bool(false)
        }
        _ if is_number(text) => ScalarType::Other,
        _ => ScalarType::Text,
    }
}

fn is_number(text: &str) -> bool {
    let signless = text.strip_prefix(['+', '-']).unwrap_or(text);
    match signless.as_bytes().first() {
        Some(b'0'..=b'9') => {
            let digits = signless.replace('_', "");
            is_integer(&digits) || is_float(&digits)
        }
        Some(b'.') => {
            matches!(signless, ".inf" | ".Inf" | ".INF")
                || matches!(text, ".nan" | ".NaN" | ".NAN")
                || is_float(signless)
        }
        _ => false,
    }
}

/// An integer with a prefix for its base; without one it is a float, too.
fn is_integer(digits: &str) -> bool {
    let Some((prefix, digits)) = digits.split_at_checked(2) else {
        return false;
    };
    let radix = match prefix {
        "0x" | "0X" => 16,
        "0o" | "0O" => 8,
        "0b" | "0B" => 2,
        _ => return false,
    };
    // The sign is removed already; another one is invalid.
    digits.starts_with(|c: char| c.is_ascii_hexdigit()) && u64::from_str_radix(digits, radix).is_ok()
}

/// `[0-9]*.?[0-9]*` with at least one digit, and an optional exponent. A number out of range is text.
fn is_float(digits: &str) -> bool {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && all_digits(exponent)
    });
    !(whole.is_empty() && fraction.is_empty())
        && all_digits(whole)
        && all_digits(fraction)
        && exponent_fits
        && digits.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_texts_have_the_type_that_helm_gives_them() {
        for (texts, expected) in [
            (&["", "~", "null", "NULL"][..], ScalarType::Null),
            (&["y", "Yes", "on", "TRUE"], ScalarType::Bool(true)),
            (&["n", "No", "off", "false"], ScalarType::Bool(false)),
            (
                &[
                    "1",
                    "-1",
                    "+1",
                    "1.10",
                    "1.",
                    ".5",
                    "-.5e3",
                    "1e5",
                    "1E-5",
                    "1_000",
                    "0x1F",
                    "-0X1f",
                    "0o17",
                    "0b11",
                    "017",
                    "089",
                    ".inf",
                    "-.INF",
                    ".NaN",
                    "123456789012345678901234567890",
                ],
                ScalarType::Other,
            ),
            (
                &[
                    "1.2.3",
                    "v1",
                    "1e999",
                    "1e",
                    ".",
                    "-",
                    "--1",
                    "0x",
                    "0x12345678901234567",
                    "0b2",
                    "0o8",
                    "1:30",
                    "2026-01-02",
                    "2026-01-02T03:04:05Z",
                    "nULL",
                    "tRUE",
                    "-.nan",
                    "inf",
                    "NaN",
                    "0x+1",
                    "1 2",
                ],
                ScalarType::Text,
            ),
        ] {
            for text in texts {
                assert_eq!(Scalar::plain(text).scalar_type(), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn quoted_scalars_are_text() {
        assert_eq!(Scalar::text("1.10").scalar_type(), ScalarType::Text);
        assert!(Scalar::plain("<<").merges() && !Scalar::text("<<").merges());
    }
}
