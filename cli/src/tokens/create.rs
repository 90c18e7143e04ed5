//! `token create`: from a workspace to a command for the administrator of a cluster.

use std::{path::PathBuf, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::ArgGroup;
use helmops_api::ClusterRegistrationToken;
use helmops_join::{
    access::ManagementServer,
    agent_objects::image_beside,
    bootstrap::{Bootstrap, InvalidBootstrap},
};
use helmops_model::validation::names::label_value;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::json;

use crate::{
    cluster::{ClusterArgs, api_error, apply::FIELD_MANAGER, duration::timeout, until::until},
    clusters::join::{authorities, management::controller_image},
    failure::Failure,
    output::{self, Format, OutputArgs},
    terminal::Console,
};

/// How long the controller and Kubernetes may take to make the Secret. Seconds, unless one of them does not run.
const MADE: Duration = Duration::from_secs(30);
/// The beginning of names.
const NAME: &str = "join-";

/// The arguments of `token create`.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("validity").required(true).args(["ttl", "no_expiry"])))]
#[command(after_help = "\
Examples:
  # Print the command by which the administrator of a cluster registers it, valid for an hour
  kubectl helmop token create --ttl 1h -n fleet-default

  # Clusters reach the management cluster under another address than you do
  kubectl helmop token create --ttl 24h --server https://api.example.com:6443 -n fleet-default

  # The values for Fleet's agent, for: helm install fleet-agent fleet/fleet-agent -n cattle-fleet-system -f values.yaml
  kubectl helmop token create --ttl 1h -n fleet-default -o yaml > values.yaml")]
pub struct CreateTokenArgs {
    /// Name of the token; by default join- with a random end
    #[arg(value_parser = token_name)]
    pub name: Option<String>,
    /// How long clusters can register with it, such as 1h: it is deleted then. Clusters that have registered stay
    #[arg(long, value_name = "DURATION", value_parser = validity)]
    pub ttl: Option<String>,
    /// The token never expires: everyone who sees it can register clusters until it is deleted
    #[arg(long)]
    pub no_expiry: bool,
    /// Address of the management cluster for agents; by default that of the controller (--api-server-url), or else that of the kubeconfig
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File with the CA of the management cluster for agents; by default that of the controller (--api-server-ca), or else that of the
    /// kubeconfig
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// By default the command; yaml and json: the values of Fleet's chart for its agent
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A name that the label of requests can have.
fn token_name(text: &str) -> Result<String, String> {
    match label_value(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(why) => Err(format!("it is {why}")),
    }
}

/// A duration that is not zero, as it is written: zero would be endless.
fn validity(text: &str) -> Result<String, String> {
    match timeout(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; for a token that never expires use --no-expiry")),
    }
}

/// Creates a token, and prints how to use it.
///
/// # Errors
/// If it cannot be created, or the controller does not make its Secret.
pub async fn run(
    args: &CreateTokenArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let management = cluster.connect().await?;
    let namespace = management.namespace.as_str();
    // Before anything is written.
    let given = args
        .certificate_authority
        .as_deref()
        .map(authorities)
        .transpose()?;
    let config = cluster.config().await?;
    let own = ManagementServer::of(&config, args.server.as_deref(), given.as_deref());
    let address = config.cluster_url.to_string();
    let token = create(&management.client, namespace, args).await?;
    let secret = secret(&management.client, namespace, &token).await?;
    let Some(bootstrap) = bootstrap(&secret, args, given.as_deref(), &address, own.ok())? else {
        let message =
            "the kubeconfig has insecure-skip-tls-verify: agents must know which server they talk to";
        return Err(Failure::unable(message)
            .with_hint("name the file with the CA of the management cluster: --certificate-authority FILE"));
    };
    if bootstrap.server.is_loopback() {
        writeln!(
            console.err,
            "warning: {} is an address of this machine; if clusters cannot reach the management cluster there, use --server",
            bootstrap.server.server
        )?;
    }
    let values = bootstrap.values();
    match args.output.output {
        Format::Json => output::write_json(&mut console.out, &values)?,
        Format::Yaml => output::write_yaml(&mut console.out, &values)?,
        Format::Name => writeln!(console.out, "clusterregistrationtoken.fleet.cattle.io/{token}")?,
        Format::Table | Format::Wide => {
            let image = controller_image(&management.client).await;
            let image = image.as_deref().and_then(image_beside);
            writeln!(console.out, "{}", command(&bootstrap, image.as_deref()))?;
            console.out.flush()?;
            writeln!(
                console.err,
                "Run it with a context of the cluster that is to be registered, and add its labels with --labels env=prod. It contains a \
                 credential: everyone who has it can register clusters in namespace {namespace} {}.",
                match &args.ttl {
                    Some(ttl) => format!("for {ttl}"),
                    None => "until the token is deleted".to_owned(),
                }
            )?;
        }
    }
    Ok(())
}

/// The command for the administrator of a cluster.
fn command(bootstrap: &Bootstrap, image: Option<&str>) -> String {
    let token = STANDARD.encode(bootstrap.values().to_string());
    let image = image.map(|image| format!(" --image {image}")).unwrap_or_default();
    format!("kubectl helmop cluster register{image} --token {token}")
}

/// What a command that was printed for a token has as its argument.
///
/// # Errors
/// If it is none of its texts.
pub fn decode(token: &str) -> Result<Bootstrap, String> {
    let values = STANDARD.decode(token.trim()).map_err(|error| error.to_string())?;
    let secret = Secret {
        data: Some([("values".to_owned(), ByteString(values))].into()),
        ..Secret::default()
    };
    Bootstrap::of(&secret).map_err(|error: InvalidBootstrap| error.to_string())
}

async fn create(client: &Client, namespace: &str, args: &CreateTokenArgs) -> Result<String, Failure> {
    let mut token = ClusterRegistrationToken::default();
    match &args.name {
        Some(name) => token.metadata.name = Some(name.clone()),
        None => token.metadata.generate_name = Some(NAME.to_owned()),
    }
    token.spec.ttl = args.ttl.clone().unwrap_or_default();
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let api = Api::<ClusterRegistrationToken>::namespaced(client.clone(), namespace);
    let created = api.create(&params, &token).await.map_err(|error| {
        let failure = api_error::failed(format!("cannot create a ClusterRegistrationToken in namespace {namespace}"), &error);
        if api_error::is_not_found(&error) {
            failure.with_hint("does the namespace exist, and are the CRDs of helmops installed? Find out with: kubectl helmop check")
        } else {
            failure
        }
    })?;
    Ok(created.name_any())
}

/// The Secret that the controller makes of a token.
async fn secret(client: &Client, namespace: &str, token: &str) -> Result<Secret, Failure> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let tokens = Api::<ClusterRegistrationToken>::namespaced(client.clone(), namespace);
    let attempt = |object: &str| format!("cannot read {object} {namespace}/{token}");
    let read = async || {
        let found = tokens.get_opt(token).await;
        let found = found.map_err(|error| api_error::failed(attempt("ClusterRegistrationToken"), &error))?;
        let name = found.map(|found| found.status.secret_name).unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        let secret = secrets.get_opt(&name).await;
        secret.map_err(|error| api_error::failed(attempt("Secret"), &error))
    };
    let found = until(MADE, read).await?;
    found.ok_or_else(|| {
        let message = format!("the controller has not made the Secret of ClusterRegistrationToken {namespace}/{token} within {} s", MADE.as_secs());
        Failure::unable(message).with_hint(format!(
            "does the controller run, with --cluster-registration? See also: kubectl describe clusterregistrationtokens.fleet.cattle.io {token} \
             --namespace {namespace}"
        ))
    })
}

/// What an agent registers with. The address and the CA, each for itself, are those of the flags, of the controller, or of the kubeconfig;
/// `None` if no CA is known but that of the kubeconfig, and that does not verify the server.
fn bootstrap(
    secret: &Secret,
    args: &CreateTokenArgs,
    authorities: Option<&str>,
    address: &str,
    own: Option<ManagementServer>,
) -> Result<Option<Bootstrap>, Failure> {
    let mut data = secret.clone();
    // The controller may know no address; then the values are incomplete.
    let known = Bootstrap::of(secret);
    let is_known = known.is_ok();
    let mut bootstrap = if let Ok(bootstrap) = known {
        bootstrap
    } else {
        let server = args.server.as_deref().unwrap_or(address);
        fill_server(&mut data, server.trim_end_matches('/'))?;
        Bootstrap::of(&data).map_err(|error| Failure::unable(error.to_string()))?
    };
    // A controller that knows an address and no CA relies on those of the system.
    if authorities.is_none()
        && bootstrap.server.authorities.is_empty()
        && (!is_known || args.server.is_some())
    {
        match own {
            Some(own) => bootstrap.server.authorities = own.authorities,
            None if !is_known => return Ok(None),
            None => {}
        }
    }
    if let Some(server) = &args.server {
        server
            .trim_end_matches('/')
            .clone_into(&mut bootstrap.server.server);
    }
    if let Some(authorities) = authorities {
        authorities.clone_into(&mut bootstrap.server.authorities);
    }
    // Fleet's agent knows no such name.
    bootstrap.server.server_name = None;
    Ok(Some(bootstrap))
}

/// Adds an address to values that have none.
fn fill_server(secret: &mut Secret, server: &str) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::because("the Secret of the token has unusable values", error)
    };
    let ByteString(values) = secret
        .data
        .get_or_insert_default()
        .entry("values".to_owned())
        .or_default();
    let text = String::from_utf8_lossy(values).into_owned();
    let mut quota = go_formats::yaml::Quota::default();
    let mut read = go_formats::yaml::read_exact(&text, &mut quota).map_err(|error| failed(&error))?;
    if let Some(read) = read.as_object_mut() {
        read.insert("apiServerURL".to_owned(), json!(server));
    }
    *values = read.to_string().into_bytes();
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::Arguments;

    fn secret_with(server: &str, authorities: &str) -> Secret {
        let values = json!({
            "clusterNamespace": "w", "apiServerURL": server, "apiServerCA": authorities, "token": "t", "tokenName": "join-a",
            "systemRegistrationNamespace": "system",
        });
        Secret {
            data: Some([("values".to_owned(), ByteString(values.to_string().into_bytes()))].into()),
            ..Secret::default()
        }
    }

    fn args(server: Option<&str>) -> CreateTokenArgs {
        CreateTokenArgs {
            name: None,
            ttl: None,
            no_expiry: true,
            server: server.map(str::to_owned),
            certificate_authority: None,
            output: OutputArgs::default(),
        }
    }

    #[test]
    fn an_endless_token_needs_a_flag_of_its_own() {
        let parse = |flags: &[&str]| {
            let words = ["kubectl-helmop", "token", "create"];
            Arguments::try_parse_from(words.iter().chain(flags))
        };
        assert!(parse(&[&"x".repeat(63), "--ttl", "1h"]).is_ok() && parse(&["--no-expiry"]).is_ok());
        for refused in [
            &["--ttl", "0s"][..],
            &["--ttl", "0"],
            &[],
            &["--ttl", "1h", "--no-expiry"],
            &["--ttl=-1h"],
            &["--no-expiry", &"x".repeat(64)],
        ] {
            assert!(parse(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn the_address_is_that_of_the_flags_or_of_the_controller_or_of_the_kubeconfig() {
        let own = ManagementServer {
            server: "https://own".to_owned(),
            authorities: "OWN".to_owned(),
            server_name: Some("name".to_owned()),
        };
        let of = |known: (&str, &str), server: Option<&str>, authorities| {
            let own = ManagementServer {
                server: server.unwrap_or("https://own").to_owned(),
                ..own.clone()
            };
            let secret = secret_with(known.0, known.1);
            let bootstrap = bootstrap(&secret, &args(server), authorities, "https://own", Some(own))
                .unwrap()
                .unwrap();
            (bootstrap.server.server, bootstrap.server.authorities)
        };
        let pair = |server: &str, authorities: &str| (server.to_owned(), authorities.to_owned());
        assert_eq!(of(("", ""), None, None), pair("https://own", "OWN"));
        assert_eq!(
            of(("https://known", "KNOWN"), None, None),
            pair("https://known", "KNOWN")
        );
        // Without a CA, agents trust those of their system.
        assert_eq!(of(("https://known", ""), None, None), pair("https://known", ""));
        assert_eq!(
            of(("https://known", "KNOWN"), Some("https://flag"), None),
            pair("https://flag", "KNOWN")
        );
        assert_eq!(
            of(("", ""), Some("https://flag"), Some("FLAG")),
            pair("https://flag", "FLAG")
        );
        assert_eq!(
            of(("https://known", "KNOWN"), None, Some("FLAG")),
            pair("https://known", "FLAG")
        );
        // A controller with a CA and no address.
        assert_eq!(of(("", "KNOWN"), None, None), pair("https://own", "KNOWN"));
        let unverified = |known| {
            let secret = secret_with("", known);
            bootstrap(&secret, &args(None), None, "https://own/", None).unwrap()
        };
        assert_eq!(unverified(""), None);
        assert_eq!(unverified("KNOWN").unwrap().server.server, "https://own");
    }

    #[test]
    fn the_command_has_all_that_an_agent_registers_with() {
        let bootstrap = bootstrap(
            &secret_with("https://a", "PEM"),
            &args(None),
            None,
            "https://own",
            None,
        )
        .unwrap()
        .unwrap();
        let printed = command(&bootstrap, Some("registry.example.com/helmops-agent:1"));
        let words: Vec<_> = printed.split(' ').collect();
        let parsed = Arguments::try_parse_from(&words[1..]);
        assert!(parsed.is_ok(), "{printed}");
        assert_eq!(decode(words.last().unwrap()), Ok(bootstrap));
        assert!(decode("x").is_err() && decode("e30=").is_err());
    }
}
