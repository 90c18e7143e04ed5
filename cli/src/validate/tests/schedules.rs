//! Schedules.

use super::of_text;

fn schedule(spec: &str) -> String {
    format!(
        "apiVersion: fleet.cattle.io/v1alpha1\nkind: Schedule\nmetadata: {{name: night}}\nspec:\n  targets: {{clusters: [{{clusterSelector: \
         {{}}}}]}}\n{spec}"
    )
}

#[test]
fn a_valid_schedule_is_counted() {
    let report = of_text(&schedule(
        "  schedule: 0 0 2 * * ?\n  duration: 2h\n  location: Europe/Berlin\n  kind: Deny\n",
    ));
    assert!(report.problems.is_empty(), "{report:?}");
    assert_eq!((report.schedules.valid, report.schedules.total), (1, 1));
    assert!(
        report.summary().contains("1 of 1 Schedule valid"),
        "{}",
        report.summary()
    );
}

#[test]
fn mistakes_of_a_schedule_have_their_line() {
    for (spec, line, expected) in [
        (
            "  schedule: 0 0 25 * * ?\n  duration: 2h\n",
            6,
            "spec.schedule: Invalid value: \"0 0 25 * * ?\": parse cron expression",
        ),
        (
            "  schedule: 0 0 2 * * ?\n  duration: 24h\n",
            7,
            "spec.duration: Invalid value: \"24h\": duration is too long and overlaps",
        ),
        (
            "  schedule: 0 0 2 * * ?\n  duration: 2h\n  location: Berlin\n",
            8,
            "spec.location: Invalid value: \"Berlin\": unknown time zone",
        ),
        (
            "  schedule: 0 0 2 * * ?\n  duration: 2h\n  kinds: Deny\n",
            8,
            "spec.kinds: ",
        ),
        (
            "  schedule: 0 0 2 * * ?\n  duration: 2h\n  kind: Never\n",
            8,
            "spec.kind: Unsupported value: \"Never\"",
        ),
    ] {
        let report = of_text(&schedule(spec));
        let [problem] = &*report.problems else {
            panic!("{spec}: {report:?}")
        };
        assert!(problem.text().starts_with(expected), "{}", problem.text());
        assert_eq!(problem.region.unwrap().line, line, "{spec}");
        assert_eq!(report.schedules.valid, 0);
    }
}
