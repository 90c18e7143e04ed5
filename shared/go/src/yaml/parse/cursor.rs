//! A position in a text, and what is there.

/// A position: a byte, its line, and its column in characters, all from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub at: usize,
    pub line: usize,
    pub column: usize,
}

/// What remains of a text. Its end is like a character 0, which a text never contains.
#[derive(Debug)]
pub struct Cursor<'t> {
    text: &'t str,
    mark: Mark,
}

impl<'t> Cursor<'t> {
    /// The start of a text, after its byte order mark.
    pub fn new(text: &'t str) -> Self {
        let mark = Mark {
            at: if text.starts_with('\u{feff}') {
                '\u{feff}'.len_utf8()
            } else {
                0
            },
            ..Mark::default()
        };
        Self { text, mark }
    }

    pub const fn mark(&self) -> Mark {
        self.mark
    }

    pub const fn at(&self) -> usize {
        self.mark.at
    }

    pub const fn column(&self) -> usize {
        self.mark.column
    }

    pub fn slice(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn byte_at(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or_default()
    }

    /// The byte that is `ahead` of the position.
    pub fn peek(&self, ahead: usize) -> u8 {
        self.byte_at(self.mark.at + ahead)
    }

    pub fn is_end(&self) -> bool {
        self.mark.at >= self.text.len()
    }

    /// The bytes of the line break at a position; 0 if there is none.
    fn break_at(&self, at: usize) -> usize {
        match self.byte_at(at) {
            b'\r' if self.byte_at(at + 1) == b'\n' => 2,
            b'\n' | b'\r' => 1,
            0xc2 if self.byte_at(at + 1) == 0x85 => 2,
            0xe2 if self.byte_at(at + 1) == 0x80 && matches!(self.byte_at(at + 2), 0xa8 | 0xa9) => 3,
            _ => 0,
        }
    }

    pub fn is_break(&self, ahead: usize) -> bool {
        self.break_at(self.mark.at + ahead) > 0
    }

    pub fn is_blank(&self) -> bool {
        matches!(self.peek(0), b' ' | b'\t')
    }

    /// Whether there is a space, a tab, a line break, or the end.
    pub fn is_gap(&self, ahead: usize) -> bool {
        self.is_gap_at(self.mark.at + ahead)
    }

    fn is_gap_at(&self, at: usize) -> bool {
        matches!(self.byte_at(at), 0 | b' ' | b'\t') || self.break_at(at) > 0
    }

    /// Whether a line starts with `---` or `...`, and a gap.
    pub fn is_document_indicator(&self) -> bool {
        self.mark.column == 0 && (self.is_indicator(b'-') || self.is_indicator(b'.'))
    }

    pub fn is_indicator(&self, byte: u8) -> bool {
        (0..3).all(|ahead| self.peek(ahead) == byte) && self.is_gap(3)
    }

    /// Moves by characters of one byte.
    pub const fn skip(&mut self, bytes: usize) {
        self.mark.at += bytes;
        self.mark.column += bytes;
    }

    /// Moves to a later position in the same line.
    pub fn move_to(&mut self, at: usize) {
        let passed = self.slice(self.mark.at, at);
        self.mark.column += passed.bytes().filter(|byte| byte & 0xc0 != 0x80).count();
        self.mark.at = at;
    }

    /// Moves to the end of the line.
    pub fn skip_line_content(&mut self) {
        self.move_to(self.line_end());
    }

    /// Where the line ends.
    pub fn line_end(&self) -> usize {
        let mut at = self.mark.at;
        while at < self.text.len() && self.break_at(at) == 0 {
            at += 1;
        }
        at
    }

    /// Where the word ends: at a gap, or where `is_end` says so of a byte and whether it is before a gap.
    pub fn word_end(&self, is_end: impl Fn(u8, bool) -> bool) -> usize {
        let mut at = self.mark.at;
        while !self.is_gap_at(at) && !is_end(self.byte_at(at), self.is_gap_at(at + 1)) {
            at += 1;
        }
        at
    }

    /// Moves behind bytes that fulfil a condition, all of which are ASCII characters.
    pub fn skip_while(&mut self, is_part: impl Fn(u8) -> bool) {
        while !self.is_end() && is_part(self.peek(0)) {
            self.skip(1);
        }
    }

    pub fn skip_blanks(&mut self) {
        self.skip_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    /// Moves behind a line break, and returns what it is in a text. Only the separators of lines and paragraphs stay as they are.
    pub fn take_break(&mut self) -> &'t str {
        let length = self.break_at(self.mark.at);
        if length == 0 {
            return "";
        }
        let found = self.slice(self.mark.at, self.mark.at + length);
        self.mark.at += length;
        self.mark.line += 1;
        self.mark.column = 0;
        if length == 3 { found } else { "\n" }
    }

    /// The number of characters since an earlier position in the same line, up to a little more than `limit`.
    pub fn characters_since(&self, start: usize, limit: usize) -> usize {
        let bytes = self.mark.at.saturating_sub(start);
        // A character has at most four bytes.
        if bytes <= limit || bytes > 4 * limit {
            return bytes;
        }
        self.slice(start, self.mark.at).chars().count()
    }

    /// At the end, the position is that of a new line.
    pub const fn end_line(&mut self) {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
    }
}

/// The first character that YAML does not allow.
pub fn invalid_character(text: &str) -> Option<usize> {
    let is_valid = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
    text.char_indices()
        .find_map(|(at, c)| (!is_valid(c)).then_some(at))
}
