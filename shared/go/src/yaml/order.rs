//! The order of mapping keys.

use std::cmp::Ordering;

/// Compares keys: numbers in them by value, and letters after all other characters.
pub fn compare(one: &str, other: &str) -> Ordering {
    let (mut a, mut b) = (one.chars(), other.chars());
    let mut at = 0;
    let (x, y) = loop {
        match (a.next(), b.next()) {
            (Some(x), Some(y)) if x == y => at += x.len_utf8(),
            (Some(x), Some(y)) => break (x, y),
            (x, y) => return x.is_some().cmp(&y.is_some()),
        }
    };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero in the middle of a number is not a leading zero.
    let is_within = (x == '0' || y == '0')
        && one
            .get(..at)
            .unwrap_or_default()
            .chars()
            .rev()
            .take_while(|c| c.is_numeric())
            .any(|c| c != '0');
    let run = |text: &str| {
        let digits = text.get(at..).unwrap_or_default().chars();
        digits
            .take_while(|c| c.is_numeric())
            .fold((i64::from(is_within), 0), |(number, length), c| {
                let digit = i64::from(u32::from(c)) - i64::from(u32::from('0'));
                (number.wrapping_mul(10).wrapping_add(digit), length + 1)
            })
    };
    run(one).cmp(&run(other)).then(x.cmp(&y))
}
