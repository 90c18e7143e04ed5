//! Decoding of JSON with a memory limit.
//!
//! A list element of three bytes (`{},`) can take a kilobyte once it is decoded. So the size of a body does not limit the
//! memory for what it decodes to, but the number of objects, list elements and map entries does. They are counted in the text,
//! before it is decoded.

use helmops_api::json::{ELEMENT, structure};
use serde::{Deserialize, de};
use serde_json::Error;

/// Memory limit of one decoded object, in bytes. The maximum number of targets of a HelmOp (2,000) fits, with more labels than
/// its spec can have (1 MiB). Besides the new object, the stored one is in memory, and a copy with the defaults of Policies.
pub const MAX_DECODED: usize = 24 << 20;

/// Size that is counted for an object of the API, such as a target or a selector: more than that of the largest one, a target with
/// options and an unknown field.
const OBJECT: usize = 1_280;

/// JSON up to this length is not counted: 16 KiB decode to at most 7 MiB.
const UNCOUNTED: usize = 16 << 10;

/// What is skipped or kept as text, and takes no more memory than the body: the name of a field, and the start of its value. In no
/// type that is decoded here does such a value of such a field become anything else.
const NOT_DECODED: [(&[u8], u8); 4] = [
    (b"managedFields", b'['),
    (b"oldObject", b'{'),
    (b"status", b'{'),
    (b"values", b'{'),
];

/// Decodes JSON that takes at most [`MAX_DECODED`] in memory.
///
/// # Errors
/// If it is not a `T`, or takes more.
pub fn from_slice<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, Error> {
    if text.len() > UNCOUNTED
        && let Some(within) = within_limit(text)
    {
        return Err(too_many::<T>(within));
    }
    serde_json::from_slice(text)
}

/// The text up to where it exceeds the limit; `None` if it does not.
fn within_limit(text: &[u8]) -> Option<&[u8]> {
    // The last two quotes, and the name of the field whose value is next.
    let (mut quotes, mut field) = ((0, 0), None);
    let (mut bytes, mut skipped) = (0, 0_usize);
    for (at, byte) in structure(text) {
        let name = field.take();
        match byte {
            b'"' => quotes = (quotes.1, at),
            b':' => field = text.get(quotes.0 + 1..quotes.1),
            b'{' | b'[' if skipped > 0 || is_not_decoded(name, byte) => skipped += 1,
            b'}' | b']' => skipped = skipped.saturating_sub(1),
            _ if skipped > 0 => {}
            b'{' => bytes += OBJECT,
            _ => bytes += ELEMENT,
        }
        if bytes > MAX_DECODED {
            return text.get(..at);
        }
    }
    None
}

fn is_not_decoded(name: Option<&[u8]>, start: u8) -> bool {
    name.is_some_and(|name| NOT_DECODED.contains(&(name, start)))
}

