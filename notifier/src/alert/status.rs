//! The status of an Alert.

use helmops_api::{
    notifications::{AlertStatus, UndeliveredMessage},
    status::number,
    timestamp::timestamp,
};
use helmops_model::{
    condition::{ConditionState, ConditionType, set as set_condition},
    reason::Reason,
};
use helmops_notify::{
    alert::{Message, Plan, Reported},
    message_format::Format,
};
use k8s_openapi::jiff::Timestamp;

use super::standing::{Standing, delivery_failed};

/// The number of messages that a status lists.
const MAX_LISTED: usize = 10;

/// What the status of an Alert follows from.
pub struct Observation<'a> {
    /// Whether it can send messages.
    pub standing: &'a Standing,
    /// The messages to send.
    pub plan: &'a Plan,
    pub reported: &'a Reported,
    /// The generation of the Alert.
    pub generation: Option<i64>,
    pub now: Timestamp,
}

/// Sets all that follows from an observation.
pub fn fill(status: &mut AlertStatus, observation: &Observation<'_>) {
    let Observation {
        standing,
        plan,
        reported,
        generation,
        now,
    } = observation;
    let time = timestamp(*now);
    status.observed_generation = *generation;
    status.failing = number(reported.failing());
    status.reported = reported.to_status();
    // Messages on their way change several times in a second: the status shows those that have to wait.
    let waiting: Vec<&Message> = match standing {
        Standing::Invalid(_) => Vec::new(),
        Standing::Sending { .. } => plan.all_rejected().collect(),
        Standing::Failing { .. } | Standing::Blocked { .. } => plan.all().collect(),
    };
    status.undelivered = number(waiting.len());
    let before = std::mem::take(&mut status.undelivered_messages);
    let listed = waiting.iter().take(MAX_LISTED);
    status.undelivered_messages = listed
        .map(|message| undelivered(message, &before, &time))
        .collect();
    let condition = condition(standing, plan, reported);
    let conditions = &mut status.conditions;
    set_condition(conditions, ConditionType::Ready, &condition, *generation, &time);
}

/// The condition `Ready`: what is true now.
fn condition(standing: &Standing, plan: &Plan, reported: &Reported) -> ConditionState {
    if let Standing::Sending { provider, .. } = standing
        && plan.all_rejected().next().is_some()
    {
        return delivery_failed(provider, &plan.rejection);
    }
    let is_failing = match standing {
        // A failure of an endpoint concerns an Alert that has something for it. An Alertmanager forgets what is not repeated.
        Standing::Failing { format, .. } => {
            plan.all().next().is_some() || (*format == Format::Alertmanager && reported.failing() > 0)
        }
        Standing::Sending { .. } => false,
        Standing::Blocked { .. } | Standing::Invalid(_) => true,
    };
    if is_failing {
        standing.condition()
    } else if plan.is_full {
        ConditionState::False(
            Reason::TooManyObjects,
            "more objects fail than status.reported has room for; further failures are not reported: make several Alerts of it, by \
             namespaces or labels"
                .to_owned(),
        )
    } else {
        ConditionState::True(Reason::Ready)
    }
}

