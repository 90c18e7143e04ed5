//! Which conditions are errors, by kind.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use super::{
    conditions::Condition,
    fields::{list, text},
};

/// For each kind, the status values of condition types that are errors.
///
/// Kinds without a row use the fallback. A row replaces it: the conditions of the fallback do not apply to that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorTable {
    rows: Vec<Row>,
    fallback: StatusesByType,
}

/// Status values that are errors, by condition type.
type StatusesByType = BTreeMap<String, Vec<String>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    api_version: String,
    kind: String,
    statuses: StatusesByType,
}

/// The configured table is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ErrorTableError {
    /// It is no JSON.
    #[error("the table of condition errors is no JSON: {0}")]
    NoJson(String),
    /// It is no list.
    #[error("the table of condition errors is no list; it is a list of {{gvk, conditionMappings}}")]
    NoList,
    /// A kind is invalid.
    #[error("{0:?} in the table of condition errors is no kind; write one as `apps/v1, Kind=Deployment`")]
    InvalidKind(String),
}

impl Default for ErrorTable {
    fn default() -> Self {
        let row = |api_version: &str, kind: &str, statuses: &[(&str, &[&str])]| Row {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            statuses: by_type(statuses),
        };
        let pressure: [(&str, &[&str]); 4] = [
            ("OutOfDisk", &["True"]),
            ("MemoryPressure", &["True"]),
            ("DiskPressure", &["True"]),
            ("NetworkUnavailable", &["True"]),
        ];
        Self {
            rows: vec![
                row(
                    "helm.cattle.io/v1",
                    "HelmChart",
                    &[("JobCreated", &[]), ("Failed", &["True"])],
                ),
                row("v1", "Node", &pressure),
                row(
                    "apps/v1",
                    "Deployment",
                    &[("ReplicaFailure", &["True"]), ("Progressing", &["False"])],
                ),
                row("apps/v1", "ReplicaSet", &[("ReplicaFailure", &["True"])]),
            ],
            fallback: by_type(&[("Stalled", &["True"]), ("Failed", &["True"])]),
        }
    }
}

fn by_type(statuses: &[(&str, &[&str])]) -> StatusesByType {
    let owned = |statuses: &[&str]| statuses.iter().map(|status| (*status).to_owned()).collect();
    statuses
        .iter()
        .map(|(r#type, statuses)| ((*r#type).to_owned(), owned(statuses)))
        .collect()
}

impl ErrorTable {
    /// The default table with the changes of a configured one, which has the format of Fleet's
    /// `CATTLE_WRANGLER_CHECK_GVK_ERROR_MAPPING`:
    ///
    /// ```json
    /// [{ "gvk": "apps/v1, Kind=Deployment", "conditionMappings": [{ "type": "Progressing", "status": [] }] }]
    /// ```
    ///
    /// It is merged by kind and condition type. Each entry replaces all values of its condition. The kind `/, Kind=` is the
    /// fallback. An empty text is the default table.
    pub fn parse(text: &str) -> Result<Self, ErrorTableError> {
        let mut table = Self::default();
        if text.trim().is_empty() {
            return Ok(table);
        }
        let rows: Value =
            serde_json::from_str(text).map_err(|error| ErrorTableError::NoJson(error.to_string()))?;
        for row in rows.as_array().ok_or(ErrorTableError::NoList)? {
            table.merge(row)?;
        }
        Ok(table)
    }

    fn merge(&mut self, row: &Value) -> Result<(), ErrorTableError> {
        let gvk = text(row, &["gvk"]);
        let (api_version, kind) = gvk
            .split_once(", Kind=")
            .filter(|(api_version, _)| api_version.contains('/'))
            .ok_or_else(|| ErrorTableError::InvalidKind(gvk.to_owned()))?;
        // The core group has no name, so its kinds are `/v1, Kind=Node`.
        let statuses = self.row(api_version.trim_start_matches('/'), kind);
        for mapping in list(row, &["conditionMappings"]) {
            let values = list(mapping, &["status"]).iter().filter_map(Value::as_str);
            let values = values.map(str::to_owned).collect();
            statuses.insert(text(mapping, &["type"]).to_owned(), values);
        }
        Ok(())
    }

    fn row(&mut self, api_version: &str, kind: &str) -> &mut StatusesByType {
        if api_version.is_empty() && kind.is_empty() {
            return &mut self.fallback;
        }
        let known = self.position(api_version, kind);
        let at = known.unwrap_or(self.rows.len());
        if known.is_none() {
            self.rows.push(Row {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                statuses: StatusesByType::new(),
            });
        }
        match self.rows.get_mut(at) {
            Some(row) => &mut row.statuses,
            None => &mut self.fallback,
        }
    }

    fn position(&self, api_version: &str, kind: &str) -> Option<usize> {
        let is_row = |row: &Row| row.kind == kind && row.api_version == api_version;
        self.rows.iter().position(is_row)
    }

    /// The conditions that are errors for a kind. Besides those of the table, a condition with the reason `Error` always is.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> impl Fn(&Condition<'_>) -> bool {
        let row = self.position(api_version, kind).and_then(|at| self.rows.get(at));
        let statuses = row.map_or(&self.fallback, |row| &row.statuses);
        move |condition| {
            let values = statuses.get(condition.r#type);
            let is_listed = values.is_some_and(|values| values.iter().any(|value| value == condition.status));
            is_listed || condition.reason == "Error"
        }
    }
}
