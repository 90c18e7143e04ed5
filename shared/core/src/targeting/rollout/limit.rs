//! Numbers and percentages of clusters or partitions.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use thiserror::Error;

/// A text that is neither a number nor a percentage.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text:?} is neither a number nor a percentage; write one such as 3 or 25%")]
pub struct InvalidAmount {
    /// The text.
    pub text: String,
}

/// Resolves an amount to a number of `count` items.
///
/// A number is limited to 0..=`count`; a number in quotes may exceed `count`. A percentage is rounded down, and is at least 1.
/// If `count` is 0, the result is always 1.
///
/// # Errors
/// If the amount is neither a number nor a percentage.
pub fn limit(count: usize, amount: &IntOrString) -> Result<usize, InvalidAmount> {
    if count == 0 {
        return Ok(1);
    }
    let text = match amount {
        IntOrString::Int(number) => return Ok(usize::try_from(*number).unwrap_or_default().min(count)),
        IntOrString::String(text) => text,
    };
    if let Ok(number @ 1..) = text.parse::<usize>() {
        return Ok(number);
    }
    let percent = text
        .strip_suffix('%')
        .and_then(|percent| percent.parse::<f64>().ok());
    match percent {
        Some(percent) if percent.is_nan() || percent <= 0.0 => Ok(1),
        Some(percent) => Ok(share(count, percent).clamp(1, count)),
        None => Err(InvalidAmount { text: text.clone() }),
    }
}

/// Resolves an amount that may be nothing to a number of `count` items: as Kubernetes resolves `maxUnavailable`, a percentage is rounded
/// down, and `0%` is 0.
///
/// # Errors
/// If the amount is neither a number nor a percentage.
pub fn at_most(count: usize, amount: &IntOrString) -> Result<usize, InvalidAmount> {
    let text = match amount {
        IntOrString::Int(number) => return Ok(usize::try_from(*number).unwrap_or_default().min(count)),
        IntOrString::String(text) => text,
    };
    let invalid = || InvalidAmount { text: text.clone() };
    match text.strip_suffix('%') {
        None => text.parse().map_err(|_| invalid()),
        Some(percent) => match percent.parse::<f64>() {
            Ok(percent) if percent.is_finite() => Ok(share(count, percent).min(count)),
            _ => Err(invalid()),
        },
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of clusters is small, and casts stop at the bounds"
)]
fn share(count: usize, percent: f64) -> usize {
    (count as f64 * percent) as usize / 100
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> IntOrString {
        IntOrString::String(text.to_owned())
    }

    #[test]
    fn numbers_and_percentages_are_resolved() {
        for (count, amount, expected) in [
            (0, IntOrString::Int(5), 1),
            (10, IntOrString::Int(5), 5),
            (10, IntOrString::Int(0), 0),
            (10, IntOrString::Int(-3), 0),
            (10, IntOrString::Int(50), 10),
            (10, text("5"), 5),
            (10, text("50"), 50),
            (10, text("100%"), 10),
            (10, text("25%"), 2),
            (10, text("9%"), 1),
            (10, text("0%"), 1),
            (10, text("-5%"), 1),
            (10, text("33.5%"), 3),
            (10, text("500%"), 10),
            (3, text("50%"), 1),
            (200, text("0.5%"), 1),
        ] {
            assert_eq!(limit(count, &amount), Ok(expected), "{count} {amount:?}");
        }
        for invalid in ["", "0", "-3", "some", "5 %", "%", "x%"] {
            let error = limit(10, &text(invalid)).unwrap_err();
            assert_eq!(error.text, invalid);
        }
    }

    #[test]
    fn an_amount_may_be_nothing() {
        for (count, amount, expected) in [
            (10, IntOrString::Int(0), 0),
            (10, IntOrString::Int(-1), 0),
            (10, IntOrString::Int(30), 10),
            (10, text("0"), 0),
            (10, text("3"), 3),
            (10, text("0%"), 0),
            (10, text("-5%"), 0),
            (10, text("9%"), 0),
            (10, text("10%"), 1),
            (10, text("100%"), 10),
            (0, text("50%"), 0),
        ] {
            assert_eq!(at_most(count, &amount), Ok(expected), "{count} {amount:?}");
        }
        for invalid in ["", "-3", "some", "NaN%", "inf%"] {
            assert_eq!(at_most(10, &text(invalid)).unwrap_err().text, invalid);
        }
    }

    proptest! {
        #[test]
        fn a_percentage_is_at_least_one_and_at_most_all(count in 1_usize..5000, percent in -10.0..300.0_f64) {
            let limit = limit(count, &text(&format!("{percent}%"))).unwrap();
            prop_assert!((1..=count).contains(&limit));
        }
    }
}
