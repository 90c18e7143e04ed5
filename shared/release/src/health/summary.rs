//! Fleet's rules for the health of an object, one after the other. Later rules see what earlier ones found.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    Health, HealthRules,
    conditions::{self, Condition},
    fields::{at, flag, list, text, time},
    kstatus::{self, Assessment, Status},
    tables::{self, StateWord},
};

/// How long an object of Rancher without conditions counts as new.
const INITIALIZING: SignedDuration = SignedDuration::from_secs(5);

/// How long finalizers of Rancher's objects can take until that counts as an error.
const REMOVING: SignedDuration = SignedDuration::from_mins(5);

/// The health of an object.
pub fn summarize(object: &Value, rules: HealthRules<'_>, now: Timestamp) -> Health {
    let own = conditions::of(object, rules.ignored);
    let assessment = kstatus::assess(object, &own, now);
    let annotation = conditions::annotation(object);
    let mut all = own;
    if let Some(annotation) = &annotation {
        all.extend(conditions::of_annotation(annotation));
    }
    let mut summary = Summary::default();
    summary.displayed(object);
    summary.errors(object, rules, &all);
    summary.steps(object, &all);
    summary.activities(&all);
    summary.goals(&all);
    summary.active(object);
    summary.phase(object);
    summary.initializing(object, &all, now);
    summary.removing(object, &all, now);
    summary.standard(object, &assessment);
    summary.load_balancer(object);
    summary.kstatus(&assessment);
    summary.finish()
}

#[derive(Default)]
struct Summary {
    state: String,
    transitioning: bool,
    error: bool,
    messages: Vec<String>,
    /// The condition that decided, for the case that it has no message.
    decisive: Option<String>,
    recheck: Option<Timestamp>,
}

impl Summary {
    fn push(&mut self, message: &str) {
        let message = message.trim();
        if !message.is_empty() && !self.messages.iter().any(|known| known == message) {
            self.messages.push(message.to_owned());
        }
    }

    fn decided_by(&mut self, condition: &Condition<'_>) {
        self.push(condition.message);
        self.decisive.get_or_insert_with(|| {
            let Condition {
                r#type,
                status,
                reason,
                ..
            } = condition;
            match *reason {
                "" => format!("condition {type} is {status}"),
                reason => format!("condition {type} is {status}: {reason}"),
            }
        });
    }

    fn recheck_at(&mut self, at: Option<Timestamp>) {
        self.recheck = self.recheck.into_iter().chain(at).min();
    }

    /// Some kinds have a summary of their own: it is used as it is.
    fn displayed(&mut self, object: &Value) {
        let summary = ["display", "summary"]
            .into_iter()
            .filter_map(|key| at(object, &["status", key]))
            .find(|value| value.as_object().is_some_and(|fields| !fields.is_empty()));
        let Some(summary) = summary else {
            return;
        };
        text(summary, &["state"]).clone_into(&mut self.state);
        self.transitioning = flag(summary, &["transitioning"]);
        self.error = flag(summary, &["error"]);
        self.push(text(summary, &["message"]));
    }

