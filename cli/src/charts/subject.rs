//! The HelmOp that a command is about: one of the cluster, of a file, or made from flags.

use std::{
    error::Error,
    io::{Read, stdin},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_api::{Bundle, Decoded, HelmOp, HelmOptions, PackedChartSource, Policy};
use helmops_core::{admit::ValidHelmOp, bundle::check_owner, policy::Policies};
use helmops_fetch::CaCertificate;
use helmops_model::validation::FieldErrors;
use helmops_release::manifest;
use kube::{Client, Config, api::ListParams};

use crate::{
    cluster::{
        Cluster, ClusterArgs,
        request::Request,
        selection::{Scope, helmop_name},
    },
    failure::Failure,
    terminal::{Console, table::one_line},
};

/// Which HelmOp.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SubjectArgs {
    /// The HelmOp
    #[arg(value_parser = helmop_name, required_unless_present_any = ["repo", "chart", "file"], conflicts_with_all = ["repo", "chart", "version", "secret", "file"])]
    pub name: Option<String>,
    /// A file with a HelmOp, or - for standard input
    #[arg(short, long = "filename", id = "file", value_name = "FILE", conflicts_with_all = ["repo", "chart", "version", "secret"])]
    pub file: Option<PathBuf>,
    /// URL of a chart repository, or of a chart in a registry with oci://
    #[arg(long, value_name = "URL")]
    pub repo: Option<String>,
    /// Name of the chart in the repository
    #[arg(long, value_name = "NAME")]
    pub chart: Option<String>,
    /// Version or range; the latest release by default
    #[arg(long, value_name = "RANGE")]
    pub version: Option<String>,
    /// Secret with the credentials, in the namespace
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// Do not verify the certificate of the repository
    #[arg(long, conflicts_with_all = ["name", "file"])]
    pub insecure_skip_tls_verify: bool,
}

/// Where a HelmOp comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Cluster,
    /// A file, which may differ from what the cluster has.
    File,
    Flags,
}

/// A HelmOp, and what its versions depend on besides.
pub struct Subject {
    pub origin: Origin,
    /// The HelmOp, without the defaults of Policies.
    pub helmop: HelmOp,
    /// Its Bundle, if it is readable.
    pub bundle: Option<Bundle>,
    /// `spec.caBundle` of the HelmOp on the cluster, which a file may have changed.
    pub live_ca_bundle: String,
    /// The Policies of its namespace.
    pub policies: Policies,
    /// Reads its Secret.
    pub client: Client,
}

impl SubjectArgs {
    /// Reads the HelmOp, its Bundle and the Policies of its namespace.
    ///
    /// # Errors
    /// If it cannot be read, or is needed and no cluster is configured.
    pub async fn read(&self, args: &ClusterArgs, console: &mut Console<'_>) -> Result<Subject, Failure> {
        if let Some(name) = &self.name {
            let cluster = args.connect().await?;
            let helmop = cluster.get::<HelmOp>(&cluster.namespace, name).await?;
            let ca_bundle = helmop.spec.ca_bundle.clone();
            let subject = Subject::on(&cluster, helmop, Origin::Cluster, console).await?;
            return Ok(subject.with_live(ca_bundle));
        }
        let (mut helmop, origin) = match &self.file {
            Some(path) => (from_file(path)?, Origin::File),
            None => (self.requested(), Origin::Flags),
        };
        let packed = helmop.spec.packed();
        let needs_cluster = !helmop.spec.helm_secret_name.is_empty()
            || packed.is_some_and(|source| {
                matches!(source, PackedChartSource::ConfigMaps(_)) || !source.secret_name().is_empty()
            });
        if origin == Origin::Flags && !needs_cluster {
            return Subject::alone(helmop, origin);
        }
        let cluster = match args.connect().await {
            Ok(cluster) => cluster,
            Err(failure) if needs_cluster => return Err(failure),
            Err(failure) => {
                note(
                    console,
                    "Policies and recorded versions are not considered",
                    &failure,
                )?;
                return Subject::alone(helmop, origin);
            }
        };
        let namespace = match (&args.namespace, &helmop.metadata.namespace) {
            (None, Some(own)) => own.clone(),
            _ => cluster.namespace.clone(),
        };
        helmop.metadata.namespace = Some(namespace.clone());
        let mut ca_bundle = String::new();
        if let (Origin::File, Some(name)) = (origin, helmop.metadata.name.clone()) {
            match cluster.find::<HelmOp>(&namespace, &name).await {
                // As if it were applied.
                Ok(Some(live)) => {
                    helmop.metadata.uid.clone_from(&live.metadata.uid);
                    helmop.status = live.status;
                    ca_bundle = live.spec.ca_bundle;
                }
                Ok(None) => {}
                Err(failure) => note(console, "recorded versions are not considered", &failure)?,
            }
        }
        let subject = Subject::on(&cluster, helmop, origin, console).await?;
        Ok(subject.with_live(ca_bundle))
    }

