//! From a question to its answer. The rules are those of [`helmops_shared::admit`] and [`helmops_shared::policy`] alone.

use helmops_shared::{
    admit::{FieldErrors, default::DefaultingInput},
    api::{HelmOp, WithoutStatus, limits},
    policy::Policies,
    reason::Reason,
    text::cut,
};

use crate::counted;
use crate::review::{AdmissionResponse, Cause, Details, Operation, Request, Status, Subject};

/// Longest error about an object that does not decode, in bytes.
const LONGEST_ERROR: usize = 1_024;

/// Fills in what the user left out.
pub fn mutate(request: &Request<'_, DefaultingInput>) -> AdmissionResponse {
    // An object that does not decode gets no defaults here, and an error from the API server.
    let given = request.object.as_ref().ok().and_then(Option::as_ref);
    let patch = given
        .filter(|_| request.subject.is_helmop())
        .and_then(DefaultingInput::patch);
    AdmissionResponse {
        patch,
        ..AdmissionResponse::default()
    }
}

/// Decides whether a change is allowed under the Policies of its namespace, and for which reason not.
pub fn validate(
    request: &Request<'_, WithoutStatus>,
    policies: &Policies,
) -> (AdmissionResponse, Option<Reason>) {
    let helmop = match &request.object {
        _ if !request.subject.is_helmop() => return Default::default(),
        Ok(None) => return Default::default(),
        Ok(Some(helmop)) => helmop,
        Err(error) => return (undecodable(&request.subject, error), Some(Reason::DecodeError)),
    };
    // Decoded only when needed; one that does not decode counts as without errors, so that it can be mended.
    let stored = match (request.subject.operation, request.old_object) {
        (Operation::Update, Some(stored)) => Some(stored),
        _ => None,
    };
    let stored = || {
        let WithoutStatus(stored) = counted::from_slice(stored?.get().as_bytes()).ok()?;
        Some(stored)
    };
    let verdict = policies.review(helmop, stored);
    let reason = verdict.errors.reason();
    let denial = reason.map(|_| invalid(&name(&request.subject, helmop), &verdict.errors));
    let answer = AdmissionResponse {
        denial,
        warnings: verdict.warnings,
        patch: None,
    };
    (answer, reason)
}

fn name(subject: &Subject<'_>, helmop: &HelmOp) -> String {
    let name = if subject.name.is_empty() {
        helmop.metadata.generate_name.clone().unwrap_or_default()
    } else {
        subject.name.clone().into_owned()
    };
    cut(name, limits::NAME)
}

/// The Status that the API server itself answers with for an invalid object.
fn invalid(name: &str, errors: &FieldErrors) -> Status {
    let mut causes: Vec<Cause> = errors
        .told()
        .iter()
        .map(|error| Cause {
            reason: error.fault.cause(),
            message: error.message(),
            field: error.path.clone(),
        })
        .collect();
    if errors.untold() > 0 {
        let message = format!("and {} more errors; mend these first", errors.untold());
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
        message: format!("HelmOp.fleet.cattle.io {name:?} is invalid: {list}"),
        reason: "Invalid",
        code: 422,
        details: Some(Details {
            name: name.to_owned(),
            group: "fleet.cattle.io",
            kind: "HelmOp",
            causes,
        }),
    }
}

fn undecodable(subject: &Subject<'_>, error: &serde_json::Error) -> AdmissionResponse {
    let name = cut(subject.name.clone().into_owned(), limits::NAME);
    // The error repeats a text that stands where something else is expected.
    let error = cut(error.to_string(), LONGEST_ERROR);
    let message = format!("HelmOp {name:?} does not decode: {error}");
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
