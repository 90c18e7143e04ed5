//! From an admission request to the response. All rules are in [`helmops_core::admit`], [`helmops_core::policy`],
//! [`helmops_core::schedule`] and [`helmops_notify::admit`].

use bounded_text::cut;
use helmops_api::{
    Alert, AlertProvider, HelmOp, Receiver, Schedule, WithoutStatus,
    kind::{GROUP, OWN_GROUP},
    limits,
    wire::FieldSet,
};
use helmops_core::{admit::default::DefaultingInput, policy::Policies, schedule};
use helmops_model::{reason::Reason, validation::FieldErrors};
use helmops_notify::admit::{self, Decision};
use k8s_openapi::{NamespaceResourceScope, jiff::Timestamp};
use kube::Resource;
use serde_json::value::RawValue;

use crate::bounded_json;
use crate::cycles::{Cycles, SearchError};
use crate::review::{AdmissionRequest, AdmissionResponse, Cause, Details, Operation, RequestInfo, Status};

/// Maximum length of the error for a body or an object that does not decode, in bytes.
pub const MAX_ERROR: usize = 1_024;

/// Sets the defaults of fields that the user has not set.
pub fn mutate(request: &AdmissionRequest<'_, DefaultingInput>) -> AdmissionResponse {
    // An object that does not decode gets no defaults here. The API server rejects it.
    let input = request.object.as_ref().ok().and_then(Option::as_ref);
    let patch = input
        .filter(|_| request.info.is_helmop())
        .and_then(DefaultingInput::patch);
    AdmissionResponse {
        patch,
        ..AdmissionResponse::default()
    }
}

/// Decides whether the Policies of the namespace allow a change. Returns the reason of a denial too.
pub fn validate(
    request: &AdmissionRequest<'_, WithoutStatus>,
    policies: &Policies,
) -> (AdmissionResponse, Option<Reason>) {
    let helmop = match &request.object {
        _ if !request.info.is_helmop() => return Default::default(),
        Ok(None) => return Default::default(),
        Ok(Some(helmop)) => helmop,
        Err(error) => {
            return (
                decode_error("HelmOp", &request.info, error),
                Some(Reason::DecodeError),
            );
        }
    };
    // Decoded only if needed. A stored object that does not decode counts as one without errors, so that it can be fixed.
    let review = policies.review(helmop, || stored(request));
    reviewed(request, helmop, &review.errors, review.warnings)
}

/// The decision on a HelmOp that is valid, and may wait for itself over others that are stored.
///
/// A new one is denied. A change is stored with a warning: who turns a dependency round in one commit cannot choose which of the HelmOps is
/// applied first, and for a moment they wait for each other.
///
/// # Errors
/// If another HelmOp cannot be read.
pub async fn with_cycle(
    request: &AdmissionRequest<'_, WithoutStatus>,
    cycles: &Cycles,
    warnings: &[String],
) -> Result<Option<(AdmissionResponse, Option<Reason>)>, SearchError> {
    let Ok(Some(helmop)) = &request.object else {
        return Ok(None);
    };
    if !request.info.is_helmop() {
        return Ok(None);
    }
    let Some(errors) = cycles.find(helmop, || stored(request)).await? else {
        return Ok(None);
    };
    let mut warnings = warnings.to_vec();
    if request.info.operation == Operation::Update {
        let found = errors.reported().iter();
        warnings.extend(found.map(|error| format!("{}: {:?}: {}", error.path, error.value, error.detail)));
        return Ok(Some(reviewed(request, helmop, &FieldErrors::default(), warnings)));
    }
    Ok(Some(reviewed(request, helmop, &errors, warnings)))
}

/// The HelmOp as it is stored; `None` for a new one.
fn stored(request: &AdmissionRequest<'_, WithoutStatus>) -> Option<HelmOp> {
    let WithoutStatus(stored) = bounded_json::from_slice(request.replaced()?.get().as_bytes()).ok()?;
    Some(stored)
}

fn reviewed(
    request: &AdmissionRequest<'_, WithoutStatus>,
    helmop: &HelmOp,
    errors: &FieldErrors,
    warnings: Vec<String>,
) -> (AdmissionResponse, Option<Reason>) {
    let reason = errors.reason();
    let denial = reason.map(|_| {
        let name = object_name(&request.info, helmop.metadata.generate_name.as_ref());
        invalid(("fleet.cattle.io", "HelmOp"), &name, errors)
    });
    let response = AdmissionResponse {
        denial,
        warnings,
        patch: None,
    };
    (response, reason)
}

