//! What the tests of a revision have led to.

use jiff::Timestamp;

use super::{Hook, HookPhase, Record};

/// Which tests run, by the names of their objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestFilters {
    /// Only these; all if it is empty.
    pub include: Vec<String>,
    /// The tests that do not run.
    pub exclude: Vec<String>,
}

/// What the tests of a revision have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestState {
    /// The revision has no tests, or the filters leave none.
    NoTests,
    /// At least one of them has not ended, and none has failed.
    NotRun,
    /// All of them succeeded.
    Succeeded,
    /// At least one failed: the first one that Helm runs.
    Failed(FailedTest),
}

/// A failed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTest {
    /// The kind of its object, usually `Pod` or `Job`.
    pub kind: String,
    /// The name of its object.
    pub name: String,
    /// The namespace of its object.
    pub namespace: String,
    /// When it failed: RFC 3339.
    pub completed_at: String,
}

impl TestFilters {
    /// Whether a test of this name runs.
    pub fn include(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|one| one == name);
        !is_in(&self.exclude) && (self.include.is_empty() || is_in(&self.include))
    }

    /// Whether all tests run.
    pub const fn is_empty(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }
}

impl Record {
    /// The tests that the filters leave, in the order in which Helm runs them.
    pub fn test_hooks(&self, filters: &TestFilters) -> Vec<&Hook> {
        let mut tests: Vec<_> = self
            .hooks
            .iter()
            .filter(|hook| hook.is_test() && filters.include(&hook.name))
            .collect();
        tests.sort_by_key(|hook| (hook.weight, &hook.name));
        tests
    }

    /// What the tests have led to. A test counts only if its end is recorded, and if it ran for this revision. Those of a
    /// rollback are those of the revision that it restores: Helm copies the hooks with their runs.
    ///
    /// A hook that is not only a test, but runs after an installation too, for example, counts with either run.
    pub fn tests(&self, filters: &TestFilters) -> TestState {
        let tests = self.test_hooks(filters);
        if tests.is_empty() {
            return TestState::NoTests;
        }
        let ends: Vec<_> = tests.iter().map(|test| self.end(test)).collect();
        let mut failed = tests.iter().zip(&ends).filter_map(|(test, end)| match end {
            Some((HookPhase::Failed, at)) => Some(self.failed_test(test, at)),
            _ => None,
        });
        if let Some(failed) = failed.next() {
            TestState::Failed(failed)
        } else if ends.iter().all(Option::is_some) {
            TestState::Succeeded
        } else {
            TestState::NotRun
        }
    }

