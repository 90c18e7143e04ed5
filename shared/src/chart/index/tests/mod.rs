mod oddities;
mod properties;
mod refusals;
mod render;

use std::fmt::Write as _;
use std::io::{self, Read};

use super::*;

/// Gives out a text in pieces, and then perhaps an error.
struct Pieces<'t> {
    text: &'t [u8],
    size: usize,
    fault: Option<io::ErrorKind>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = self.size.min(out.len());
        let count = (&self.text[..self.text.len().min(size)]).read(out)?;
        self.text = &self.text[count..];
        match self.fault {
            Some(kind) if count == 0 => Err(kind.into()),
            _ => Ok(count),
        }
    }
}

/// An answer that can be compared.
type Answer = Result<Index, String>;

fn wanted(charts: &[&str]) -> ChartFilter {
    charts.iter().map(|chart| (*chart).to_owned()).collect()
}

fn web() -> ChartFilter {
    wanted(&["web"])
}

fn comparable(result: Result<Index, IndexError>) -> Answer {
    result.map_err(|error| error.to_string())
}

/// What the general reader says.
fn generally(text: &[u8], wanted: &ChartFilter) -> Answer {
    comparable(read(text, wanted, Layout::General))
}

/// What the quick reader says, unless it gives up.
fn quickly(text: impl Read, wanted: &ChartFilter) -> Option<Answer> {
    let mut source = Source::open(text, Layout::Any).unwrap();
    quick(&mut source, wanted, &mut Unmetered).ok().map(comparable)
}

