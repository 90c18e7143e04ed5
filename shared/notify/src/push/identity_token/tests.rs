use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::push::secret::Token;

const NOW: i64 = 1_800_000_000;

fn tokens() -> BTreeMap<String, String> {
    serde_json::from_slice(include_bytes!("../testdata/google-tokens.json")).unwrap()
}

fn keys() -> GoogleKeys {
    GoogleKeys::parse(include_bytes!("../testdata/google-keys.json")).unwrap()
}

fn credentials() -> Credentials {
    Credentials {
        token: Token::new(b"unused"),
        email: "pubsub@my-project.iam.gserviceaccount.com".into(),
        audience: "https://hooks.example/charts".into(),
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn verified(token: &str) -> Result<(), ProofError> {
    verify(token.as_bytes(), &credentials(), &keys(), now())
}

#[test]
fn tokens_are_accepted_by_signature_issuer_audience_email_and_time() {
    for (case, token) in tokens() {
        let expected = match &*case {
            "valid" | "issuer without scheme" => Ok(()),
            "expired" | "from the future" => Err(ProofError::Expired),
            "unknown key" => Err(ProofError::UnknownKey),
            "without signature" | "signed with the public key as secret" | "number as expiry too large" => {
                Err(MALFORMED)
            }
            _ => Err(ProofError::Wrong),
        };
        assert_eq!(verified(&token), expected, "{case}");
    }
}

#[test]
fn nothing_is_accepted_without_an_email_and_an_audience() {
    let token = &tokens()["valid"];
    let verified = |credentials: Credentials| verify(token.as_bytes(), &credentials, &keys(), now());
    assert_eq!(verified(credentials()), Ok(()));
    assert_eq!(
        verified(Credentials {
            email: String::new(),
            ..credentials()
        }),
        Err(ProofError::Wrong)
    );
    assert_eq!(
        verified(Credentials {
            audience: String::new(),
            ..credentials()
        }),
        Err(ProofError::Wrong)
    );
}

#[test]
fn tokens_of_another_form_are_rejected() {
    let valid = &tokens()["valid"];
    let (signed, _) = valid.rsplit_once('.').unwrap();
    for text in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        signed,
        &format!("{valid}."),
        &format!("{signed}."),
        &format!("{signed}.%%"),
        &"a.".repeat(10_000),
    ] {
        assert_ne!(verified(text), Ok(()), "{text}");
    }
}

#[test]
fn key_sets_of_another_form_are_rejected() {
    assert_eq!(GoogleKeys::parse(b"<html>").unwrap_err(), KeysError::Json);
    assert_eq!(
        GoogleKeys::parse(br#"{"keys":[]}"#).unwrap_err(),
        KeysError::Empty
    );
    assert_eq!(
        GoogleKeys::parse(br#"{"keys":[{"kty":"EC"}]}"#).unwrap_err(),
        KeysError::Empty
    );
}

proptest! {
    /// No change of a byte of the signed part leaves a token valid. Base64 has spare bits, so the last digit of a part may change.
    #[test]
    fn a_changed_token_is_rejected(at: prop::sample::Index, digit in "[A-Za-z0-9_-]") {
        let valid = &tokens()["valid"];
        let (signed, _) = valid.rsplit_once('.').unwrap();
        let at = at.index(signed.len());
        let mut changed = valid.clone();
        changed.replace_range(at..=at, &digit);
        prop_assert!(changed == *valid || verified(&changed).is_err());
    }
}
