//! The token of a ServiceAccount.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// What a token shows of itself. It is not verified: only the API server can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The namespace of its ServiceAccount.
    pub namespace: String,
    /// The name of its ServiceAccount.
    pub service_account: String,
    /// When it was issued and when it expires; `None` for a token that does not expire.
    pub times: Option<TokenTimes>,
}

/// The validity of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenTimes {
    pub issued: Timestamp,
    pub expires: Timestamp,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    iat: Option<i64>,
    exp: Option<i64>,
}

impl Token {
    /// Reads a token; `None` if it is not one of a ServiceAccount.
    pub fn parse(token: &str) -> Option<Self> {
        let payload = token.split('.').nth(1)?;
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        let (namespace, service_account) = claims
            .sub
            .strip_prefix("system:serviceaccount:")?
            .split_once(':')?;
        let time = |seconds: Option<i64>| Timestamp::from_second(seconds?).ok();
        let times = time(claims.iat).zip(time(claims.exp));
        Some(Self {
            namespace: namespace.to_owned(),
            service_account: service_account.to_owned(),
            times: times.map(|(issued, expires)| TokenTimes { issued, expires }),
        })
    }
}

impl TokenTimes {
    /// How long it is valid in total.
    pub fn lifetime(&self) -> Duration {
        Duration::try_from(self.expires.duration_since(self.issued)).unwrap_or_default()
    }

    /// When it is to be renewed: when this part of its life, from 0 to 1, is over.
    pub fn renewal(&self, part: f64) -> Timestamp {
        let until = self.lifetime().mul_f64(part);
        self.issued.saturating_add(until).unwrap_or(self.expires)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn token(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_shows_its_service_account_and_when_it_is_to_be_renewed() {
        let claims =
            json!({ "sub": "system:serviceaccount:cluster-a:helmops-agent", "iat": 1000, "exp": 4600 });
        let token = Token::parse(&token(&claims)).unwrap();
        assert_eq!(
            (&*token.namespace, &*token.service_account),
            ("cluster-a", "helmops-agent")
        );
        let times = token.times.unwrap();
        assert_eq!(times.lifetime(), Duration::from_hours(1));
        assert_eq!(times.renewal(0.5).as_second(), 2800);
    }

    #[test]
    fn the_token_of_a_secret_does_not_expire() {
        let claims = json!({ "sub": "system:serviceaccount:cluster-a:request-1" });
        assert_eq!(Token::parse(&token(&claims)).unwrap().times, None);
    }

    #[test]
    fn other_texts_are_no_tokens_of_a_service_account() {
        for text in ["", "a", "a.b.c", "a.!.c", &token(&json!({ "sub": "admin" }))] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }
}