/// The error for a text that was within the limit up to here: an earlier one in it, or the field and the place where it ends.
fn too_many<'de, T: Deserialize<'de>>(within: &'de [u8]) -> Error {
    const END: &str = "EOF while parsing";
    let decoded = serde_json::from_slice::<T>(within);
    let error = decoded.err().unwrap_or_else(|| de::Error::custom(END));
    let text = error.to_string();
    let Some((fields, _)) = text.split_once(END) else {
        return error;
    };
    let (line, column) = (error.line(), error.column());
    de::Error::custom(format_args!(
        "{fields}too many objects, list elements and map entries: more than {MAX_DECODED} bytes once decoded; split the HelmOp \
         into several at line {line} column {column}"
    ))
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process::Command};

    use helmops_api::{Alert, HelmOp, Receiver, WithoutStatus, crds, limits, wire::FieldSet};
    use serde_json::{Map, Value, json};

    use super::*;

    fn helmop(spec: &Value) -> String {
        json!({ "metadata": { "name": "web", "managedFields": [{ "fieldsV1": vec![0; 50_000] }] }, "spec": spec })
            .to_string()
    }

    fn read(text: &str) -> Result<HelmOp, Error> {
        from_slice(text.as_bytes())
    }

    #[test]
    fn an_object_decodes_as_with_serde_json() {
        let spec = json!({
            "helm": { "repo": "https://charts.example.com", "values": { "list": vec![json!({"a": 1.50}); 50_000] } },
            "targets": vec![json!({ "clusterSelector": { "matchLabels": { "a": "b" } }, "helm": { "values": [1] } }); 3000],
        });
        let text = helmop(&spec);
        let plain: HelmOp = serde_json::from_str(&text).unwrap();
        let counted = read(&text).unwrap();
        assert_eq!(
            serde_json::to_string(&counted.spec).unwrap(),
            serde_json::to_string(&plain.spec).unwrap()
        );
    }

    #[test]
    fn an_object_above_the_memory_limit_is_an_error_with_the_limit_and_the_fix() {
        let labels: Map<_, _> = (0..=MAX_DECODED / ELEMENT)
            .map(|label| (format!("{label:x}"), json!("")))
            .collect();
        for spec in [
            json!({ "targets": vec![json!({}); MAX_DECODED / OBJECT] }),
            json!({ "targets": vec![json!({ "keepResources": true }); MAX_DECODED / OBJECT] }),
            json!({ "helm": { "valuesFiles": vec![""; MAX_DECODED / ELEMENT + 1] } }),
            json!({ "labels": labels }),
            json!({ "helm": { "valuesFrom": vec![json!({ "newer": 1 }); MAX_DECODED / OBJECT] } }),
        ] {
            let error = read(&helmop(&spec)).unwrap_err().to_string();
            assert!(
                error.contains("25165824 bytes") && error.contains("split"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_maximum_number_of_targets_decodes_with_the_largest_spec() {
        let labels: Map<_, _> = (0..35).map(|label| (format!("k{label}"), json!("v"))).collect();
        let target = json!({
            "name": "", "clusterName": "", "clusterGroup": "", "clusterSelector": { "matchLabels": labels },
            "helm": { "releaseName": "", "takeOwnership": true }, "keepResources": true,
        });
        let spec = json!({ "targets": vec![target; limits::TARGETS] });
        let length = spec.to_string().len();
        assert!(
            length <= limits::SPEC && length > limits::SPEC * 9 / 10,
            "{length}"
        );
        assert_eq!(
            read(&helmop(&spec)).unwrap().spec.bundle.targets.len(),
            limits::TARGETS
        );
    }

    #[test]
    fn a_status_of_any_size_is_skipped() {
        let resource = json!({ "kind": "ConfigMap", "perClusterState": { "ready": vec!["c"; 10] } });
        let object = json!({ "spec": { "paused": true }, "status": { "resources": vec![resource; 30_000] } });
        let read: WithoutStatus = from_slice(object.to_string().as_bytes()).unwrap();
        assert!(read.spec.bundle.paused && read.status.is_none());
    }

    #[test]
    fn what_is_not_counted_is_nowhere_decoded() {
        let mut crds = crds::all().unwrap();
        crds.extend(crds::of_notifications().unwrap());
        let mut found = 0;
        for (_, crd) in crds {
            if ["HelmOp", "Alert", "AlertProvider", "Receiver"].contains(&&*crd.spec.names.kind) {
                let crd = serde_json::to_value(crd).unwrap();
                let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
                found += not_decoded(&schema["spec"]);
            }
        }
        assert!(found > 0, "the values of a HelmOp");
    }

    /// The number of fields in a schema that are not counted, none of which has a structure.
    fn not_decoded(schema: &Value) -> usize {
        let mut found = 0;
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let start = if field["type"] == "array" { b'[' } else { b'{' };
            let is_text =
                ["string", "boolean", "integer"].contains(&field["type"].as_str().unwrap_or_default());
            if !is_text && is_not_decoded(Some(name.as_bytes()), start) {
                assert_eq!(
                    field["x-kubernetes-preserve-unknown-fields"], true,
                    "{name}: {field}"
                );
                assert_eq!(field["properties"], Value::Null, "{name}: {field}");
                found += 1;
            }
            found += not_decoded(field);
        }
        if schema["items"].is_object() {
            found += not_decoded(&schema["items"]);
        }
        let of_map = &schema["additionalProperties"];
        assert!(
            of_map.is_null() || of_map["type"] == "string",
            "a map may have any keys: {schema}"
        );
        found
    }

    /// The environment variable with the number of the measurement, for the process that runs it.
    const MEASURED: &str = "HELMOPS_TEST_MEASURED";

    /// Decodes the largest text, and returns the memory that it took in bytes.
    type Measurement = fn(&[String; 2]) -> usize;

    /// The start of an object, an element, the end of the object, and its kind.
    const LARGEST: [(&str, &str, &str, Measurement); 10] = [
        (r#"{"spec":{"targets":["#, "{}", "]}}", measure::<HelmOp>),
        (
            r#"{"spec":{"targets":["#,
            r#"{"namespace":""}"#,
            "]}}",
            measure::<HelmOp>,
        ),
        (
            r#"{"spec":{"targets":["#,
            r#"{"newer":1,"namespace":""}"#,
            "]}}",
            measure::<HelmOp>,
        ),
        (
            r#"{"spec":{"targets":["#,
            r#"{"helm":{"newer":1},"diff":{"newer":1}}"#,
            "]}}",
            measure::<HelmOp>,
        ),
        (
            r#"{"spec":{"helm":{"valuesFrom":["#,
            r#"{"newer":1}"#,
            "]}}}",
            measure::<HelmOp>,
        ),
        (
            r#"{"spec":{"helm":{"valuesFiles":["#,
            r#""""#,
            "]}}}",
            measure::<HelmOp>,
        ),
        (
            r#"{"spec":{"ignore":{"conditions":["#,
            r#"{"a":""}"#,
            "]}}}",
            measure::<HelmOp>,
        ),
        (
            r#"{"spec":{"eventSources":["#,
            r#"{"matchLabels":{"a":""}}"#,
            "]}}",
            measure::<Alert>,
        ),
        (
            r#"{"spec":{"eventSources":["#,
            r#"{"newer":1}"#,
            "]}}",
            measure::<Alert>,
        ),
        (
            r#"{"spec":{"resources":["#,
            r#"{"matchLabels":{"a":""}}"#,
            "]}}",
            measure::<Receiver>,
        ),
    ];

    fn measure<K: FieldSet>([within, above]: &[String; 2]) -> usize {
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = peak();
        from_slice::<WithoutStatus<K>>(within.as_bytes()).unwrap();
        assert!(from_slice::<WithoutStatus<K>>(above.as_bytes()).is_err());
        peak() - before
    }

    /// The peak memory of this process, in bytes.
    fn peak() -> usize {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    /// As many elements as the limit allows, and one more.
    fn largest(before: &str, element: &str, after: &str) -> [String; 2] {
        let text = |number: usize| format!("{before}{}{after}", vec![element; number].join(","));
        let (mut within, mut above) = (1, MAX_DECODED);
        while above - within > 1 {
            let number = within.midpoint(above).min(2 * within);
            match within_limit(text(number).as_bytes()) {
                None => within = number,
                Some(_) => above = number,
            }
        }
        [within, above].map(text)
    }

    /// Each is measured in a process of its own, where nothing else runs.
    #[test]
    fn no_object_takes_more_memory_than_the_limit_and_its_text() {
        if let Ok(number) = env::var(MEASURED) {
            let (before, element, after, measure) = LARGEST[number.parse::<usize>().unwrap()];
            let texts = largest(before, element, after);
            let used = measure(&texts);
            println!("{used} bytes for {} of {before}{element}", texts[0].len());
            assert!(used > 1 << 20 && used <= MAX_DECODED + texts[0].len(), "{used}");
            return;
        }
        let name = "bounded_json::tests::no_object_takes_more_memory_than_the_limit_and_its_text";
        for number in 0..LARGEST.len() {
            let mut again = Command::new(env::current_exe().unwrap());
            again.args(["--exact", name, "--nocapture"]);
            let output = again.env(MEASURED, number.to_string()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
            println!("{text}");
        }
    }

    #[test]
    fn an_error_is_the_same_as_with_serde_json() {
        let text = helmop(&json!({ "targets": vec![json!({}); 10_000], "paused": "maybe" }));
        let plain = serde_json::from_str::<HelmOp>(&text).unwrap_err();
        assert_eq!(read(&text).unwrap_err().to_string(), plain.to_string());
        let too_many = json!({ "targets": vec![json!({}); MAX_DECODED / OBJECT], "paused": "maybe" });
        let error = read(&helmop(&too_many)).unwrap_err();
        let (first, at) = (error.to_string(), (error.line(), error.column()));
        // Keys are sorted, so the other error comes first.
        assert!(first.starts_with("spec: paused: invalid type"), "{first}");
        let text = helmop(&json!({ "targets": vec![json!({}); MAX_DECODED / OBJECT] }));
        let error = read(&text).unwrap_err();
        assert!(
            error.to_string().starts_with("spec: targets: too many"),
            "{error}"
        );
        assert!(at.0 == 1 && error.line() == 1 && error.column() > at.1, "{error}");
        let truncated = text.get(..text.len() - 1).unwrap();
        assert!(read(truncated).is_err());
        assert!(read(&format!("{text} x")).is_err());
    }
}