/// An entry of the list. It keeps its time.
fn undelivered(message: &Message, before: &[UndeliveredMessage], now: &str) -> UndeliveredMessage {
    let object = match &message.subjects[..] {
        [subject] => subject.id.to_string(),
        [subject, others @ ..] => format!("{} and {} more", subject.id, others.len()),
        [] => String::new(),
    };
    let known = before
        .iter()
        .find(|known| known.object == object && known.reason == message.reason);
    UndeliveredMessage {
        since: known.map_or(now, |known| &known.since).to_owned(),
        object,
        reason: message.reason.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helmops_api::notifications::ReportedObject;
    use helmops_kube::key;
    use helmops_notify::{
        alert::{After, Event, Subject},
        source::ObjectId,
    };

    use super::*;

    fn message(names: &[&str], reason: &str) -> Message {
        let subject = |name: &&str| Subject {
            id: ObjectId::parse(&format!("HelmOp/a/{name}")).unwrap(),
            uid: "".into(),
            resource_version: "".into(),
            version: String::new(),
            text: String::new(),
            since: String::new(),
            ended: Vec::new(),
            is_upgrade: false,
            after: After::Forgotten,
        };
        Message {
            event: Event::Failure,
            reason: reason.to_owned(),
            subjects: names.iter().map(subject).collect(),
        }
    }

    fn filled(status: &mut AlertStatus, standing: &Standing, messages: Vec<Message>, second: i64) {
        let plan = Plan {
            messages,
            ..Plan::default()
        };
        let record = ReportedObject {
            object: "HelmOp/a/db".to_owned(),
            reasons: vec!["A".to_owned()],
            ..ReportedObject::default()
        };
        let observation = Observation {
            standing,
            plan: &plan,
            reported: &Reported::of(&[record]),
            generation: Some(3),
            now: Timestamp::from_second(second).unwrap(),
        };
        fill(status, &observation);
    }

    fn failing() -> Standing {
        failing_as(Format::Generic)
    }

    fn failing_as(format: Format) -> Standing {
        Standing::Failing {
            format,
            provider: key("a", "chat"),
            condition: ConditionState::False(Reason::DeliveryFailed, "why".to_owned()),
            wait: Duration::ZERO,
        }
    }

    #[test]
    fn messages_that_wait_are_listed_with_the_time_since_they_do() {
        let mut status = AlertStatus::default();
        let many: Vec<_> = (0..30)
            .map(|number| message(&["web"], &format!("R{number}")))
            .collect();
        filled(&mut status, &failing(), many, 0);
        assert_eq!(
            (status.undelivered, status.undelivered_messages.len()),
            (30, MAX_LISTED)
        );
        assert_eq!(
            (status.failing, status.observed_generation, status.reported.len()),
            (1, Some(3), 1)
        );
        let ready = &status.conditions[0];
        assert_eq!(
            (&*ready.r#type, &*ready.reason, &*ready.message),
            ("Ready", "DeliveryFailed", "why")
        );
        let two = vec![message(&["web"], "R0"), message(&["web", "db"], "R1")];
        filled(&mut status, &failing(), two, 60);
        let [one, group] = &status.undelivered_messages[..] else {
            panic!("{:?}", status.undelivered_messages);
        };
        assert_eq!(
            (&*one.object, &*one.since),
            ("HelmOp/a/web", "1970-01-01T00:00:00Z"),
            "it keeps its time"
        );
        assert_eq!(
            (&*group.object, &*group.since),
            ("HelmOp/a/web and 1 more", "1970-01-01T00:01:00Z")
        );
    }

    #[test]
    fn messages_on_their_way_are_not_listed() {
        let mut status = AlertStatus::default();
        let sending = Standing::Sending {
            format: Format::Generic,
            provider: key("a", "chat"),
        };
        filled(&mut status, &sending, vec![message(&["web"], "R")], 0);
        assert_eq!((status.undelivered, &*status.conditions[0].status), (0, "True"));
    }

    /// The others are sent: neither they nor the endpoint have failed.
    #[test]
    fn a_message_that_was_rejected_is_listed_while_others_are_sent() {
        let mut status = AlertStatus::default();
        let sending = Standing::Sending {
            format: Format::Generic,
            provider: key("a", "chat"),
        };
        let plan = Plan {
            messages: vec![message(&["web"], "R")],
            retry: vec![message(&["db"], "R")],
            rejected: vec![message(&["cache"], "R")],
            rejection: "status 400".to_owned(),
            ..Plan::default()
        };
        let observation = Observation {
            standing: &sending,
            plan: &plan,
            reported: &Reported::default(),
            generation: Some(3),
            now: Timestamp::from_second(0).unwrap(),
        };
        fill(&mut status, &observation);
        let listed = status.undelivered_messages.iter().map(|message| &*message.object);
        assert_eq!(listed.collect::<Vec<_>>(), ["HelmOp/a/db", "HelmOp/a/cache"]);
        let ready = &status.conditions[0];
        assert_eq!(
            (status.undelivered, &*ready.reason, &*ready.message),
            (2, "DeliveryFailed", "AlertProvider chat: status 400")
        );
    }

    /// The endpoint may be there again: nothing has been sent to it since.
    #[test]
    fn an_alert_has_failed_while_a_message_waits() {
        let ready = |standing: &Standing, messages| {
            let mut status = AlertStatus::default();
            filled(&mut status, standing, messages, 0);
            (status.undelivered, status.conditions[0].reason.clone())
        };
        assert_eq!(
            ready(&failing(), vec![message(&["web"], "R")]),
            (1, "DeliveryFailed".to_owned())
        );
        assert_eq!(ready(&failing(), Vec::new()), (0, "Ready".to_owned()));
        // What fires has to be repeated, and could not be.
        assert_eq!(
            ready(&failing_as(Format::Alertmanager), Vec::new()),
            (0, "DeliveryFailed".to_owned())
        );
        let blocked = Standing::Blocked {
            format: Format::Generic,
            condition: ConditionState::False(Reason::ProviderNotFound, "why".to_owned()),
        };
        assert_eq!(ready(&blocked, Vec::new()), (0, "ProviderNotFound".to_owned()));
    }
}
