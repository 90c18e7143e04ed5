//! Validation of Receivers.

use helmops_api::notifications::{ReceiverResource, ReceiverSpec, limits};
use helmops_model::{
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, limits::check as check_limits, names, selector},
};

use super::check_reference;
use crate::{
    push::ReceiverType,
    source::{ALL, Privileged, Selector},
};

const REASON: Reason = Reason::InvalidNotification;

/// The errors of a Receiver.
pub fn errors(spec: &ReceiverSpec) -> FieldErrors {
    let mut errors = FieldErrors::default();
    check_limits(&mut errors, spec, limits::OF_RECEIVER);
    if !errors.is_empty() {
        return errors;
    }
    let root = Path::root("spec");
    check_type(&mut errors, &root.field("type"), &spec.r#type);
    check_reference(
        &mut errors,
        &root.field("secretRef"),
        "Secret",
        &spec.secret_ref.name,
    );
    check_events(&mut errors, &root.field("events"), spec);
    check_resources(&mut errors, &root.field("resources"), &spec.resources);
    errors
}

fn check_type(errors: &mut FieldErrors, path: &Path<'_>, name: &str) {
    let supported = || {
        let names = ReceiverType::ALL.map(ReceiverType::as_str).join(", ");
        format!("supported types: {names}")
    };
    if name.is_empty() {
        errors.required(path, REASON, supported());
    } else if ReceiverType::parse(name).is_none() {
        errors.add(path, REASON, ErrorType::NotSupported, name, supported());
    }
}

fn check_events(errors: &mut FieldErrors, path: &Path<'_>, spec: &ReceiverSpec) {
    // An unknown type has its own error.
    let receiver_type = ReceiverType::parse(&spec.r#type);
    if let Some(receiver_type) = receiver_type.filter(|receiver_type| !receiver_type.names_events())
        && !spec.events.is_empty()
    {
        let detail = format!(
            "requests of type {receiver_type} do not name their event; those that announce a chart are accepted. Remove the list"
        );
        errors.forbidden(path, REASON, &spec.events.join(", "), detail);
    }
    for (index, event) in spec.events.iter().enumerate() {
        let path = path.index(index);
        if event.trim().is_empty() {
            let example = match receiver_type {
                Some(ReceiverType::GitLab) => "Pipeline Hook",
                Some(ReceiverType::CdEvents) => "dev.cdevents.artifact.published",
                _ => "package",
            };
            errors.required(&path, REASON, format!("name an event, such as {example}"));
        } else if spec.events.iter().take(index).any(|other| other == event) {
            errors.invalid(
                &path,
                REASON,
                event,
                "the event is in the list already; remove it",
            );
        }
    }
}

fn check_resources(errors: &mut FieldErrors, path: &Path<'_>, resources: &[ReceiverResource]) {
    for (index, resource) in resources.iter().enumerate() {
        let path = path.index(index);
        let name = path.field("name");
        if resource.name.is_empty() {
            errors.required(&name, REASON, "the name of a HelmOp, or \"*\" for all");
        } else if resource.name != ALL
            && let Err(problem) = names::subdomain(&resource.name)
        {
            let detail = format!("{problem}; \"*\" selects all");
            errors.invalid(&name, Reason::InvalidName, &resource.name, detail);
        }
        if !["", ALL].contains(&&*resource.namespace)
            && let Err(problem) = names::namespace(&resource.namespace)
        {
            let namespace = path.field("namespace");
            errors.invalid(&namespace, Reason::InvalidName, &resource.namespace, problem);
        }
        let labels = path.field("matchLabels");
        selector::check_labels(errors, &labels, Reason::InvalidSelector, &resource.match_labels);
    }
}

/// The entries that select HelmOps of namespaces that a Receiver in `namespace` must not select from. Admission does not know these: they
/// are a flag of the notifier.
pub fn forbidden_namespaces(spec: &ReceiverSpec, namespace: &str, privileged: &Privileged) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if privileged.contains(namespace) {
        return errors;
    }
    let root = Path::root("spec");
    let path = root.field("resources");
    for (index, resource) in spec.resources.iter().enumerate() {
        if !Selector::from(resource).is_local(namespace) {
            let detail = format!(
                "a Receiver in namespace {namespace} selects HelmOps of this namespace only; create a Receiver in the other namespace or in \
                 that of helmops, or name {namespace} in --privileged-namespaces of the notifier"
            );
            let path = path.index(index);
            let path = path.field("namespace");
            errors.forbidden(&path, Reason::NamespaceForbidden, &resource.namespace, detail);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(spec: &Value) -> ReceiverSpec {
        serde_json::from_value(spec.clone()).unwrap()
    }

    fn messages(of: &Value) -> Vec<String> {
        errors(&spec(of))
            .reported()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn each_type_is_valid_with_a_secret_alone() {
        for receiver_type in ReceiverType::ALL {
            let minimal = json!({ "type": receiver_type.as_str(), "secretRef": { "name": "token" } });
            assert_eq!(messages(&minimal), [""; 0], "{receiver_type}");
        }
    }

    #[test]
    fn errors_name_the_field_the_text_and_the_fix() {
        let valid = json!({ "type": "github", "secretRef": { "name": "token" } });
        for (change, expected) in [
            (
                json!({ "type": "" }),
                "spec.type: Required value: supported types: harbor, dockerhub, quay, github, gitlab, gitea, bitbucket, nexus, acr, gcr, cdevents, distribution, generic, generic-hmac",
            ),
            (
                json!({ "type": "Harbor" }),
                "spec.type: Unsupported value: \"Harbor\": supported types: harbor, ",
            ),
            (
                json!({ "secretRef": null }),
                "spec.secretRef.name: Required value: name the Secret",
            ),
            (
                json!({ "secretRef": { "name": "To Ken" } }),
                "spec.secretRef.name: Invalid value: \"To Ken\": not a DNS name",
            ),
            (
                json!({ "type": "harbor", "events": ["PUSH_ARTIFACT"] }),
                "spec.events: Forbidden: \"PUSH_ARTIFACT\": requests of type harbor do not name their event",
            ),
            (
                json!({ "events": ["package", ""] }),
                "spec.events[1]: Required value: name an event, such as package",
            ),
            (
                json!({ "events": ["push", "push"] }),
                "spec.events[1]: Invalid value: \"push\": the event is in the list already",
            ),
            (
                json!({ "resources": [{}] }),
                "spec.resources[0].name: Required value: the name of a HelmOp, or \"*\" for all",
            ),
            (
                json!({ "resources": [{ "name": "web*" }] }),
                "spec.resources[0].name: Invalid value: \"web*\": not a DNS name",
            ),
            (
                json!({ "resources": [{ "name": "*", "namespace": "a.b" }] }),
                "spec.resources[0].namespace: Invalid value: \"a.b\": not a DNS label",
            ),
            (
                json!({ "resources": [{ "name": "*", "matchLabels": { "a b": "c" } }] }),
                "spec.resources[0].matchLabels: Invalid value: \"a b\": not a key",
            ),
            (
                json!({ "resources": vec![json!({ "name": "*" }); limits::SOURCES + 1] }),
                "spec.resources: Too many: 65 items; at most 64 are allowed",
            ),
            (
                json!({ "events": vec!["x"; limits::EVENTS + 1] }),
                "spec.events: Too many: 33 items; at most 32 are allowed",
            ),
        ] {
            let mut invalid = valid.clone();
            json_patch::merge(&mut invalid, &change);
            let messages = messages(&invalid);
            assert!(
                messages.len() == 1 && messages[0].starts_with(expected),
                "{change}: {messages:?}"
            );
        }
    }

    #[test]
    fn other_namespaces_are_for_privileged_ones() {
        let privileged = Privileged::new(["helmops-system".to_owned()]);
        let of = |namespace: &str| {
            spec(&json!({ "resources": [{ "name": "*" }, { "name": "*", "namespace": namespace }] }))
        };
        for (namespace, owner, is_allowed) in [
            ("shop", "shop", true),
            ("", "shop", true),
            ("*", "shop", false),
            ("other", "shop", false),
            ("*", "helmops-system", true),
            ("other", "helmops-system", true),
        ] {
            let errors = forbidden_namespaces(&of(namespace), owner, &privileged);
            assert_eq!(errors.is_empty(), is_allowed, "{namespace} of {owner}");
            if let Some(error) = errors.reported().first() {
                assert_eq!(
                    (&*error.path, error.reason),
                    ("spec.resources[1].namespace", Reason::NamespaceForbidden)
                );
            }
        }
    }
}