    /// How a hook ended, and when; `None` if it did not run to an end.
    fn end<'h>(&self, hook: &'h Hook) -> Option<(HookPhase, &'h str)> {
        let run = hook.last_run.as_ref()?;
        let has_ended = matches!(run.phase, HookPhase::Succeeded | HookPhase::Failed);
        if !has_ended || run.completed_at.is_empty() {
            return None;
        }
        let deployed: Option<Timestamp> = self.info.last_deployed.as_deref()?.parse().ok();
        let started: Option<Timestamp> = run.started_at.parse().ok();
        // Without times it cannot be from another revision: Helm writes them.
        let is_of_this = deployed
            .zip(started)
            .is_none_or(|(deployed, started)| started >= deployed);
        (is_of_this || self.is_rollback()).then_some((run.phase, run.completed_at.as_str()))
    }

    fn failed_test(&self, test: &Hook, at: &str) -> FailedTest {
        let object = test.object(&self.namespace);
        FailedTest {
            kind: test.kind.clone(),
            name: test.name.clone(),
            namespace: object.map_or_else(|| self.namespace.clone(), |object| object.namespace),
            completed_at: at.to_owned(),
        }
    }

    /// Adds hooks of this revision that are missing in its record, and whether there were any. Helm removes those that a filter of
    /// its tests excludes while they run, and adds them again at the end, unless it is interrupted.
    pub fn restore_hooks(&mut self, all: &[Hook]) -> bool {
        let is_missing = |hook: &&Hook| !self.hooks.iter().any(|own| own.is_same(hook));
        let missing: Vec<_> = all.iter().filter(is_missing).cloned().collect();
        let is_any = !missing.is_empty();
        self.hooks.extend(missing);
        is_any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::record::Status;

    fn hook(name: &str, weight: i64, run: &Value) -> Value {
        json!({
            "name": name, "kind": "Pod", "path": "web/templates/tests.yaml", "events": ["test"], "weight": weight, "last_run": run,
            "manifest": format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n"),
        })
    }

    fn run(phase: &str) -> Value {
        let mut run = json!({ "started_at": "2026-03-02T10:01:00.5+02:00", "phase": phase });
        if ["Succeeded", "Failed"].contains(&phase) {
            run["completed_at"] = json!("2026-03-02T10:02:00Z");
        }
        run
    }

    fn record(hooks: &[Value]) -> Record {
        let record = json!({
            "name": "web", "namespace": "shop", "version": 2, "hooks": hooks,
            "info": { "status": "deployed", "last_deployed": "2026-03-02T08:00:59.9Z" },
        });
        serde_json::from_value(record).unwrap()
    }

    fn filters(include: &[&str], exclude: &[&str]) -> TestFilters {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        TestFilters {
            include: owned(include),
            exclude: owned(exclude),
        }
    }

    fn short(state: &TestState) -> String {
        match state {
            TestState::NoTests => "none".to_owned(),
            TestState::NotRun => "not run".to_owned(),
            TestState::Succeeded => "succeeded".to_owned(),
            TestState::Failed(test) => format!("{} {}/{} failed", test.kind, test.namespace, test.name),
        }
    }

    #[test]
    fn a_test_counts_only_when_its_end_is_recorded() {
        let table: [(&[&str], &str); 9] = [
            (&[], "none"),
            (&[""], "not run"),
            (&["Running"], "not run"),
            (&["Unknown"], "not run"),
            (&["Paused"], "not run"),
            (&["Succeeded"], "succeeded"),
            (&["Succeeded", "Running"], "not run"),
            (&["Succeeded", "Failed", ""], "Pod shop/t1 failed"),
            (&["Failed", "Running"], "Pod shop/t0 failed"),
        ];
        for (phases, expected) in table {
            let hooks: Vec<_> = (0_i64..)
                .zip(phases)
                .map(|(index, phase)| hook(&format!("t{index}"), index, &run(phase)))
                .collect();
            assert_eq!(
                short(&record(&hooks).tests(&TestFilters::default())),
                expected,
                "{phases:?}"
            );
        }
    }

    #[test]
    fn a_run_without_an_end_or_of_another_revision_does_not_count() {
        let table = [
            (
                json!({ "started_at": "2026-03-02T10:01:00Z", "completed_at": "", "phase": "Failed" }),
                "not run",
            ),
            (
                json!({ "started_at": null, "completed_at": null, "phase": "Succeeded" }),
                "not run",
            ),
            (
                json!({ "started_at": "2026-03-01T10:01:00Z", "completed_at": "2026-03-01T10:02:00Z", "phase": "Failed" }),
                "not run",
            ),
            // The same moment, in another time zone.
            (
                json!({ "started_at": "2026-03-02T10:00:59.9+02:00", "completed_at": "2026-03-02T10:02:00Z", "phase": "Succeeded" }),
                "succeeded",
            ),
            (Value::Null, "not run"),
        ];
        for (run, expected) in table {
            let record = record(&[hook("t", 0, &run)]);
            assert_eq!(short(&record.tests(&TestFilters::default())), expected, "{run}");
        }
    }

    #[test]
    fn a_rollback_has_the_tests_of_what_it_restores() {
        for (phase, expected) in [("Succeeded", "succeeded"), ("Running", "not run")] {
            let mut before = record(&[hook("t", 0, &run(phase))]);
            before.info.last_deployed = Some("2026-03-03T00:00:00Z".to_owned());
            assert_eq!(short(&before.tests(&TestFilters::default())), "not run");
            let rollback = before.with_status(Status::Deployed, "Rollback to 1".to_owned());
            assert_eq!(short(&rollback.tests(&TestFilters::default())), expected);
        }
    }

    #[test]
    fn filters_select_tests_as_helm_does() {
        let hooks = [
            hook("good", 0, &run("Succeeded")),
            hook("bad", 5, &run("Failed")),
            hook("new", 1, &json!({ "phase": "" })),
        ];
        let record = record(&hooks);
        let table: [(&[&str], &[&str], &str); 7] = [
            (&[], &[], "Pod shop/bad failed"),
            (&["good"], &[], "succeeded"),
            (&["good", "new"], &[], "not run"),
            (&[], &["bad"], "not run"),
            (&[], &["bad", "new"], "succeeded"),
            (&["good"], &["good"], "none"),
            (&["other"], &[], "none"),
        ];
        for (include, exclude, expected) in table {
            let state = record.tests(&filters(include, exclude));
            assert_eq!(short(&state), expected, "{include:?} {exclude:?}");
        }
        let names: Vec<_> = record
            .test_hooks(&TestFilters::default())
            .iter()
            .map(|hook| &*hook.name)
            .collect();
        assert_eq!(names, ["good", "new", "bad"], "in the order of their weights");
    }

    #[test]
    fn hooks_of_other_events_are_no_tests() {
        let mut install = hook("migrate", 0, &run("Failed"));
        install["events"] = json!(["post-install"]);
        assert_eq!(
            record(&[install]).tests(&TestFilters::default()),
            TestState::NoTests
        );
    }

    #[test]
    fn a_failed_test_is_in_its_own_namespace() {
        let mut elsewhere = hook("t", 0, &run("Failed"));
        elsewhere["manifest"] = json!("apiVersion: v1\nkind: Pod\nmetadata: {name: t, namespace: other}\n");
        let TestState::Failed(test) = record(&[elsewhere]).tests(&TestFilters::default()) else {
            panic!("it failed");
        };
        assert_eq!(
            (&*test.namespace, &*test.completed_at),
            ("other", "2026-03-02T10:02:00Z")
        );
    }

    #[test]
    fn hooks_that_an_interrupted_helm_has_removed_are_restored() {
        let all = [hook("a", 0, &Value::Null), hook("b", 0, &Value::Null)];
        let complete = record(&all);
        let mut cut = record(&[hook("b", 0, &run("Running"))]);
        assert!(cut.restore_hooks(&complete.hooks));
        let names: Vec<_> = cut.hooks.iter().map(|hook| &*hook.name).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(cut.hooks[0].last_run.as_ref().unwrap().phase, HookPhase::Running);
        assert!(!cut.restore_hooks(&complete.hooks));
    }
}
