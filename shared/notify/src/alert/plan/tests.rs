use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::source::Kind;

const START: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn rules(spec: &serde_json::Value, format: Format) -> Rules {
    let spec: AlertSpec = serde_json::from_str(&spec.to_string()).unwrap();
    Rules::of(&spec, format)
}

/// Rules that send immediately.
fn immediate(severity: &str, format: Format) -> Rules {
    rules(
        &json!({ "eventSeverity": severity, "grouping": { "wait": "0s" } }),
        format,
    )
}

fn failing(reason: &str, version: &str) -> State {
    State::Failing(Box::new(Failing {
        reason: reason.into(),
        version: version.into(),
        message: format!("{reason} happened").into(),
        since: None,
        from: None,
    }))
}

fn ready(version: &str) -> State {
    noticed(version, &[])
}

fn noticed(version: &str, notices: &[(&'static str, &str)]) -> State {
    let notices = notices.iter().map(|(reason, message)| Notice {
        reason,
        message: (*message).into(),
    });
    State::Ready {
        version: version.into(),
        notices: notices.collect(),
    }
}

fn id(name: &str) -> ObjectId {
    ObjectId::parse(&format!("HelmOp/a/{name}")).unwrap()
}

/// An Alert, what it has reported, and the objects that it selects.
struct Alert {
    rules: Rules,
    objects: BTreeMap<ObjectId, Arc<Observed>>,
    reported: Reported,
    memory: Memory,
    now: i64,
}

impl Alert {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            objects: BTreeMap::new(),
            reported: Reported::default(),
            memory: Memory::default(),
            now: 0,
        }
    }

    fn set(&mut self, name: &str, state: State) {
        let observed = Observed {
            uid: "u".into(),
            resource_version: "1".into(),
            labels: Box::default(),
            lacks_labels: false,
            state,
        };
        self.objects.insert(id(name), Arc::new(observed));
    }

    fn plan(&mut self) -> Plan {
        plan(
            &self.rules,
            &self.objects,
            &self.reported,
            &mut self.memory,
            at(self.now),
        )
    }

    /// Delivers all messages, one after the other, and returns what each says.
    fn deliver(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(message) = self.plan().messages.first() {
            assert!(texts.len() < 100, "a message is sent again and again: {texts:?}");
            texts.push(format!(
                "{:?} {}: {}",
                message.event,
                message.reason,
                message.text()
            ));
            // As after a restart: only the status stays.
            message.delivered(&mut self.reported);
            self.reported = Reported::of(&self.reported.to_status());
        }
        texts
    }
}

#[test]
fn a_failure_is_reported_once_and_resolved_once() {
    let mut alert = Alert::new(immediate("error", Format::Generic));
    alert.set("web", State::Progressing);
    assert_eq!(alert.deliver(), [""; 0]);
    alert.set("web", failing("NotReady", "1"));
    assert_eq!(alert.deliver(), ["Failure NotReady: NotReady happened"]);
    for state in [
        failing("NotReady", "1"),
        State::Progressing,
        State::Unknown,
        State::NotStored,
        failing("NotReady", "1"),
    ] {
        alert.set("web", state);
        assert_eq!(alert.deliver(), [""; 0]);
    }
    assert_eq!(alert.reported.failing(), 1);
    alert.set("web", ready("1"));
    assert_eq!(alert.deliver(), ["Resolution Ready: ready again in version 1"]);
    assert_eq!(alert.reported.to_status(), [], "nothing is kept of what works");
    assert_eq!(alert.deliver(), [""; 0]);
}

#[test]
fn a_notice_is_sent_once_for_each_version_to_who_wants_information() {
    const NEWER: &str = "NewVersionOutsideRange";
    let mut alert = Alert::new(immediate("info", Format::Slack));
    let both = [(NEWER, "2.0.0 is newer"), ("ChartDeprecated", "1 is deprecated")];
    alert.set("web", noticed("1", &both));
    let expected = [
        "Ready Ready: ready in version 1",
        "Notice NewVersionOutsideRange: 2.0.0 is newer",
        "Notice ChartDeprecated: 1 is deprecated",
    ];
    assert_eq!(alert.deliver(), expected);
    assert_eq!(alert.deliver(), [""; 0]);
    // A failure, and what is ready again, change nothing about it.
    for (state, number) in [
        (failing("A", "1"), 1),
        (noticed("1", &both), 1),
        (noticed("2", &both), 1),
        (noticed("2", &[]), 0),
        (noticed("2", &both), 0),
    ] {
        alert.set("web", state);
        assert_eq!(alert.deliver().len(), number);
    }
    alert.set("web", noticed("2", &[(NEWER, "2.1.0 is newer")]));
    assert_eq!(alert.deliver(), ["Notice NewVersionOutsideRange: 2.1.0 is newer"]);
    assert_eq!(
        alert.reported.to_status()[0].notices.len(),
        1,
        "what is gone is not kept"
    );
    assert_eq!(alert.reported.failing(), 0);
}

