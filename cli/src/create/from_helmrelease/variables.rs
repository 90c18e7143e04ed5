//! Variables that Flux replaces before it reads an object: `${NAME}`, in a Kustomization with `postBuild`. Nothing replaces them here.

use std::collections::BTreeSet;

use go_formats::yaml::place::{Content, Place};

use crate::create::{
    note::{Gap, Note},
    objects::documents::Document,
};

/// Where texts are as free as the values of a chart.
const FREE: [&str; 5] = [
    "spec.values",
    "spec.postRenderers",
    "data",
    "stringData",
    "metadata.annotations",
];
/// Where the version of a chart is, which a flag can name.
const VERSIONS: [&str; 4] = [
    "spec.chart.spec.version",
    "spec.version",
    "spec.ref.tag",
    "spec.ref.semver",
];
/// The label that Flux sets on what it applies, and that `flux build` prints.
const APPLIED: &str = "/metadata/labels/kustomize.toolkit.fluxcd.io~1name";
/// The label or annotation of an object in which Flux replaces nothing.
const DISABLED: [&str; 2] = [
    "/metadata/labels/kustomize.toolkit.fluxcd.io~1substitute",
    "/metadata/annotations/kustomize.toolkit.fluxcd.io~1substitute",
];

/// Notes about the first use of each variable in the objects of a HelmRelease.
pub fn notes(documents: &[&Document]) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut known = BTreeSet::new();
    for document in documents.iter().filter(|document| is_replaced(document)) {
        for found in variables(document) {
            let gap = gap(&found.path);
            if known.insert((found.text.clone(), gap)) {
                notes.push(found.note(document, gap));
            }
        }
    }
    notes
}

/// Whether Flux may still replace variables in the object. In what a cluster has, or `flux build` prints, it has done so.
fn is_replaced(document: &Document) -> bool {
    let has = |pointer: &str| document.object.pointer(pointer).is_some();
    !has("/metadata/uid")
        && !has(APPLIED)
        && !DISABLED
            .iter()
            .any(|pointer| document.text(pointer) == "disabled")
}

/// What is missing if a variable is not replaced there.
fn gap(path: &str) -> Gap {
    let is_free = |free: &&str| {
        path.strip_prefix(*free)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    if FREE.iter().any(is_free) {
        Gap::None
    } else if VERSIONS.contains(&path) {
        Gap::Version
    } else {
        Gap::Variable
    }
}

/// The use of a variable.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    /// As in `${NAME}`, without what follows the name; with two `$` if it is escaped.
    text: String,
    path: String,
    at: usize,
}

impl Use {
    fn note(&self, document: &Document, gap: Gap) -> Note {
        const BUILD: &str = "convert what flux build kustomization prints";
        let is_free = gap == Gap::None;
        let name = &self.text;
        let text = match (is_free, name.strip_prefix("$$")) {
            (true, Some(rest)) => format!(
                "$${rest} becomes ${rest} where Flux replaces variables (postBuild of its Kustomization), and stays as it is here: {BUILD}"
            ),
            (true, None) => {
                format!(
                    "{name} is replaced by Flux (postBuild of its Kustomization), and stays as it is here: {BUILD}"
                )
            }
            (false, _) => format!(
                "{name} is a variable that Flux replaces (postBuild of its Kustomization), and nothing does so here: {BUILD}"
            ),
        };
        Note {
            object: document.title(),
            path: if is_free { String::new() } else { self.path.clone() },
            position: Some(document.position_at(self.at)),
            text,
            gap,
        }
    }
}

/// All uses in the scalars of an object, in their order.
fn variables(document: &Document) -> Vec<Use> {
    let mut found = Vec::new();
    // Most objects have none.
    if document.source.slice(document.place.span).contains("${") {
        collect(document, &document.place, "", &mut found);
    }
    found.sort_by_key(|found| found.at);
    found
}

