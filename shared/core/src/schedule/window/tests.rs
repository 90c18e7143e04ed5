use k8s_openapi::jiff::civil;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn spec(schedule: &str, duration: &str, location: &str) -> ScheduleSpec {
    let targets = json!({ "clusters": [{ "clusterSelector": {} }] });
    let spec =
        json!({ "schedule": schedule, "duration": duration, "location": location, "targets": targets });
    serde_json::from_value(spec).unwrap()
}

fn windows(schedule: &str, duration: &str, location: &str) -> Windows {
    Windows::of(&spec(schedule, duration, location)).unwrap()
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

/// The windows in a span of time, as a clock finds them that goes from one change to the next.
fn between(windows: &Windows, from: Timestamp, to: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    let mut now = from;
    let mut found = Vec::new();
    while now < to {
        let state = windows.at(now);
        let Some(until) = state.until else { break };
        assert!(until > now, "{now}: {until}");
        if state.is_active {
            found.push((now, until));
        }
        now = until;
    }
    found
}

/// A zone, with the switches of 2028 by hand: hours from UTC in winter, and the times between which there is one more.
const ZONES: [(&str, i64, &str, &str); 2] = [
    ("Europe/Berlin", 1, "2028-03-26T01:00:00Z", "2028-10-29T01:00:00Z"),
    (
        "America/New_York",
        -5,
        "2028-03-12T07:00:00Z",
        "2028-11-05T06:00:00Z",
    ),
];

/// A year of daily windows, each computed by hand from the offset of its zone. At every time of each window, a program that has just
/// started finds the window.
#[test]
fn a_year_of_windows_in_zones_with_daylight_saving() {
    for (zone, winter, summer_begins, summer_ends) in ZONES {
        let (summer_begins, summer_ends) = (at(summer_begins), at(summer_ends));
        for (hour, minute, length) in [
            (2, 30, 2),
            (1, 30, 1),
            (2, 0, 3),
            (3, 0, 4),
            (22, 0, 8),
            (23, 30, 22),
            (0, 0, 22),
        ] {
            let daily = windows(&format!("0 {minute} {hour} * * ?"), &format!("{length}h"), zone);
            let mut date = civil::date(2028, 1, 1);
            let mut expected = Vec::new();
            while date.year() == 2028 {
                let local = date
                    .at(hour, minute, 0, 0)
                    .to_zoned(TimeZone::UTC)
                    .unwrap()
                    .timestamp();
                let (in_winter, in_summer) = (local - hours(winter), local - hours(winter + 1));
                let start = if in_summer >= summer_begins && in_summer < summer_ends {
                    in_summer
                } else if in_winter >= summer_begins && in_winter < summer_ends {
                    // The clock never shows it: it shows what is an hour later.
                    summer_begins
                } else {
                    in_winter
                };
                expected.push((start, start + hours(length)));
                date = date.tomorrow().unwrap();
            }
            let first = expected[0].0;
            let last = expected.last().unwrap().1;
            assert_eq!(between(&daily, first, last), expected, "{zone} {hour}:{minute}");
            for pair in expected.windows(2) {
                let [(start, end), (next, _)] = *pair else {
                    panic!()
                };
                for part in [0, 1, 500, 999] {
                    let now = start + (end.duration_since(start) * part / 1_000);
                    let state = daily.at(now);
                    assert_eq!(
                        (state.is_active, state.until, state.next_start),
                        (true, Some(end), Some(next)),
                        "{now}"
                    );
                    let now = end + (next.duration_since(end) * part / 1_000);
                    let state = daily.at(now);
                    assert_eq!(
                        (state.is_active, state.until, state.next_start),
                        (false, Some(next), Some(next)),
                        "{now}"
                    );
                }
            }
        }
    }
}

/// Each kind of window with a switch or the end of a year in it or around it, from the second before until it is over. At each of the
/// times the state is computed again, as after a restart.
#[test]
fn a_restart_in_a_window_finds_it() {
    for (expression, length, zone, from, expected) in [
        // The hour from 02:00 is missing: several starts in it are one, at its end.
        (
            "0 30 2 * * ?",
            "2h",
            "Europe/Berlin",
            "2028-03-26T00:59:59Z",
            "2028-03-26T01:00:00Z/2028-03-26T03:00:00Z",
        ),
        (
            "0 10,20,40 2 * * ?",
            "5m",
            "Europe/Berlin",
            "2028-03-26T00:59:59Z",
            "2028-03-26T01:00:00Z/2028-03-26T01:05:00Z",
        ),
        (
            "0 30 2 * * ?",
            "2h",
            "America/New_York",
            "2028-03-12T06:59:59Z",
            "2028-03-12T07:00:00Z/2028-03-12T09:00:00Z",
        ),
        // The hour from 02:00 occurs twice, in New York that from 01:00.
        (
            "0 30 2 * * ?",
            "15m",
            "Europe/Berlin",
            "2028-10-29T00:29:59Z",
            "2028-10-29T00:30:00Z/2028-10-29T00:45:00Z",
        ),
        (
            "0 30 2 * * ?",
            "2h",
            "Europe/Berlin",
            "2028-10-29T00:29:59Z",
            "2028-10-29T00:30:00Z/2028-10-29T02:30:00Z",
        ),
        (
            "0 30 1 * * ?",
            "2h",
            "America/New_York",
            "2028-11-05T05:29:59Z",
            "2028-11-05T05:30:00Z/2028-11-05T07:30:00Z",
        ),
        // Hours elapse, whatever the clock shows.
        (
            "0 0 22 ? * SAT",
            "8h",
            "Europe/Berlin",
            "2028-03-25T20:59:59Z",
            "2028-03-25T21:00:00Z/2028-03-26T05:00:00Z",
        ),
        (
            "0 0 22 ? * SAT",
            "8h",
            "America/New_York",
            "2028-11-05T01:59:59Z",
            "2028-11-05T02:00:00Z/2028-11-05T10:00:00Z",
        ),
        // A year ends.
        (
            "0 0 22 31 12 ?",
            "6h",
            "America/New_York",
            "2029-01-01T02:59:59Z",
            "2029-01-01T03:00:00Z/2029-01-01T09:00:00Z",
        ),
        (
            "0 0 18 L * ?",
            "30h",
            "Europe/Berlin",
            "2028-02-29T16:59:59Z",
            "2028-02-29T17:00:00Z/2028-03-01T23:00:00Z",
        ),
        // Longer than a month.
        (
            "0 0 0 1 12 ?",
            "1000h",
            "UTC",
            "2028-11-30T23:59:59Z",
            "2028-12-01T00:00:00Z/2029-01-11T16:00:00Z",
        ),
    ] {
        let windows = windows(expression, length, zone);
        let (start, end) = expected.split_once('/').unwrap();
        let (start, end) = (at(start), at(end));
        let before = windows.at(at(from));
        assert_eq!(
            (before.is_active, before.until),
            (false, Some(start)),
            "{expression}"
        );
        for part in 0..100 {
            let now = start + end.duration_since(start) * part / 100;
            let state = windows.at(now);
            assert_eq!(
                (state.is_active, state.until),
                (true, Some(end)),
                "{expression} at {now}"
            );
        }
        assert!(!windows.at(end).is_active, "{expression}");
    }
}

#[test]
fn the_second_occurrence_of_an_hour_has_no_starts() {
    let hourly = windows("0 0 * * * ?", "30m", "Europe/Berlin");
    let starts = between(&hourly, at("2028-10-28T23:45:00Z"), at("2028-10-29T02:15:00Z"));
    let starts: Vec<_> = starts.iter().map(|(start, _)| start.to_string()).collect();
    assert_eq!(starts, ["2028-10-29T00:00:00Z", "2028-10-29T02:00:00Z"]);
    let at_end = hourly.at(at("2028-10-29T01:10:00Z"));
    assert_eq!(
        (at_end.is_active, at_end.next_start),
        (false, Some(at("2028-10-29T02:00:00Z")))
    );
    // The last start before it was in its first occurrence.
    let long = windows("0 50 2 * * ?", "1h", "Europe/Berlin");
    assert!(long.at(at("2028-10-29T01:20:00Z")).is_active);
}

#[test]
fn windows_that_overlap_are_one() {
    let overlapping = windows("0 0 2,4 * * ?", "3h", "");
    let found = between(
        &overlapping,
        at("2028-01-01T02:00:00Z"),
        at("2028-01-02T00:00:00Z"),
    );
    assert_eq!(found, [(at("2028-01-01T02:00:00Z"), at("2028-01-01T07:00:00Z"))]);
    // Forever: the search is bounded, and goes on from there.
    let always = windows("0 * * * * ?", "1h", "");
    let state = always.at(at("2028-01-01T00:00:00Z"));
    assert!(
        state.is_active && state.until > Some(at("2028-01-03T00:00:00Z")),
        "{state:?}"
    );
}

fn messages(spec: &ScheduleSpec) -> Vec<String> {
    let found = errors(spec, at("2028-01-01T00:00:00Z"));
    found.reported().iter().map(ToString::to_string).collect()
}

#[test]
fn a_valid_schedule_has_no_errors() {
    for (schedule, duration, location) in [
        ("0 0 2 * * ?", "2h", "Europe/Berlin"),
        ("0 0 2 * * ?", "22h59m59s", "Europe/Berlin"),
        ("0 0 2 * * ?", "23h59m59s", ""),
        ("@daily", "1.5h", "Local"),
        ("0 0 0 29 2 ? 2028", "1h", "America/Argentina/Buenos_Aires"),
        ("0 * * * * ?", "59s", "UTC"),
    ] {
        assert_eq!(
            messages(&spec(schedule, duration, location)),
            [""; 0],
            "{schedule} {duration}"
        );
    }
}

/// Schedule, duration, location and the error.
const WRONG: &[(&str, &str, &str, &str)] = &[
    (
        "",
        "2h",
        "",
        "spec.schedule: Required value: write when windows begin, such as 0 0 2 * * ? for 02:00 on each day",
    ),
    (
        "0 2 * * *",
        "2h",
        "",
        "spec.schedule: Invalid value: \"0 2 * * *\": parse cron expression: invalid expression length: 5 fields; expected 6 or 7: second, \
             minute, hour, day of month, month, day of week and, optionally, year, such as 0 0 2 * * ?",
    ),
    (
        "0 0 2 1 * MON",
        "2h",
        "",
        "spec.schedule: Invalid value: \"0 0 2 1 * MON\": parse cron expression: day field set twice: write ? as day of month (\"1\") or as day \
             of week (\"MON\")",
    ),
    (
        "0 0 25 * * ?",
        "2h",
        "",
        "spec.schedule: Invalid value: \"0 0 25 * * ?\": parse cron expression: invalid numeric field 25: hour is 0 to 23",
    ),
    (
        "0 0 2 ? * FUN",
        "2h",
        "",
        "spec.schedule: Invalid value: \"0 0 2 ? * FUN\": parse cron expression: unknown literal FUN in the field day of week, which has \
             numbers from 1 (Sunday) to 7, and SUN to SAT",
    ),
    (
        "0 0 2 1 1 ? 2027",
        "2h",
        "",
        "spec.schedule: Invalid value: \"0 0 2 1 1 ? 2027\": trigger has expired: no window begins any more; write a day that exists and a year \
             to come",
    ),
    (
        "0 0 2 30 2 ?",
        "2h",
        "",
        "spec.schedule: Invalid value: \"0 0 2 30 2 ?\": trigger has expired: no window begins any more; write a day that exists and a year to \
             come",
    ),
    (
        "0 0 2 * * ?",
        "",
        "",
        "spec.duration: Required value: write how long each window is, such as 2h or 1h30m",
    ),
    (
        "0 0 2 * * ?",
        "0s",
        "",
        "spec.duration: Invalid value: \"0s\": a window without length never opens; write how long each window is, such as 2h or 1h30m",
    ),
    (
        "0 0 2 * * ?",
        "2d",
        "",
        "spec.duration: Invalid value: \"2d\": unknown unit: use ns, us, µs, ms, s, m or h (24h for a day; d and w are not supported)",
    ),
    (
        "0 0 2 * * ?",
        "24h",
        "",
        "spec.duration: Invalid value: \"24h\": duration is too long and overlaps with the next execution time: a window begins at \
             2028-01-01T02:00:00Z, and the next one at 2028-01-02T02:00:00Z; write a duration below 24h",
    ),
    (
        // The day of the switch to summer has 23 hours.
        "0 0 2 * * ?",
        "23h",
        "Europe/Berlin",
        "spec.duration: Invalid value: \"23h\": duration is too long and overlaps with the next execution time: a window begins at \
             2028-03-26T01:00:00Z, and the next one at 2028-03-27T00:00:00Z; write a duration below 23h",
    ),
    (
        "0 0 2 * * ?",
        "2h",
        "Europe/Berlino",
        "spec.location: Invalid value: \"Europe/Berlino\": unknown time zone Europe/Berlino; write a name such as Europe/Berlin, or UTC",
    ),
];

#[test]
fn errors_name_the_field_the_text_and_the_fix() {
    for (schedule, duration, location, expected) in WRONG {
        assert_eq!(messages(&spec(schedule, duration, location)), [*expected]);
    }
    let of = |field: &str, value: serde_json::Value| {
        let mut spec = serde_json::to_value(spec("0 0 2 * * ?", "2h", "")).unwrap();
        spec[field] = value;
        messages(&serde_json::from_value(spec).unwrap())
    };
    assert_eq!(
        of("kind", json!("Permit")),
        ["spec.kind: Unsupported value: \"Permit\": supported values: Allow, Deny"]
    );
    let entries = json!({ "clusters": [{ "name": "all" }, { "clusterSelector": { "matchExpressions": [{ "key": "a", "operator": "Is" }] } }] });
    let found = of("targets", entries);
    assert!(
        found[0].starts_with("spec.targets.clusters[0]: Required value: the entry selects no cluster"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("spec.targets.clusters[1].clusterSelector"),
        "{found:?}"
    );
    let found = of("schedule", json!("0".repeat(2_000)));
    assert_eq!(
        found,
        ["spec.schedule: Too long: 2000 bytes; at most 1024 are allowed"]
    );
}

proptest! {
    /// The state at any time is that of the whole window, and the windows of a zone do not depend on where the clock starts.
    #[test]
    fn a_state_holds_until_the_next_change(
        second in 1_700_000_000_i64..1_900_000_000,
        expression in prop::sample::select(vec![
            "0 30 2 * * ?", "0 0 * * * ?", "0 0/7 1-3 * * ?", "30 15 22 ? * FRIL", "0 0 0 LW * ?", "0 0 3 29 2 ?", "@weekly",
        ]),
        length in prop::sample::select(vec!["1m", "59m", "3h", "40h"]),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    ) {
        let windows = windows(expression, length, zone);
        let now = Timestamp::from_second(second).unwrap();
        let state = windows.at(now);
        let until = state.until.unwrap();
        // Windows that overlap without an end have none.
        prop_assume!(!state.is_active || until.duration_since(now) < hours(1_000));
        prop_assert!(until > now);
        let last = until - SignedDuration::from_secs(1);
        prop_assert_eq!(windows.at(last.max(now)).is_active, state.is_active);
        prop_assert_eq!(windows.at(last.max(now)).until, state.until);
        prop_assert_ne!(windows.at(until).is_active, state.is_active);
    }

    #[test]
    fn reading_an_expression_never_panics(text in ".{0,64}|[0-9A-Z*?/#,LW -]{0,40}") {
        if let Ok(cron) = Cron::parse(&text) {
            let time = civil::date(2028, 2, 28).at(23, 59, 59, 0);
            prop_assert!(cron.after(time).is_none_or(|next| next > time));
            prop_assert!(cron.until(time).is_none_or(|last| last <= time));
        }
    }
}