#[test]
fn a_notice_passes_the_filter_by_its_own_text() {
    let spec =
        json!({ "eventSeverity": "info", "grouping": { "wait": "0s" }, "inclusionList": ["is newer"] });
    let mut alert = Alert::new(rules(&spec, Format::Generic));
    let notices = [
        ("ChartDeprecated", "1 is deprecated"),
        ("NewVersionOutsideRange", "2 is newer"),
    ];
    alert.set("web", noticed("1", &notices));
    assert_eq!(alert.deliver(), ["Notice NewVersionOutsideRange: 2 is newer"]);
}

#[test]
fn a_notice_is_no_failure() {
    for (severity, format) in [
        ("error", Format::Generic),
        ("info", Format::Alertmanager),
        ("info", Format::CdEvents),
    ] {
        let mut alert = Alert::new(immediate(severity, format));
        alert.set("web", noticed("1", &[("ChartWithdrawn", "1 is gone")]));
        let sent = alert.deliver();
        assert!(
            sent.iter().all(|text| !text.starts_with("Notice")),
            "{severity} {format:?}: {sent:?}"
        );
    }
}

#[test]
fn notices_of_many_objects_are_one_message() {
    let mut alert = Alert::new(immediate("info", Format::Generic));
    for number in 0..12 {
        alert.set(
            &format!("web-{number:02}"),
            noticed("1", &[("ChartDeprecated", "1 is deprecated")]),
        );
    }
    let sent = alert.deliver();
    assert_eq!(sent.len(), 2, "{sent:?}");
    let start = "Notice ChartDeprecated: 12 HelmOps have a notice: ChartDeprecated: a/web-00, a/web-01";
    assert!(sent[1].starts_with(start), "{sent:?}");
}

#[test]
fn another_reason_or_version_is_another_message() {
    let mut alert = Alert::new(immediate("error", Format::Generic));
    for (state, number) in [
        (failing("A", "1"), 1),
        (failing("B", "1"), 1),
        (failing("A", "1"), 0),
        (failing("A", "2"), 1),
        (failing("B", "2"), 1),
        (failing("B", "2"), 0),
    ] {
        alert.set("web", state);
        assert_eq!(alert.deliver().len(), number);
    }
    assert_eq!(alert.reported.to_status()[0].reasons, ["A", "B"]);
}

#[test]
fn at_most_eight_reasons_are_reported_until_the_object_is_ready() {
    let mut alert = Alert::new(immediate("error", Format::Generic));
    let mut messages = 0;
    for reason in 0..20 {
        alert.set("web", failing(&format!("R{reason}"), "1"));
        messages += alert.deliver().len();
    }
    assert_eq!(
        (messages, alert.reported.to_status()[0].reasons.len()),
        (MAX_REASONS, MAX_REASONS)
    );
}

#[test]
fn with_severity_info_each_version_is_reported_once_it_is_ready() {
    let mut alert = Alert::new(immediate("info", Format::Generic));
    alert.set("web", ready("1"));
    assert_eq!(alert.deliver(), ["Ready Ready: ready in version 1"]);
    alert.set("web", State::Progressing);
    assert_eq!(alert.deliver(), [""; 0]);
    alert.set("web", ready("1"));
    assert_eq!(alert.deliver(), [""; 0]);
    alert.set("web", ready("2"));
    assert!(alert.plan().messages[0].subjects[0].is_upgrade);
    assert_eq!(alert.deliver(), ["Ready Ready: ready in version 2"]);
    alert.set("web", failing("A", "3"));
    alert.deliver();
    alert.set("web", ready("3"));
    assert_eq!(
        alert.deliver(),
        ["Resolution Ready: ready again in version 3"],
        "one message, not two"
    );
    assert_eq!(alert.deliver(), [""; 0]);
    alert.objects.clear();
    assert_eq!(alert.deliver(), [""; 0], "what works may be deleted");
}

