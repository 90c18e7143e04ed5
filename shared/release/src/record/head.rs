//! The start of a record: all that a history needs.
//!
//! Everyone who may write Secrets in a namespace can write a record, of 40 KiB, that takes some hundred MiB when it is decoded. So a
//! history reads some fields up to the last one of them, and a record is decoded as a whole only to deploy, compare or remove its
//! release.

use std::{collections::BTreeMap, fmt, io::Read};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::json;

use super::{Info, Record, RecordError, Status, reader};

/// Bytes of a record's JSON that are read at most. Helm and the agent write these fields before the files of the chart and the manifest, and
/// before them only the notes can be long.
const MAX_HEAD: u64 = 4 << 20;

/// A record without its values, manifest, hooks, and the files of its chart.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordHead(pub(crate) Record);

impl RecordHead {
    /// Decodes the start of a record: `Secret.data.release`, after the Base64 of the Secret. `revision` is what the label of the Secret
    /// says.
    ///
    /// # Errors
    /// If it is damaged, or its start does not have the fields.
    pub fn decode(data: &[u8], revision: u64) -> Result<Self, RecordError> {
        let mut head = Head::default();
        let reader = std::io::BufReader::new(reader(data)?.take(MAX_HEAD));
        let read = (&mut head).deserialize(&mut serde_json::Deserializer::from_reader(reader));
        let (info, chart) = match (head.info, head.chart, read) {
            // What follows was not read, or is cut.
            (Some(info), Some(chart), _) => (info, chart),
            (_, _, Err(error)) => return Err(error.into()),
            (info, chart, Ok(())) => (info.unwrap_or_default(), chart.unwrap_or_default()),
        };
        let ChartMetadata {
            name,
            version,
            annotations,
        } = chart.metadata.unwrap_or_default();
        Ok(Self(Record {
            info: Info {
                status: info.status,
                description: info.description,
                first_deployed: info.first_deployed,
                last_deployed: info.last_deployed,
                ..Info::default()
            },
            chart: json!({ "metadata": { "name": name, "version": version, "annotations": annotations } }),
            revision,
            ..Record::default()
        }))
    }

    /// The status of the revision.
    pub const fn status(&self) -> Status {
        self.0.info.status
    }
}

/// The fields, as they are found.
#[derive(Default)]
struct Head {
    info: Option<InfoHead>,
    chart: Option<ChartHead>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InfoHead {
    status: Status,
    description: String,
    first_deployed: Option<String>,
    last_deployed: Option<String>,
}

#[derive(Default)]
struct ChartHead {
    metadata: Option<ChartMetadata>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChartMetadata {
    name: Option<String>,
    version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

impl<'de> DeserializeSeed<'de> for &mut Head {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Helm release")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            match &*key {
                "info" => self.info = Some(fields.next_value()?),
                "chart" => {
                    let is_last = self.info.is_some();
                    let chart = &mut self.chart;
                    fields.next_value_seed(ChartSeed { chart, is_last })?;
                }
                _ => _ = fields.next_value::<IgnoredAny>()?,
            }
            if self.info.is_some() && self.chart.is_some() {
                break;
            }
        }
        Ok(())
    }
}

/// A chart. If it is the last field, nothing behind its metadata is read.
struct ChartSeed<'c> {
    chart: &'c mut Option<ChartHead>,
    is_last: bool,
}

impl<'de> DeserializeSeed<'de> for ChartSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ChartSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chart")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if key == "metadata" {
                let metadata = fields.next_value()?;
                *self.chart = Some(ChartHead { metadata });
                if self.is_last {
                    break;
                }
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}
