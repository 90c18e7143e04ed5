//! Whether an Alert can send messages, and why it cannot.

use std::time::Duration;

use helmops_api::{Alert, Decoded, Unusable};
use helmops_model::{condition::ConditionState, reason::Reason};
use helmops_notify::{
    admit::{Validate, forbidden_namespaces},
    alert::MAX_OBJECTS,
    message_format::Format,
};

use super::provider_key;
use crate::{
    context::Context,
    failures::Subject,
    work::{AlertKey, ProviderKey},
};

/// Whether an Alert can send messages.
#[derive(Debug)]
pub enum Standing {
    /// The Alert can send messages.
    Sending {
        /// The format of messages.
        format: Format,
        /// The AlertProvider.
        provider: ProviderKey,
    },
    /// The last attempt has failed.
    Failing {
        /// The format of messages.
        format: Format,
        /// The AlertProvider.
        provider: ProviderKey,
        /// The condition of the Alert.
        condition: ConditionState,
        /// The time until the next attempt.
        wait: Duration,
    },
    /// Messages wait for a change.
    Blocked {
        /// The format of messages.
        format: Format,
        /// The condition of the Alert.
        condition: ConditionState,
    },
    /// The Alert is invalid, and reports nothing.
    Invalid(ConditionState),
}

impl Standing {
    /// The format of messages; `None` if there are none.
    pub const fn format(&self) -> Option<Format> {
        match self {
            Self::Sending { format, .. } | Self::Failing { format, .. } | Self::Blocked { format, .. } => {
                Some(*format)
            }
            Self::Invalid(_) => None,
        }
    }

    /// The condition `Ready` of the Alert.
    pub fn condition(&self) -> ConditionState {
        match self {
            Self::Sending { .. } => ConditionState::True(Reason::Ready),
            Self::Failing { condition, .. } | Self::Blocked { condition, .. } | Self::Invalid(condition) => {
                condition.clone()
            }
        }
    }
}

/// The condition of an Alert with messages that an AlertProvider did not accept.
pub fn delivery_failed(provider: &ProviderKey, error: &str) -> ConditionState {
    let message = format!("AlertProvider {}: {error}", provider.name);
    ConditionState::False(Reason::DeliveryFailed, message)
}

/// Whether an Alert that selects this number of objects can send messages.
pub fn of(context: &Context, key: &AlertKey, alert: &Alert, selected: usize) -> Standing {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let mut errors = alert.errors();
    if errors.is_empty() {
        errors = forbidden_namespaces(&alert.spec, namespace, &context.privileged);
    }
    if let Some(reason) = errors.reason() {
        return Standing::Invalid(ConditionState::False(reason, errors.to_string()));
    }
    if selected > MAX_OBJECTS {
        let message = format!(
            "spec.eventSources select {selected} objects; at most {MAX_OBJECTS} are possible: make several Alerts of it, by namespaces or \
             labels"
        );
        return Standing::Invalid(ConditionState::False(Reason::TooManyObjects, message));
    }
    with_provider(context, key, alert)
}

fn with_provider(context: &Context, key: &AlertKey, alert: &Alert) -> Standing {
    let provider = provider_key(alert);
    let found = context.stores.providers.get(&provider);
    let spec = found
        .as_ref()
        .and_then(|found| found.valid())
        .map(|found| &found.spec);
    let format = spec
        .and_then(|spec| Format::parse(&spec.r#type))
        .unwrap_or(Format::Generic);
    let blocked = |condition| Standing::Blocked { format, condition };
    let Some(found) = &found else {
        let message = format!(
            "spec.providerRef.name: AlertProvider {} does not exist in namespace {}",
            provider.name,
            provider.namespace.as_deref().unwrap_or_default()
        );
        return blocked(ConditionState::False(Reason::ProviderNotFound, message));
    };
    let not_ready = |what: &str| {
        let message = format!("AlertProvider {} {what}", provider.name);
        blocked(ConditionState::False(Reason::ProviderNotReady, message))
    };
    let valid = match &**found {
        Decoded::Valid(valid) => valid,
        Decoded::Invalid {
            error: error @ Unusable::NotStored(_),
            ..
        } => return not_ready(&error.predicate()),
        // Its error may have text of the spec.
        Decoded::Invalid { .. } => return not_ready("does not decode: see the log of the notifier"),
    };
    let errors = valid.errors();
    if !errors.is_empty() {
        return not_ready(&format!("is invalid: {errors}"));
    }
    let suspended = if alert.spec.suspend {
        Some("spec.suspend is set")
    } else {
        None
    };
    let suspended = suspended.or_else(|| {
        valid
            .spec
            .suspend
            .then_some("spec.suspend of the AlertProvider is set")
    });
    if let Some(why) = suspended {
        let message = format!("{why}: nothing is sent until it is removed");
        return blocked(ConditionState::TrueWithMessage(Reason::Suspended, message));
    }
    let failures = &context.failures;
    let of_provider = failures.of(&Subject::Provider(provider.clone()));
    // While it need not wait, its other messages are sent.
    let of_alert = failures.of(&Subject::Alert(key.clone()));
    let of_alert = of_alert.filter(|(_, wait)| !wait.is_zero());
    let failure = of_provider.into_iter().chain(of_alert);
    match failure.max_by_key(|(_, wait)| *wait) {
        None => Standing::Sending { format, provider },
        Some((error, wait)) => Standing::Failing {
            condition: delivery_failed(&provider, &error),
            format,
            provider,
            wait,
        },
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::NamespacedName;
    use helmops_kube::key;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::testing::{FakeApi, named, object, parts};

    #[tokio::test]
    async fn an_alert_whose_provider_is_not_stored_says_whose_objects_use_the_memory() {
        let context = parts(&FakeApi::default(), CancellationToken::new()).context;
        let why = Unusable::NotStored("the objects of namespace a use more than their share".to_owned());
        let name: NamespacedName = named("x");
        let metadata = kube::api::ObjectMeta::default();
        let refused = Decoded::without_content(&metadata, why);
        context.stores.providers.wrote(name, refused.into());
        let sources = json!([{ "kind": "HelmOp", "name": "*" }]);
        let metadata = json!({ "name": "x", "namespace": "a" });
        let spec = json!({ "providerRef": { "name": "x" }, "eventSources": sources });
        let alert: Alert = object(&json!({ "metadata": metadata, "spec": spec }));
        let ConditionState::False(reason, message) = of(&context, &key("a", "x"), &alert, 0).condition()
        else {
            panic!("it sends")
        };
        assert_eq!(reason, Reason::ProviderNotReady);
        assert_eq!(
            message,
            "AlertProvider x is not stored: the objects of namespace a use more than their share"
        );
    }
}
