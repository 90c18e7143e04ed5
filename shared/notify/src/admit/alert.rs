//! Validation of Alerts.

use std::time::Duration;

use helmops_api::notifications::{AlertSpec, EventSource, Grouping, limits};
use helmops_model::{
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, limits::check as check_limits, names, selector},
};

use super::check_reference;
use crate::{
    alert::Filter,
    severity::Severity,
    source::{ALL, Kind, Privileged, Selector},
};

/// Longest time for which changes are collected.
const MAX_WAIT: Duration = Duration::from_mins(10);
/// Maximum of `grouping.maxMessages`.
const MAX_MESSAGES: i64 = 1_000;

/// The errors of an Alert.
pub fn errors(spec: &AlertSpec) -> FieldErrors {
    let mut errors = FieldErrors::default();
    check_limits(&mut errors, spec, limits::OF_ALERT);
    if !errors.is_empty() {
        return errors;
    }
    let root = Path::root("spec");
    check_reference(
        &mut errors,
        &root.field("providerRef"),
        "AlertProvider",
        &spec.provider_ref.name,
    );
    if Severity::parse(&spec.event_severity).is_none() {
        errors.add(
            &root.field("eventSeverity"),
            Reason::InvalidNotification,
            ErrorType::NotSupported,
            &spec.event_severity,
            "supported severities: error (failures, and their end), info (also each version that is ready)",
        );
    }
    check_sources(&mut errors, &root.field("eventSources"), &spec.event_sources);
    for (field, list) in [
        ("inclusionList", &spec.inclusion_list),
        ("exclusionList", &spec.exclusion_list),
    ] {
        let path = root.field(field);
        for (index, expression) in list.iter().enumerate() {
            if let Err(error) = Filter::check(expression) {
                let reason = Reason::InvalidNotification;
                errors.invalid(&path.index(index), reason, expression, error.to_string());
            }
        }
    }
    check_metadata(&mut errors, &root.field("eventMetadata"), spec);
    if let Some(grouping) = &spec.grouping {
        check_grouping(&mut errors, &root.field("grouping"), grouping);
    }
    errors
}

fn check_sources(errors: &mut FieldErrors, path: &Path<'_>, sources: &[EventSource]) {
    if sources.is_empty() {
        let detail = "name at least one object, such as {kind: HelmOp, name: \"*\"}";
        errors.required(path, Reason::InvalidNotification, detail);
    }
    for (index, source) in sources.iter().enumerate() {
        let path = path.index(index);
        if Kind::parse(&source.kind).is_none() {
            let kinds = Kind::ALL.map(Kind::as_str).join(", ");
            errors.add(
                &path.field("kind"),
                Reason::InvalidNotification,
                ErrorType::NotSupported,
                &source.kind,
                format!("supported kinds: {kinds}"),
            );
        }
        let name = path.field("name");
        if source.name.is_empty() {
            let detail = "the name of an object, or \"*\" for all";
            errors.required(&name, Reason::InvalidNotification, detail);
        } else if source.name != ALL
            && let Err(problem) = names::subdomain(&source.name)
        {
            let detail = format!("{problem}; \"*\" selects all");
            errors.invalid(&name, Reason::InvalidName, &source.name, detail);
        }
        if !["", ALL].contains(&&*source.namespace)
            && let Err(problem) = names::namespace(&source.namespace)
        {
            let namespace = path.field("namespace");
            errors.invalid(&namespace, Reason::InvalidName, &source.namespace, problem);
        }
        let labels = path.field("matchLabels");
        selector::check_labels(errors, &labels, Reason::InvalidSelector, &source.match_labels);
    }
}

fn check_metadata(errors: &mut FieldErrors, path: &Path<'_>, spec: &AlertSpec) {
    selector::check_keys(errors, path, Reason::InvalidLabel, &spec.event_metadata);
    for (key, value) in &spec.event_metadata {
        let max = limits::METADATA_VALUE;
        if value.len() > max {
            let detail = format!("{} bytes; at most {max} are allowed", value.len());
            errors.add(
                &path.key(key),
                Reason::LimitExceeded,
                ErrorType::TooLong,
                "",
                detail,
            );
        }
    }
}

fn check_grouping(errors: &mut FieldErrors, path: &Path<'_>, grouping: &Grouping) {
    if let Some(text) = grouping.wait.as_deref() {
        let problem = match go_formats::duration::parse(text) {
            Err(error) => Some(error.to_string()),
            Ok(wait) if wait > MAX_WAIT => Some("too long; use at most 10m".to_owned()),
            Ok(_) => None,
        };
        if let Some(problem) = problem {
            errors.invalid(&path.field("wait"), Reason::InvalidNotification, text, problem);
        }
    }
    if let Some(number) = grouping.max_messages
        && !(0..=MAX_MESSAGES).contains(&number)
    {
        let detail = format!("use 0 (no maximum) to {MAX_MESSAGES}");
        errors.invalid(
            &path.field("maxMessages"),
            Reason::InvalidNotification,
            &number.to_string(),
            detail,
        );
    }
}

/// The entries that select objects of namespaces that an Alert in `namespace` must not select from. Admission does not know these: they
/// are a flag of the notifier.
pub fn forbidden_namespaces(spec: &AlertSpec, namespace: &str, privileged: &Privileged) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if privileged.contains(namespace) {
        return errors;
    }
    let root = Path::root("spec");
    let path = root.field("eventSources");
    for (index, source) in spec.event_sources.iter().enumerate() {
        if !Selector::from(source).is_local(namespace) {
            let detail = format!(
                "an Alert in namespace {namespace} selects objects of this namespace only; create an Alert in the other namespace or in \
                 that of helmops, or name {namespace} in --privileged-namespaces of the notifier"
            );
            let path = path.index(index);
            let path = path.field("namespace");
            errors.forbidden(&path, Reason::NamespaceForbidden, &source.namespace, detail);
        }
    }
    errors
}
