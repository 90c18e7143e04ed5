//! What a sender must prove, and why it does not.

use thiserror::Error;

use super::secret::Token;

/// What a sender must prove.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The shared secret.
    pub token: Token,
    /// For `gcr`: the ServiceAccount of Google that sends.
    pub email: String,
    /// For `gcr`: the audience of its tokens.
    pub audience: String,
}

/// Why a request proves nothing. The messages contain nothing of the request.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProofError {
    /// A header is missing.
    #[error("the header {0} is missing")]
    Missing(&'static str),
    /// A header occurs twice.
    #[error("the header {0} occurs more than once")]
    Repeated(&'static str),
    /// There is no token.
    #[error(
        "the token is missing: send Authorization: Bearer TOKEN, basic authentication with the token as password, or X-Helmops-Token"
    )]
    NoToken,
    /// Two headers have a token.
    #[error("both Authorization and X-Helmops-Token are set; send one of them")]
    TwoTokens,
    /// A header has another form.
    #[error("the header {0} does not have the form that the type of the Receiver requires")]
    Malformed(&'static str),
    /// The signature uses a function that is not accepted.
    #[error("the signature must be made with SHA-256 or SHA-512")]
    Algorithm,
    /// The token or the signature is wrong.
    #[error("the token or the signature is wrong")]
    Wrong,
    /// The time in the signature is too far from now.
    #[error("the time of the signature is more than 10 minutes from now")]
    Expired,
    /// A token of Google was signed with a key that is not known. New keys may have been published.
    #[error("the token of Google was signed with an unknown key")]
    UnknownKey,
}
