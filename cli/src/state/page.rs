//! All that there is to know about one HelmOp.

use std::collections::BTreeMap;

use helmops_model::deployment_state::{DeploymentState, count};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    clusters::{self, ClusterReport},
    conditions::{self, ConditionReport},
    event_log::{self, EventReport, Subjects},
    next_command::{NextCommand, next},
    polling::PollState,
    read::Observed,
    summary::HelmOpSummary,
    times::{relative, since},
};
use crate::{
    failure::Failure,
    terminal::{Console, style::Style, table::one_line},
};

/// How many clusters that are not ready are shown.
const MAX_CLUSTERS: usize = 20;
/// How many Events are shown.
const MAX_EVENTS: usize = 8;

/// What `status NAME` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmOpReport {
    /// The summary of the list.
    #[serde(flatten)]
    pub summary: HelmOpSummary,
    /// The generation of the spec that the status is not for yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_generation: Option<i64>,
    /// Number of clusters by state; states without clusters are left out.
    pub clusters_by_state: BTreeMap<&'static str, i64>,
    pub conditions: Vec<ConditionReport>,
    pub clusters: Vec<ClusterReport>,
    /// The Events, the newest last.
    pub events: Vec<EventReport>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What to run next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextCommand>,
}

impl HelmOpReport {
    /// The report at a time.
    pub fn of(observed: &Observed, now: Timestamp) -> Self {
        let Observed {
            helmop,
            bundle,
            deployments,
            events,
            notes,
        } = observed;
        let summary = HelmOpSummary::of(helmop, bundle.as_ref(), now);
        let status = helmop.status.as_ref();
        let counted = status.and_then(|status| status.base.summary.as_ref());
        let by_state = DeploymentState::ALL.into_iter().map(|state| {
            let number = counted.map_or(0, |summary| count(summary, state));
            (state.as_str(), number)
        });
        let conditions = status.into_iter().flat_map(|status| &status.base.conditions);
        let conditions: Vec<_> = conditions.map(ConditionReport::of).collect();
        let clusters = clusters::clusters(deployments, counted);
        let subjects = Subjects::new(&summary.namespace, &summary.name, deployments);
        let generation = helmop.metadata.generation;
        let observed_generation = status.and_then(|status| status.observed_generation);
        Self {
            pending_generation: generation.filter(|_| {
                // Fleet's CRD does not have the field.
                observed_generation.is_some_and(|observed| generation != Some(observed))
            }),
            clusters_by_state: by_state.filter(|(_, number)| *number > 0).collect(),
            next: next(&summary, &conditions, &clusters),
            conditions,
            clusters,
            events: event_log::log(events, &subjects),
            notes: notes.clone(),
            summary,
        }
    }