#[test]
fn an_object_that_fails_and_is_gone_is_resolved() {
    let mut alert = Alert::new(immediate("error", Format::Generic));
    alert.set("web", failing("A", "1"));
    alert.deliver();
    alert.objects.clear();
    assert_eq!(
        alert.deliver(),
        ["Resolution Deleted: deleted, or not selected any more, while it failed: A"]
    );
    assert_eq!(alert.reported, Reported::default());
}

#[test]
fn changes_are_collected_before_they_are_sent() {
    let mut alert = Alert::new(rules(&json!({}), Format::Generic));
    alert.set("web", failing("A", "1"));
    let planned = alert.plan();
    assert_eq!((planned.messages.len(), planned.due), (0, Some(at(5))));
    alert.now = 4;
    alert.set("db", failing("A", "1"));
    assert_eq!(alert.plan().due, Some(at(5)), "from the first change");
    alert.now = 5;
    assert_eq!(alert.deliver().len(), 2);
    alert.set("web", ready("1"));
    assert_eq!(alert.plan().due, Some(at(10)));
    alert.set("web", failing("A", "1"));
    assert_eq!(alert.plan(), Plan::default(), "it changed back in time");
    assert_eq!(alert.memory.first_change, None);
}

/// In a gradual outage, a slow endpoint must not get a message for each object.
#[test]
fn what_happens_while_messages_are_sent_is_collected_for_the_next_round() {
    let mut alert = Alert::new(rules(&json!({}), Format::Generic));
    alert.set("web-00", failing("A", "1"));
    alert.plan();
    alert.now = 5;
    let first = alert.plan().messages;
    let names = |messages: &[Message]| -> Vec<String> { messages.iter().map(Message::text_of_all).collect() };
    assert_eq!(first.len(), 1);
    for number in 1..=20 {
        alert.now += 1;
        alert.set(&format!("web-{number:02}"), failing("A", "1"));
        assert_eq!(names(&alert.plan().messages), names(&first), "one is on its way");
    }
    first[0].delivered(&mut alert.reported);
    let planned = alert.plan();
    assert_eq!((planned.messages.len(), planned.due), (0, Some(at(30))));
    alert.now = 30;
    let [message] = &alert.plan().messages[..] else {
        panic!("{:?}", alert.plan().messages);
    };
    assert_eq!(message.subjects.len(), 20);
    // While nothing can be sent, the round is dropped, and all that waits is one message.
    alert.set("web-21", failing("A", "1"));
    alert.memory.round = None;
    assert_eq!(alert.plan().messages[0].subjects.len(), 21);
}

#[test]
fn a_failure_that_may_resolve_itself_is_reported_later() {
    let mut alert = Alert::new(immediate("error", Format::Generic));
    let State::Failing(mut slow) = failing("NotReady", "1") else {
        unreachable!()
    };
    slow.from = Some(at(600));
    alert.set("web", State::Failing(slow));
    assert_eq!(alert.plan().due, Some(at(600)));
    assert_eq!(alert.deliver(), [""; 0]);
    alert.now = 600;
    assert_eq!(alert.deliver().len(), 1);
}

#[test]
fn many_objects_with_the_same_reason_are_one_message() {
    let mut alert = Alert::new(immediate("error", Format::Slack));
    for number in 0..10 {
        alert.set(&format!("web-{number:04}"), failing("A", "1"));
    }
    assert_eq!(alert.plan().messages.len(), 10);
    // Not sent.
    alert.memory.round = None;
    for number in 10..1000 {
        alert.set(&format!("web-{number:04}"), failing("A", "1"));
    }
    alert.set("other", failing("B", "1"));
    let texts = alert.deliver();
    assert_eq!(texts.len(), 2);
    assert!(
        texts[0].starts_with("Failure A: 1000 HelmOps fail: A: a/web-0000, a/web-0001, ")
            && texts[0].ends_with("a/web-0019; and 980 more"),
        "{texts:?}"
    );
    assert_eq!(alert.reported.failing(), 1001);
    alert
        .objects
        .values_mut()
        .for_each(|observed| Arc::make_mut(observed).state = ready("1"));
    let texts = alert.deliver();
    assert!(
        texts.len() == 1 && texts[0].contains("1001 HelmOps are ready again: a/other, "),
        "{texts:?}"
    );
}

