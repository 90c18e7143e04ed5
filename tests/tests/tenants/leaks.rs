//! Searches everything that others can read for secrets.

use std::path::Path;

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use helmops_tests::probe;

use crate::bed::Bed;

/// What people can read who may not read Secrets.
const KINDS: &str = "helmops,bundles,bundledeployments,clusters,events";
/// As much of the surroundings as shows where a leak comes from.
const SHOWN: usize = 160;

/// A secret, and whose it is.
#[derive(Clone, Debug)]
pub struct Planted {
    /// Whose it is.
    pub what: &'static str,
    /// The secret.
    pub text: String,
}

/// Where secrets are found in logs, objects, events or metrics, one line for each. What was in the logs at the last search is
/// not searched again.
pub async fn search(bed: &mut Bed) -> Result<Vec<String>> {
    let mut places = logs(&bed.testbed.directory)?;
    for (name, text) in &mut places {
        let read = bed.searched.insert(name.clone(), text.len()).unwrap_or_default();
        text.drain(..read);
    }
    let objects = bed
        .kubectl
        .run(&["get", KINDS, "--all-namespaces", "--output=json"])
        .await?;
    places.push(("the objects".to_owned(), objects.ok()?));
    for (name, admin) in bed.admin_ports() {
        let metrics = probe::get(&probe::client(None)?, &format!("{admin}/metrics")).await;
        // A process that does not respond is another complaint's.
        places.push((format!("the metrics of the {name}"), metrics.unwrap_or_default()));
    }
    let mut found = Vec::new();
    for (place, text) in &places {
        found.extend(
            bed.planted
                .iter()
                .filter_map(|planted| planted.found(place, text)),
        );
    }
    Ok(found)
}

impl Planted {
    fn found(&self, place: &str, text: &str) -> Option<String> {
        let encoded = STANDARD.encode(&self.text);
        let hits = |form: &str| text.matches(form).count();
        let count = hits(&self.text) + hits(&encoded);
        let at = text.find(&self.text).or_else(|| text.find(&encoded))?;
        let before: String = text[..at].chars().rev().take(SHOWN).collect();
        let before: String = before.chars().rev().collect();
        Some(format!(
            "{} is in {place}, {count} times, after {before:?}",
            self.what
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
