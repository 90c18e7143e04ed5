//! Every rule, and every attempt to bypass it.

use helmops_api::{Bundle, Decoded, HelmOp, Policy, labels};
use helmops_model::{reason::Reason, validation::FieldErrors};
use serde_json::{Value, json};

use super::Policies;
use crate::{
    admit::ValidHelmOp,
    bundle::{BundleInputs, Plan, RequestedCharts, plan},
};

const REPO: &str = "https://charts.example.com/stable";

fn policy(name: &str, fields: &Value) -> Policy {
    let mut object = json!({ "metadata": { "name": name, "namespace": "fleet-default" } });
    json_patch::merge(&mut object, fields);
    serde_json::from_str(&object.to_string()).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn one(fields: Value) -> Policies {
    Policies::of([&policy("p", &fields)])
}

/// A HelmOp of chart `web`, merged with other fields.
#[expect(clippy::needless_pass_by_value, reason = "it is always called with json!")]
fn helmop(over: Value) -> HelmOp {
    let mut spec = json!({ "helm": { "repo": REPO, "chart": "web", "version": "1.2.3" } });
    json_patch::merge(&mut spec, &over);
    let object = json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
    serde_json::from_str(&object.to_string()).unwrap()
}

/// The rejected fields, and the errors in Fleet's words.
fn rejected(errors: &FieldErrors) -> Vec<(&str, &str)> {
    errors
        .reported()
        .iter()
        .map(|error| {
            assert_eq!(error.reason, Reason::PolicyViolation, "{error}");
            let words = error.detail.split(':').next().unwrap();
            (error.path.as_str(), words.split(" by Policy").next().unwrap())
        })
        .collect()
}

fn error_text(policies: &Policies, over: Value) -> String {
    policies.validate(&helmop(over)).to_string()
}

#[test]
fn without_policies_everything_is_allowed() {
    let helmop = helmop(
        json!({ "serviceAccount": "a", "helmSecretName": "s", "targets": [{ "serviceAccount": "b" }] }),
    );
    for policies in [
        Policies::default(),
        one(json!({})),
        one(json!({ "gitRepo": { "defaultServiceAccount": "g" } })),
    ] {
        assert!(policies.validate(&helmop).is_empty());
        assert_eq!(*policies.apply_defaults(&helmop), helmop);
    }
}

#[test]
fn messages_contain_the_text_the_allowed_set_and_the_fix() {
    let policies = one(json!({
        "requireServiceAccount": true,
        "allowedServiceAccounts": ["a", "b"],
        "helmOp": {
            "defaultHelmSecretName": "d", "allowedHelmSecretNames": ["s"],
            "allowedHelmRepoPatterns": ["oci://.*", "https://u:p@h/x"], "allowedChartPatterns": ["[a"]
        }
    }));
    let over = json!({ "helm": { "repo": "https://u:p@charts.example.com/stable?token=t" } });
    let errors = policies.validate(&helmop(over));
    let messages: Vec<_> = errors.reported().iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "spec.serviceAccount: Required value: serviceAccount is required by Policy but is not set; name one of [a b], \
             for requireServiceAccount of Policy \"p\"",
            "spec.helmSecretName: Forbidden: \"d\": disallowed helmSecretName d: d not in allowed set [s]; it is the \
             default that Policy \"p\" sets, so fix that Policy",
            "spec.helm.repo: Forbidden: \"https://charts.example.com/stable?…\": disallowed helm repo \
             https://charts.example.com/stable?…: https://charts.example.com/stable?… not in allowed set [oci://.* \
             https://h/x]; use one that is, or have it added to helmOp.allowedHelmRepoPatterns of Policy \"p\"",
            "spec.helm.chart: Forbidden: \"web\": disallowed helm chart web: policy failed to compile regex \"[a\": error \
             parsing regexp: missing closing ]: `[a`; fix it in helmOp.allowedChartPatterns of Policy \"p\"",
        ]
    );
    assert_eq!(
        error_text(
            &one(json!({ "allowedServiceAccounts": ["a"] })),
            json!({ "serviceAccount": "b" })
        ),
        "spec.serviceAccount: Forbidden: \"b\": disallowed serviceAccount b: b not in allowed set [a]; use one of these, \
         or have it added to allowedServiceAccounts of Policy \"p\""
    );
}