#[test]
fn objects_of_several_kinds_are_counted_as_objects() {
    let mut alert = Alert::new(rules(
        &json!({ "grouping": { "wait": "0s", "maxMessages": 1 } }),
        Format::Generic,
    ));
    alert.set("web", failing("A", "1"));
    let mut cluster = id("c");
    cluster.kind = Kind::Cluster;
    alert
        .objects
        .insert(cluster, Arc::clone(&alert.objects[&id("web")]));
    assert_eq!(alert.deliver(), ["Failure A: 2 objects fail: A: a/web, a/c"]);
}

#[test]
fn filters_decide_on_failures_and_not_on_their_end() {
    let spec = json!({ "grouping": { "wait": "0s" }, "eventSeverity": "info", "exclusionList": ["^A", "in version 7"] });
    let mut alert = Alert::new(rules(&spec, Format::Generic));
    alert.set("web", failing("A", "7"));
    assert_eq!(alert.deliver(), [""; 0]);
    alert.set("web", ready("7"));
    assert_eq!(alert.deliver(), [""; 0]);
    alert.set("web", failing("B", "7"));
    assert_eq!(alert.deliver().len(), 1);
    alert.set("web", ready("7"));
    assert_eq!(alert.deliver(), ["Resolution Ready: ready again in version 7"]);
}

#[test]
fn without_a_maximum_each_object_has_a_message() {
    let spec = json!({ "grouping": { "wait": "0s", "maxMessages": 0 } });
    for rules in [
        rules(&spec, Format::Generic),
        immediate("error", Format::CdEvents),
    ] {
        let mut alert = Alert::new(rules);
        (0..50).for_each(|number| alert.set(&number.to_string(), failing("A", "1")));
        assert_eq!(alert.plan().messages.len(), 50);
    }
}

#[test]
fn an_alertmanager_gets_batches_and_the_end_of_every_reason() {
    let mut alert = Alert::new(immediate("info", Format::Alertmanager));
    (0..250).for_each(|number| alert.set(&number.to_string(), failing("A", "1")));
    alert.set("good", ready("1"));
    let sizes: Vec<_> = alert
        .plan()
        .messages
        .iter()
        .map(|message| message.subjects.len())
        .collect();
    assert_eq!(sizes, [100, 100, 50]);
    alert.deliver();
    alert.set("7", failing("B", "2"));
    let planned = alert.plan();
    assert_eq!(
        planned.messages[0].subjects[0].ended,
        ["A"],
        "the version has changed"
    );
    alert.deliver();
    alert.set("7", failing("C", "2"));
    alert.deliver();
    alert.set("7", ready("2"));
    assert_eq!(alert.plan().messages[0].subjects[0].ended, ["B", "C"]);
}

#[test]
fn alerts_that_fire_are_repeated() {
    let mut alert = Alert::new(immediate("error", Format::Alertmanager));
    assert_eq!(alert.plan().refresh, []);
    for name in ["web", "db"] {
        alert.set(name, failing("A", "1"));
    }
    alert.deliver();
    assert_eq!(alert.plan().due, Some(at(240)));
    alert.now = 240;
    alert.set("db", ready("1"));
    let mut planned = alert.plan();
    assert_eq!(planned.refresh[0].subjects.len(), 1, "only what still fails");
    assert_eq!(planned.due, Some(at(480)));
    assert_eq!(alert.plan().refresh, [], "once");
    let before = alert.reported.clone();
    planned.refresh[0].delivered(&mut alert.reported);
    assert_eq!(alert.reported, before);
    assert!(planned.refresh[0].retain_current(&alert.reported));
    alert.set("web", ready("1"));
    alert.deliver();
    assert!(
        !planned.refresh[0].retain_current(&alert.reported),
        "it has ended meanwhile"
    );
    alert.set("web", failing("A", "1"));
    alert.deliver();
    alert.memory = Memory::default();
    assert_eq!(alert.plan().refresh.len(), 1, "after a restart");
}

#[test]
fn the_size_of_the_records_is_limited() {
    let mut alert = Alert::new(immediate("error", Format::Generic));
    let version = "v".repeat(600);
    for number in 0..2000 {
        alert.set(&format!("web-{number:04}"), failing("A", &version));
    }
    let planned = alert.plan();
    assert!(planned.is_full);
    alert.deliver();
    assert!(alert.reported.bytes() <= MAX_BYTES && alert.reported.failing() > 1000);
    assert_eq!(
        alert.deliver(),
        [""; 0],
        "what does not fit is not reported again and again"
    );
}

