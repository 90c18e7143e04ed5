//! Scalars: plain, in quotes, and in blocks.

use super::{
    SyntaxError,
    scanner::{Scanner, Token, TokenKind, error_at},
    text::{Gap, Text},
};

/// What becomes of the line breaks at the end of a block scalar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Chomping {
    #[default]
    Clip,
    Strip,
    Keep,
}

impl<'t> Scanner<'t> {
    pub(super) fn scan_plain(&mut self) -> Result<Token<'t>, SyntaxError> {
        let start = self.cursor.mark();
        let is_flow = self.is_flow();
        let (mut text, mut gap) = (Text::new(self.source), Gap::default());
        let mut end = start.at;
        while !self.cursor.is_document_indicator() && self.cursor.peek(0) != b'#' {
            let word = self.cursor.at();
            self.cursor
                .move_to(self.cursor.word_end(|byte, is_before_gap| match byte {
                    b':' => is_before_gap,
                    b',' | b'?' | b'[' | b']' | b'{' | b'}' => is_flow,
                    _ => false,
                }));
            if self.cursor.at() > word {
                end = self.cursor.at();
                gap.fold_into(&mut text);
                text.push_range(word..end);
            }
            if !self.cursor.is_gap(0) || self.cursor.is_end() {
                break;
            }
            self.scan_gap(&mut gap, true)?;
            if !is_flow && self.is_left_of_content() {
                break;
            }
        }
        if gap.has_break() {
            self.simple_key_allowed = true;
        }
        let mut token = self.token(
            start,
            TokenKind::Scalar {
                text: text.finish(),
                is_plain: true,
            },
        );
        token.span.end = end;
        Ok(token)
    }

    /// Blanks and line breaks. In plain scalars, no tab is in the indentation.
    fn scan_gap(&mut self, gap: &mut Gap<'t>, is_plain: bool) -> Result<(), SyntaxError> {
        loop {
            if self.cursor.is_blank() {
                let is_tab = self.cursor.peek(0) == b'\t';
                if is_plain && is_tab && gap.has_break() && self.is_left_of_content() {
                    return Err(self.error(
                        "while scanning a plain scalar, found a tab character that violates indentation",
                    ));
                }
                gap.blank(self.cursor.at());
                self.cursor.skip(1);
            } else if self.cursor.is_break(0) {
                gap.line_break(self.cursor.take_break());
            } else {
                return Ok(());
            }
        }
    }

    pub(super) fn scan_quoted(&mut self) -> Result<Token<'t>, SyntaxError> {
        let start = self.cursor.mark();
        let quote = self.cursor.peek(0);
        self.cursor.skip(1);
        let (mut text, mut gap) = (Text::new(self.source), Gap::default());
        loop {
            if self.cursor.is_document_indicator() {
                return Err(self.error("while scanning a quoted scalar, found unexpected document indicator"));
            }
            if self.cursor.is_end() {
                return Err(error_at(
                    start,
                    "while scanning a quoted scalar, found unexpected end of stream",
                ));
            }
            self.scan_quoted_word(quote, &mut text, &mut gap)?;
            if self.cursor.peek(0) == quote {
                break;
            }
            self.scan_gap(&mut gap, false)?;
            gap.fold_into(&mut text);
        }
        self.cursor.skip(1);
        Ok(self.token(
            start,
            TokenKind::Scalar {
                text: text.finish(),
                is_plain: false,
            },
        ))
    }

    /// What is in quotes before the next gap or the end.
    fn scan_quoted_word(
        &mut self,
        quote: u8,
        text: &mut Text<'t>,
        gap: &mut Gap<'t>,
    ) -> Result<(), SyntaxError> {
        let is_double = quote == b'"';
        loop {
            let start = self.cursor.at();
            self.cursor.move_to(
                self.cursor
                    .word_end(|byte, _| byte == quote || (is_double && byte == b'\\')),
            );
            if self.cursor.at() > start {
                text.push_range(start..self.cursor.at());
            }
            match self.cursor.peek(0) {
                b'\'' if !is_double && self.cursor.peek(1) == b'\'' => {
                    text.push("'");
                    self.cursor.skip(2);
                }
                b'\\' if is_double && self.cursor.is_break(1) => {
                    self.cursor.skip(1);
                    self.cursor.take_break();
                    gap.escaped_break();
                    return Ok(());
                }
                b'\\' if is_double => {
                    let c = self.scan_escape()?;
                    text.push(c.encode_utf8(&mut [0; 4]));
                }
                _ => return Ok(()),
            }
        }
    }

    fn scan_escape(&mut self) -> Result<char, SyntaxError> {
        let c = match self.cursor.peek(1) {
            b'0' => '\0',
            b'a' => '\u{7}',
            b'b' => '\u{8}',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\u{b}',
            b'f' => '\u{c}',
            b'r' => '\r',
            b'e' => '\u{1b}',
            // The slash is JSON's.
            quoted @ (b' ' | b'"' | b'\'' | b'\\' | b'/') => char::from(quoted),
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' => return self.scan_code(2),
            b'u' => return self.scan_code(4),
            b'U' => return self.scan_code(8),
            _ => return Err(self.error("while parsing a quoted scalar, found unknown escape character")),
        };
        self.cursor.skip(2);
        Ok(c)
    }

    /// The digits of an escape. Two surrogates are one character, as in JSON.
    fn scan_code(&mut self, length: usize) -> Result<char, SyntaxError> {
        let mut code = self.scan_digits(length)?;
        let is_pair =
            (0xd800..0xdc00).contains(&code) && self.cursor.peek(0) == b'\\' && self.cursor.peek(1) == b'u';
        if is_pair && length == 4 {
            let low = self.scan_digits(length)?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        char::from_u32(code).ok_or_else(|| {
            self.error("while parsing a quoted scalar, found invalid Unicode character escape code")
        })
    }

    fn scan_digits(&mut self, length: usize) -> Result<u32, SyntaxError> {
        let start = self.cursor.at() + 2;
        let digits = self.cursor.slice(start, start + length);
        let is_valid = digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_valid);
        let code = code.ok_or_else(|| {
            self.error("while parsing a quoted scalar, did not find expected hexadecimal number of an escape")
        })?;
        self.cursor.skip(2 + length);
        Ok(code)
    }

    pub(super) fn scan_block(&mut self) -> Result<Token<'t>, SyntaxError> {
        let start = self.cursor.mark();
        let is_folded = self.cursor.peek(0) == b'>';
        self.cursor.skip(1);
        let (chomping, increment) = self.scan_block_header()?;
        self.end_of_line("while scanning a block scalar, did not find expected comment or line break")?;
        let mut indent = match increment {
            0 => 0,
            _ => self.indent.map_or(increment, |indent| indent + increment),
        };
        let (mut text, mut first_break, mut breaks) = (Text::new(self.source), "", String::new());
        let mut end = self.scan_block_breaks(&mut indent, &mut breaks)?;
        let mut was_blank = false;
        while self.cursor.column() == indent && !self.cursor.is_end() {
            let is_blank = self.cursor.is_blank();
            let is_joined = is_folded && !was_blank && !is_blank && first_break.starts_with('\n');
            if !is_joined {
                text.push(first_break);
            } else if breaks.is_empty() {
                text.push(" ");
            }
            text.push(&breaks);
            breaks.clear();
            was_blank = is_blank;
            let line = self.cursor.at();
            self.cursor.skip_line_content();
            text.push_range(line..self.cursor.at());
            first_break = self.cursor.take_break();
            end = self.scan_block_breaks(&mut indent, &mut breaks)?;
        }
        if chomping != Chomping::Strip {
            text.push(first_break);
        }
        if chomping == Chomping::Keep {
            text.push(&breaks);
        }
        let mut token = self.token(
            start,
            TokenKind::Scalar {
                text: text.finish(),
                is_plain: false,
            },
        );
        token.span.end = end;
        Ok(token)
    }

    /// `+` or `-`, and a digit, in any order.
    fn scan_block_header(&mut self) -> Result<(Chomping, usize), SyntaxError> {
        let (mut chomping, mut increment) = (None, None);
        loop {
            match self.cursor.peek(0) {
                b'+' if chomping.is_none() => chomping = Some(Chomping::Keep),
                b'-' if chomping.is_none() => chomping = Some(Chomping::Strip),
                b'0' if increment.is_none() => {
                    return Err(self
                        .error("while scanning a block scalar, found an indentation indicator equal to 0"));
                }
                digit @ b'1'..=b'9' if increment.is_none() => increment = Some(usize::from(digit - b'0')),
                _ => return Ok((chomping.unwrap_or_default(), increment.unwrap_or_default())),
            }
            self.cursor.skip(1);
        }
    }

    /// Indentation and empty lines. Without an indentation, determines it. Returns where the last line break ends.
    fn scan_block_breaks(&mut self, indent: &mut usize, breaks: &mut String) -> Result<usize, SyntaxError> {
        let (mut end, mut deepest) = (self.cursor.at(), 0);
        loop {
            while self.cursor.peek(0) == b' ' && (*indent == 0 || self.cursor.column() < *indent) {
                self.cursor.skip(1);
            }
            deepest = deepest.max(self.cursor.column());
            if self.cursor.peek(0) == b'\t' && (*indent == 0 || self.cursor.column() < *indent) {
                return Err(self.error(
                    "while scanning a block scalar, found a tab character where an indentation space is expected",
                ));
            }
            if !self.cursor.is_break(0) {
                break;
            }
            breaks.push_str(self.cursor.take_break());
            end = self.cursor.at();
        }
        if *indent == 0 {
            *indent = deepest.max(self.content_column()).max(1);
        }
        Ok(end)
    }
}
