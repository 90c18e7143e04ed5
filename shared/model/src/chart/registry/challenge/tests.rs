use proptest::prelude::*;

use super::*;

fn parsed(values: &[&str]) -> Vec<Challenge> {
    parse(values)
}

/// Scheme, data and parameters of the parsed challenges, as text.
fn shown(values: &[&str]) -> String {
    let shown: Vec<String> = parsed(values)
        .into_iter()
        .map(|challenge| {
            let mut parts = vec![challenge.scheme];
            parts.extend(challenge.token68.map(|data| format!("<{data}>")));
            parts.extend(
                challenge
                    .parameters
                    .into_iter()
                    .map(|(name, value)| format!("{name}={value}")),
            );
            parts.join("|")
        })
        .collect();
    shown.join(" ; ")
}

#[test]
fn challenges_are_parsed_from_all_values() {
    for (values, expected) in [
        (&["Basic"][..], "Basic"),
        (&[""], ""),
        (&[" , ,"], ""),
        (
            &["Bearer realm=\"https://a/t\",service=\"r\""],
            "Bearer|realm=https://a/t|service=r",
        ),
        (
            &["bEARER REALM = \"x\" , Service\t=\t y "],
            "bEARER|REALM=x|Service=y",
        ),
        // Commas and escapes inside quotes.
        (
            &[r#"Bearer scope="repository:a:pull,push",realm="a\"b\\,c""#],
            r#"Bearer|scope=repository:a:pull,push|realm=a"b\,c"#,
        ),
        // Several challenges in one value, in several values, in both.
        (
            &["Bearer realm=x, Basic realm=y"],
            "Bearer|realm=x ; Basic|realm=y",
        ),
        (&["Basic, Bearer realm=x"], "Basic ; Bearer|realm=x"),
        (&["Negotiate", "Basic realm=y"], "Negotiate ; Basic|realm=y"),
        (&["Negotiate, NTLM,Basic"], "Negotiate ; NTLM ; Basic"),
        // Data in place of parameters.
        (
            &["Negotiate YII=, Basic realm=y"],
            "Negotiate|<YII=> ; Basic|realm=y",
        ),
        (&["Negotiate a/b+c-d._~=="], "Negotiate|<a/b+c-d._~==>"),
        // Empty elements, and a missing comma.
        (&["Bearer ,,realm=x,, ,service=y,"], "Bearer|realm=x|service=y"),
        (&["Bearer realm=\"x\" service=\"y\""], "Bearer|realm=x|service=y"),
        // A value that should be quoted.
        (
            &["Bearer realm=https://h:1/t?a=b,service=h:1"],
            "Bearer|realm=https://h:1/t?a=b|service=h:1",
        ),
        (&["Bearer realm=\"\",service=\"\""], "Bearer|realm=|service="),
        // A syntax error drops its challenge and the rest of the same value.
        (
            &["Basic realm=x, Bearer realm=\"open", "Digest a=b"],
            "Basic|realm=x ; Digest|a=b",
        ),
        (&["Basic realm=x, Bearer realm=\"a\"b"], "Basic|realm=x"),
        (&["realm=\"x\""], ""),
        (&["\"Basic\""], ""),
        (&["Basic realm=x, =y"], "Basic|realm=x"),
    ] {
        assert_eq!(shown(values), expected, "{values:?}");
    }
}

#[test]
fn bearer_is_preferred_to_basic() {
    let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
        Ok(Scheme::Bearer(Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
            error: None,
        }))
    };
    let unsupported = |schemes: &str| {
        Err(ChallengeError::Unsupported {
            schemes: schemes.to_owned(),
        })
    };
    for (values, expected) in [
        (
            &["Bearer realm=\"https://a/token\",service=\"r\",scope=\"repository:x/y:pull\""][..],
            bearer("https://a/token", Some("r"), Some("repository:x/y:pull")),
        ),
        (
            &["Basic realm=\"x\", bearer realm=\"https://a\""],
            bearer("https://a", None, None),
        ),
        (&["Basic realm=\"x\""], Ok(Scheme::Basic)),
        (&["BASIC"], Ok(Scheme::Basic)),
        (&["Negotiate", "Basic"], Ok(Scheme::Basic)),
        // Without a realm no token can be requested; Basic may work.
        (&["Bearer service=r, Basic"], Ok(Scheme::Basic)),
        (
            &["Bearer service=r, Bearer realm=\"https://a\""],
            bearer("https://a", None, None),
        ),
        (&["Bearer realm=\" \",scope=\"\""], Err(ChallengeError::NoRealm)),
        (
            &["Bearer realm=a,realm=b,scope=\"\",service="],
            bearer("b", None, None),
        ),
        (&["Negotiate abc=, NTLM"], unsupported("Negotiate, NTLM")),
        (&[], Err(ChallengeError::None)),
        (&["realm=x"], Err(ChallengeError::None)),
    ] {
        assert_eq!(pick(&parsed(values)), expected, "{values:?}");
    }
}

