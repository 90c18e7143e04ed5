//! Parsing of header values: the syntax that `WWW-Authenticate` and `Link` have in common (RFC 9110 section 5.6).

/// The rest of a header value that is not parsed yet.
///
/// A value is bytes, since RFC 9110 allows bytes beyond ASCII in it.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'h> {
    rest: &'h [u8],
}

impl<'h> Cursor<'h> {
    /// A cursor at the start of a value.
    pub const fn new(value: &'h [u8]) -> Self {
        Self { rest: value }
    }

    /// Whether the value is consumed.
    pub const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Consumes `byte` if it is next.
    pub fn eat(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Consumes the bytes up to the first that does not match; possibly none.
    pub fn take_while(&mut self, matches: impl Fn(u8) -> bool) -> &'h [u8] {
        let end = self
            .rest
            .iter()
            .position(|byte| !matches(*byte))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Skips spaces and tabs.
    pub fn skip_blanks(&mut self) {
        self.take_while(is_blank);
    }

    /// Skips what may be between the elements of a list: any number of commas and blanks.
    pub fn skip_to_element(&mut self) {
        self.take_while(|byte| is_blank(byte) || byte == b',');
    }

    /// Consumes a token; `None` if there is none.
    pub fn token(&mut self) -> Option<&'h str> {
        let token = self.take_while(is_token);
        std::str::from_utf8(token).ok().filter(|token| !token.is_empty())
    }

    /// Consumes a parameter, which is a name or `name=value`; `None` if there is no name. The value is a quoted string or a
    /// token.
    ///
    /// An unquoted value extends to a blank or one of `ends`: some registries send services such as
    /// `registry.example.com:5000` unquoted, although a token has no colon.
    pub fn parameter(&mut self, ends: &[u8]) -> Result<Option<(&'h str, Option<String>)>, Malformed> {
        let Some(name) = self.token() else {
            return Ok(None);
        };
        let mut ahead = *self;
        ahead.skip_blanks();
        if !ahead.eat(b'=') {
            return Ok(Some((name, None)));
        }
        ahead.skip_blanks();
        let value = if ahead.eat(b'"') {
            ahead.rest_of_quoted()?
        } else {
            text(ahead.take_while(|byte| !is_blank(byte) && byte != b'"' && !ends.contains(&byte)))
        };
        if !ahead.is_before(ends) {
            return Err(Malformed);
        }
        *self = ahead;
        Ok(Some((name, Some(value))))
    }

    /// Whether a blank, one of `ends` or the end is next.
    pub fn is_before(&self, ends: &[u8]) -> bool {
        self.rest
            .first()
            .is_none_or(|byte| is_blank(*byte) || ends.contains(byte))
    }

    fn rest_of_quoted(&mut self) -> Result<String, Malformed> {
        let mut content = Vec::new();
        loop {
            content.extend_from_slice(self.take_while(|byte| !matches!(byte, b'"' | b'\\')));
            match self.rest {
                [b'"', rest @ ..] => {
                    self.rest = rest;
                    return Ok(text(&content));
                }
                [b'\\', escaped, rest @ ..] => {
                    content.push(*escaped);
                    self.rest = rest;
                }
                _ => return Err(Malformed),
            }
        }
    }
}

/// A syntax error. The rest of the value has no defined meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Bytes as text, for messages and URLs.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Space or tab: what RFC 9110 allows as white space.
pub const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// RFC 9110, `tchar`.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_parsed_with_and_without_quotes() {
        for (input, expected, rest) in [
            (
                r#"n="a, \"b\\c\" d",x"#,
                Ok(Some(("n", Some(r#"a, "b\c" d"#)))),
                ",x",
            ),
            (r#"n="""#, Ok(Some(("n", Some("")))), ""),
            ("n \t=  bare:1,x", Ok(Some(("n", Some("bare:1")))), ",x"),
            ("n=bare x", Ok(Some(("n", Some("bare")))), " x"),
            ("n=", Ok(Some(("n", Some("")))), ""),
            ("n x", Ok(Some(("n", None))), " x"),
            ("=x", Ok(None), "=x"),
            ("", Ok(None), ""),
            (r#"n="open"#, Err(Malformed), r#"="open"#),
            (r#"n="open\"#, Err(Malformed), r#"="open\"#),
            (r#"n="open\""#, Err(Malformed), r#"="open\""#),
            (r#"n="a"b"#, Err(Malformed), r#"="a"b"#),
            (r#"n=a"b""#, Err(Malformed), r#"=a"b""#),
        ] {
            let mut cursor = Cursor::new(input.as_bytes());
            let found = cursor.parameter(b",");
            let found = found.as_ref().map(|found| {
                let (name, value) = found.as_ref()?;
                Some((*name, value.as_deref()))
            });
            assert_eq!(found, expected.as_ref().map(|expected| *expected), "{input}");
            assert_eq!(text(cursor.rest), rest, "{input}");
        }
    }

    #[test]
    fn bytes_beyond_ascii_are_accepted() {
        let read = Cursor::new(b"n=\"a\xffb\"").parameter(b",");
        assert_eq!(read, Ok(Some(("n", Some("a\u{fffd}b".to_owned())))));
    }
}
