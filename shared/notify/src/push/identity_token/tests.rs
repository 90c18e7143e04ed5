use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

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

/// A set with changed copies of the key `first`.
fn set_of(changes: &[Value]) -> Result<GoogleKeys, KeysError> {
    let set: Value = serde_json::from_slice(include_bytes!("../testdata/google-keys.json")).unwrap();
    let keys = changes.iter().map(|change| {
        let mut key = set["keys"][1].clone();
        for (name, value) in change.as_object().unwrap() {
            key[name] = value.clone();
        }
        key
    });
    GoogleKeys::parse(json!({ "keys": keys.collect::<Vec<_>>() }).to_string().as_bytes())
}

#[test]
fn keys_that_are_not_for_signatures_with_rs256_are_ignored() {
    let valid = tokens()["valid"].clone();
    let accepts = |keys: &GoogleKeys| verify(valid.as_bytes(), &credentials(), keys, now()).is_ok();
    for change in [
        json!({ "kid": null }),
        json!({ "kid": "" }),
        json!({ "kid": 1 }),
        json!({ "kty": "EC" }),
        json!({ "alg": "RS512" }),
        json!({ "alg": "PS256" }),
        json!({ "use": "enc" }),
        json!({ "n": "%%" }),
        json!({ "e": null }),
    ] {
        assert_eq!(
            set_of(std::slice::from_ref(&change)).unwrap_err(),
            KeysError::Empty,
            "{change}"
        );
        // One that cannot be used does not keep the others out.
        assert!(accepts(&set_of(&[change, json!({})]).unwrap()));
    }
    assert!(
        accepts(&set_of(&[json!({ "alg": null, "use": null })]).unwrap()),
        "both are optional"
    );
}

/// A token that names no key is not verified with one that has no name.
#[test]
fn a_token_without_a_key_id_is_rejected() {
    let (_, rest) = tokens()["valid"]
        .split_once('.')
        .map(|(head, rest)| (head.to_owned(), rest.to_owned()))
        .unwrap();
    let head = URL_SAFE_NO_PAD.encode(br#"{"alg":"RS256"}"#);
    assert_eq!(verified(&format!("{head}.{rest}")), Err(ProofError::UnknownKey));
}

#[test]
fn rotated_keys_replace_the_old_ones() {
    let token = tokens()["valid"].clone();
    let with = |keys: &GoogleKeys| verify(token.as_bytes(), &credentials(), keys, now());
    assert_eq!(
        with(&set_of(&[json!({ "kid": "second" })]).unwrap()),
        Err(ProofError::UnknownKey)
    );
    assert_eq!(
        with(&set_of(&[json!({ "kid": "second" }), json!({})]).unwrap()),
        Ok(())
    );
    assert_eq!(
        with(&GoogleKeys::default()),
        Err(ProofError::UnknownKey),
        "without any key"
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