    /// Writes the page.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write(&self, console: &mut Console<'_>, now: Timestamp) -> Result<(), Failure> {
        self.write_heading(console, now)?;
        if !self.conditions.is_empty() {
            writeln!(console.out)?;
            conditions::table(&self.conditions, now).write_indented(
                &mut console.out,
                console.styles,
                "  ",
            )?;
        }
        for (reason, remedy) in conditions::remedies(&self.conditions) {
            writeln!(
                console.out,
                "\n  What to do about {}:\n    {remedy}",
                one_line(reason)
            )?;
        }
        self.write_clusters(console, now)?;
        self.write_events(console, now)?;
        for note in &self.notes {
            writeln!(console.out, "\nNote: {}", one_line(note))?;
        }
        if let Some(next) = &self.next {
            let command = console.styles.paint(Style::Strong, &one_line(&next.command));
            writeln!(console.out, "\nNext: {command}\n      {}", next.purpose)?;
        }
        Ok(())
    }

    fn write_heading(&self, console: &mut Console<'_>, now: Timestamp) -> Result<(), Failure> {
        let HelmOpSummary {
            namespace,
            name,
            state,
            reason,
            message,
            created,
            ..
        } = &self.summary;
        let title = console
            .styles
            .paint(Style::Strong, &format!("HelmOp {namespace}/{name}"));
        writeln!(console.out, "{title}")?;
        let mut line = |label: &str, text: String| -> Result<(), Failure> {
            Ok(writeln!(console.out, "  {label:<9} {}", one_line(&text))?)
        };
        line("Chart", self.chart())?;
        let reason = if reason.is_empty() {
            String::new()
        } else {
            format!(" ({reason})")
        };
        line("State", format!("{state}{reason}"))?;
        if self.conditions.is_empty() && !message.is_empty() {
            line("Message", message.clone())?;
        }
        line("Clusters", self.numbers())?;
        line("Polls", self.polls(now))?;
        line("Age", since(created, now))?;
        if let Some(generation) = self.pending_generation {
            line(
                "Pending",
                format!(
                    "the status is of an earlier spec: the controller has not reconciled generation {generation} yet"
                ),
            )?;
        }
        Ok(())
    }

    fn chart(&self) -> String {
        let HelmOpSummary {
            chart,
            version,
            range,
            repo,
            ..
        } = &self.summary;
        let version = match (&**version, &**range) {
            ("", "") => String::new(),
            ("", range) => format!(", no version yet for {range}"),
            (version, "") => format!(" {version} (the latest is requested)"),
            (version, range) if version == range => format!(" {version}"),
            (version, range) => format!(" {version} ({range} is requested)"),
        };
        let from = if repo.is_empty() { "" } else { " from " };
        format!("{chart}{version}{from}{repo}")
    }

    fn numbers(&self) -> String {
        let HelmOpSummary {
            ready_clusters,
            desired_ready_clusters,
            ..
        } = self.summary;
        let states: Vec<_> = self
            .clusters_by_state
            .iter()
            .map(|(state, number)| format!("{number} {state}"))
            .collect();
        let states = if states.len() > 1 {
            format!(": {}", states.join(", "))
        } else {
            String::new()
        };
        format!("{ready_clusters}/{desired_ready_clusters} ready{states}")
    }

    fn polls(&self, now: Timestamp) -> String {
        let polling = &self.summary.polling;
        let with_time = |time: &str| format!("{} ({time})", relative(time, now));
        let mut parts = vec![if polling.interval.is_empty() {
            "off".to_owned()
        } else {
            format!("every {}", polling.interval)
        }];
        if !polling.last.is_empty() {
            parts.push(format!("last {}", with_time(&polling.last)));
        }
        match polling.state {
            PollState::Off => {}
            PollState::Scheduled => parts.push(format!("next {}", with_time(&polling.next))),
            PollState::Due => parts.push("next is due now".to_owned()),
            PollState::Retrying => parts.push("which failed; it is retried".to_owned()),
        }
        parts.join(", ")
    }

    fn write_clusters(&self, console: &mut Console<'_>, now: Timestamp) -> Result<(), Failure> {
        let not_ready: Vec<_> = self
            .clusters
            .iter()
            .filter(|cluster| !cluster.is_ready())
            .collect();
        if not_ready.is_empty() {
            return Ok(());
        }
        writeln!(console.out, "\nClusters that are not ready")?;
        let shown = not_ready.iter().take(MAX_CLUSTERS).copied();
        clusters::table(shown, now).write_indented(&mut console.out, console.styles, "  ")?;
        let hidden = not_ready.len().saturating_sub(MAX_CLUSTERS);
        if hidden > 0 {
            let HelmOpSummary { namespace, name, .. } = &self.summary;
            writeln!(
                console.out,
                "  and {hidden} more: kubectl helmop tree {name} -n {namespace} --clusters not-ready --limit 1000"
            )?;
        }
        Ok(())
    }

    fn write_events(&self, console: &mut Console<'_>, now: Timestamp) -> Result<(), Failure> {
        if self.events.is_empty() {
            return Ok(());
        }
        writeln!(console.out, "\nEvents")?;
        let older = self.events.len().saturating_sub(MAX_EVENTS);
        let newest = self.events.get(older..).unwrap_or_default();
        event_log::table(newest, now).write_indented(&mut console.out, console.styles, "  ")?;
        if older > 0 {
            let HelmOpSummary { namespace, name, .. } = &self.summary;
            writeln!(
                console.out,
                "  and {older} older: kubectl helmop events {name} -n {namespace}"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        output::write_json,
        state::fixture::{deployment, golden, helmop, now, rollout},
        terminal::buffers::Buffers,
    };

    fn page(observed: &Observed) -> String {
        let mut buffers = Buffers::default();
        let mut console = buffers.console();
        HelmOpReport::of(observed, now())
            .write(&mut console, now())
            .unwrap();
        buffers.out()
    }

    #[test]
    fn a_rollout_shows_each_cluster_that_is_not_ready_and_why() {
        golden("page-rollout.txt", &page(&rollout()));
    }

    #[test]
    fn a_page_without_problems_is_short() {
        let observed = Observed {
            helmop: helmop(&json!({})),
            deployments: vec![deployment("c1", &json!({})), deployment("c2", &json!({}))],
            ..Observed::default()
        };
        golden("page-ready.txt", &page(&observed));
    }

    #[test]
    fn a_helmop_that_is_refused_has_a_remedy_and_a_next_command() {
        let message = "no version of chart \"web\" satisfies \"9.x\"; nearest: 1.2.0\u{1b}[2J";
        let because = |name: &str, status: &str| json!({ "type": name, "status": status, "reason": "NoMatchingVersion", "message": message, "lastTransitionTime": "2026-03-01T11:00:00Z" });
        let helmop = helmop(&json!({
            "metadata": { "generation": 3 },
            "spec": { "helm": { "version": "9.x" } },
            "status": { "version": "", "conditions": [because("Accepted", "False"), because("Ready", "False"), because("Stalled", "True")] }
        }));
        let observed = Observed {
            helmop,
            notes: vec!["the BundleDeployments cannot be shown: user \"eve\" has no permission to list bundledeployments.fleet.cattle.io in any namespace".to_owned()],
            ..Observed::default()
        };
        let page = page(&observed);
        assert!(!page.contains('\u{1b}'), "{page}");
        golden("page-refused.txt", &page);
    }

    #[test]
    fn the_report_is_the_same_as_json() {
        let mut buffers = Buffers::default();
        let report = HelmOpReport::of(&rollout(), now());
        write_json(&mut buffers.console().out, &report).unwrap();
        golden("page-rollout.json", &buffers.out());
    }

    #[test]
    fn the_number_of_clusters_is_limited() {
        let not_ready = json!({ "status": { "ready": false } });
        let observed = Observed {
            helmop: helmop(&json!({})),
            deployments: (0..100)
                .map(|number| deployment(&format!("c{number:03}"), &not_ready))
                .collect(),
            ..Observed::default()
        };
        let page = page(&observed);
        assert!(page.contains("c019") && !page.contains("c020"), "{page}");
        assert!(
            page.contains("and 80 more: kubectl helmop tree web -n shop --clusters not-ready"),
            "{page}"
        );
    }
}