#[test]
fn messages_about_long_lists_are_short() {
    let names: Vec<_> = (0..1000).map(|number| format!("account-{number:04}")).collect();
    let text = error_text(
        &one(json!({ "allowedServiceAccounts": names })),
        json!({ "serviceAccount": "b" }),
    );
    assert!(
        text.contains("[account-0000 account-0001 ") && text.contains(" … and 977 more]"),
        "{text}"
    );
    assert!(text.len() < 600, "{text}");
    let repo = format!("https://h/{}", "a".repeat(2000));
    let fields = json!({ "helmOp": { "allowedHelmRepoPatterns": ["a".repeat(5000)] } });
    let text = error_text(&one(fields), json!({ "helm": { "repo": repo } }));
    assert!(text.contains("[… and 1 more]") && text.len() < 1000, "{text}");
}

#[test]
fn policies_are_merged_in_the_order_of_their_names() {
    let first = policy(
        "a",
        &json!({
            "allowedServiceAccounts": ["x"],
            "helmOp": { "defaultServiceAccount": "", "defaultHelmSecretName": "of-a", "allowedChartPatterns": ["web"] }
        }),
    );
    let second = policy(
        "b",
        &json!({
            "requireServiceAccount": true, "allowedServiceAccounts": ["y"],
            "helmOp": { "defaultServiceAccount": "of-b", "defaultHelmSecretName": "of-b", "allowedChartPatterns": ["db"] }
        }),
    );
    let third = policy("c", &json!({ "helmOp": { "defaultServiceAccount": "of-c" } }));
    for order in [[&first, &second, &third], [&third, &second, &first]] {
        let policies = Policies::of(order);
        let helmop = helmop(json!({ "helm": { "chart": "shop" } }));
        let complete = policies.apply_defaults(&helmop);
        assert_eq!(complete.spec.bundle.options.service_account, "of-b");
        assert_eq!(complete.spec.helm_secret_name, "of-a");
        let errors = policies.validate(&helmop).to_string();
        assert!(
            errors.contains("of-b not in allowed set [x y]; it is the default that Policy \"b\" sets"),
            "{errors}"
        );
        let remedy = "shop not in allowed set [web db]; use one that is, or have it added to helmOp.allowedChartPatterns of \
                     Policy \"a\" or \"b\"";
        assert!(errors.contains(remedy), "{errors}");
    }
}

#[test]
fn defaults_for_empty_fields_reach_the_bundle() {
    let policies = one(json!({
        "requireServiceAccount": true, "allowedServiceAccounts": ["d", "own"],
        "helmOp": { "defaultServiceAccount": "d", "defaultHelmSecretName": "e", "allowedHelmSecretNames": ["e", "own"] }
    }));
    for (over, account, secret) in [
        (json!({}), "d", "e"),
        (json!({ "serviceAccount": "own" }), "own", "e"),
        (json!({ "helmSecretName": "own" }), "d", "own"),
    ] {
        let helmop = helmop(over);
        let complete = policies.apply_defaults(&helmop);
        let valid = ValidHelmOp::try_from(&*complete).unwrap();
        assert_eq!(policies.check(&valid), Ok(()));
        assert!(policies.validate(&helmop).is_empty());
        let mut charts = RequestedCharts::of(&valid, None);
        for chart in charts.as_mut_slice() {
            chart.version = Some("1.2.3".to_owned().into());
        }
        let inputs = BundleInputs {
            charts: &charts,
            handled_poll: None,
            ca_bundle: "",
            pruned: Default::default(),
            traceparent: None,
        };
        let Ok(Plan::Create(bundle)) = plan(&valid, None, inputs) else {
            panic!("no plan to create a Bundle")
        };
        assert_eq!(bundle.spec.options.service_account, account);
        assert_eq!(bundle.spec.helm_op_options.unwrap().secret_name, secret);
    }
    let own = helmop(json!({ "serviceAccount": "own", "helmSecretName": "own" }));
    assert!(matches!(
        policies.apply_defaults(&own),
        std::borrow::Cow::Borrowed(_)
    ));
}

#[test]
fn defaults_are_validated_like_other_names() {
    let policies = one(json!({ "helmOp": { "defaultServiceAccount": "Not A Name" } }));
    let errors = policies.validate(&helmop(json!({})));
    assert_eq!(errors.reason(), Some(Reason::InvalidName), "{errors}");
}

#[test]
fn violations_are_reported_only_for_valid_helmops() {
    let policies = one(json!({ "requireServiceAccount": true }));
    let errors = policies.validate(&helmop(json!({ "helm": { "version": "one" } })));
    assert_eq!(
        (errors.reported().len(), errors.reason()),
        (1, Some(Reason::InvalidVersion)),
        "{errors}"
    );
}

