//! What the API server and admission say about an object.

use std::{collections::BTreeMap, fmt};

use helmops_api::{Alert, AlertProvider, HelmOp, Policy, Receiver, Schedule, WithoutStatus};
use helmops_core::{
    admit::{default::DefaultingInput, nulls::nulls},
    policy::{Policies, pattern_errors},
    schedule,
};
use helmops_model::{
    reason::Reason,
    validation::{FieldError, FieldErrors},
};
use helmops_notify::admit::Validate;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    IN_FILES,
    kind::Kind,
    locate::{locate, split_path},
    metadata,
    object::Object,
    problem::{Severity, rule},
    schema::{self, Finding, SCHEMAS},
};

/// The namespace that kubectl uses without a context.
const DEFAULT_NAMESPACE: &str = "default";

/// An object, as far as it decodes.
#[derive(Debug)]
pub enum Decoded {
    HelmOp(Box<HelmOp>),
    Policy(Box<Policy>),
    /// An object of helmops' own group.
    Notification(Box<dyn Notification>),
    Schedule(Box<Schedule>),
    /// None of these: a field has the wrong type.
    None,
}

/// An AlertProvider, an Alert or a Receiver.
pub trait Notification: fmt::Debug + Send + Sync {
    fn metadata(&self) -> &ObjectMeta;

    /// What admission says about it. Whether it may select objects of other namespaces is decided by a flag of the notifier, so neither
    /// admission nor a file knows it.
    fn errors(&self) -> FieldErrors;
}

impl<K: Validate + fmt::Debug + Send + Sync> Notification for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn errors(&self) -> FieldErrors {
        Validate::errors(self)
    }
}

/// An object that was compared with its schema.
#[derive(Debug)]
pub struct Checked {
    /// The object in its file.
    pub object: Object,
    pub decoded: Decoded,
    /// Its namespace and name.
    pub name: (String, String),
    /// What the API server says before admission.
    pub findings: Vec<Finding>,
}

/// Compares an object with its schema and decodes it. Without a namespace of its own it has that of the flag.
pub fn check(mut object: Object, namespace: Option<&str>) -> Checked {
    let of_kind = SCHEMAS.get(&object.kind);
    let mut findings = of_kind.map_or_else(Vec::new, |schema| {
        schema::check(schema, &object.source, "", &mut object.value, &object.place, None)
    });
    findings.append(&mut object.findings);
    let own = namespace_of(&object.value);
    if let (Some(own), Some(flag)) = (&own, namespace)
        && own != flag
    {
        findings.push(finding(
            &object,
            (Severity::Error, rule::NAMESPACE),
            "metadata.namespace",
            own,
            format!("Invalid value: {own:?}: kubectl rejects the object, because --namespace is {flag}"),
            format!("use --namespace={own}, or leave the field out"),
        ));
    }
    let namespace = own.unwrap_or_else(|| namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned());
    if let Some(Value::Object(metadata)) = object.value.get_mut("metadata") {
        metadata.insert("namespace".to_owned(), namespace.clone().into());
    }
    let mut result = decode(&mut object);
    if result.is_err() {
        let malformed = without_malformed_metadata(&mut object);
        if !malformed.is_empty() {
            findings.extend(malformed);
            result = decode(&mut object);
        }
    }
    let decoded = result.unwrap_or_else(|error| {
        // An error of the schema is clearer.
        let is_of_schema =
            |finding: &Finding| matches!(finding.rule, rule::TYPE | rule::VALUE | rule::REQUIRED);
        if !findings.iter().any(is_of_schema) {
            let message = format!("the object does not decode: {}", without_position(&error));
            let reason = (Severity::Error, Reason::DecodeError.as_str());
            findings.push(finding(&object, reason, "", "", message, String::new()));
        }
        Decoded::None
    });
    let name = object.value.pointer("/metadata/name").and_then(Value::as_str);
    let name = (namespace, name.unwrap_or_default().to_owned());
    Checked {
        object,
        decoded,
        name,
        findings,
    }
}

