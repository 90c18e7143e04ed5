use bounded_text::hex;
use proptest::prelude::*;
use ring::hmac;

use super::*;

const TOKEN: &str = "0123456789abcdef-token";
const BODY: &[u8] = br#"{"type":"PUSH_ARTIFACT"}"#;
const NOW: i64 = 1_800_000_000;

fn sign(algorithm: hmac::Algorithm, message: &[u8]) -> String {
    hex(hmac::sign(&hmac::Key::new(algorithm, TOKEN.as_bytes()), message).as_ref())
}

fn verified_bytes(
    receiver_type: ReceiverType,
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> Result<(), ProofError> {
    let credentials = Credentials {
        token: Token::new(TOKEN.as_bytes()),
        email: String::new(),
        audience: String::new(),
    };
    let headers = headers.iter().copied().collect();
    let now = Timestamp::from_second(NOW).unwrap();
    verify(
        receiver_type,
        &credentials,
        &GoogleKeys::default(),
        &headers,
        body,
        now,
    )
    .map(|_| ())
}

fn verified(receiver_type: ReceiverType, headers: &[(&str, &str)]) -> Result<(), ProofError> {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    verified_bytes(receiver_type, &headers, BODY)
}

const BY_TOKEN: [ReceiverType; 7] = [
    ReceiverType::Harbor,
    ReceiverType::DockerHub,
    ReceiverType::Quay,
    ReceiverType::Acr,
    ReceiverType::CdEvents,
    ReceiverType::Distribution,
    ReceiverType::Generic,
];

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

#[test]
fn types_that_prove_nothing_themselves_need_the_token_in_a_header() {
    let bearer = format!("Bearer {TOKEN}");
    let wrong = format!("Bearer {TOKEN}x");
    let prefix = format!("Bearer {}", &TOKEN[..TOKEN.len() - 1]);
    for receiver_type in BY_TOKEN {
        let verified = |headers: &[(&str, &str)]| verified(receiver_type, headers);
        assert_eq!(verified(&[("Authorization", &bearer)]), Ok(()));
        assert_eq!(verified(&[("authorization", &format!("bearer {TOKEN}"))]), Ok(()));
        assert_eq!(verified(&[("authorization", &basic("any", TOKEN))]), Ok(()));
        assert_eq!(verified(&[("authorization", &basic("", TOKEN))]), Ok(()));
        assert_eq!(verified(&[("x-helmops-token", TOKEN)]), Ok(()));
        assert_eq!(verified(&[]), Err(ProofError::NoToken));
        assert_eq!(verified(&[("Authorization", &wrong)]), Err(ProofError::Wrong));
        assert_eq!(verified(&[("Authorization", &prefix)]), Err(ProofError::Wrong));
        assert_eq!(verified(&[("Authorization", "Bearer ")]), Err(ProofError::Wrong));
        assert_eq!(
            verified(&[("Authorization", &basic(TOKEN, ""))]),
            Err(ProofError::Wrong)
        );
        assert_eq!(verified(&[("x-helmops-token", "")]), Err(ProofError::Wrong));
        let malformed = Err(ProofError::Malformed("Authorization"));
        for value in [
            "",
            "Bearer",
            "Digest x",
            "Basic %%%",
            &format!("Basic {}", STANDARD.encode(TOKEN)),
        ] {
            assert_eq!(verified(&[("Authorization", value)]), malformed, "{value}");
        }
        assert_eq!(
            verified(&[("Authorization", &bearer), ("authorization", &wrong)]),
            Err(ProofError::Repeated("Authorization"))
        );
        assert_eq!(
            verified(&[("Authorization", &bearer), ("Authorization", &bearer)]),
            Err(ProofError::Repeated("Authorization"))
        );
        assert_eq!(
            verified(&[("Authorization", &bearer), ("X-Helmops-Token", TOKEN)]),
            Err(ProofError::TwoTokens)
        );
    }
}

#[test]
fn harbor_sends_its_header_as_it_was_entered() {
    assert_eq!(
        verified(ReceiverType::Harbor, &[("Authorization", TOKEN)]),
        Ok(())
    );
    assert_eq!(
        verified(ReceiverType::Quay, &[("Authorization", TOKEN)]),
        Err(ProofError::Malformed("Authorization"))
    );
}

#[test]
fn gitlab_has_a_header_of_its_own() {
    let verified = |headers: &[(&str, &str)]| verified(ReceiverType::GitLab, headers);
    assert_eq!(verified(&[("X-Gitlab-Token", TOKEN)]), Ok(()));
    assert_eq!(verified(&[("X-Gitlab-Token", "other")]), Err(ProofError::Wrong));
    assert_eq!(
        verified(&[("Authorization", &format!("Bearer {TOKEN}"))]),
        Err(ProofError::Missing("X-Gitlab-Token"))
    );
}

#[test]
fn servers_of_git_sign_the_body() {
    use ReceiverType as T;
    let digits = sign(hmac::HMAC_SHA256, BODY);
    let other = sign(hmac::HMAC_SHA256, b"other");
    let prefixed = format!("sha256={digits}");
    for (receiver_type, headers, expected) in [
        (T::Gitea, &[("X-Gitea-Signature", &*digits)][..], Ok(())),
        (T::Gitea, &[("X-Gogs-Signature", &digits)], Ok(())),
        (
            T::Gitea,
            &[("X-Gitea-Signature", &digits), ("X-Gogs-Signature", &digits)],
            Ok(()),
        ),
        (
            T::Gitea,
            &[("X-Gitea-Signature", &other), ("X-Gogs-Signature", &digits)],
            Err(ProofError::Wrong),
        ),
        (
            T::Gitea,
            &[("X-Gitea-Signature", &digits), ("X-Gitea-Signature", &digits)],
            Err(ProofError::Repeated("X-Gitea-Signature")),
        ),
        (
            T::Gitea,
            &[("X-Gitea-Signature", &prefixed)],
            Err(ProofError::Malformed("X-Gitea-Signature")),
        ),
        (T::Gitea, &[], Err(ProofError::Missing("X-Gitea-Signature"))),
        (T::Bitbucket, &[("X-Hub-Signature", &prefixed)], Ok(())),
        (
            T::Bitbucket,
            &[("X-Hub-Signature", &format!("sha256={other}"))],
            Err(ProofError::Wrong),
        ),
        (
            T::Bitbucket,
            &[("X-Hub-Signature", &digits)],
            Err(ProofError::Malformed("X-Hub-Signature")),
        ),
        (T::Bitbucket, &[], Err(ProofError::Missing("X-Hub-Signature"))),
    ] {
        assert_eq!(
            verified(receiver_type, headers),
            expected,
            "{receiver_type} {headers:?}"
        );
    }
}

#[test]
fn github_and_nexus_sign_the_body() {
    const HEADER: &str = "X-Hub-Signature-256";
    let sha256 = sign(hmac::HMAC_SHA256, BODY);
    let github = |value: &str| verified(ReceiverType::GitHub, &[(HEADER, value)]);
    assert_eq!(github(&format!("sha256={sha256}")), Ok(()));
    assert_eq!(github(&format!("sha256={}", sha256.to_uppercase())), Ok(()));
    assert_eq!(
        github(&format!("sha256={}", sign(hmac::HMAC_SHA256, b"other"))),
        Err(ProofError::Wrong)
    );
    assert_eq!(
        github(&format!("sha256={}", &sha256[2..])),
        Err(ProofError::Wrong)
    );
    for value in [
        &*sha256,
        "",
        "sha256=",
        "sha256=0",
        "sha256=zz",
        &format!("sha256={}", "0".repeat(1_000)),
        &format!("sha1={sha256}"),
    ] {
        assert_eq!(github(value), Err(ProofError::Malformed(HEADER)), "{value}");
    }
    assert_eq!(
        verified(ReceiverType::GitHub, &[]),
        Err(ProofError::Missing(HEADER))
    );
    let sha1 = sign(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, BODY);
    assert_eq!(
        verified(
            ReceiverType::GitHub,
            &[("X-Hub-Signature", &format!("sha1={sha1}"))]
        ),
        Err(ProofError::Missing(HEADER)),
        "the older header of GitHub is not enough"
    );
    let nexus = |value: &str| verified(ReceiverType::Nexus, &[("X-Nexus-Webhook-Signature", value)]);
    assert_eq!(nexus(&sha1), Ok(()));
    assert_eq!(nexus(&sha256), Err(ProofError::Wrong));
}

#[test]
fn generic_hmac_accepts_no_sha1_and_checks_the_time() {
    let verified = |headers: &[(&str, &str)]| verified(ReceiverType::GenericHmac, headers);
    let signature = |function: &str, digits: &str| format!("{function}={digits}");
    let sha256 = signature("sha256", &sign(hmac::HMAC_SHA256, BODY));
    assert_eq!(verified(&[("X-Signature", &sha256)]), Ok(()));
    assert_eq!(
        verified(&[(
            "X-Signature",
            &signature("sha512", &sign(hmac::HMAC_SHA512, BODY))
        )]),
        Ok(())
    );
    let sha1 = signature("sha1", &sign(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, BODY));
    assert_eq!(verified(&[("X-Signature", &sha1)]), Err(ProofError::Algorithm));
    assert_eq!(verified(&[]), Err(ProofError::Missing("X-Signature")));
    let timed = |time: i64| {
        let message = [time.to_string().as_bytes(), b".", BODY].concat();
        (
            time.to_string(),
            signature("sha256", &sign(hmac::HMAC_SHA256, &message)),
        )
    };
    for (age, expected) in [
        (0, Ok(())),
        (600, Ok(())),
        (-600, Ok(())),
        (601, Err(ProofError::Expired)),
        (-601, Err(ProofError::Expired)),
    ] {
        let (time, signature) = timed(NOW - age);
        assert_eq!(
            verified(&[
                ("X-Helmops-Timestamp", &time),
                ("X-Helmops-Signature", &signature)
            ]),
            expected,
            "{age}"
        );
    }
    let (_, signature) = timed(NOW - 60);
    assert_eq!(
        verified(&[
            ("X-Helmops-Timestamp", &NOW.to_string()),
            ("X-Helmops-Signature", &signature)
        ]),
        Err(ProofError::Wrong),
        "the time is signed"
    );
    assert_eq!(
        verified(&[
            ("X-Helmops-Timestamp", &NOW.to_string()),
            ("X-Signature", &sha256)
        ]),
        Err(ProofError::Missing("X-Helmops-Signature"))
    );
    for time in ["", "x", "99999999999999999999999", "1.5"] {
        let expected = Err(ProofError::Malformed("X-Helmops-Timestamp"));
        assert_eq!(verified(&[("X-Helmops-Timestamp", time)]), expected, "{time}");
    }
    let max = i64::MAX.to_string();
    assert_eq!(
        verified(&[("X-Helmops-Timestamp", &max)]),
        Err(ProofError::Expired)
    );
    // The signature is that of a body too.
    for time in [NOW.to_string(), format!("+{NOW}"), "-1".to_owned()] {
        let body = [time.as_bytes(), b".", BODY].concat();
        let signed = format!("sha256={}", sign(hmac::HMAC_SHA256, &body));
        assert_eq!(
            verified_bytes(
                ReceiverType::GenericHmac,
                &[("X-Signature", signed.as_bytes())],
                &body
            ),
            Err(ProofError::Missing("X-Helmops-Timestamp")),
            "{time}"
        );
    }
}

#[test]
fn headers_that_are_not_utf8_are_wrong_and_break_nothing() {
    for receiver_type in ReceiverType::ALL {
        for header in [
            "Authorization",
            "X-Helmops-Token",
            "X-Gitlab-Token",
            "X-Signature",
            "X-Hub-Signature-256",
            "X-Nexus-Webhook-Signature",
            "X-Helmops-Timestamp",
        ] {
            let proof = verified_bytes(receiver_type, &[(header, b"\xff\xfe=\x80 \xc3\x28")], BODY);
            assert!(proof.is_err(), "{receiver_type} {header}");
        }
    }
}

proptest! {
    /// No header but the right one is accepted, for no type.
    #[test]
    fn nothing_else_is_a_proof(value in prop::collection::vec(any::<u8>(), 0..80), body in prop::collection::vec(any::<u8>(), 0..80)) {
        for receiver_type in ReceiverType::ALL {
            for header in ["Authorization", "X-Helmops-Token", "X-Gitlab-Token", "X-Signature", "X-Hub-Signature-256", "X-Nexus-Webhook-Signature"] {
                prop_assert!(verified_bytes(receiver_type, &[(header, &value)], &body).is_err());
                for prefix in ["Bearer ", "Basic ", "sha256=", "sha512="] {
                    let value = [prefix.as_bytes(), &value].concat();
                    prop_assert!(verified_bytes(receiver_type, &[(header, &value)], &body).is_err());
                }
            }
        }
    }

    /// A signature is for one body.
    #[test]
    fn a_changed_body_is_rejected(at: prop::sample::Index, byte: u8) {
        let mut body = BODY.to_vec();
        let at = at.index(body.len());
        body[at] = byte;
        let signature = format!("sha256={}", sign(hmac::HMAC_SHA256, BODY));
        let proof = verified_bytes(ReceiverType::GenericHmac, &[("X-Signature", signature.as_bytes())], &body);
        prop_assert_eq!(proof.is_ok(), body == BODY);
    }
}