/// Decides whether an Alert, an AlertProvider, a Receiver or a Schedule is valid. No Policy restricts these. Returns the reason of a denial
/// too.
pub fn validate_other(
    request: &AdmissionRequest<'_, &RawValue>,
    now: Timestamp,
) -> (AdmissionResponse, Option<Reason>) {
    let info = &request.info;
    let is_checked = info.sub_resource.is_empty() && info.operation != Operation::Other;
    match (&*info.resource.group, &*info.resource.resource) {
        _ if !is_checked => Default::default(),
        (OWN_GROUP, "alerts") => validate_as::<Alert>(request, |new, stored| admit::review(new, stored)),
        (OWN_GROUP, "alertproviders") => {
            validate_as::<AlertProvider>(request, |new, stored| admit::review(new, stored))
        }
        (OWN_GROUP, "receivers") => {
            validate_as::<Receiver>(request, |new, stored| admit::review(new, stored))
        }
        (GROUP, "schedules") => validate_as::<Schedule>(request, |new, stored| {
            let errors = |schedule: &Schedule| schedule::errors(&schedule.spec, now);
            admit::review_with(new, stored, errors, |one, other| one.spec == other.spec)
        }),
        _ => Default::default(),
    }
}

/// Decides with `review`, which gets the object and the stored one, as far as that decodes.
fn validate_as<K>(
    request: &AdmissionRequest<'_, &RawValue>,
    review: impl FnOnce(&K, &dyn Fn() -> Option<K>) -> Decision,
) -> (AdmissionResponse, Option<Reason>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + FieldSet,
{
    let decode = |text: &RawValue| -> Result<K, _> {
        let decoded = bounded_json::from_slice(text.get().as_bytes());
        decoded.map(|WithoutStatus(object)| object)
    };
    let denied = |error: &_| {
        let denial = decode_error(&K::kind(&()), &request.info, error);
        (denial, Some(Reason::DecodeError))
    };
    let object = match &request.object {
        Ok(None) => return Default::default(),
        Ok(Some(text)) => decode(text),
        Err(error) => return denied(error),
    };
    let object = match object {
        Ok(object) => object,
        Err(error) => return denied(&error),
    };
    let review = review(&object, &|| decode(request.replaced()?).ok());
    let reason = review.errors.reason();
    let denial = reason.map(|_| {
        let name = object_name(&request.info, object.meta().generate_name.as_ref());
        invalid((&K::group(&()), &K::kind(&())), &name, &review.errors)
    });
    let response = AdmissionResponse {
        denial,
        warnings: review.warnings,
        patch: None,
    };
    (response, reason)
}

fn object_name(info: &RequestInfo<'_>, generate_name: Option<&String>) -> String {
    let name = if info.name.is_empty() {
        generate_name.cloned().unwrap_or_default()
    } else {
        info.name.clone().into_owned()
    };
    cut(name, limits::NAME)
}

/// The Status of an invalid object, in the form that the API server uses.
fn invalid((group, kind): (&str, &str), name: &str, errors: &FieldErrors) -> Status {
    let mut causes: Vec<Cause> = errors
        .reported()
        .iter()
        .map(|error| Cause {
            reason: error.error_type.cause(),
            message: error.message(),
            field: error.path.clone(),
        })
        .collect();
    if errors.omitted() > 0 {
        let message = format!("and {} more errors; fix these first", errors.omitted());
        causes.push(Cause {
            reason: "FieldValueInvalid",
            message,
            field: "spec".to_owned(),
        });
    }
    let list: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    let list = match &list[..] {
        [one] => one.clone(),
        more => format!("[{}]", more.join(", ")),
    };
    Status {
        status: "Failure",
        message: format!("{kind}.{group} {name:?} is invalid: {list}"),
        reason: "Invalid",
        code: 422,
        details: Some(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
        }),
    }
}

fn decode_error(kind: &str, info: &RequestInfo<'_>, error: &serde_json::Error) -> AdmissionResponse {
    let name = cut(info.name.clone().into_owned(), limits::NAME);
    // The error contains the value of the field, which can be long.
    let error = cut(error.to_string(), MAX_ERROR);
    let message = format!("{kind} {name:?} does not decode: {error}");
    let denial = Status {
        status: "Failure",
        message,
        reason: "BadRequest",
        code: 400,
        details: None,
    };
    AdmissionResponse {
        denial: Some(denial),
        ..AdmissionResponse::default()
    }
}
