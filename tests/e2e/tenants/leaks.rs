//! Searches everything that other users can read for secrets.

use std::path::Path;

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_bed::probe;

use crate::environment::Environment;

/// Kinds that users can read who have no permission to read Secrets.
const KINDS: [&str; 5] = [
    "apis/fleet.cattle.io/v1alpha1/helmops",
    "apis/fleet.cattle.io/v1alpha1/bundles",
    "apis/fleet.cattle.io/v1alpha1/bundledeployments",
    "apis/fleet.cattle.io/v1alpha1/clusters",
    "api/v1/events",
];
/// How many characters before a secret are shown, enough to find the source of the leak.
const SHOWN: usize = 160;

/// A secret that must not appear anywhere.
#[derive(Clone, Debug)]
pub struct PlantedSecret {
    /// What it is, and its owner.
    pub description: &'static str,
    pub text: String,
}

/// Finds secrets in logs, objects, events and metrics, and returns one line for each. The part of the logs that was searched
/// before is not searched again.
pub async fn search(env: &mut Environment) -> Result<Vec<String>> {
    let mut sources = logs(&env.testbed.directory)?;
    for (name, text) in &mut sources {
        let read = env.searched.insert(name.clone(), text.len()).unwrap_or_default();
        text.drain(..read);
    }
    for kind in KINDS {
        sources.push((kind.to_owned(), env.api.text(kind).await?));
    }
    for (name, admin) in env.admin_ports() {
        let metrics = probe::get(&probe::client(None)?, &format!("{admin}/metrics")).await;
        // A process that does not respond is reported by the watchdog.
        sources.push((format!("the metrics of the {name}"), metrics.unwrap_or_default()));
    }
    let mut found = Vec::new();
    for (source, text) in &sources {
        found.extend(
            env.planted
                .iter()
                .filter_map(|planted| planted.find_in(source, text)),
        );
    }
    Ok(found)
}

impl PlantedSecret {
    fn find_in(&self, source: &str, text: &str) -> Option<String> {
        let encoded = STANDARD.encode(&self.text);
        let hits = |form: &str| text.matches(form).count();
        let count = hits(&self.text) + hits(&encoded);
        let at = text.find(&self.text).or_else(|| text.find(&encoded))?;
        let before: String = text[..at].chars().rev().take(SHOWN).collect();
        let before: String = before.chars().rev().collect();
        Some(format!(
            "{} is in {source}, {count} times, after {before:?}",
            self.description
        ))
    }
}

/// The logs of both processes, also of those that were restarted.
fn logs(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        if is_log && (name.starts_with("controller") || name.starts_with("webhook")) {
            logs.push((name, String::from_utf8_lossy(&std::fs::read(&path)?).into_owned()));
        }
    }
    Ok(logs)
}
