//! A request that failed, in the words of the person who started the command.

use kube::{Resource, core::Status, runtime::watcher};

use super::{Cluster, selection::Scope};
use crate::failure::{Failure, causes};

/// A request for objects of a kind.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The verb of its permission, such as `list`.
    verb: &'static str,
    kind: String,
    /// Plural and group, such as `helmops.fleet.cattle.io`.
    resource: String,
    scope: Scope<'a>,
    name: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// A request for the objects of a kind. `verb` is that of its permission: `list`, `watch`, `create`.
    pub fn of<K: Resource<DynamicType = ()>>(verb: &'static str, scope: Scope<'a>) -> Self {
        let (plural, group) = (K::plural(&()), K::group(&()));
        let resource = if group.is_empty() {
            plural.into_owned()
        } else {
            format!("{plural}.{group}")
        };
        Self {
            verb,
            kind: K::kind(&()).into_owned(),
            resource,
            scope,
            name: None,
        }
    }

    /// The same for one object. `verb` is `get`, `patch`, `update` or `delete`.
    #[must_use]
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// What the failure means for a user, and what to do about it.
    pub fn failure(&self, cluster: &Cluster, error: &kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => self.rejected(cluster, status),
            kube::Error::SerdeError(error) => Failure::unable(format!("{self} does not decode: {error}"))
                .with_hint(
                    "check that the CRDs and this program are of the same release: kubectl helmop version",
                ),
            error => {
                let what = format!("cannot reach the API server {}", cluster.server);
                Failure::because(what, error)
                    .with_hint("check the context with: kubectl config current-context")
            }
        }
    }

    /// As [`Self::failure`], for a watch.
    pub fn watch_failure(&self, cluster: &Cluster, error: &watcher::Error) -> Failure {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => self.failure(cluster, error),
            watcher::Error::WatchError(status) => self.rejected(cluster, status),
            error @ watcher::Error::NoResourceVersion => {
                Failure::unable(format!("cannot watch {self}: {}", causes(error)))
            }
        }
    }

    fn rejected(&self, cluster: &Cluster, status: &Status) -> Failure {
        match (status.code, &*status.reason) {
            (401, _) => Failure::unable(format!(
                "the API server {} does not accept the credentials of the kubeconfig",
                cluster.server
            ))
            .with_hint("log in again; test it with: kubectl auth whoami"),
            (403, _) => self.forbidden(status),
            (404, "NotFound") if self.name.is_some() => Failure::negative(format!("{self} does not exist")),
            // An object that does not exist has the reason; the path of a CRD that does not has none.
            (404, _) => self.no_such_kind(),
            (_, reason) => {
                let reason = if reason.is_empty() { "no reason" } else { reason };
                Failure::unable(format!(
                    "cannot {} {self}: {} ({reason})",
                    self.verb, status.message
                ))
            }
        }
    }

    fn forbidden(&self, status: &Status) -> Failure {
        let Self { verb, resource, .. } = self;
        let test = format!("kubectl auth can-i {verb} {resource} {}", self.scope.flag());
        // Quotas and admission reject with the same code, and have more to say.
        if !status.message.contains("cannot ") {
            return Failure::unable(format!("cannot {verb} {self}: {}", status.message));
        }
        let user = status
            .message
            .split_once("User \"")
            .and_then(|(_, rest)| rest.split_once('"'));
        let user = user.map_or("you".to_owned(), |(user, _)| format!("user {user:?}"));
        Failure::unable(format!(
            "{user} has no permission to {verb} {resource} in {}",
            self.scope
        ))
        .with_hint(format!("it needs a Role with this verb; test it with: {test}"))
    }

    fn no_such_kind(&self) -> Failure {
        Failure::unable(format!(
            "the cluster has no CRD {}: helmops or Fleet is not installed, or this is another cluster",
            self.resource
        ))
        .with_hint("find out what is installed with: kubectl helmop check")
    }
}

impl std::fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name {
            Some(name) => write!(f, "{} {name:?} in {}", self.kind, self.scope),
            None => write!(f, "{} in {}", self.resource, self.scope),
        }
    }
}

#[cfg(test)]
mod tests {
    use helmops_api::HelmOp;
    use kube::Config;

    use super::*;

    fn failure(status: Status, name: Option<&'static str>) -> (String, String, u8) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _guard = runtime.enter();
        let config = Config::new("https://api.example.com".parse().unwrap());
        let cluster = Cluster {
            client: helmops_kube::client(config, None).unwrap(),
            namespace: "shop".to_owned(),
            server: "https://api.example.com/".to_owned(),
        };
        let request = Request::of::<HelmOp>(
            if name.is_some() { "get" } else { "list" },
            Scope::Namespace("shop"),
        );
        let request = Request { name, ..request };
        let failure = request.failure(&cluster, &kube::Error::Api(Box::new(status)));
        (failure.message, failure.hint, failure.code)
    }

    #[test]
    fn failures_name_what_is_missing_and_the_next_command() {
        let not_allowed = r#"helmops.fleet.cattle.io is forbidden: User "eve" cannot list resource "helmops" in API group "fleet.cattle.io" in the namespace "shop""#;
        for (code, reason, message, name, expected, hint, exit) in [
            (
                403,
                "Forbidden",
                not_allowed,
                None,
                r#"user "eve" has no permission to list helmops.fleet.cattle.io in namespace "shop""#,
                "it needs a Role with this verb; test it with: kubectl auth can-i list helmops.fleet.cattle.io -n shop",
                2,
            ),
            (
                404,
                "",
                "404 page not found",
                None,
                "the cluster has no CRD helmops.fleet.cattle.io: helmops or Fleet is not installed, or this is another cluster",
                "find out what is installed with: kubectl helmop check",
                2,
            ),
            (
                404,
                "",
                "404 page not found",
                Some("web"),
                "the cluster has no CRD helmops.fleet.cattle.io: helmops or Fleet is not installed, or this is another cluster",
                "find out what is installed with: kubectl helmop check",
                2,
            ),
            (
                404,
                "NotFound",
                r#"helmops.fleet.cattle.io "web" not found"#,
                Some("web"),
                r#"HelmOp "web" in namespace "shop" does not exist"#,
                "",
                1,
            ),
            (
                401,
                "Unauthorized",
                "Unauthorized",
                None,
                "the API server https://api.example.com/ does not accept the credentials of the kubeconfig",
                "log in again; test it with: kubectl auth whoami",
                2,
            ),
            (
                400,
                "BadRequest",
                "unable to parse requirement",
                None,
                r#"cannot list helmops.fleet.cattle.io in namespace "shop": unable to parse requirement (BadRequest)"#,
                "",
                2,
            ),
        ] {
            let status = Status::failure(message, reason).with_code(code);
            let expected = (expected.to_owned(), hint.to_owned(), exit);
            assert_eq!(failure(status, name), expected);
        }
    }
}