/// A record replaces another one, so it needs the difference.
#[test]
fn objects_fail_and_are_ready_again_while_the_records_are_nearly_full() {
    let mut alert = Alert::new(immediate("info", Format::Generic));
    let names: Vec<_> = (0..1000).map(|number| format!("web-{number:04}")).collect();
    let version = "v".repeat(800);
    for name in &names {
        alert.set(name, ready(&version));
    }
    alert.deliver();
    // Room for less than two more.
    let room = "v".repeat(MAX_BYTES - alert.reported.bytes() - 300);
    alert.set("room", ready(&room));
    alert.deliver();
    assert!(alert.reported.bytes() > MAX_BYTES - 300);
    let mut check = |state: fn(&str) -> State, expected: &str| {
        for name in &names[..3] {
            alert.set(name, state(&version));
        }
        assert_eq!(alert.plan().messages.len(), 3);
        let texts = alert.deliver();
        assert!(texts.iter().all(|text| text.starts_with(expected)), "{texts:?}");
        assert!(!alert.plan().is_full && alert.reported.bytes() <= MAX_BYTES);
    };
    check(|version| failing("A", version), "Failure A");
    check(ready, "Resolution Ready");
    // A longer version has no room, but its failure has ended.
    alert.set("web-0000", failing("A", &version));
    assert_eq!(alert.deliver().len(), 1);
    alert.set("web-0000", ready(&"v".repeat(2000)));
    assert!(alert.deliver()[0].starts_with("Resolution Ready"));
    assert!(alert.reported.failing() == 0 && alert.reported.bytes() <= MAX_BYTES);
}

