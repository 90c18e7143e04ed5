mod invalid;
mod layouts;
mod properties;
mod render;

use std::fmt::Write as _;
use std::io::{self, Read};

use super::*;

/// Returns a text in pieces, then an error if `error` is set.
struct Pieces<'t> {
    text: &'t [u8],
    size: usize,
    error: Option<io::ErrorKind>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = self.size.min(out.len());
        let count = (&self.text[..self.text.len().min(size)]).read(out)?;
        self.text = &self.text[count..];
        match self.error {
            Some(kind) if count == 0 => Err(kind.into()),
            _ => Ok(count),
        }
    }
}

/// A result that can be compared.
type Comparable = Result<Index, String>;

fn filter(charts: &[&str]) -> ChartFilter {
    charts.iter().map(|chart| (*chart).to_owned()).collect()
}

fn web() -> ChartFilter {
    filter(&["web"])
}

fn comparable(result: Result<Index, IndexError>) -> Comparable {
    result.map_err(|error| error.to_string())
}

/// The result of the general reader.
fn read_generally(text: &[u8], filter: &ChartFilter) -> Comparable {
    comparable(read(text, filter, Layout::General))
}

/// The result of the fast reader; `None` if it stops.
fn read_fast_only(text: impl Read, filter: &ChartFilter) -> Option<Comparable> {
    let mut source = Source::open(text, Layout::Any).unwrap();
    read_fast(&mut source, filter, Detail::Selection, &mut Unmetered)
        .ok()
        .map(comparable)
}

