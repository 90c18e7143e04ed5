//! `token list`.

use helmops_api::{ClusterRegistrationToken, Decoded, NamespacedName};
use helmops_core::registration::expiry;
use jiff::Timestamp;
use kube::{Api, Resource, api::ListParams};
use serde::Serialize;

use crate::{
    cluster::{ClusterArgs, api_error},
    failure::Failure,
    output::{self, Format, OutputArgs},
    terminal::{
        Console, age,
        style::Style,
        table::{Cell, Table},
    },
};

/// The arguments of `token list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The tokens of the workspace fleet-default
  kubectl helmop token list -n fleet-default

  # Those of all workspaces
  kubectl helmop token list -A")]
pub struct ListTokensArgs {
    /// The tokens of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// The format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A token. Its text is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRow {
    /// Its namespace: the workspace.
    pub namespace: String,
    pub name: String,
    /// When it expires, RFC 3339; empty if it never does.
    pub expires: String,
    /// Whether an agent can use it now.
    pub is_usable: bool,
    /// What keeps it from that, for people; empty if nothing does.
    pub message: String,
}

impl TokenRow {
    /// A token at a time.
    pub fn of(token: &Decoded<ClusterRegistrationToken>, now: Timestamp) -> Self {
        let NamespacedName { namespace, name } = NamespacedName::of(token.meta());
        let (end, message) = match token {
            Decoded::Invalid { error, .. } => (None, error.predicate()),
            Decoded::Valid(token) => match expiry(token) {
                Err(error) => (None, error.to_string()),
                Ok(Some(end)) if end <= now => (Some(end), "it has expired".to_owned()),
                Ok(end) if token.status.secret_name.is_empty() => (
                    end,
                    "the controller has not made its Secret yet (--cluster-registration)".to_owned(),
                ),
                Ok(end) => (end, String::new()),
            },
        };
        Self {
            namespace,
            name,
            expires: end.map(helmops_api::timestamp::timestamp).unwrap_or_default(),
            is_usable: message.is_empty(),
            message,
        }
    }

    fn cells(&self, has_namespaces: bool, now: Timestamp) -> Vec<Cell> {
        let expires = match self.expires.parse::<Timestamp>() {
            Ok(end) if end > now => format!("in {}", age::age(now, end)),
            Ok(end) => format!("{} ago", age::age(end, now)),
            Err(_) => "never".to_owned(),
        };
        let usable = if self.is_usable {
            Cell::styled(Style::Good, "yes")
        } else {
            Cell::styled(Style::Pending, "no")
        };
        let mut cells = vec![
            self.name.as_str().into(),
            expires.into(),
            usable,
            self.message.as_str().into(),
        ];
        if has_namespaces {
            cells.insert(0, self.namespace.as_str().into());
        }
        cells
    }
}

/// Lists tokens.
///
/// # Errors
/// If they cannot be read.
pub async fn run(
    args: &ListTokensArgs,
    cluster: &ClusterArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let management = cluster.connect().await?;
    let client = management.client.clone();
    let api = if args.all_namespaces {
        Api::<Decoded<ClusterRegistrationToken>>::all(client)
    } else {
        Api::namespaced(client, &management.namespace)
    };
    let found = api.list(&ListParams::default()).await;
    let found = found.map_err(|error| api_error::failed("cannot list ClusterRegistrationTokens", &error))?;
    let now = Timestamp::now();
    let rows: Vec<_> = found.items.iter().map(|token| TokenRow::of(token, now)).collect();
    match args.output.output {
        Format::Json => output::write_json(&mut console.out, &rows)?,
        Format::Yaml => output::write_yaml(&mut console.out, &rows)?,
        Format::Name => {
            for row in &rows {
                writeln!(
                    console.out,
                    "clusterregistrationtoken.fleet.cattle.io/{}",
                    row.name
                )?;
            }
        }
        Format::Table | Format::Wide => {
            table(&rows, args.all_namespaces, now).write(&mut console.out, console.styles)?;
        }
    }
    Ok(())
}

fn table(rows: &[TokenRow], has_namespaces: bool, now: Timestamp) -> Table {
    let mut headings = vec!["NAME", "EXPIRES", "USABLE", "MESSAGE"];
    if has_namespaces {
        headings.insert(0, "NAMESPACE");
    }
    let mut table = Table::new(&headings);
    for row in rows {
        table.row(row.cells(has_namespaces, now));
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::terminal::style::Styles;

    #[test]
    fn tokens_are_listed_with_their_end_and_what_keeps_them_from_being_used() {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let token = |name: &str, ttl: Value, secret: &str| {
            let metadata =
                json!({ "namespace": "w", "name": name, "creationTimestamp": "2026-01-01T11:00:00Z" });
            let token =
                json!({ "metadata": metadata, "spec": { "ttl": ttl }, "status": { "secretName": secret } });
            TokenRow::of(&serde_json::from_str(&token.to_string()).unwrap(), now)
        };
        let rows = [
            token("a", json!("2h"), "a"),
            token("b", json!(null), "b"),
            token("c", json!("30m"), "c"),
            token("d", json!("24h"), ""),
            token("e", json!("1d"), ""),
        ];
        let text = table(&rows, false, now).text(Styles::new(false));
        let lines: Vec<_> = text
            .lines()
            .map(|line| line.split_whitespace().take(4).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "NAME EXPIRES USABLE MESSAGE",
                "a in 60m yes",
                "b never yes <none>",
                "c 30m ago no",
                "d in 23h no",
                "e never no spec.ttl"
            ],
            "{text}"
        );
    }
}