/// What happens to one of a few objects.
#[derive(Clone, Debug)]
enum Step {
    Ready(usize),
    Progressing(usize),
    Failing(usize, usize),
    NewVersion(usize),
    Deleted(usize),
    /// The process ends between a delivery and its record.
    CrashAfterDelivery,
    Restart,
    Outage(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..4_usize;
    prop_oneof![
        3 => object.clone().prop_map(Step::Ready),
        2 => object.clone().prop_map(Step::Progressing),
        5 => (object.clone(), 0..3_usize).prop_map(|(object, reason)| Step::Failing(object, reason)),
        1 => object.clone().prop_map(Step::NewVersion),
        1 => object.prop_map(Step::Deleted),
        1 => Just(Step::CrashAfterDelivery),
        1 => Just(Step::Restart),
        1 => any::<bool>().prop_map(Step::Outage),
    ]
}

proptest! {
    /// Each failure (object, reason, version) is delivered once, and each object that failed is resolved once, except for one repetition
    /// per crash. Nothing is lost: in the end, what is reported is what is the case.
    #[test]
    fn every_failure_is_reported_and_resolved_once(steps in prop::collection::vec(step(), 1..60), max in 0..3_i64) {
        let spec = json!({ "grouping": { "wait": "0s", "maxMessages": max } });
        let mut alert = Alert::new(rules(&spec, Format::Generic));
        let mut versions = [1; 4];
        // What has been delivered about each object since it was ready, and how often.
        let mut delivered = BTreeMap::<(ObjectId, String, String), usize>::new();
        let (mut crashes, mut repeated) = (0, 0);
        let (mut is_down, mut crashes_next) = (false, false);
        for step in steps.into_iter().chain([Step::Outage(false)]) {
            let name = |object: usize| format!("web-{object}");
            match step {
                Step::Ready(one) => alert.set(&name(one), ready(&versions[one].to_string())),
                Step::Progressing(one) => alert.set(&name(one), State::Progressing),
                Step::Failing(one, reason) => alert.set(&name(one), failing(["A", "B", "C"][reason], &versions[one].to_string())),
                Step::NewVersion(one) => versions[one] += 1,
                Step::Deleted(one) => { alert.objects.remove(&id(&name(one))); }
                Step::CrashAfterDelivery => crashes_next = true,
                Step::Restart => alert.memory = Memory::default(),
                Step::Outage(down) => is_down = down,
            }
            while !is_down && let Some(message) = alert.plan().messages.first() {
                for subject in &message.subjects {
                    match message.event {
                        Event::Failure => {
                            let key = (subject.id.clone(), message.reason.clone(), subject.version.clone());
                            let times = delivered.entry(key).or_default();
                            *times += 1;
                            repeated += usize::from(*times > 1);
                        }
                        Event::Resolution => {
                            let before = delivered.len();
                            delivered.retain(|(id, _, _), _| *id != subject.id);
                            repeated += usize::from(before == delivered.len());
                        }
                        Event::Ready | Event::Notice => prop_assert!(false, "severity is error"),
                    }
                }
                if std::mem::take(&mut crashes_next) {
                    crashes += message.subjects.len();
                    alert.memory = Memory::default();
                } else {
                    message.delivered(&mut alert.reported);
                    alert.reported = Reported::of(&alert.reported.to_status());
                }
            }
        }
        prop_assert!(repeated <= crashes, "{repeated} repetitions after crashes with {crashes} objects");
        for (id, observed) in &alert.objects {
            let record = alert.reported.get(id);
            match &observed.state {
                State::Ready { .. } => prop_assert_eq!(record, None),
                State::Failing(failing) => {
                    let reasons = record.map(|record| record.reasons.clone()).unwrap_or_default();
                    prop_assert!(reasons.contains(&failing.reason.to_string()));
                }
                State::Progressing | State::Unknown | State::NotStored => {}
            }
        }
        prop_assert!(alert.reported.iter().all(|(id, _)| alert.objects.contains_key(id)));
    }
}

/// A message that is rejected each time, in the middle of others: it must keep neither these nor later ones back.
#[test]
fn what_is_rejected_goes_last_and_ends_its_round() {
    let grouping = json!({ "grouping": { "wait": "5s", "maxMessages": 0 } });
    let mut alert = Alert::new(rules(&grouping, Format::Generic));
    for name in ["a", "bad", "c"] {
        alert.set(name, failing("NotReady", "1"));
    }
    assert_eq!(alert.plan().messages.len(), 0, "the window is open");
    alert.now = 5;
    let plan = alert.plan();
    let bad = plan.messages[1].clone();
    assert_eq!(bad.subjects[0].id, id("bad"));
    plan.messages[0].delivered(&mut alert.reported);
    alert.memory.rejected.add(&bad, at(905), "status 400");
    let plan = alert.plan();
    assert_eq!((plan.messages.len(), &plan.rejected), (1, &vec![bad.clone()]));
    assert_eq!((&*plan.rejection, plan.next().count()), ("status 400", 1));
    plan.messages[0].delivered(&mut alert.reported);
    let plan = alert.plan();
    assert_eq!(
        (plan.next().count(), plan.due),
        (0, Some(at(905))),
        "nothing is planned before it is sent again"
    );
    // The next round, although the message waits.
    alert.now = 100;
    alert.set("d", failing("NotReady", "1"));
    assert_eq!(alert.plan().due, Some(at(105)));
    alert.now = 105;
    let plan = alert.plan();
    assert_eq!(plan.messages[0].subjects[0].id, id("d"));
    // It is sent again after the others.
    alert.now = 905;
    let plan = alert.plan();
    let order: Vec<_> = plan
        .next()
        .map(|message| message.subjects[0].id.clone())
        .collect();
    assert_eq!(order, [id("d"), id("bad")]);
    assert_eq!((plan.rejected.len(), plan.all().count()), (0, 2));
    // It is forgotten when there is nothing to report any more.
    alert.set("bad", ready("1"));
    let plan = alert.plan();
    alert.memory.rejected.retain_in(&plan.all().collect::<Vec<_>>());
    assert_eq!(
        (alert.memory.rejected.next(at(0)), plan.all_rejected().count()),
        (None, 0)
    );
}

#[test]
fn a_group_that_is_rejected_waits_as_a_whole() {
    let mut alert = Alert::new(immediate("error", Format::Generic));
    for number in 0..12 {
        alert.set(&format!("web-{number:02}"), failing("NotReady", "1"));
    }
    let plan = alert.plan();
    assert_eq!(plan.messages.len(), 1);
    let group = plan.messages[0].clone();
    alert.memory.rejected.add(&group, at(900), "status 413");
    assert!(alert.memory.rejected.holds(&group, at(899)));
    assert!(!alert.memory.rejected.holds(&group, at(900)));
    let plan = alert.plan();
    assert_eq!((plan.messages, plan.rejected), (Vec::new(), vec![group]));
    // Another reason of one of them is another message.
    alert.set("web-00", failing("Stalled", "1"));
    assert_eq!(alert.plan().messages.len(), 1);
}