#[test]
fn an_invalid_pattern_matters_only_if_it_is_reached() {
    for (patterns, chart, expected) in [
        (json!(["web", "[a"]), "web", None),
        (json!(["w.*", "[a"]), "web", None),
        // Later entries are not evaluated, whether they would allow the chart or not.
        (
            json!(["[a", "web"]),
            "web",
            Some("policy failed to compile regex \"[a\""),
        ),
        (
            json!(["[a", "w.*"]),
            "web",
            Some("policy failed to compile regex \"[a\""),
        ),
        (
            json!(["db", "[a"]),
            "web",
            Some("policy failed to compile regex \"[a\""),
        ),
        // Equal texts need no regex.
        (json!(["[a"]), "[a", None),
        (
            json!(["[b", "[a"]),
            "[a",
            Some("policy failed to compile regex \"[b\""),
        ),
        // It would close the group that it is inserted into.
        (json!(["a)|(?:.*"]), "web", Some("unexpected ): `a)|(?:.*`")),
        // The crate finds these, after a valid one.
        (
            json!(["d.*", r"\p{Nowhere}"]),
            "web",
            Some(r#"regex "\\p{Nowhere}": Unicode property value not found"#),
        ),
        (json!(["w.*", r"\p{Nowhere}", r"\p{Neither}"]), "web", None),
    ] {
        let policies = one(json!({ "helmOp": { "allowedChartPatterns": patterns } }));
        let errors = error_text(&policies, json!({ "helm": { "chart": chart } }));
        match expected {
            None => assert_eq!(errors, "", "{patterns} {chart}"),
            Some(words) => assert!(errors.contains(words), "{patterns} {chart}: {errors}"),
        }
    }
}

#[test]
fn the_policy_with_the_invalid_pattern_is_named() {
    let valid = policy(
        "valid",
        &json!({ "helmOp": { "allowedHelmRepoPatterns": ["a.*"] } }),
    );
    let invalid = policy(
        "wrong",
        &json!({ "helmOp": { "allowedHelmRepoPatterns": ["b.*", "("] } }),
    );
    let errors = error_text(&Policies::of([&invalid, &valid]), json!({}));
    assert!(
        errors.contains("regex \"(\": ")
            && errors.ends_with("fix it in helmOp.allowedHelmRepoPatterns of Policy \"wrong\""),
        "{errors}"
    );
}

#[test]
fn the_memory_of_patterns_is_limited() {
    let large = r"\pL{1000}";
    let many: Vec<_> = (0..2000).map(|number| format!("chart-{number}-.*")).collect();
    let long: Vec<_> = (0..40)
        .map(|number| format!("{number}.*{}", "a".repeat(2000)))
        .collect();
    for (patterns, words) in [
        (
            json!(["w.*", large]),
            "it takes more than 2097152 bytes of memory",
        ),
        (
            json!([large, "w.*"]),
            "it takes more than 2097152 bytes of memory",
        ),
        (json!(many), "it takes more than 2097152 bytes of memory"),
        (
            json!(long),
            "the regexes of this list are longer than 32768 bytes in total",
        ),
    ] {
        let policies = one(json!({ "helmOp": { "allowedChartPatterns": patterns } }));
        let errors = error_text(&policies, json!({ "helm": { "chart": "shop" } }));
        assert!(errors.contains(words), "{errors}");
        let first = patterns[0].as_str().unwrap();
        let allowed = error_text(&policies, json!({ "helm": { "chart": "web" } }));
        assert_eq!(allowed.is_empty(), first == "w.*", "{allowed}");
    }
    // Any number of entries without regex syntax costs nothing.
    let mut plain: Vec<_> = (0..10_000).map(|number| format!("chart-{number}")).collect();
    plain.push("w.*".to_owned());
    let policies = one(json!({ "helmOp": { "allowedChartPatterns": plain } }));
    assert_eq!(error_text(&policies, json!({})), "");
    assert_eq!(
        error_text(&policies, json!({ "helm": { "chart": "chart-9999" } })),
        ""
    );
}

#[test]
fn ambiguous_urls_match_no_pattern() {
    let patterns = [
        r"https://charts\.example\.com/a/.*",
        r"https://charts\.example\.com:.*",
    ];
    let policies = one(json!({ "helmOp": { "allowedHelmRepoPatterns": patterns } }));
    for (repo, words) in [
        (
            "https://charts.example.com/a/../b",
            "it is not compared with patterns, because its path contains . or ..",
        ),
        (
            r"https://elsewhere.example.com\@charts.example.com/a/b",
            "because its host is fetched as elsewhere.example.com; write that",
        ),
        (
            "https://charts.example.com:443@elsewhere.example.com/",
            "https://elsewhere.example.com/ not in allowed set",
        ),
    ] {
        let errors = error_text(&policies, json!({ "helm": { "repo": repo } }));
        assert!(errors.contains(words), "{repo}: {errors}");
        let listed = one(json!({ "helmOp": { "allowedHelmRepoPatterns": [repo] } }));
        assert_eq!(
            error_text(&listed, json!({ "helm": { "repo": repo } })),
            "",
            "listed literally"
        );
    }
    let user = json!({ "helm": { "repo": "https://u:p@charts.example.com/a/b" } });
    assert_eq!(
        error_text(&policies, user),
        "",
        "credentials are not part of the location"
    );
}

#[test]
fn agents_may_create_namespaces_unless_a_service_account_is_required() {
    let (requires, allows) = (
        json!({ "requireServiceAccount": true }),
        json!({ "allowNamespaceCreation": true }),
    );
    for (fields, forbidden) in [
        (vec![], false),
        (vec![&requires], true),
        (vec![&allows], false),
        (vec![&requires, &allows], false),
    ] {
        let policies: Vec<_> = fields.iter().map(|fields| policy("p", fields)).collect();
        assert_eq!(
            Policies::of(&policies).forbid_namespace_creation(),
            forbidden,
            "{fields:?}"
        );
    }
}

#[test]
fn a_policy_that_does_not_decode_allows_nothing() {
    let decoded = |name: &str, fields: Value| -> Decoded<Policy> {
        let mut policy = json!({ "metadata": { "name": name, "namespace": "fleet-default" } });
        json_patch::merge(&mut policy, &fields);
        serde_json::from_str(&policy.to_string()).unwrap()
    };
    let valid = decoded(
        "a",
        json!({ "allowedServiceAccounts": ["x"], "requireServiceAccount": true }),
    );
    let invalid = decoded("c", json!({ "helmOp": { "allowedChartPatterns": "web" } }));
    let long = decoded("b", json!({ "allowNamespaceCreation": "y".repeat(5000) }));
    let expected =
        "metadata.namespace: Forbidden: \"fleet-default\": Policy \"c\" of this namespace does not decode: ";
    for policies in [vec![&valid, &invalid], vec![&invalid, &valid]] {
        // No other error is reported: the Policy that does not decode may allow more.
        let errors = error_text(&Policies::of_watched(policies), json!({}));
        assert!(
            errors.starts_with(expected)
                && errors.contains("helmOp: allowedChartPatterns: invalid type: string \"web\""),
            "{errors}"
        );
        assert!(
            errors.ends_with("; fix or delete it; until then nothing is allowed"),
            "{errors}"
        );
    }
    // Only the first by name is reported, in a short message.
    for policies in [[&invalid, &long], [&long, &invalid]] {
        let errors = error_text(&Policies::of_watched(policies), json!({}));
        assert!(errors.contains("Policy \"b\"") && errors.len() < 600, "{errors}");
    }
    // Validation errors are reported first, as always.
    let invalid_helmop = helmop(json!({ "helm": { "version": "one" } }));
    let errors = Policies::of_watched([&invalid]).validate(&invalid_helmop);
    assert_eq!(errors.reason(), Some(Reason::InvalidVersion), "{errors}");
}

#[test]
fn only_new_violations_deny_a_change() {
    let policies = one(json!({
        "allowedServiceAccounts": ["x"],
        "helmOp": { "allowedHelmSecretNames": ["s"], "allowedChartPatterns": ["db"] }
    }));
    let stored = helmop(json!({ "helmSecretName": "t" }));
    for (over, expected) in [
        // Unchanged, or another field changed.
        (json!({ "helmSecretName": "t" }), &[][..]),
        (json!({ "helmSecretName": "t", "paused": true }), &[]),
        // Fixed.
        (json!({ "helmSecretName": "s" }), &[]),
        // One more violation, and another one.
        (
            json!({ "helmSecretName": "t", "serviceAccount": "y" }),
            &[("spec.serviceAccount", "disallowed serviceAccount y")],
        ),
        (
            json!({ "helmSecretName": "u" }),
            &[("spec.helmSecretName", "disallowed helmSecretName u")],
        ),
    ] {
        let edited = helmop(over.clone());
        let decision = policies.review(&edited, || Some(stored.clone()));
        assert_eq!(rejected(&decision.errors), expected, "{over}");
        assert!(!policies.review(&edited, || None).errors.is_empty(), "{over}");
    }
    let decision = policies.review(&helmop(json!({ "helmSecretName": "t", "paused": true })), || {
        Some(stored.clone())
    });
    assert!(
        decision
            .warnings
            .iter()
            .any(|warning| warning.starts_with("not new, but still wrong: spec.helmSecretName: Forbidden")),
        "{:?}",
        decision.warnings
    );
    let mut deleted = helmop(json!({ "helmSecretName": "u" }));
    deleted.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(policies.review(&deleted, || Some(stored)).errors.is_empty());
}

#[test]
fn a_stored_helmop_that_exceeds_a_limit_bypasses_no_policy() {
    let policies = one(json!({ "helmOp": { "allowedHelmSecretNames": ["s"] } }));
    let targets = |count: usize| {
        let targets = vec![json!({ "clusterSelector": {} }); count];
        helmop(json!({ "helmSecretName": "t", "targets": targets }))
    };
    let decision = policies.review(&targets(1_500), || Some(targets(3_000)));
    assert_eq!(
        rejected(&decision.errors),
        [("spec.helmSecretName", "disallowed helmSecretName t")]
    );
}

/// The rejected fields of a Bundle's spec.
fn rejected_in_bundle(policies: &Policies, spec: &Value) -> Vec<String> {
    let object = json!({ "metadata": { "name": "web", "namespace": "fleet-default" }, "spec": spec });
    let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
    let errors = policies.check_bundle(&bundle).err().unwrap_or_default();
    let fields = rejected(&errors).into_iter();
    fields.map(|(path, _)| path.to_owned()).collect()
}

#[test]
fn the_delivery_of_the_charts_of_a_bundle_is_checked() {
    let id = format!("s-{}", "0".repeat(61));
    let rejected = |allowed: &str, content: Option<&str>| {
        let policies = one(json!({ "helmOp": { "allowedDelivery": [allowed] } }));
        let records =
            content.map(|content| json!([{ "chart": "db" }, { "chart": "web", "content": content }]));
        let annotations = records.map(|records| json!({ labels::RESOLVED: records.to_string() }));
        let object = json!({
            "metadata": { "annotations": annotations }, "spec": { "helmOpOptions": {}, "helm": { "chart": "web" } },
        });
        let bundle: Bundle = serde_json::from_str(&object.to_string()).unwrap();
        let errors = policies.check_bundle(&bundle).err().unwrap_or_default();
        errors.to_string()
    };
    for (content, is_content) in [(Some(&*id), true), (Some("x"), false), (None, false)] {
        let (direct, of_content) = (rejected("Direct", content), rejected("Content", content));
        assert_eq!(direct.is_empty(), !is_content, "{direct}");
        assert_eq!(of_content.is_empty(), is_content, "{of_content}");
        let expected = if is_content {
            labels::RESOLVED
        } else {
            "spec.helmOpOptions"
        };
        assert!(
            format!("{direct}{of_content}").contains(expected),
            "{direct}{of_content}"
        );
    }
    let bundle = Bundle::default();
    let policies = one(json!({ "helmOp": { "allowedDelivery": ["Content"] } }));
    assert!(
        policies.check_bundle(&bundle).is_ok(),
        "it has no chart of a HelmOp"
    );
}

#[test]
fn names_in_a_bundle_without_a_helmop_are_checked() {
    let policies = one(json!({
        "requireServiceAccount": true, "allowedServiceAccounts": ["deployer"],
        "helmOp": { "allowedHelmSecretNames": ["charts"] }
    }));
    let check = |spec: Value| rejected_in_bundle(&policies, &spec);
    assert_eq!(check(json!({ "serviceAccount": "deployer" })), [""; 0]);
    assert_eq!(check(json!({})), ["spec.serviceAccount"]);
    let target = json!({ "serviceAccount": "deployer", "targets": [{}, { "serviceAccount": "admin" }] });
    assert_eq!(check(target), ["spec.targets[1].serviceAccount"]);
    let secret =
        |name: &str| json!({ "serviceAccount": "deployer", "helmOpOptions": { "helmOpSecretName": name } });
    assert_eq!(check(secret("charts")), [""; 0]);
    assert_eq!(check(secret("")), [""; 0]);
    assert_eq!(
        check(secret("kubeconfig")),
        ["spec.helmOpOptions.helmOpSecretName"]
    );
}

/// The controller requests the endpoint, with what is in the Secret.
#[test]
fn the_endpoint_of_a_gate_counts_as_a_repository() {
    let policies = one(json!({
        "helmOp": { "allowedHelmRepoPatterns": [REPO, "https://gates\\.example\\.com/.*"], "allowedHelmSecretNames": ["gate"] },
    }));
    let strategy = |gate: Value| json!({ "rolloutStrategy": { "partitions": [{}, { "gate": gate }] } });
    let rejected = |gate: Value| {
        let errors = policies.validate(&helmop(strategy(gate.clone())));
        let of_helmop: Vec<_> = rejected(&errors)
            .into_iter()
            .map(|(path, _)| path.to_owned())
            .collect();
        assert_eq!(rejected_in_bundle(&policies, &strategy(gate)), of_helmop);
        of_helmop
    };
    let path = |field: &str| vec![format!("spec.rolloutStrategy.partitions[1].gate.{field}")];
    let none = Vec::<String>::new();
    assert_eq!(rejected(json!({ "expression": "true" })), none);
    assert_eq!(
        rejected(json!({ "url": "https://gates.example.com/web", "secretName": "gate" })),
        none
    );
    assert_eq!(
        rejected(json!({ "url": "https://gates.example.com/web", "secretName": "other" })),
        path("secretName")
    );
    assert_eq!(
        rejected(json!({ "url": "https://gates.example.com.evil.org/web" })),
        path("url")
    );
    assert_eq!(
        rejected(json!({ "url": "https://gates.example.com/x/../web" })),
        path("url")
    );
}

#[test]
fn a_cleared_service_account_counts_as_none() {
    let required = one(json!({ "requireServiceAccount": true }));
    let check = |spec: Value| rejected_in_bundle(&required, &spec);
    assert_eq!(check(json!({ "serviceAccount": "-" })), ["spec.serviceAccount"]);
    let target = json!({ "serviceAccount": "a", "targets": [{}, { "serviceAccount": "-" }, { "serviceAccount": "b" }] });
    assert_eq!(check(target), ["spec.targets[1].serviceAccount"]);
    // If none is required, agents may deploy with their own permissions.
    let target = json!({ "serviceAccount": "a", "targets": [{ "serviceAccount": "-" }] });
    assert_eq!(rejected_in_bundle(&one(json!({})), &target), [""; 0]);
    // In HelmOps, validation rejects it before Policies are checked.
    let errors = required.validate(&helmop(
        json!({ "serviceAccount": "a", "targets": [{ "serviceAccount": "-" }] }),
    ));
    assert_eq!(errors.reason(), Some(Reason::InvalidName), "{errors}");
}

#[test]
fn downstream_resources_are_restricted() {
    let secrets = json!({ "helmOp": { "allowedHelmSecretNames": ["charts"] } });
    let required =
        json!({ "requireServiceAccount": true, "helmOp": { "allowedHelmSecretNames": ["charts"] } });
    let allowed = json!({
        "requireServiceAccount": true, "allowedDownstreamResources": ["Secret/pull-.*", "ConfigMap/settings"],
        "helmOp": { "allowedHelmSecretNames": ["charts"] }
    });
    for (policy, kind, name, is_allowed) in [
        (json!({}), "Secret", "any", true),
        (json!({}), "ConfigMap", "any", true),
        (json!({ "allowedServiceAccounts": ["a"] }), "Secret", "any", true),
        (secrets.clone(), "Secret", "charts", true),
        (secrets.clone(), "secret", "prod-kubeconfig", false),
        (secrets.clone(), "Secret", "charts-2", false),
        (secrets, "ConfigMap", "charts-2", true),
        // Also if the installed CRD lacks the field, so that there is never an entry.
        (required.clone(), "Secret", "charts", false),
        (required, "configmap", "coredns", false),
        (allowed.clone(), "Secret", "pull-a", true),
        (allowed.clone(), "SECRET", "pull-a", true),
        (allowed.clone(), "configMap", "settings", true),
        (allowed.clone(), "ConfigMap", "pull-a", false),
        (allowed.clone(), "Secret", "settings", false),
        (allowed.clone(), "Secret", "my-pull-a", false),
        // Only one of the lists applies.
        (allowed, "Secret", "charts", false),
        (
            json!({ "allowedDownstreamResources": ["[a"] }),
            "Secret",
            "[a",
            false,
        ),
    ] {
        let policies = one(policy.clone());
        let resources = json!([{ "kind": kind, "name": name }]);
        let expected = |path: &str| -> Vec<String> {
            let path = (!is_allowed).then(|| path.to_owned());
            path.into_iter().collect()
        };
        let for_all = json!({ "serviceAccount": "a", "downstreamResources": resources.clone() });
        let target = json!({ "serviceAccount": "a", "targets": [{}, { "downstreamResources": resources }] });
        for (spec, path) in [
            (for_all, "spec.downstreamResources[0].name"),
            (target, "spec.targets[1].downstreamResources[0].name"),
        ] {
            assert_eq!(
                rejected_in_bundle(&policies, &spec),
                expected(path),
                "{policy} {kind} {name}"
            );
            // This name is never valid in HelmOps, so validation rejects it first.
            if name != "[a" {
                let errors = policies.validate(&helmop(spec));
                let fields: Vec<_> = rejected(&errors)
                    .iter()
                    .map(|(path, _)| (*path).to_owned())
                    .collect();
                assert_eq!(fields, expected(path), "{policy} {kind} {name}");
            }
        }
    }
}

#[test]
fn namespaces_of_dependencies_are_restricted() {
    let lists = |list: &str| json!({ "helmOp": { list: ["https://charts.example.com/stable", "web", "s"] } });
    let allowed =
        json!({ "requireServiceAccount": true, "allowedDependencyNamespaces": ["data-.*", "base"] });
    for (policy, namespace, is_allowed) in [
        // Nothing restricts HelmOps.
        (json!({}), "data", true),
        (
            json!({ "gitRepo": { "allowedClientSecretNames": ["a"] } }),
            "data",
            true,
        ),
        (
            json!({ "helmOp": { "defaultHelmSecretName": "s" } }),
            "data",
            true,
        ),
        // Also if the installed CRD lacks the field, so that there is never an entry.
        (json!({ "requireServiceAccount": true }), "data", false),
        (json!({ "allowedServiceAccounts": ["a"] }), "data", false),
        (json!({ "allowedDownstreamResources": ["a"] }), "data", false),
        (lists("allowedHelmSecretNames"), "data", false),
        (lists("allowedHelmRepoPatterns"), "data", false),
        (lists("allowedChartPatterns"), "data", false),
        // The own namespace.
        (json!({ "requireServiceAccount": true }), "fleet-default", true),
        (allowed.clone(), "fleet-default", true),
        (allowed.clone(), "", true),
        (allowed.clone(), "base", true),
        (allowed.clone(), "data-1", true),
        (allowed.clone(), "data", false),
        (allowed, "my-base", false),
        (json!({ "allowedDependencyNamespaces": ["base"] }), "data", false),
        (json!({ "allowedDependencyNamespaces": ["[a"] }), "data", false),
    ] {
        let policies = one(policy.clone());
        let lifecycle = json!({ "dependsOn": [
            { "name": "tls", "namespace": "anywhere", "apiVersion": "v1", "kind": "Secret" },
            { "name": "db", "namespace": namespace },
        ] });
        let expected = |path: &str| Vec::from_iter((!is_allowed).then(|| path.to_owned()));
        let for_all = json!({ "serviceAccount": "a", "lifecycle": lifecycle.clone() });
        let target = json!({ "serviceAccount": "a", "targets": [{}, { "lifecycle": lifecycle }] });
        for (spec, path) in [
            (for_all, "spec.lifecycle.dependsOn[1].namespace"),
            (target, "spec.targets[1].lifecycle.dependsOn[1].namespace"),
        ] {
            assert_eq!(
                rejected_in_bundle(&policies, &spec),
                expected(path),
                "{policy} {namespace}"
            );
            let errors = policies.validate(&helmop(spec));
            let fields = rejected(&errors).into_iter();
            let fields: Vec<_> = fields.map(|(path, _)| path.to_owned()).collect();
            assert_eq!(fields, expected(path), "{policy} {namespace}");
        }
    }
}

#[test]
fn messages_about_namespaces_of_dependencies_contain_the_policy_and_the_fix() {
    let over = json!({ "serviceAccount": "a", "lifecycle": { "dependsOn": [{ "name": "db", "namespace": "data" }] } });
    for (policy, expected) in [
        (
            json!({ "allowedDependencyNamespaces": ["base"] }),
            "spec.lifecycle.dependsOn[0].namespace: Forbidden: \"data\": disallowed dependency namespace data: data not in allowed set \
             [base]; use one that is, or have it added to allowedDependencyNamespaces of Policy \"p\"",
        ),
        (
            json!({ "requireServiceAccount": true }),
            "spec.lifecycle.dependsOn[0].namespace: Forbidden: \"data\": disallowed dependency namespace data: a dependency shows whether \
             another release is ready, and Policy \"p\" restricts this namespace; name a HelmOp or Bundle of this namespace, or have the \
             other one added to allowedDependencyNamespaces of a Policy of this namespace",
        ),
    ] {
        assert_eq!(error_text(&one(policy), over.clone()), expected);
    }
}

#[test]
fn messages_about_downstream_resources_contain_the_resource_and_the_fix() {
    let over =
        json!({ "serviceAccount": "a", "downstreamResources": [{ "kind": "secret", "name": "kubeconfig" }] });
    for (policy, expected) in [
        (
            json!({ "allowedDownstreamResources": ["Secret/pull-.*"] }),
            "Secret/kubeconfig not in allowed set [Secret/pull-.*]; use one that is, or have it added to \
             allowedDownstreamResources of Policy \"p\"",
        ),
        (
            json!({ "requireServiceAccount": true }),
            "agents copy it with their own permissions, not with those of the ServiceAccount that requireServiceAccount of \
             Policy \"p\" demands; remove it, or have it added to allowedDownstreamResources of a Policy of this namespace",
        ),
        (
            json!({ "helmOp": { "allowedHelmSecretNames": ["charts"] } }),
            "kubeconfig not in allowed set [charts]; use one of these, or have it added to helmOp.allowedHelmSecretNames of \
             Policy \"p\", or to allowedDownstreamResources of a Policy of this namespace",
        ),
    ] {
        assert_eq!(
            error_text(&one(policy), over.clone()),
            format!(
                "spec.downstreamResources[0].name: Forbidden: \"kubeconfig\": disallowed downstream resource \
                 Secret/kubeconfig: {expected}"
            )
        );
    }
}

#[test]
fn an_encoded_slash_is_allowed_if_a_decoded_one_is() {
    let stable = "api/v4/projects/team%2Fcharts/packages/helm/stable";
    let everything = r"https://gitlab\.example\.com/.*";
    let of_the_team = r"https://gitlab\.example\.com/api/v4/projects/team%2F[^/]+/packages/helm/stable";
    let of_two_parts = r"https://gitlab\.example\.com/api/v4/projects/team/[^/]+/packages/helm/stable";
    for (patterns, is_allowed) in [
        (vec![everything], true),
        (vec![of_the_team], false),
        (vec![of_two_parts], false),
        (vec![of_the_team, of_two_parts], true),
        (
            vec![
                of_the_team,
                "https://gitlab.example.com/api/v4/projects/team/charts/packages/helm/stable",
            ],
            true,
        ),
    ] {
        let policies = one(json!({ "helmOp": { "allowedHelmRepoPatterns": patterns } }));
        let repo = format!("https://user:password@gitlab.example.com/{stable}");
        let errors = policies.validate(&helmop(json!({ "helm": { "repo": repo } })));
        assert_eq!(errors.is_empty(), is_allowed, "{patterns:?}: {errors}");
    }
    let policies = one(json!({ "helmOp": { "allowedHelmRepoPatterns": [of_the_team] } }));
    let over = json!({ "helm": { "repo": format!("https://gitlab.example.com/{stable}") } });
    let errors = error_text(&policies, over);
    assert!(
        errors.contains("is not allowed with a decoded slash") && errors.contains("of Policy \"p\""),
        "{errors}"
    );
}

#[test]
fn patterns_allow_no_ambiguous_url() {
    let policies = one(json!({ "helmOp": { "allowedHelmRepoPatterns": [
        r"https://charts\.example\.com/tenant-a(/.*)?", r"https://[^/]+\.corp\.example/.*", "https://git.example.com/a%2Fb"
    ] } }));
    for (repo, is_allowed) in [
        ("https://charts.example.com/tenant-a/stable", true),
        ("https://charts.example.com/tenant-a/%2e%2e%2ftenant-b", false),
        ("https://charts.example.com/tenant-a%2f..%2ftenant-b", false),
        (
            "https://charts.example.com/tenant-a/x%2f..%2f..%2ftenant-b",
            false,
        ),
        (
            "https://charts.example.com/tenant-a/%252e%252e%252ftenant-b",
            false,
        ),
        ("https://charts.example.com/tenant-a/..;/tenant-b", false),
        ("https://charts.corp.example/x", true),
        ("https://elsewhere.example.net?x.corp.example/", false),
        ("https://elsewhere.example.net%2f.corp.example/", false),
        // A URL that is listed literally is allowed.
        ("https://git.example.com/a%2Fb", true),
        ("https://user:password@git.example.com/a%2Fb", true),
        ("https://git.example.com/a%2fb", false),
    ] {
        let errors = policies.validate(&helmop(json!({ "helm": { "repo": repo } })));
        assert_eq!(errors.is_empty(), is_allowed, "{repo}: {errors}");
    }
}