    fn requested(&self) -> HelmOp {
        let mut helmop = HelmOp::default();
        helmop.spec.bundle.options.helm = Some(HelmOptions {
            repo: self.repo.clone().unwrap_or_default(),
            chart: self.chart.clone().unwrap_or_default(),
            version: self.version.clone().unwrap_or_default(),
            ..HelmOptions::default()
        });
        helmop.spec.helm_secret_name = self.secret.clone().unwrap_or_default();
        helmop.spec.insecure_skip_tls_verify = self.insecure_skip_tls_verify;
        helmop
    }
}

impl Subject {
    /// With what the cluster has for it. What may not be read is left out with a note.
    async fn on(
        cluster: &Cluster,
        helmop: HelmOp,
        origin: Origin,
        console: &mut Console<'_>,
    ) -> Result<Self, Failure> {
        let namespace = helmop.metadata.namespace.as_deref();
        let namespace = namespace.unwrap_or(&cluster.namespace).to_owned();
        let policies = policies(cluster, Scope::Namespace(&namespace), console).await?;
        let bundle = match (origin, &helmop.metadata.name) {
            (Origin::Cluster | Origin::File, Some(name)) => {
                match cluster.find::<Decoded<Bundle>>(&namespace, name).await {
                    Ok(found) => found.as_ref().and_then(own_bundle),
                    Err(failure) => {
                        note(console, "recorded versions are those of the status", &failure)?;
                        None
                    }
                }
            }
            _ => None,
        };
        Ok(Self {
            origin,
            helmop,
            bundle,
            live_ca_bundle: String::new(),
            policies: Policies::of_watched(&policies),
            client: cluster.client.clone(),
        })
    }

    fn with_live(self, live_ca_bundle: String) -> Self {
        Self {
            live_ca_bundle,
            ..self
        }
    }

    /// Without a cluster.
    ///
    /// # Errors
    /// If the client that is needed for types alone cannot be created.
    pub fn alone(helmop: HelmOp, origin: Origin) -> Result<Self, Failure> {
        Ok(Self {
            origin,
            helmop,
            bundle: None,
            live_ca_bundle: String::new(),
            policies: Policies::default(),
            client: unused_client()?,
        })
    }

    /// `namespace/name`, as far as it has them.
    pub fn name(&self) -> String {
        let metadata = &self.helmop.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        match metadata.namespace.as_deref() {
            Some(namespace) if !name.is_empty() => format!("{namespace}/{name}"),
            _ => name.to_owned(),
        }
    }
}

/// All Policies of these namespaces; none, with a note, if they may not be read.
///
/// # Errors
/// If standard error cannot be written.
pub async fn policies(
    cluster: &Cluster,
    scope: Scope<'_>,
    console: &mut Console<'_>,
) -> Result<Vec<Decoded<Policy>>, Failure> {
    match cluster
        .api::<Decoded<Policy>>(scope)
        .list(&ListParams::default())
        .await
    {
        Ok(policies) => Ok(policies.items),
        // Without their CRD there are none.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => {
            let failure = Request::of::<Policy>("list", scope).failure(cluster, &error);
            note(console, "Policies are not considered", &failure)?;
            Ok(Vec::new())
        }
    }
}

/// The Bundle, if it decodes and was made from a HelmOp.
pub fn own_bundle(found: &Decoded<Bundle>) -> Option<Bundle> {
    let bundle = found.valid()?;
    check_owner(bundle).ok()?;
    Some(bundle.clone())
}

