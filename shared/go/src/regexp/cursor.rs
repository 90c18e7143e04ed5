//! A position in an expression.

/// The text that is not parsed yet.
pub struct Cursor<'e>(&'e str);

impl<'e> Cursor<'e> {
    pub const fn new(text: &'e str) -> Self {
        Self(text)
    }

    pub const fn rest(&self) -> &'e str {
        self.0
    }

    pub fn peek(&self) -> Option<char> {
        self.0.chars().next()
    }

    pub fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.skip(c.len_utf8());
        Some(c)
    }

    /// Skips `prefix` if it comes next.
    pub fn eat(&mut self, prefix: &str) -> bool {
        self.0.strip_prefix(prefix).map(|rest| self.0 = rest).is_some()
    }

    /// Skips the text up to `end` and `end` itself, and returns the text. Does nothing if there is no `end`.
    pub fn until(&mut self, end: &str) -> Option<&'e str> {
        let (text, rest) = self.0.split_once(end)?;
        self.0 = rest;
        Some(text)
    }

    /// Skips this many bytes, and returns them.
    pub fn skip(&mut self, bytes: usize) -> &'e str {
        let (skipped, rest) = self.0.split_at_checked(bytes).unwrap_or((self.0, ""));
        self.0 = rest;
        skipped
    }

    /// The text that was parsed since `start`, an earlier rest.
    pub fn since(&self, start: &'e str) -> &'e str {
        start.strip_suffix(self.0).unwrap_or(start)
    }

    /// Skips `{n}`, `{n,}` or `{n,m}`, and returns both bounds.
    pub fn count(&mut self) -> Option<(u32, Option<u32>)> {
        let (text, rest) = self.0.strip_prefix('{')?.split_once('}')?;
        let count = match text.split_once(',') {
            None => number(text).map(|exact| (exact, Some(exact)))?,
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        self.0 = rest;
        Some(count)
    }

    /// Skips the next digits, at most `max`, and returns their number; `None` if there are fewer than `min`.
    pub fn digits(&mut self, radix: u32, min: usize, max: usize) -> Option<u32> {
        let is_digit = |c: &char| c.is_digit(radix);
        let digits = self.0.chars().take(max).take_while(is_digit).count();
        if digits < min {
            return None;
        }
        u32::from_str_radix(self.skip(digits), radix).ok()
    }
}

/// A number without leading zeros; one that is too large becomes the maximum.
fn number(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|c| c.is_ascii_digit()) && !digits.is_empty();
    let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
    (is_number && !has_leading_zero).then(|| digits.parse().unwrap_or(u32::MAX))
}
