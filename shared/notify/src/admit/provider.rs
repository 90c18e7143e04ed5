//! Validation of AlertProviders.

use std::time::Duration;

use helmops_api::notifications::{AlertProviderSpec, limits};
use helmops_model::{
    chart::url::{Url, UrlError},
    reason::Reason,
    validation::{ErrorType, FieldErrors, Path, limits::check as check_limits},
};

use super::check_reference;
use crate::message_format::Format;

/// Shortest and longest time of a request.
const TIMEOUTS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));

/// The errors of an AlertProvider.
pub fn errors(spec: &AlertProviderSpec) -> FieldErrors {
    let mut errors = FieldErrors::default();
    check_limits(&mut errors, spec, limits::OF_ALERT_PROVIDER);
    if !errors.is_empty() {
        return errors;
    }
    let root = Path::root("spec");
    let format = check_type(&mut errors, &root, &spec.r#type);
    if spec.address.is_empty() {
        if spec.secret_ref.is_none() {
            let detail = "set it, or name a Secret with the key address in spec.secretRef";
            errors.required(&root.field("address"), Reason::InvalidNotification, detail);
        }
    } else {
        check_address(&mut errors, &root.field("address"), &spec.address);
    }
    check_sender(&mut errors, &root, spec, format);
    for (field, reference) in [
        ("secretRef", &spec.secret_ref),
        ("certSecretRef", &spec.cert_secret_ref),
        ("proxySecretRef", &spec.proxy_secret_ref),
    ] {
        if let Some(reference) = reference {
            check_reference(&mut errors, &root.field(field), "Secret", &reference.name);
        }
    }
    if format == Some(Format::GenericHmac) && spec.secret_ref.is_none() {
        let detail = "type generic-hmac signs with the key token of a Secret; name the Secret";
        errors.required(&root.field("secretRef"), Reason::InvalidNotification, detail);
    }
    check_timeout(&mut errors, &root.field("timeout"), spec.timeout.as_deref());
    errors
}

fn check_type(errors: &mut FieldErrors, root: &Path<'_>, text: &str) -> Option<Format> {
    let format = Format::parse(text);
    if format.is_none() {
        let types = Format::ALL.map(Format::as_str).join(", ");
        let (path, detail) = (root.field("type"), format!("supported types: {types}"));
        if text.is_empty() {
            errors.required(&path, Reason::InvalidNotification, detail);
        } else {
            errors.add(
                &path,
                Reason::InvalidNotification,
                ErrorType::NotSupported,
                text,
                detail,
            );
        }
    }
    format
}

fn check_address(errors: &mut FieldErrors, path: &Path<'_>, text: &str) {
    let mut invalid = |detail: &str| {
        errors.invalid(path, Reason::InvalidURL, &shown_address(text), detail);
    };
    match Url::parse(text) {
        Err(UrlError::Relative) => invalid("not an absolute URL: it must begin with https:// or http://"),
        Err(error) => invalid(&error.to_string()),
        Ok(url) if !url.has_scheme("https") && !url.has_scheme("http") => {
            invalid("only https:// and http:// are supported");
        }
        Ok(url) if url.userinfo.is_some() => {
            invalid(
                "it has a user or a password; put these into the keys username and password of spec.secretRef",
            );
        }
        Ok(_) if url::Url::parse(text).is_err() => invalid("not a valid URL"),
        Ok(_) => {}
    }
}

fn check_sender(errors: &mut FieldErrors, root: &Path<'_>, spec: &AlertProviderSpec, format: Option<Format>) {
    let Some(format) = format else { return };
    let forbidden = |field| format!("type {} has no {field}; remove it", format.as_str());
    if !spec.channel.is_empty() && format != Format::Slack {
        let path = root.field("channel");
        errors.forbidden(
            &path,
            Reason::InvalidNotification,
            &spec.channel,
            forbidden("channel"),
        );
    }
    if !spec.username.is_empty() && !matches!(format, Format::Slack | Format::Discord) {
        let path = root.field("username");
        let detail = forbidden("name of a sender");
        errors.forbidden(&path, Reason::InvalidNotification, &spec.username, detail);
    }
}

fn check_timeout(errors: &mut FieldErrors, path: &Path<'_>, text: Option<&str>) {
    let Some(text) = text else { return };
    let (shortest, longest) = TIMEOUTS;
    let problem = match go_formats::duration::parse(text) {
        Err(error) => error.to_string(),
        Ok(timeout) if timeout < shortest || timeout > longest => {
            "too short or too long; use 1s to 5m".to_owned()
        }
        Ok(_) => return,
    };
    errors.invalid(path, Reason::InvalidNotification, text, problem);
}

/// An address for messages: scheme and host only. The path of many addresses is a credential.
pub fn shown_address(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if url.path.trim_matches('/').is_empty() && url.query.is_none() => {
            format!("{}://{}", url.scheme, url.host)
        }
        Ok(url) => format!("{}://{}/…", url.scheme, url.host),
        Err(_) => {
            let start = text.find("://").map_or(0, |at| at + 3);
            let rest = text.get(start..).unwrap_or_default();
            let end = rest
                .find(['/', '?', '#', '@'])
                .map_or(text.len(), |at| start + at);
            let shown = text.get(..end).unwrap_or_default();
            if end < text.len() {
                format!("{shown}…")
            } else {
                shown.to_owned()
            }
        }
    }
}
