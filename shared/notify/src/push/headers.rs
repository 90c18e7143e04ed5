//! The headers of a request.

use super::credentials::ProofError;

/// The headers of a request. Values are bytes: nothing says that they are UTF-8.
#[derive(Clone, Debug, Default)]
pub struct Headers<'a>(Vec<(&'a str, &'a [u8])>);

impl<'a> FromIterator<(&'a str, &'a [u8])> for Headers<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a [u8])>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl<'a> Headers<'a> {
    /// The value of a header that may occur once. A proxy and a server may disagree on which of two values counts, so a second one
    /// is an error.
    pub(super) fn one(&self, name: &'static str) -> Result<Option<&'a [u8]>, ProofError> {
        let mut values = self
            .0
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value);
        let value = values.next();
        if values.next().is_some() {
            return Err(ProofError::Repeated(name));
        }
        Ok(value)
    }

    /// The value of a header that must occur once.
    pub(super) fn required(&self, name: &'static str) -> Result<&'a [u8], ProofError> {
        self.one(name)?.ok_or(ProofError::Missing(name))
    }

    /// The first value of a header that proves nothing, if it is text.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        str::from_utf8(value).ok()
    }
}
