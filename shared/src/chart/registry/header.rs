//! Header fields, read from left to right: the pieces that `WWW-Authenticate` and `Link` have in common (RFC 9110
//! section 5.6).

/// What has not been read yet of a field's value.
///
/// A value is bytes, since RFC 9110 lets it hold bytes that are no ASCII.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'h> {
    rest: &'h [u8],
}

impl<'h> Cursor<'h> {
    /// At the beginning of a value.
    pub const fn new(value: &'h [u8]) -> Self {
        Self { rest: value }
    }

    /// Whether nothing is left.
    pub const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `byte` if it comes next.
    pub fn eat(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Reads the bytes up to the first that does not belong, maybe none.
    pub fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'h [u8] {
        let end = self
            .rest
            .iter()
            .position(|byte| !belongs(*byte))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Passes over blanks and tabs.
    pub fn skip_blanks(&mut self) {
        self.take_while(is_blank);
    }

    /// Passes over what may stand between the elements of a list: commas, of which there may be several, and blanks.
    pub fn skip_to_element(&mut self) {
        self.take_while(|byte| is_blank(byte) || byte == b',');
    }

    /// Reads a token; `None` where none comes next.
    pub fn token(&mut self) -> Option<&'h str> {
        let token = self.take_while(is_token);
        std::str::from_utf8(token).ok().filter(|token| !token.is_empty())
    }

    /// Reads a parameter, which is a name or `name=value`; `None` where no name comes next. The value is a quoted string or
    /// a token.
    ///
    /// Without quotes everything up to a blank or one of `ends` is taken: services such as `registry.example.com:5000`
    /// are found unquoted, although a token has no colon.
    pub fn parameter(&mut self, ends: &[u8]) -> Result<Option<(&'h str, Option<String>)>, Fault> {
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
            return Err(Fault);
        }
        *self = ahead;
        Ok(Some((name, Some(value))))
    }

    /// Whether a blank, one of `ends` or the end comes next.
    pub fn is_before(&self, ends: &[u8]) -> bool {
        self.rest
            .first()
            .is_none_or(|byte| is_blank(*byte) || ends.contains(byte))
    }

    fn rest_of_quoted(&mut self) -> Result<String, Fault> {
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
                _ => return Err(Fault),
            }
        }
    }
}

/// Text that is none of what may stand in its place. Behind it nobody knows what is what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// What a person or a URL can make of bytes.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Blank or tab: what RFC 9110 allows as white space.
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
    fn parameters() {
        for (input, read, rest) in [
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
            (r#"n="open"#, Err(Fault), r#"="open"#),
            (r#"n="open\"#, Err(Fault), r#"="open\"#),
            (r#"n="open\""#, Err(Fault), r#"="open\""#),
            (r#"n="a"b"#, Err(Fault), r#"="a"b"#),
            (r#"n=a"b""#, Err(Fault), r#"=a"b""#),
        ] {
            let mut cursor = Cursor::new(input.as_bytes());
            let found = cursor.parameter(b",");
            let found = found.as_ref().map(|found| {
                let (name, value) = found.as_ref()?;
                Some((*name, value.as_deref()))
            });
            assert_eq!(found, read.as_ref().map(|read| *read), "{input}");
            assert_eq!(text(cursor.rest), rest, "{input}");
        }
    }

    #[test]
    fn bytes_beyond_ascii_are_no_obstacle() {
        let read = Cursor::new(b"n=\"a\xffb\"").parameter(b",");
        assert_eq!(read, Ok(Some(("n", Some("a\u{fffd}b".to_owned())))));
    }
}
