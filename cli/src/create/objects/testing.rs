//! What tests of conversions need.

use serde_json::{Value, json};

use super::{Conversion, Input, Objects, Settings};
use crate::create::{
    batch::Batch,
    note::{Gap, Loss, Note},
};

/// As with `-n fleet-default`.
pub fn settings() -> Settings {
    Settings {
        namespace: Some("fleet-default".to_owned()),
        ..Settings::default()
    }
}

/// Files with their names.
pub fn input(conversion: &'static Conversion, files: &[(&str, &str)], is_folder: bool) -> Input {
    let mut input = Input::new(conversion, is_folder);
    for (name, text) in files {
        input.add(name, (*text).to_owned()).unwrap();
    }
    input
}

/// What `create` makes of the input, as far as it needs no cluster.
pub fn settled(input: Input, settings: Settings, accepted: &[Loss]) -> Batch {
    let mut batch = Objects::of(input, settings).unwrap().batch(None).unwrap();
    for draft in &mut batch.drafts {
        draft.helmop.metadata.namespace = Some("fleet-default".to_owned());
    }
    batch.settle(accepted);
    batch
}

/// Checks that a part of an object is a patch of a whole one named `web` in its folder. Beside an object of another name it is a patch only if
/// it always is.
pub fn check_patch(conversion: &'static Conversion, whole: &str, part: &str, is_always_patch: bool) {
    let beside = |first: &str| {
        let files = [("a.yaml", first), ("b.yaml", part)];
        let batch = settled(input(conversion, &files, true), settings(), &[]);
        (batch.drafts.len(), batch.left_out.patches, batch.refused.len())
    };
    assert_eq!(beside(whole), (1, 1, 0), "{part}");
    let alone = if is_always_patch { (1, 1, 0) } else { (1, 0, 1) };
    let other = whole.replace("name: web", "name: api");
    assert_eq!(beside(&other), alone, "{part}");
}

/// Why objects are refused.
pub fn refusals(batch: &Batch) -> Vec<(Gap, String)> {
    let notes = batch.refused.iter().flatten();
    notes.map(|note| (note.gap, note.to_string())).collect()
}

/// The only HelmOp of a file, with all losses accepted, and its notes.
pub fn only(conversion: &'static Conversion, text: &str) -> (Value, Vec<Note>) {
    let accepted = <Loss as clap::ValueEnum>::value_variants();
    let batch = settled(
        input(conversion, &[("a.yaml", text)], false),
        settings(),
        accepted,
    );
    let [draft] = &batch.drafts[..] else {
        panic!("{:?}\n{text}", refusals(&batch))
    };
    (json!(draft.helmop), draft.notes.clone())
}

/// Checks a row of a table: what a HelmOp has at a path, and which fields have a note. A refusal that can be accepted is `FIELD!`.
pub fn check(conversion: &'static Conversion, text: &str, expected: &[(&str, Value)], noted: &[&str]) {
    let (helmop, written) = only(conversion, text);
    for (pointer, expected) in expected {
        let found = helmop.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(found, *expected, "{pointer}\n{text}\n{helmop:#}");
    }
    let mut found: Vec<_> = written
        .iter()
        .map(|note| match note.gap {
            Gap::Field(_) => format!("{}!", note.path),
            _ => note.path.clone(),
        })
        .collect();
    found.sort();
    found.dedup();
    assert_eq!(found, noted, "{text}\n{written:#?}");
}

/// Checks the notes about nulls: the position, and the path in the values of the HelmOp.
pub fn check_nulls(conversion: &'static Conversion, files: &[(&str, &str)], expected: &[&str]) {
    let mut batch = settled(input(conversion, files, true), settings(), &[]);
    let [draft] = &mut batch.drafts[..] else {
        panic!("{:?}", refusals(&batch))
    };
    draft.notes.clear();
    draft.note_nulls();
    let of = |note: &Note| {
        let position = note.position.as_ref().map(ToString::to_string);
        format!("{} {}", position.unwrap_or_default(), note.path)
    };
    let found: Vec<_> = draft.notes.iter().map(of).collect();
    assert_eq!(found, expected, "{files:?}");
}

/// Checks that a file is refused because of a gap, with a text.
pub fn check_refusal(conversion: &'static Conversion, text: &str, gap: Gap, part: &str) {
    let accepted = <Loss as clap::ValueEnum>::value_variants();
    let batch = settled(
        input(conversion, &[("a.yaml", text)], false),
        settings(),
        accepted,
    );
    let found = refusals(&batch);
    assert!(
        matches!(&found[..], [(found, text)] if *found == gap && text.contains(part)),
        "{part}\n{text}\n{found:#?}"
    );
}