    fn errors(&mut self, object: &Value, rules: HealthRules<'_>, conditions: &[Condition<'_>]) {
        let is_error = rules
            .errors
            .of_kind(text(object, &["apiVersion"]), text(object, &["kind"]));
        for condition in conditions.iter().filter(|condition| is_error(condition)) {
            self.error = true;
            self.decided_by(condition);
            if self.state.is_empty() || self.state == "active" {
                "error".clone_into(&mut self.state);
            }
        }
    }

    fn steps(&mut self, object: &Value, conditions: &[Condition<'_>]) {
        let kind = text(object, &["kind"]);
        for condition in conditions {
            let Some(state) = tables::step(condition.r#type) else {
                continue;
            };
            match condition.status {
                "False" if tables::is_normal(kind, condition.r#type, "False", condition.reason) => continue,
                "False" => self.error = true,
                "Unknown" if self.state.is_empty() => self.transitioning = true,
                _ => continue,
            }
            state.clone_into(&mut self.state);
            self.decided_by(condition);
        }
    }

    fn activities(&mut self, conditions: &[Condition<'_>]) {
        if !self.state.is_empty() {
            return;
        }
        let mut ongoing = conditions.iter().filter(|condition| condition.status == "True");
        let found = ongoing.find_map(|condition| Some((condition, tables::activity(condition.r#type)?)));
        if let Some((condition, state)) = found {
            self.transitioning = true;
            state.clone_into(&mut self.state);
            self.decided_by(condition);
        }
    }

    /// The first goal that is not reached decides. `Ready` is the least specific of them, so `Ready=False` decides only if there is
    /// no other.
    fn goals(&mut self, conditions: &[Condition<'_>]) {
        if !self.state.is_empty() {
            return;
        }
        let goals = || {
            let known = conditions.iter();
            known.filter_map(|condition| Some((condition, tables::goal(condition.r#type)?)))
        };
        let missed = goals().find(|(condition, _)| match condition.status {
            "False" => condition.r#type != "Ready",
            "Unknown" => true,
            _ => false,
        });
        // The last `Ready`, as in Fleet, if an object has several.
        let unready = goals().rfind(|(condition, _)| condition.is("Ready", "False"));
        let Some((condition, word)) = missed.or(unready) else {
            return;
        };
        match condition.status {
            "Unknown" => self.error = true,
            _ => self.transitioning = true,
        }
        let state = match word {
            StateWord::Word(word) => word,
            StateWord::Reason => condition.reason,
        };
        state.clone_into(&mut self.state);
        self.decided_by(condition);
    }

    fn active(&mut self, object: &Value) {
        if !self.state.is_empty() {
            return;
        }
        let state = match at(object, &["spec", "active"]) {
            Some(Value::Bool(true)) => "active",
            Some(Value::Bool(false)) => "inactive",
            Some(Value::String(text)) if text == "true" => "active",
            Some(Value::String(text)) if text == "false" => "inactive",
            _ => return,
        };
        state.clone_into(&mut self.state);
    }

    fn phase(&mut self, object: &Value) {
        match text(object, &["status", "phase"]) {
            phase @ ("Succeeded" | "Bound") => {
                phase.clone_into(&mut self.state);
                self.transitioning = false;
            }
            phase if self.state.is_empty() => phase.clone_into(&mut self.state),
            _ => {}
        }
    }

    fn initializing(&mut self, object: &Value, conditions: &[Condition<'_>], now: Timestamp) {
        let has_list = at(object, &["status", "conditions"]).is_some();
        let is_rancher = text(object, &["apiVersion"]).contains("cattle.io");
        if !self.state.is_empty() || !has_list || !conditions.is_empty() || !is_rancher {
            return;
        }
        let until = time(object, &["metadata", "created"]).map(|created| later(created, INITIALIZING));
        if until.is_some_and(|until| until > now) {
            "initializing".clone_into(&mut self.state);
            self.transitioning = true;
            self.recheck_at(until);
        }
    }

    /// Objects of Rancher's former API have `removed` instead of a deletion timestamp.
    fn removing(&mut self, object: &Value, conditions: &[Condition<'_>], now: Timestamp) {
        if text(object, &["metadata", "removed"]).is_empty() {
            return;
        }
        "removing".clone_into(&mut self.state);
        self.transitioning = true;
        let removed = conditions
            .iter()
            .filter(|condition| condition.r#type == "Removed");
        for condition in removed.filter(|condition| matches!(condition.status, "Unknown" | "False")) {
            self.push(condition.message);
        }
        let finalizers = ["metadata", "spec"]
            .into_iter()
            .map(|part| list(object, &[part, "finalizers"]));
        let first = finalizers.flatten().find_map(Value::as_str);
        let Some(finalizer) = first else {
            return;
        };
        let name = finalizer
            .rsplit("controller.cattle.io/")
            .next()
            .unwrap_or(finalizer);
        self.push(&match name {
            "foregroundDeletion" => "waiting on object cleanup".to_owned(),
            name => format!("waiting on {name}"),
        });
        let until = time(object, &["metadata", "removed"]).map(|removed| later(removed, REMOVING));
        match until {
            Some(until) if until < now => self.error = true,
            until => self.recheck_at(until),
        }
    }

    fn standard(&mut self, object: &Value, assessment: &Assessment<'_>) {
        // Objects of Rancher's former API have a type that begins with a slash, and follow no convention.
        if !self.state.is_empty() || text(object, &["type"]).starts_with('/') {
            return;
        }
        let state = match assessment.status {
            Status::InProgress => "in-progress",
            Status::Failed => "failed",
            Status::Current => "active",
            Status::Terminating => "removing",
            Status::Unknown => return,
        };
        state.clone_into(&mut self.state);
        self.push(&distinct_parts(&assessment.message));
    }

    fn load_balancer(&mut self, object: &Value) {
        let is_candidate = matches!(&*self.state, "active" | "") && text(object, &["kind"]) == "Service";
        let is_load_balancer = ["type", "serviceKind"]
            .into_iter()
            .any(|key| text(object, &["spec", key]) == "LoadBalancer");
        let ingress = list(object, &["status", "loadBalancer", "ingress"]);
        if is_candidate && is_load_balancer && ingress.is_empty() {
            "pending".clone_into(&mut self.state);
            self.transitioning = true;
            self.push("Load balancer is being provisioned");
        }
    }

    /// `kstatus` applies in any case. Its message counts only if it is a reason not to be ready.
    fn kstatus(&mut self, assessment: &Assessment<'_>) {
        self.recheck_at(assessment.recheck);
        match assessment.status {
            Status::Current | Status::Unknown => return,
            Status::InProgress | Status::Terminating => self.transitioning = true,
            Status::Failed => self.error = true,
        }
        self.push(&distinct_parts(&assessment.message));
    }

    fn finish(mut self) -> Health {
        if self.state.is_empty() {
            "active".clone_into(&mut self.state);
        }
        if self.messages.is_empty() && (self.transitioning || self.error) {
            self.messages.extend(self.decisive);
        }
        Health {
            state: self.state.to_lowercase(),
            transitioning: self.transitioning,
            error: self.error,
            messages: self.messages,
            recheck: self.recheck,
        }
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// A message whose parts are repeated, as some operators write them, with each part once.
fn distinct_parts(message: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in message.split("; ") {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join("; ")
}