/// What the index says of `web`, both readers and all chunks agreeing.
fn read_web(text: &str) -> Index {
    let general = generally(text.as_bytes(), &web());
    if let Some(quick) = quickly(text.as_bytes(), &web()) {
        assert_eq!(quick, general, "quick and general differ on\n{text}");
    }
    for size in [1, 2, 3, 7] {
        for layout in [Layout::Any, Layout::General] {
            let pieces = Pieces {
                text: text.as_bytes(),
                size,
                fault: None,
            };
            let answer = comparable(read(pieces, &web(), layout));
            assert_eq!(answer, general, "in pieces of {size} with {layout:?}\n{text}");
        }
    }
    general.unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// The versions of `web`.
fn versions(text: &str) -> Vec<String> {
    let index = read_web(text);
    let versions = index.versions("web").unwrap();
    versions.iter().map(|entry| entry.version.clone()).collect()
}

const HELM: &str = "\
apiVersion: v1
entries:
  alpine:
  - apiVersion: v2
    annotations:
      artifacthub.io/changes: |
        - Update
          version: 8.8.8

        - Fix: everything
      artifacthub.io/images: |2-
          - image: a
      \"on\": \"false\"
    appVersion: \"3.21\"
    created: \"2026-01-02T03:04:05.678Z\"
    dependencies:
    - alias: cache
      name: redis
      repository: https://charts.example.com/
      version: 9.9.9
    deprecated: true
    description: 'A chart with: a colon, and enough of a description that it is folded
      over - two: lines'
    digest: 51f889dca3437fb4e0a27816f6a473a9358828dbf6f85564b7991fa1458055c2
    home: https://example.com
    keywords: []
    kubeVersion: '>=1.21.0-0'
    maintainers:
    - email: a@example.com
      name: Ann Ä. – “quoted”
    name: alpine
    sources:
    - https://git.example.com/alpine
    type: application
    urls:
    - alpine-0.2.0.tgz
    - https://mirror.example.com/alpine-0.2.0.tgz
    version: 0.2.0
  - apiVersion: v1
    description: A text without quotes that is long enough for it to be folded by Helm
      over two lines
    name: alpine
    urls:
    - https://charts.example.com/alpine-0.1.0.tgz
    version: 0.1.0
  nginx: []
  web:
  - appVersion: null
    created: \"2026-02-03T04:05:06Z\"
    description: \"A \\\"quoted\\\" text that goes on until it
      \\ is folded \\u2013 twice\"
    name: web
    urls:
    - web-1.0.0.tgz
    version: 1.0.0
generated: \"2026-01-02T03:04:05.678Z\"
";

#[test]
fn keeps_what_is_wanted_of_helms_layout() {
    let alpine = IndexEntry {
        version: "0.2.0".into(),
        digest: "51f889dca3437fb4e0a27816f6a473a9358828dbf6f85564b7991fa1458055c2".into(),
        url: "alpine-0.2.0.tgz".into(),
        created: "2026-01-02T03:04:05.678Z".into(),
        deprecated: true,
    };
    let older = IndexEntry {
        version: "0.1.0".into(),
        url: "https://charts.example.com/alpine-0.1.0.tgz".into(),
        ..IndexEntry::default()
    };
    let wanted = wanted(&["alpine", "nginx", "redis"]);
    let index = quickly(HELM.as_bytes(), &wanted)
        .expect("it is Helm's layout")
        .unwrap();
    assert_eq!(index.versions("alpine").unwrap(), [alpine, older]);
    assert_eq!(index.versions("nginx").unwrap(), []);
    assert_eq!(
        index.versions("redis").unwrap_err().to_string(),
        "no chart name found: the index has no chart \"redis\""
    );
    assert!(index.versions("web").is_err(), "it was not wanted");
    assert_eq!(index.skipped, 0);
    assert_eq!(generally(HELM.as_bytes(), &wanted), Ok(index));
    assert_eq!(versions(HELM), ["1.0.0"]);
}

#[test]
fn tells_what_it_costs() {
    let wanted = wanted(&["alpine", "nginx", "web"]);
    let index = read(HELM.as_bytes(), &wanted, Layout::Any).unwrap();
    let texts: usize = index
        .charts
        .values()
        .flatten()
        .map(|entry| entry.version.len() + entry.digest.len() + entry.url.len() + entry.created.len())
        .sum();
    let least = texts + 3 * size_of::<IndexEntry>() + "alpinenginxweb".len();
    assert!(
        (least..2 * least).contains(&index.bytes()),
        "{} for {least}",
        index.bytes()
    );
    assert!(Index::default().bytes() < 100);
}

/// An index of Helm's layout with this many charts and 20 versions of each.
fn large(charts: usize) -> String {
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for chart in 0..charts {
        writeln!(text, "  chart-{chart}:").unwrap();
        for version in 0..20 {
            writeln!(
                text,
                "  - apiVersion: v2\n    created: \"2026-01-02T03:04:05Z\"\n    description: The chart of number {chart}\n    \
                 digest: {:064x}\n    name: chart-{chart}\n    urls:\n    - https://charts.example.com/chart-{chart}-1.{version}.0.tgz\n    \
                 version: 1.{version}.0",
                chart * 100 + version
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn a_layout_that_turns_odd_early_is_started_over() {
    let text = large(20) + "  web: [{name: web, version: 1.0.0}]\n";
    assert!(text.len() < 256 * 1024 && quickly(text.as_bytes(), &web()).is_none());
    assert_eq!(versions(&text), ["1.0.0"]);
}

#[test]
fn a_layout_that_turns_odd_late_is_told() {
    let text = large(100) + "  web: [{name: web, version: 1.0.0}]\n";
    assert!(text.len() > 256 * 1024 + 64 * 1024);
    let error = read(text.as_bytes(), &web(), Layout::Any).unwrap_err();
    assert!(matches!(error, IndexError::OddLayout), "{error}");
    let index = read(text.as_bytes(), &web(), Layout::General).unwrap();
    assert_eq!(index.versions("web").unwrap()[0].version, "1.0.0");
}

#[test]
fn chunks_may_end_anywhere() {
    let text = large(30);
    let wanted = wanted(&["chart-0", "chart-7", "chart-29"]);
    let expected = quickly(text.as_bytes(), &wanted).expect("it is Helm's layout");
    assert_eq!(generally(text.as_bytes(), &wanted), expected);
    for size in [1, 63, 1024, 4096, 64 * 1024 - 1, 64 * 1024 + 1] {
        let pieces = || Pieces {
            text: text.as_bytes(),
            size,
            fault: None,
        };
        assert_eq!(quickly(pieces(), &wanted).as_ref(), Some(&expected), "{size}");
        assert_eq!(
            comparable(read(pieces(), &wanted, Layout::General)),
            expected,
            "{size}"
        );
    }
}

#[test]
fn a_fault_of_the_input_comes_through() {
    let json = r#"{"entries":{"web":[{"name":"web","version":"1.0.0","#;
    for text in [
        "",
        HELM,
        &HELM[..HELM.len() / 2],
        json,
        "entries: {web: [",
        "a: \"b",
        "a: |\n  b",
    ] {
        for layout in [Layout::Any, Layout::General] {
            for size in [1, 1000] {
                let pieces = Pieces {
                    text: text.as_bytes(),
                    size,
                    fault: Some(io::ErrorKind::ConnectionReset),
                };
                match read(pieces, &web(), layout) {
                    Err(IndexError::Input(error)) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
                    other => panic!("{other:?} for {text:?} with {layout:?}"),
                }
            }
        }
    }
}

#[test]
fn an_interruption_is_no_fault() {
    struct Interrupted<'t>(&'t [u8], bool);
    impl Read for Interrupted<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.0.read(&mut out[..1])
        }
    }
    for layout in [Layout::Any, Layout::General] {
        let index = read(Interrupted(HELM.as_bytes(), false), &web(), layout).unwrap();
        assert_eq!(index.charts["web"].len(), 1);
    }
}
