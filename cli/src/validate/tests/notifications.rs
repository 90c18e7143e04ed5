//! AlertProviders, Alerts and Receivers.

use go_formats::yaml::emit_exact;

use super::{assert_points_at, marked, of_text};
use crate::validate::{Report, report::Count};

const OURS: &str = "helmops.fleet.cattle.io/v1alpha1";

fn counts(report: &Report) -> [(usize, usize); 3] {
    [report.alert_providers, report.alerts, report.receivers].map(|count| (count.valid, count.total))
}

#[test]
fn every_mistake_of_admission_is_shown_with_its_position() {
    let mistakes = helmops_mistakes::notifications();
    assert!(mistakes.len() > 65, "{}", mistakes.len());
    for mistake in mistakes {
        let object = mistake.manifest();
        let yaml = emit_exact(&object).unwrap();
        let json = format!("{object:#}\n");
        for text in [&yaml, &json] {
            let report = of_text(text);
            let [problem] = &*report.problems else {
                panic!("{}: {report:?}", mistake.error)
            };
            assert!(problem.text().starts_with(&mistake.error), "{}", problem.text());
            assert_eq!(problem.field, mistake.path());
            assert_eq!(problem.object, format!("{} default/wrong", mistake.kind));
            assert!(!marked(text, problem.region.unwrap()).trim().is_empty());
            let expected =
                ["AlertProvider", "Alert", "Receiver"].map(|kind| (0, usize::from(kind == mistake.kind)));
            assert_eq!(counts(&report), expected);
            if *text == yaml {
                assert_points_at(&object, text, problem);
            }
        }
    }
}

#[test]
fn a_wrong_version_or_kind_has_a_fix() {
    let fleet = "fleet.cattle.io/v1alpha1";
    let of_ours = format!("write {OURS}");
    for (version, kind, field, fix) in [
        ("helmops.fleet.cattle.io/v1", "Alert", "apiVersion", &*of_ours),
        (fleet, "Alert", "apiVersion", &of_ours),
        ("v1alpha1", "Receiver", "apiVersion", &of_ours),
        (
            "helmop.fleet.cattle.io/v1alpha1",
            "AlertProvider",
            "apiVersion",
            &of_ours,
        ),
        (OURS, "HelmOp", "apiVersion", "write fleet.cattle.io/v1alpha1"),
        (OURS, "Policy", "apiVersion", "write fleet.cattle.io/v1alpha1"),
        (OURS, "Alerts", "kind", "did you mean Alert?"),
        (OURS, "Provider", "kind", "did you mean AlertProvider?"),
        (fleet, "Reciever", "kind", "did you mean Receiver?"),
        (
            OURS,
            "Bundle",
            "kind",
            "write one of AlertProvider, Alert, Receiver",
        ),
        (
            OURS,
            "",
            "kind",
            "add kind: one of AlertProvider, Alert, Receiver",
        ),
    ] {
        let report = of_text(&format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"
        ));
        let [problem] = &*report.problems else {
            panic!("{version} {kind}: {report:?}")
        };
        let found = (problem.reason, &*problem.field, &*problem.fix);
        assert_eq!(found, ("InvalidKind", field, fix), "{version} {kind}");
        let line = if field == "kind" { 2 } else { 1 };
        assert_eq!(problem.region.unwrap().line, line, "{version} {kind}");
    }
}

#[test]
fn kinds_of_other_projects_are_skipped() {
    let flux = "notification.toolkit.fluxcd.io/v1beta3";
    for (version, kind) in [
        (flux, "Provider"),
        (flux, "Alert"),
        (flux, "Receiver"),
        (flux, "AlertList\nitems: [{}]"),
        ("monitoring.example.com/v1", "AlertProvider"),
        ("v1", "Alert"),
        ("v1", "Policy"),
        ("", "Receiver"),
        ("fleet.cattle.io/v1alpha1", "Bundle"),
    ] {
        let report = of_text(&format!("apiVersion: {version}\nkind: {kind}\n"));
        let found = (report.skipped, report.problems.len());
        assert_eq!(found, (1, 0), "{version} {kind}: {report:?}");
    }
}

