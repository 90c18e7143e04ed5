//! Which HelmOps are denied: by the webhook, by the controller where it was bypassed, and by the optional admission policies.

mod admission_policies;
mod webhook;
mod without_webhook;