/// Removes the fields of the metadata that do not decode, such as a list of numbers as `ownerReferences`.
fn without_malformed_metadata(object: &mut Object) -> Vec<Finding> {
    let Some(Value::Object(metadata)) = object.value.get_mut("metadata") else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    metadata.retain(|name, value| {
        let alone = json!({ name: value.clone() });
        let error = serde_json::from_value::<ObjectMeta>(alone).err();
        errors.extend(
            error
                .as_ref()
                .map(|error| (format!("metadata.{name}"), without_position(error))),
        );
        error.is_none()
    });
    let of_error = |(path, error): (String, String)| {
        let message = format!("Invalid value: {error}");
        finding(
            object,
            (Severity::Error, rule::TYPE),
            &path,
            "",
            message,
            String::new(),
        )
    };
    errors.into_iter().map(of_error).collect()
}

/// An error without its position: that is one in a text which the user does not have.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

fn namespace_of(object: &Value) -> Option<String> {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    namespace
        .filter(|namespace| !namespace.is_empty())
        .map(str::to_owned)
}

fn decode(object: &mut Object) -> Result<Decoded, serde_json::Error> {
    // From text: free-form values are kept as text.
    match object.kind {
        Kind::HelmOp => {
            let defaults = DefaultingInput::deserialize(&object.value).ok();
            if let Some(patch) = defaults.and_then(|input| input.patch()) {
                // It adds one field to an object.
                let _ = json_patch::patch(&mut object.value, &patch);
            }
            let WithoutStatus(helmop) = serde_json::from_str(&object.value.to_string())?;
            Ok(Decoded::HelmOp(Box::new(helmop)))
        }
        Kind::Policy => {
            let policy = serde_json::from_str(&object.value.to_string())?;
            Ok(Decoded::Policy(Box::new(policy)))
        }
        Kind::AlertProvider => notification::<AlertProvider>(object),
        Kind::Alert => notification::<Alert>(object),
        Kind::Receiver => notification::<Receiver>(object),
        Kind::Schedule => Ok(Decoded::Schedule(Box::new(without_status(object)?))),
    }
}

fn notification<K>(object: &mut Object) -> Result<Decoded, serde_json::Error>
where
    K: Validate + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    Ok(Decoded::Notification(Box::new(without_status::<K>(object)?)))
}

/// The API server drops the status before it decodes anything.
fn without_status<K: DeserializeOwned>(object: &mut Object) -> Result<K, serde_json::Error> {
    if let Some(fields) = object.value.as_object_mut() {
        fields.remove("status");
    }
    serde_json::from_str(&object.value.to_string())
}

/// The Policies of each namespace. One that the API server would reject is none.
pub fn policies<'c>(objects: impl Iterator<Item = &'c Checked>) -> BTreeMap<&'c str, Policies> {
    let mut found: BTreeMap<&str, Vec<&Policy>> = BTreeMap::new();
    for object in objects {
        let is_stored = object
            .findings
            .iter()
            .all(|finding| finding.severity != Severity::Error);
        if let (true, Decoded::Policy(policy)) = (is_stored, &object.decoded) {
            found.entry(&object.name.0).or_default().push(policy);
        }
    }
    found
        .into_iter()
        .map(|(namespace, policies)| (namespace, Policies::of(policies)))
        .collect()
}

