//! A line of a log: what docs/logging.md describes, or any other text.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::terminal::style::{Style, Styles};

/// Fields of a line that have a place of their own.
const PLACED: [&str; 6] = ["timestamp", "level", "message", "target", "span", "threadId"];
/// Fields of a span that name objects.
const OBJECTS: [&str; 4] = ["helmop", "bundle", "cluster", "bundledeployment"];

/// A line of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The pod that has written it.
    pub pod: String,
    /// As it was written.
    pub text: String,
    /// Its fields, if it is JSON.
    fields: Option<Map<String, Value>>,
}

impl Line {
    pub fn new(pod: &str, text: &str) -> Self {
        let fields = match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => Some(fields),
            _ => None,
        };
        Self {
            pod: pod.to_owned(),
            text: text.to_owned(),
            fields,
        }
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.fields.as_ref()?.get(name)
    }

    fn text_of(&self, name: &str) -> &str {
        self.field(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// When it was written; `None` if it does not say so.
    pub fn time(&self) -> Option<Timestamp> {
        let text = match &self.fields {
            Some(_) => self.text_of("timestamp"),
            // The format `text` begins with the time.
            None => self.text.split_whitespace().next().unwrap_or_default(),
        };
        text.parse().ok()
    }

    /// The object that its span names, with the kind.
    fn object(&self) -> Option<(&str, &str)> {
        let span = self.field("span")?;
        OBJECTS
            .into_iter()
            .find_map(|kind| Some((kind, span.get(kind)?.as_str()?)))
    }

    /// Whether it is about a HelmOp (`namespace/name`): about itself, its Bundle, which has the same name, or what the agent does for
    /// it, in a namespace of a cluster.
    pub fn is_about(&self, helmop: &str) -> bool {
        let name = helmop.rsplit('/').next().unwrap_or(helmop);
        match self.object() {
            Some(("helmop" | "bundle", object)) => object == helmop,
            Some(("bundledeployment", object)) => object.rsplit('/').next() == Some(name),
            Some(_) => false,
            None => self.fields.is_none() && is_named(&self.text, helmop, name),
        }
    }

    /// For a person: time, level, pod, object, message, and the other fields.
    pub fn rendered(&self, has_pod: bool, styles: Styles) -> String {
        let Some(fields) = &self.fields else {
            let pod = if has_pod {
                format!("{} ", self.pod)
            } else {
                String::new()
            };
            return format!("{pod}{}", self.text);
        };
        let level = self.text_of("level");
        let mut parts = vec![
            styles.paint(
                Style::Faint,
                self.text_of("timestamp").split('.').next().unwrap_or_default(),
            ),
            paint_level(level, styles),
        ];
        if has_pod {
            parts.push(styles.paint(Style::Faint, &self.pod));
        }
        if let Some((_, object)) = self.object() {
            parts.push(styles.paint(Style::Strong, object));
        }
        parts.push(self.text_of("message").to_owned());
        let others = fields.iter().filter(|(name, _)| !PLACED.contains(&name.as_str()));
        for (name, value) in others {
            let value = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            parts.push(format!("{}={value}", styles.paint(Style::Faint, name)));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" ")
    }
}

/// Whether a line of text has the span of a HelmOp, its Bundle, or its BundleDeployment.
fn is_named(text: &str, helmop: &str, name: &str) -> bool {
    let spans = [
        format!("helmop=\"{helmop}\""),
        format!("bundle=\"{helmop}\""),
        format!("bundledeployment=\"{name}\""),
    ];
    spans.iter().any(|span| text.contains(span))
}

fn paint_level(level: &str, styles: Styles) -> String {
    let padded = format!("{level:<5}");
    match level {
        "ERROR" => styles.paint(Style::Bad, &padded),
        "WARN" => styles.paint(Style::Pending, &padded),
        "DEBUG" | "TRACE" => styles.paint(Style::Faint, &padded),
        _ => padded,
    }
}

/// The lines of several pods in the order of their times. Those of one pod keep their order; one without a time follows the line
/// before it.
pub fn merged(logs: Vec<Vec<Line>>) -> Vec<Line> {
    let mut timed: Vec<(Timestamp, Line)> = Vec::new();
    for lines in logs {
        let mut last = Timestamp::MIN;
        for line in lines {
            last = line.time().unwrap_or(last).max(last);
            timed.push((last, line));
        }
    }
    timed.sort_by_key(|(time, _)| *time);
    timed.into_iter().map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(pod: &str, second: u32, message: &str, span: &Value) -> Line {
        let fields = json!({
            "timestamp": format!("2026-01-01T12:00:{second:02}.123456Z"), "level": "WARN", "message": message,
            "target": "helmops_controller", "span": span, "reason": "VersionNotFound", "retry_after": 5,
        });
        Line::new(pod, &fields.to_string())
    }

    #[test]
    fn a_line_is_rendered_for_a_person() {
        let found = line(
            "pod-1",
            5,
            "no version",
            &json!({ "helmop": "team/web", "name": "reconcile" }),
        );
        assert_eq!(
            found.rendered(true, Styles::new(false)),
            "2026-01-01T12:00:05 WARN  pod-1 team/web no version reason=VersionNotFound retry_after=5"
        );
        assert!(!found.rendered(false, Styles::new(false)).contains("pod-1"));
    }

    #[test]
    fn lines_of_several_pods_are_merged_by_time() {
        let none = json!({});
        let one = vec![
            line("a", 1, "1", &none),
            Line::new("a", "a backtrace"),
            line("a", 4, "4", &none),
        ];
        let other = vec![line("b", 2, "2", &none), line("b", 3, "3", &none)];
        let texts: Vec<_> = merged(vec![one, other])
            .iter()
            .map(|line| {
                if line.fields.is_some() {
                    line.text_of("message").to_owned()
                } else {
                    line.text.clone()
                }
            })
            .collect();
        assert_eq!(texts, ["1", "a backtrace", "2", "3", "4"]);
    }

    #[test]
    fn lines_about_a_helmop_are_those_of_its_bundle_and_its_deployments_too() {
        for (span, expected) in [
            (json!({ "helmop": "team/web" }), true),
            (json!({ "bundle": "team/web" }), true),
            (json!({ "bundledeployment": "web" }), true),
            (json!({ "helmop": "other/web" }), false),
            (json!({ "helmop": "team/web-2" }), false),
            (json!({ "cluster": "team/web" }), false),
            (json!({}), false),
        ] {
            assert_eq!(
                line("a", 1, "team/web", &span).is_about("team/web"),
                expected,
                "{span}"
            );
        }
        let text = |span: &str| {
            Line::new(
                "a",
                &format!("2026-01-01T12:00:00.1Z  WARN reconcile{{{span}}}: failed"),
            )
        };
        assert!(text("helmop=\"team/web\"").is_about("team/web"));
        assert!(!text("helmop=\"team/web-2\"").is_about("team/web"));
        assert!(text("helmop=\"team/web\"").time().is_some());
    }
}