/// The CAs of Rancher that the controller has written to the Bundle, as PEM in base64; empty if it has none, or the `spec.caBundle` of the
/// HelmOp on the cluster in place of them.
pub fn rancher_ca<'b>(bundle: Option<&'b Bundle>, live_ca_bundle: &str) -> &'b str {
    let options = bundle.and_then(|bundle| bundle.spec.helm_op_options.as_ref());
    let written = options.map_or("", |options| &*options.ca_bundle);
    if written == live_ca_bundle { "" } else { written }
}

/// The certificates of [`rancher_ca`].
pub fn ca_certificates(bundle: Option<&Bundle>, live_ca_bundle: &str) -> Vec<CaCertificate> {
    let pem = STANDARD.decode(rancher_ca(bundle, live_ca_bundle)).ok();
    pem.filter(|pem| !pem.is_empty())
        .map(|pem| (pem, "helmOpCABundle of the Bundle"))
        .into_iter()
        .collect()
}

/// What is wrong with a HelmOp.
pub fn invalid(name: &str, errors: &FieldErrors) -> Failure {
    let which = if name.is_empty() {
        "the request".to_owned()
    } else {
        format!("HelmOp {name}")
    };
    Failure::negative(format!(
        "{which} is refused, so nothing is resolved for it: {errors}"
    ))
}

/// A HelmOp with the defaults of Policies, if it is valid and allowed.
///
/// # Errors
/// What is wrong with it.
pub fn accept<'h>(subject: &Subject, completed: &'h HelmOp) -> Result<ValidHelmOp<'h>, Failure> {
    let accepted = subject.policies.accept(completed);
    accepted.map_err(|errors| {
        let failure = invalid(&subject.name(), &errors);
        match subject.origin {
            Origin::Flags => {
                failure.with_hint("the fields of spec.helm are the flags --repo, --chart and --version")
            }
            Origin::Cluster | Origin::File => failure,
        }
    })
}

fn from_file(path: &Path) -> Result<HelmOp, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let limit = manifest::MAX_BYTES as u64 + 1;
    let read = if path == Path::new("-") {
        stdin().lock().take(limit).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::because(format!("cannot read {shown}"), &error))?;
    let objects = manifest::objects(&text).map_err(|error| Failure::because(&shown, &error))?;
    let mut helmops = objects.into_iter().filter(|object| {
        let group = object["apiVersion"]
            .as_str()
            .and_then(|version| version.split('/').next());
        object["kind"] == "HelmOp" && group == Some("fleet.cattle.io")
    });
    let (first, second) = (helmops.next(), helmops.next());
    let Some(helmop) = first else {
        return Err(Failure::unable(format!(
            "{shown} contains no HelmOp of fleet.cattle.io"
        )));
    };
    if second.is_some() {
        return Err(Failure::unable(format!("{shown} contains more than one HelmOp"))
            .with_hint("pass one of them on standard input, with -f -"));
    }
    serde_json::from_str(&helmop.to_string())
        .map_err(|error| Failure::because(format!("the HelmOp in {shown} does not decode"), &error))
}

/// Reports what is left out, and why.
fn note(console: &mut Console<'_>, consequence: &str, failure: &Failure) -> Result<(), Failure> {
    let message = one_line(&failure.message);
    Ok(writeln!(console.err, "note: {consequence}: {message}")?)
}

/// A client that sends no request: without a Secret there is none to read.
fn unused_client() -> Result<Client, Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cannot = |error: &dyn Error| Failure::because("cannot create a client", error);
    let address = "https://localhost".parse();
    let config = Config::new(address.map_err(|error| cannot(&error))?);
    helmops_kube::client(config, None).map_err(|error| cannot(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_certificates_of_a_helmop_are_not_those_of_rancher() {
        for (written, live, expected) in [
            (Some("cmFuY2hlcg=="), "", Some("rancher")),
            (Some("cmFuY2hlcg=="), "b3du", Some("rancher")),
            (Some("b3du"), "b3du", None),
            (Some(""), "", None),
            (None, "", None),
        ] {
            let bundle = written.map(|written| {
                let bundle = json!({ "spec": { "helmOpOptions": { "helmOpCABundle": written } } });
                serde_json::from_str::<Bundle>(&bundle.to_string()).unwrap()
            });
            let found = ca_certificates(bundle.as_ref(), live);
            let found = found
                .first()
                .map(|(pem, _)| String::from_utf8_lossy(pem).into_owned());
            assert_eq!(found.as_deref(), expected, "{written:?} {live}");
        }
    }
}