/// Everything about an object at a time, with the Policies of its namespace.
pub fn review(checked: &Checked, policies: &Policies, now: Timestamp) -> Vec<Finding> {
    let object = &checked.object;
    match &checked.decoded {
        Decoded::HelmOp(helmop) => {
            let mut errors = of_errors(object, &metadata::check(&helmop.metadata));
            let decision = policies.review(helmop, || None);
            errors.extend(of_errors(object, &decision.errors));
            let mut findings = combined(checked, errors);
            if findings
                .iter()
                .all(|finding| finding.severity == Severity::Warning)
            {
                let warnings = decision.warnings.iter();
                findings.extend(warnings.map(|warning| of_warning(object, warning)));
                let reason = (Severity::Warning, rule::QUESTIONABLE);
                findings.extend(
                    nulls(helmop)
                        .iter()
                        .map(|path| finding(object, reason, path, "", IN_FILES.to_owned(), String::new())),
                );
            }
            findings
        }
        Decoded::Policy(policy) => {
            let metadata: &ObjectMeta = &policy.metadata;
            let mut findings = combined(checked, of_errors(object, &metadata::check(metadata)));
            findings.extend(
                of_errors(object, &pattern_errors(policy))
                    .into_iter()
                    .map(|finding| Finding {
                        severity: Severity::Warning,
                        rule: rule::PATTERN,
                        ..finding
                    }),
            );
            findings
        }
        Decoded::Notification(notification) => {
            let mut errors = of_errors(object, &metadata::check(notification.metadata()));
            errors.extend(of_errors(object, &notification.errors()));
            combined(checked, errors)
        }
        Decoded::Schedule(schedule) => {
            let mut errors = of_errors(object, &metadata::check(&schedule.metadata));
            errors.extend(of_errors(object, &schedule::errors(&schedule.spec, now)));
            combined(checked, errors)
        }
        Decoded::None => checked.findings.clone(),
    }
}

/// The findings of the schema and the errors of admission, each field once. A value of the wrong type was not seen by admission; about
/// anything else admission has the better message.
fn combined(checked: &Checked, errors: Vec<Finding>) -> Vec<Finding> {
    let of_type = |finding: &&Finding| finding.rule == rule::TYPE;
    let is_below = |path: &str, parent: &str| {
        path.strip_prefix(parent)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let wrong: Vec<&str> = checked
        .findings
        .iter()
        .filter(of_type)
        .map(|finding| &*finding.path)
        .collect();
    let mut kept: Vec<Finding> = Vec::new();
    for error in errors {
        let is_known = kept
            .iter()
            .any(|other| other.path == error.path && other.message == error.message)
            || wrong.iter().any(|wrong| is_below(&error.path, wrong));
        if !is_known {
            kept.push(error);
        }
    }
    let of_schema = checked.findings.iter().filter(|finding| {
        matches!(finding.rule, rule::TYPE | rule::DUPLICATE_KEY)
            || finding.severity == Severity::Warning
            || kept.iter().all(|error| error.path != finding.path)
    });
    let of_schema: Vec<_> = of_schema.cloned().collect();
    of_schema.into_iter().chain(kept).collect()
}

fn of_errors(object: &Object, errors: &FieldErrors) -> Vec<Finding> {
    let mut findings: Vec<_> = errors
        .reported()
        .iter()
        .map(|error| of_error(object, error))
        .collect();
    if errors.omitted() > 0 {
        let message = format!("and {} more errors; fix these first", errors.omitted());
        let reason = (
            Severity::Error,
            errors.reason().map_or(rule::VALUE, Reason::as_str),
        );
        findings.push(finding(object, reason, "spec", "", message, String::new()));
    }
    findings
}

fn of_error(object: &Object, error: &FieldError) -> Finding {
    let reason = (Severity::Error, error.reason.as_str());
    finding(
        object,
        reason,
        &error.path,
        &error.value,
        error.message(),
        String::new(),
    )
}

fn of_warning(object: &Object, warning: &str) -> Finding {
    let (path, message) = split_path(&object.place, warning);
    let reason = (Severity::Warning, rule::QUESTIONABLE);
    finding(object, reason, path, "", message.to_owned(), String::new())
}

/// A finding about the field at a path. The text that it is about is looked for around `value`.
fn finding(
    object: &Object,
    (severity, rule): (Severity, &'static str),
    path: &str,
    value: &str,
    message: String,
    fix: String,
) -> Finding {
    let located = locate(&object.source, &object.place, path, value);
    Finding {
        severity,
        rule,
        path: path.to_owned(),
        span: located.span,
        alias: located.alias,
        message,
        fix,
    }
}
