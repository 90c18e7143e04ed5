//! Responses of Git servers, packs in them, and charts in these: nothing panics, and what is packed is the archive of a chart.

use helm_archive::{Limits as ArchiveLimits, check as check_archive};
use helm_index::Unmetered;
use helmops_git::{
    Limits, ObjectFormat, ObjectId, Objects, Pack,
    chart::{Assembly, ChartPath, Strategy, assemble, pack},
    wire::{Capabilities, ReferenceQuery, Version, advertisement, pack_body, references},
};

const LIMITS: Limits = Limits {
    pack: 1 << 20,
    objects: 1000,
    object: 64 << 10,
    decoded: 16 << 20,
    references: 100,
};
/// The first commit of the seeds.
const COMMIT: &str = "6072fd4b00b3395406520dd13101aae401ea211a";

/// The input is a response of any kind, and a pack whose hash is corrected.
pub fn check(input: &[u8]) {
    for query in [ReferenceQuery::Head, ReferenceQuery::Tags] {
        let _ = advertisement(input, &query, LIMITS, &mut Unmetered);
        let _ = references(input, &query, LIMITS, &mut Unmetered);
    }
    for version in [Version::Old, Version::Two] {
        let capabilities = Capabilities {
            version,
            has_filter: true,
            format: ObjectFormat::Sha1,
            names_format: true,
        };
        if let Ok(body) = pack_body(input, capabilities) {
            check_pack(Pack::read(body, ObjectFormat::Sha1, LIMITS, &mut Unmetered, || false).ok());
        }
    }
    let content = input.get(..input.len().saturating_sub(20)).unwrap_or_default();
    let sealed = [content, ObjectFormat::Sha1.digest(content).as_bytes()].concat();
    check_pack(Pack::read(&*sealed, ObjectFormat::Sha1, LIMITS, &mut Unmetered, || false).ok());
}

fn check_pack(read: Option<Pack>) {
    let (Some(read), Some(commit)) = (read, ObjectId::from_hex(COMMIT)) else {
        return;
    };
    let mut objects = Objects::default();
    objects.add(read.into());
    let Ok(root) = objects.root(commit) else { return };
    let path = ChartPath::parse("charts/web").expect("it is a path");
    if let Ok(Assembly::Complete(files)) = assemble(&mut objects, root, &path)
        && let Ok(packed) = pack(&mut objects, *files, Strategy::Revision, 1 << 20)
    {
        check_archive(&*packed.archive, ArchiveLimits::HELM).expect("it was packed");
    }
}
