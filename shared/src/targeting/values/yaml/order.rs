//! The order of keys.

use std::cmp::Ordering;

/// The order of keys: numbers within them by their value, and letters behind everything else.
pub fn compare(one: &str, other: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    let (Some(&x), Some(&y)) = (a.get(at), b.get(at)) else {
        return Ordering::Equal;
    };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero within a number is not a leading one.
    let is_within = (x == '0' || y == '0')
        && a.iter()
            .take(at)
            .rev()
            .take_while(|c| c.is_numeric())
            .any(|c| *c != '0');
    let run = |chars: &[char]| {
        let digits = chars.iter().skip(at).take_while(|c| c.is_numeric());
        digits.fold((i64::from(is_within), 0), |(number, length), c| {
            let digit = i64::from(u32::from(*c)) - i64::from(u32::from('0'));
            (number.wrapping_mul(10).wrapping_add(digit), length + 1)
        })
    };
    run(&a).cmp(&run(&b)).then(x.cmp(&y))
}