#[test]
fn the_error_of_a_rejected_token_is_kept() {
    let Ok(Scheme::Bearer(bearer)) = pick(&parsed(&[
        "Bearer realm=\"https://a\",error=\"insufficient_scope\"",
    ])) else {
        panic!("not a Bearer challenge")
    };
    assert_eq!(bearer.error.as_deref(), Some("insufficient_scope"));
}

#[test]
fn hostile_values_are_bounded() {
    let many = "a,".repeat(MAX_VALUE_LEN / 2);
    assert_eq!(parsed(&[&many, &many]).len(), MAX_CHALLENGES);
    let parameters = format!("Bearer {}", "a=b,".repeat(1000));
    assert_eq!(parsed(&[&parameters])[0].parameters.len(), MAX_PARAMETERS);
    let long = format!("Basic realm=\"{}\"", "x".repeat(MAX_VALUE_LEN));
    assert_eq!(parsed(&[&long, "Bearer realm=x"]).len(), 1);
    let schemes = format!("{}, NTLM", "x".repeat(1000));
    let Err(ChallengeError::Unsupported { schemes }) = pick(&parsed(&[&schemes])) else {
        panic!("not the error Unsupported")
    };
    assert!(schemes.len() <= MAX_QUOTED);
}

/// A challenge and a text of it.
fn written() -> impl Strategy<Value = (String, Vec<(String, String)>, String)> {
    let token = "[a-zA-Z][a-zA-Z0-9!#$%&'*+.^_`|~-]{0,8}";
    let blanks = "[ \t]{0,2}";
    let parameter = (token, "[ -~\u{e4}]{0,12}", blanks, blanks).prop_map(|(name, value, before, after)| {
        let quoted: String = value
            .chars()
            .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
            .collect();
        let text = format!("{name}{before}={after}\"{quoted}\"");
        ((name, value), text)
    });
    (
        token,
        proptest::collection::vec(parameter, 0..5),
        "[ \t]{0,2},[, \t]{0,3}",
    )
        .prop_map(|(scheme, parameters, comma)| {
            let (parameters, texts): (Vec<_>, Vec<_>) = parameters.into_iter().unzip();
            let text = format!("{scheme} {}", texts.join(&comma));
            (scheme, parameters, text)
        })
}

proptest! {
    #[test]
    fn a_written_challenge_is_parsed_unchanged(challenges in proptest::collection::vec(written(), 0..5), in_one in any::<bool>()) {
        let texts: Vec<&str> = challenges.iter().map(|(_, _, text)| text.as_str()).collect();
        let joined = texts.join(", ");
        let values = if in_one { vec![joined.as_str()] } else { texts };
        let found: Vec<_> = parsed(&values)
            .into_iter()
            .map(|challenge| (challenge.scheme, challenge.parameters))
            .collect();
        let expected: Vec<_> = challenges
            .iter()
            .map(|(scheme, parameters, _)| (scheme.clone(), parameters.clone()))
            .collect();
        prop_assert_eq!(found, expected);
    }
}