/// The charts of the filter `web`. Asserts that both readers agree, for all sizes of chunks.
fn read_web(text: &str) -> Index {
    let general = read_generally(text.as_bytes(), &web());
    if let Some(fast) = read_fast_only(text.as_bytes(), &web()) {
        assert_eq!(fast, general, "fast and general differ on\n{text}");
    }
    for size in [1, 2, 3, 7] {
        for layout in [Layout::Any, Layout::General] {
            let pieces = Pieces {
                text: text.as_bytes(),
                size,
                error: None,
            };
            let result = comparable(read(pieces, &web(), layout));
            assert_eq!(result, general, "in pieces of {size} with {layout:?}\n{text}");
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
fn requested_charts_are_read_from_helms_layout() {
    let alpine = IndexEntry {
        version: "0.2.0".into(),
        digest: "51f889dca3437fb4e0a27816f6a473a9358828dbf6f85564b7991fa1458055c2".into(),
        url: "alpine-0.2.0.tgz".into(),
        created: "2026-01-02T03:04:05.678Z".into(),
        deprecated: true,
        details: None,
    };
    let older = IndexEntry {
        version: "0.1.0".into(),
        url: "https://charts.example.com/alpine-0.1.0.tgz".into(),
        ..IndexEntry::default()
    };
    let filter = filter(&["alpine", "nginx", "redis"]);
    let index = read_fast_only(HELM.as_bytes(), &filter)
        .expect("it is Helm's layout")
        .unwrap();
    assert_eq!(index.versions("alpine").unwrap(), [alpine, older]);
    assert_eq!(index.versions("nginx").unwrap(), []);
    assert_eq!(
        index.versions("redis").unwrap_err().to_string(),
        "no chart name found: the index has no chart \"redis\""
    );
    assert!(index.versions("web").is_err(), "it is not requested");
    assert_eq!(index.skipped, 0);
    assert_eq!(read_generally(HELM.as_bytes(), &filter), Ok(index));
    assert_eq!(versions(HELM), ["1.0.0"]);
}

#[test]
fn memory_usage_is_reported() {
    let filter = filter(&["alpine", "nginx", "web"]);
    let index = read(HELM.as_bytes(), &filter, Layout::Any).unwrap();
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
fn an_unsupported_layout_detected_early_restarts_the_reader() {
    let text = large(20) + "  web: [{name: web, version: 1.0.0}]\n";
    assert!(text.len() < 256 * 1024 && read_fast_only(text.as_bytes(), &web()).is_none());
    assert_eq!(versions(&text), ["1.0.0"]);
}

#[test]
fn an_unsupported_layout_detected_late_is_an_error() {
    let text = large(100) + "  web: [{name: web, version: 1.0.0}]\n";
    assert!(text.len() > 256 * 1024 + 64 * 1024);
    let error = read(text.as_bytes(), &web(), Layout::Any).unwrap_err();
    assert!(matches!(error, IndexError::UnsupportedLayout), "{error}");
    let index = read(text.as_bytes(), &web(), Layout::General).unwrap();
    assert_eq!(index.versions("web").unwrap()[0].version, "1.0.0");
}

#[test]
fn chunks_may_end_anywhere() {
    let text = large(30);
    let filter = filter(&["chart-0", "chart-7", "chart-29"]);
    let expected = read_fast_only(text.as_bytes(), &filter).expect("it is Helm's layout");
    assert_eq!(read_generally(text.as_bytes(), &filter), expected);
    for size in [1, 63, 1024, 4096, 64 * 1024 - 1, 64 * 1024 + 1] {
        let pieces = || Pieces {
            text: text.as_bytes(),
            size,
            error: None,
        };
        assert_eq!(
            read_fast_only(pieces(), &filter).as_ref(),
            Some(&expected),
            "{size}"
        );
        assert_eq!(
            comparable(read(pieces(), &filter, Layout::General)),
            expected,
            "{size}"
        );
    }
}

#[test]
fn an_error_of_the_input_is_returned() {
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
                    error: Some(io::ErrorKind::ConnectionReset),
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
fn an_interrupted_read_is_repeated() {
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

#[test]
fn details_are_read_in_every_layout_and_change_nothing_else() {
    const INDEX: &str = "\
apiVersion: v1
entries:
  web:
  - appVersion: 1.10
    name: web
    urls:
    - web.tgz
    version: 1.0.0
  - appVersion:
      a: b
    name: web
    urls:
    - web.tgz
    version: 1.1.0
  - name: web
    version: 1.10
  - name: web
    version: latest
  - name: we/b
    version: 1.2.0
  - version: 1.2.0
  -
";
    let json = serde_json::json!({ "entries": { "web": [{ "name": "web", "version": "1.0.0", "appVersion": "1.10" }] } });
    let read_full = |text: &str, layout| {
        read_metered(text.as_bytes(), &web(), layout, Detail::Full, &mut Unmetered).unwrap()
    };
    for layout in [Layout::Any, Layout::General] {
        let index = read_full(INDEX, layout);
        let versions = index.versions("web").unwrap();
        let details: Vec<_> = versions
            .iter()
            .map(|entry| Some(entry.details.as_ref()?.app_version.as_str()))
            .collect();
        assert_eq!(details, [Some("1.10"), None], "{layout:?}");
        let skipped: Vec<_> = index.skipped_entries["web"]
            .iter()
            .map(|skipped| (skipped.version.as_str(), skipped.fault))
            .collect();
        let expected = [
            (
                "1.10",
                "its version is not text; it needs quotes in the index, as \"1.10\" does",
            ),
            ("latest", "its version is not a semantic version such as 1.2.3"),
            ("1.2.0", "its name is empty, or has a slash"),
            ("1.2.0", "its name is empty, or has a slash"),
        ];
        assert_eq!(skipped, expected, "{layout:?}");

        let mut plain = index.clone();
        plain.skipped_entries.clear();
        for entry in plain.charts.values_mut().flatten() {
            entry.details = None;
        }
        assert_eq!(plain, read(INDEX.as_bytes(), &web(), layout).unwrap());
        assert_eq!(plain.skipped, 5);
        let index = read_full(&json.to_string(), layout);
        assert_eq!(
            index.charts["web"][0].details.as_ref().unwrap().app_version,
            "1.10"
        );
    }
}
