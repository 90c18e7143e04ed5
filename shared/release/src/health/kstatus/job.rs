//! Jobs.

use serde_json::Value;

use super::{Assessment, Subject};
use crate::health::{
    conditions::Condition,
    fields::{flag, number, text},
};

/// The rules of Jobs. One that runs is as desired. So is one that is suspended: its owner wants it not to run.
pub fn rules<'a>(subject: &Subject<'a, '_>) -> Assessment<'a> {
    let object = subject.object;
    if let Some(ended) = ended(object, subject.conditions) {
        return ended;
    }
    if flag(object, &["spec", "suspend"]) {
        Assessment::current("Job is suspended")
    } else if text(object, &["status", "startTime"]).is_empty() {
        Assessment::in_progress("Job not started")
    } else {
        let [succeeded, active, failed] = ["succeeded", "active", "failed"].map(|key| subject.observed(key));
        Assessment::current(format!(
            "Job in progress. success:{succeeded}, active: {active}, failed: {failed}"
        ))
    }
}

/// The status of a Job that is to complete.
pub fn completion<'a>(object: &'a Value, conditions: &[Condition<'a>]) -> Assessment<'a> {
    ended(object, conditions).unwrap_or_else(|| Assessment::in_progress("Job in progress"))
}

fn ended<'a>(object: &'a Value, conditions: &[Condition<'a>]) -> Option<Assessment<'a>> {
    let observed = |key| number(object, &["status", key]).unwrap_or_default();
    let parallelism = number(object, &["spec", "parallelism"]).unwrap_or(1);
    let completions = number(object, &["spec", "completions"]).unwrap_or(parallelism);
    let mut ended = conditions.iter().filter(|condition| condition.status == "True");
    ended.find_map(|condition| match condition.r#type {
        "Complete" => Some(Assessment::current(format!(
            "Job Completed. succeeded: {}/{completions}",
            observed("succeeded")
        ))),
        "Failed" => Some(Assessment::failed(format!(
            "Job Failed. failed: {}/{completions}",
            observed("failed")
        ))),
        _ => None,
    })
}
