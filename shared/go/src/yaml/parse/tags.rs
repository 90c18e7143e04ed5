//! Anchors, tags and directives.

use std::borrow::Cow;

use super::{
    SyntaxError,
    cursor::Mark,
    scanner::{Scanner, TagText, Token, TokenKind},
};

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

const fn is_uri(byte: u8) -> bool {
    is_name(byte)
        || matches!(
            byte,
            b';' | b'/'
                | b'?'
                | b':'
                | b'@'
                | b'&'
                | b'='
                | b'+'
                | b'$'
                | b','
                | b'.'
                | b'!'
                | b'~'
                | b'*'
                | b'\''
                | b'('
                | b')'
                | b'['
                | b']'
                | b'%'
        )
}

impl<'t> Scanner<'t> {
    /// `&name` or `*name`.
    pub(super) fn scan_anchor(&mut self, is_alias: bool) -> Result<Token<'t>, SyntaxError> {
        let start = self.cursor.mark();
        self.cursor.skip(1);
        self.cursor.skip_while(is_name);
        let name = self.cursor.slice(start.at + 1, self.cursor.at());
        let is_ended = self.cursor.is_gap(0)
            || matches!(
                self.cursor.peek(0),
                b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'
            );
        if name.is_empty() || !is_ended {
            return Err(self.error(if is_alias {
                "while scanning an alias, did not find expected alphabetic or numeric character"
            } else {
                "while scanning an anchor, did not find expected alphabetic or numeric character"
            }));
        }
        Ok(self.token(
            start,
            if is_alias {
                TokenKind::Alias(name)
            } else {
                TokenKind::Anchor(name)
            },
        ))
    }

    /// `!<tag>`, `!suffix`, `!handle!suffix` or `!`.
    pub(super) fn scan_tag(&mut self) -> Result<Token<'t>, SyntaxError> {
        let start = self.cursor.mark();
        let tag = if self.cursor.peek(1) == b'<' {
            self.cursor.skip(2);
            let suffix = self.scan_uri()?;
            if suffix.is_empty() {
                return Err(self.error("while scanning a tag, did not find expected tag URI"));
            }
            if self.cursor.peek(0) != b'>' {
                return Err(self.error("while scanning a tag, did not find the expected '>'"));
            }
            self.cursor.skip(1);
            TagText { handle: "", suffix }
        } else {
            self.scan_short_tag()?
        };
        if !self.cursor.is_gap(0) {
            return Err(self.error("while scanning a tag, did not find expected whitespace or line break"));
        }
        Ok(self.token(start, TokenKind::Tag(tag)))
    }

    fn scan_short_tag(&mut self) -> Result<TagText<'t>, SyntaxError> {
        let start = self.cursor.mark();
        let handle = self.scan_handle();
        if handle.len() > 1 && handle.ends_with('!') {
            let suffix = self.scan_uri()?;
            if suffix.is_empty() {
                return Err(self.error("while scanning a tag, did not find expected tag URI"));
            }
            return Ok(TagText { handle, suffix });
        }
        let rest = self.scan_uri()?;
        let suffix = match (handle.get(1..).unwrap_or_default(), rest) {
            ("", rest) => rest,
            (_, Cow::Borrowed(_)) => Cow::Borrowed(self.cursor.slice(start.at + 1, self.cursor.at())),
            (name, Cow::Owned(rest)) => Cow::Owned([name, &rest].concat()),
        };
        Ok(if suffix.is_empty() {
            TagText {
                handle: "",
                suffix: Cow::Borrowed("!"),
            }
        } else {
            TagText { handle: "!", suffix }
        })
    }

    /// `!`, a name, and `!` if it is there.
    fn scan_handle(&mut self) -> &'t str {
        let start = self.cursor.at();
        self.cursor.skip(1);
        self.cursor.skip_while(is_name);
        if self.cursor.peek(0) == b'!' {
            self.cursor.skip(1);
        }
        self.cursor.slice(start, self.cursor.at())
    }

    fn scan_uri(&mut self) -> Result<Cow<'t, str>, SyntaxError> {
        let start = self.cursor.at();
        self.cursor.skip_while(is_uri);
        let text = self.cursor.slice(start, self.cursor.at());
        if !text.contains('%') {
            return Ok(Cow::Borrowed(text));
        }
        match percent_decoded(text) {
            Some(text) => Ok(Cow::Owned(text)),
            None => Err(self.error("while scanning a tag, did not find URI escaped octet")),
        }
    }

    /// `%YAML` or `%TAG`.
    pub(super) fn scan_directive(&mut self) -> Result<Token<'t>, SyntaxError> {
        let start = self.cursor.mark();
        self.cursor.skip(1);
        self.cursor.skip_while(is_name);
        let name = self.cursor.slice(start.at + 1, self.cursor.at());
        if name.is_empty() {
            return Err(self.error("while scanning a directive, could not find expected directive name"));
        }
        if !self.cursor.is_gap(0) {
            return Err(self.error("while scanning a directive, found unexpected non-alphabetical character"));
        }
        let token = match name {
            "YAML" => self.scan_version(start)?,
            "TAG" => self.scan_tag_directive(start)?,
            _ => return Err(self.error("while scanning a directive, found unknown directive name")),
        };
        self.end_of_line("while scanning a directive, did not find expected comment or line break")?;
        Ok(token)
    }

    fn scan_version(&mut self, start: Mark) -> Result<Token<'t>, SyntaxError> {
        self.cursor.skip_blanks();
        let major = self.scan_version_number()?;
        if self.cursor.peek(0) != b'.' {
            return Err(
                self.error("while scanning a %YAML directive, did not find expected digit or '.' character")
            );
        }
        self.cursor.skip(1);
        let minor = self.scan_version_number()?;
        Ok(self.token(
            start,
            TokenKind::VersionDirective {
                is_1_1: major == 1 && minor == 1,
            },
        ))
    }

    fn scan_version_number(&mut self) -> Result<u32, SyntaxError> {
        let start = self.cursor.at();
        self.cursor.skip_while(|byte| byte.is_ascii_digit());
        let digits = self.cursor.slice(start, self.cursor.at());
        if digits.len() > 2 {
            return Err(self.error("while scanning a %YAML directive, found extremely long version number"));
        }
        digits
            .parse()
            .map_err(|_| self.error("while scanning a %YAML directive, did not find expected version number"))
    }

    fn scan_tag_directive(&mut self, start: Mark) -> Result<Token<'t>, SyntaxError> {
        self.cursor.skip_blanks();
        if self.cursor.peek(0) != b'!' {
            return Err(self.error("while scanning a %TAG directive, did not find expected '!'"));
        }
        let handle = self.scan_handle();
        if handle != "!" && !handle.ends_with('!') {
            return Err(self.error("while scanning a %TAG directive, did not find expected '!'"));
        }
        if !self.cursor.is_blank() {
            return Err(self.error("while scanning a %TAG directive, did not find expected whitespace"));
        }
        self.cursor.skip_blanks();
        let prefix = self.scan_uri()?;
        if prefix.is_empty() {
            return Err(self.error("while scanning a %TAG directive, did not find expected tag URI"));
        }
        if !self.cursor.is_gap(0) {
            return Err(
                self.error("while scanning a %TAG directive, did not find expected whitespace or line break")
            );
        }
        Ok(self.token(start, TokenKind::TagDirective { handle, prefix }))
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = rest.get(2..)?;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}
