//! Patterns of paths as Go's `filepath.Match` has them on Unix: `*` and `?` match no slash, `[a-z]` and `[^a-z]` one of some
//! characters, and a backslash takes the next character as it is.

/// A pattern that is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Whether a pattern matches a whole path. A malformed pattern is one for every path.
pub fn matches(pattern: &str, path: &str) -> Result<bool, Malformed> {
    let parts = parse(pattern)?;
    let path: Vec<_> = path.chars().collect();
    Ok(matches_parts(&parts, &path))
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Star,
    Any,
    One(char),
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Part {
    fn is(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => c != '/',
            Self::One(own) => c == *own,
            Self::Class { is_negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *is_negated
            }
        }
    }
}

fn parse(pattern: &str) -> Result<Vec<Part>, Malformed> {
    let mut rest = pattern.chars().peekable();
    let mut parts = Vec::new();
    while let Some(c) = rest.next() {
        parts.push(match c {
            '*' => Part::Star,
            '?' => Part::Any,
            '\\' => Part::One(rest.next().ok_or(Malformed)?),
            '[' => {
                let is_negated = rest.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while ranges.is_empty() || rest.next_if_eq(&']').is_none() {
                    let low = class_character(&mut rest)?;
                    let high = match rest.next_if_eq(&'-') {
                        Some(_) => class_character(&mut rest)?,
                        None => low,
                    };
                    ranges.push((low, high));
                }
                Part::Class { is_negated, ranges }
            }
            c => Part::One(c),
        });
    }
    Ok(parts)
}

/// A character of a class.
fn class_character(rest: &mut impl Iterator<Item = char>) -> Result<char, Malformed> {
    match rest.next() {
        None | Some('-' | ']') => Err(Malformed),
        Some('\\') => rest.next().ok_or(Malformed),
        Some(c) => Ok(c),
    }
}

/// Only the last star is tried with other lengths: what is before it has been matched in the shortest way.
fn matches_parts(parts: &[Part], path: &[char]) -> bool {
    let (mut part, mut at) = (0, 0);
    let mut last_star = None;
    while at < path.len() || part < parts.len() {
        match (parts.get(part), path.get(at)) {
            (Some(Part::Star), _) => {
                part += 1;
                last_star = Some((part, at));
                continue;
            }
            (Some(own), Some(c)) if own.is(*c) => {
                part += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        match last_star {
            Some((after, start)) if path.get(start).is_some_and(|c| *c != '/') => {
                last_star = Some((after, start + 1));
                (part, at) = (after, start + 1);
            }
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Go's `path/filepath/match_test.go`.
    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, path, expected) in [
            ("abc", "abc", Ok(true)),
            ("*", "abc", Ok(true)),
            ("*c", "abc", Ok(true)),
            ("a*", "a", Ok(true)),
            ("a*", "abc", Ok(true)),
            ("a*", "ab/c", Ok(false)),
            ("a*/b", "abc/b", Ok(true)),
            ("a*/b", "a/c/b", Ok(false)),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", Ok(true)),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/f", Ok(true)),
            ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", Ok(false)),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", Ok(false)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzy", Ok(false)),
            ("ab[c]", "abc", Ok(true)),
            ("ab[b-d]", "abc", Ok(true)),
            ("ab[e-g]", "abc", Ok(false)),
            ("ab[^c]", "abc", Ok(false)),
            ("ab[^b-d]", "abc", Ok(false)),
            ("ab[^e-g]", "abc", Ok(true)),
            ("a\\*b", "a*b", Ok(true)),
            ("a\\*b", "ab", Ok(false)),
            ("a?b", "a☺b", Ok(true)),
            ("a[^a]b", "a☺b", Ok(true)),
            ("a???b", "a☺b", Ok(false)),
            ("a[^a][^a][^a]b", "a☺b", Ok(false)),
            ("[a-ζ]*", "α", Ok(true)),
            ("*[a-ζ]", "A", Ok(false)),
            ("a?b", "a/b", Ok(false)),
            ("a*b", "a/b", Ok(false)),
            ("[\\]a]", "]", Ok(true)),
            ("[\\-]", "-", Ok(true)),
            ("[x\\-]", "x", Ok(true)),
            ("[x\\-]", "-", Ok(true)),
            ("[x\\-]", "z", Ok(false)),
            ("[\\-x]", "x", Ok(true)),
            ("[\\-x]", "-", Ok(true)),
            ("[\\-x]", "a", Ok(false)),
            ("[]a]", "]", Err(Malformed)),
            ("[-]", "-", Err(Malformed)),
            ("[x-]", "x", Err(Malformed)),
            ("[-x]", "x", Err(Malformed)),
            ("\\", "a", Err(Malformed)),
            ("[a-b-c]", "a", Err(Malformed)),
            ("[", "a", Err(Malformed)),
            ("[^", "a", Err(Malformed)),
            ("[^bc", "a", Err(Malformed)),
            ("a[", "a", Err(Malformed)),
            ("a[", "ab", Err(Malformed)),
            ("a[", "x", Err(Malformed)),
            ("a/b[", "x", Err(Malformed)),
            ("*x", "xxx", Ok(true)),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }
}