#[test]
fn lists_and_what_kubectl_get_prints_are_valid() {
    let items = "  metadata: {name: a, uid: b, resourceVersion: '1'}\n  spec: {providerRef: {name: chat}, eventSources: [{kind: \
                 HelmOp, name: '*'}]}\n  status: {conditions: {}, failing: none, next: 1}\n";
    let typed = format!("apiVersion: {OURS}\nkind: AlertList\nitems:\n-\n{items}");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- apiVersion: {OURS}\n  kind: Alert\n{items}");
    for text in [typed, list] {
        let report = of_text(&text);
        assert!(report.problems.is_empty(), "{report:?}");
        assert_eq!(report.alerts, Count { total: 1, valid: 1 });
    }
}

#[test]
fn items_of_the_wrong_type_hide_no_other_mistake() {
    let report = of_text(&format!(
        "apiVersion: {OURS}\nkind: Alert\nmetadata: {{name: a}}\nspec:\n  providerRef: {{name: chat}}\n  eventSources: [x, {{kind: \
         Pod, name: a}}]\n  inclusionList: [3, '(', ok]\n"
    ));
    let found: Vec<_> = report
        .problems
        .iter()
        .map(|problem| (problem.reason, &*problem.field))
        .collect();
    assert_eq!(
        found,
        [
            ("InvalidType", "spec.eventSources[0]"),
            ("InvalidNotification", "spec.eventSources[1].kind"),
            ("InvalidType", "spec.inclusionList[0]"),
            ("InvalidNotification", "spec.inclusionList[1]"),
        ]
    );
}

#[test]
fn metadata_is_checked_too() {
    let report = of_text(&format!(
        "apiVersion: {OURS}\nkind: Receiver\nmetadata: {{name: My Harbor, labels: {{a: b c}}}}\nspec: {{type: harbor, secretRef: {{name: \
         token}}}}\n"
    ));
    let problems = report.problems.iter();
    let found: Vec<_> = problems
        .map(|problem| (problem.reason, &*problem.field))
        .collect();
    assert_eq!(
        found,
        [
            ("InvalidName", "metadata.name"),
            ("InvalidLabel", "metadata.labels[a]")
        ]
    );
}

#[test]
fn a_name_is_unique_for_each_kind() {
    let object = |kind: &str, spec: &str| {
        format!("apiVersion: {OURS}\nkind: {kind}\nmetadata: {{name: chat}}\nspec: {spec}\n---\n")
    };
    let provider = object("AlertProvider", "{type: generic, address: 'https://a'}");
    let receiver = object("Receiver", "{type: harbor, secretRef: {name: token}}");
    let report = of_text(&format!("{provider}{receiver}"));
    assert!(report.problems.is_empty(), "{report:?}");
    let report = of_text(&format!("{provider}{receiver}{receiver}"));
    let [problem] = &*report.problems else {
        panic!("{report:?}")
    };
    assert_eq!(problem.reason, "DuplicateObject");
    assert_eq!(counts(&report), [(1, 1), (0, 0), (1, 2)]);
}

#[test]
fn each_kind_is_counted() {
    let provider = format!(
        "apiVersion: {OURS}\nkind: AlertProvider\nmetadata: {{name: NAME}}\nspec: {{type: generic, ADDRESS}}\n---\n"
    );
    let valid = provider.replace("ADDRESS", "address: 'https://a'");
    let valid = |name| valid.replace("NAME", name);
    let invalid = provider.replace("NAME", "c").replace("ADDRESS", "channel: a");
    let policy = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\n---\n";
    let receiver = format!(
        "apiVersion: {OURS}\nkind: Receiver\nmetadata: {{name: r}}\nspec: {{type: harbor, secretRef: {{name: t}}}}\n---\n"
    );
    for (text, summary) in [
        (
            String::new(),
            "1 file: 0 of 0 HelmOps valid; 0 errors, 0 warnings",
        ),
        (
            policy.to_owned(),
            "1 file: 0 of 0 HelmOps valid, 1 Policy; 0 errors, 0 warnings",
        ),
        (
            receiver.clone(),
            "1 file: 1 of 1 Receiver valid; 0 errors, 0 warnings",
        ),
        (
            format!(
                "{}{}{invalid}{policy}{receiver}kind: Secret\n",
                valid("a"),
                valid("b")
            ),
            "1 file: 2 of 3 AlertProviders valid, 1 of 1 Receiver valid, 1 Policy, 1 other object skipped; 2 errors, 0 warnings",
        ),
    ] {
        assert_eq!(of_text(&text).summary(), summary);
    }
}