fn collect(document: &Document, place: &Place, path: &str, found: &mut Vec<Use>) {
    let mut scan = |span| {
        let text = document.source.slice(span);
        found.extend(uses(text).map(|(at, text)| Use {
            text,
            path: path.to_owned(),
            at: span.start + at,
        }));
    };
    match &place.content {
        Content::Scalar => scan(place.span),
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(document, item, &format!("{path}[{index}]"), found);
            }
        }
        Content::Mapping(entries) => {
            for entry in entries.values() {
                scan(entry.key);
            }
            for (name, entry) in entries {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                collect(document, &entry.value, &path, found);
            }
        }
    }
}

/// The variables of a text, with their offsets. A shell's `$NAME` and `$(NAME)` are none.
fn uses(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.match_indices("${").filter_map(|(at, _)| {
        let rest = text.get(at + 2..)?;
        let rest = rest.strip_prefix('#').unwrap_or(rest);
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = rest.split(|c| !is_of_name(c)).next()?;
        let ends = |c: char| "}:-=^,#%/".contains(c);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_variable = is_name && rest.get(name.len()..)?.starts_with(ends);
        let is_escaped = text.get(..at)?.ends_with('$');
        let start = if is_escaped { "$" } else { "" };
        is_variable.then(|| (at - start.len(), format!("{start}${{{name}}}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::objects::documents::documents;

    fn found(text: &str) -> Vec<Note> {
        let (documents, _) = documents("a.yaml", text.to_owned(), &["HelmRelease"]);
        notes(&documents.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_syntax_of_flux_is_found() {
        let of = |text| uses(text).map(|(_, text)| text).collect::<Vec<_>>().join(" ");
        for (text, expected) in [
            ("${A}", "${A}"),
            ("x ${A_1:=2} ${B:-x}y${C-}", "${A_1} ${B} ${C}"),
            ("${#A} ${B^^} ${C//a/b} ${D:2:3}", "${A} ${B} ${C} ${D}"),
            ("$${HOME} $$${A}", "$${HOME} $${A}"),
            ("$A $(A) ${ .A } ${{A}} ${1} ${a.b} {A} $ {A} ${}", ""),
            ("${A", ""),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn the_first_use_of_each_variable_is_noted() {
        let text = "apiVersion: v1\nkind: HelmRelease # ${COMMENT}\nmetadata: {name: web, annotations: {a: '${A}'}}\nspec:\n  values:\n    \
                    host: web.${A}\n    key-${B}: |\n      echo $${HOME}\n      ${A} ${C:=1}\n  targetNamespace: ${NS}\n  other: ${A}\n";
        let notes = found(text);
        let short: Vec<_> = notes
            .iter()
            .map(|note| {
                let position = note.position.as_ref().unwrap();
                let name = note.text.split(' ').next().unwrap();
                (name, position.line, position.column, &*note.path, note.gap)
            })
            .collect();
        assert_eq!(
            short,
            [
                ("${A}", 3, 41, "", Gap::None),
                ("${B}", 7, 9, "", Gap::None),
                ("$${HOME}", 8, 12, "", Gap::None),
                ("${C}", 9, 12, "", Gap::None),
                ("${NS}", 10, 20, "spec.targetNamespace", Gap::Variable),
                ("${A}", 11, 10, "spec.other", Gap::Variable),
            ]
        );
    }

    #[test]
    fn what_flux_has_applied_has_no_variables() {
        let of = |metadata: &str| {
            found(&format!(
                "kind: A\nmetadata: {{{metadata}}}\ndata: {{a: '${{A}}'}}\n"
            ))
            .len()
        };
        assert_eq!(of("name: a"), 1);
        assert_eq!(of("name: a, uid: 1-2"), 0);
        assert_eq!(of("labels: {kustomize.toolkit.fluxcd.io/name: apps}"), 0);
        assert_eq!(
            of("annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}"),
            0
        );
        assert_eq!(
            of("annotations: {kustomize.toolkit.fluxcd.io/substitute: enabled}"),
            1
        );
    }
}
