//! Logging: destination, format, filter, and panics.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::args::{LogFormat, ProcessArgs};

/// Why logging could not be set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The filter does not parse.
    #[error(
        "--log-level {text:?} is not a log filter; use error, warn, info, debug, trace or off, \
         or directives such as \"info,helmops_webhook=debug\""
    )]
    Filter {
        /// The value of the flag.
        text: String,
        /// The error of the filter's parser.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// A part of the filter is a bare word that is not a level. The filter's parser would use it as the
    /// name of a module and silence everything else.
    #[error(
        "--log-level {text:?}: {word:?} is not a log level; use error, warn, info, debug, trace or off, \
         and MODULE=LEVEL for a single module"
    )]
    Level {
        /// The value of the flag.
        text: String,
        /// The word that is not a level.
        word: String,
    },
    /// Logging was set up before.
    #[error("logging is already set up in this process")]
    Installed(#[source] TryInitError),
}

/// Writes log events to stderr with the format and the filter of `args`, and panics to the log.
///
/// # Errors
/// The filter does not parse, or logging is already set up.
pub fn install(args: &ProcessArgs) -> Result<(), TelemetryError> {
    let filter = parse_filter(&args.log_level)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_span_list(false);
            builder.finish().try_init()
        }
        LogFormat::Text => builder
            .with_ansi(std::io::stderr().is_terminal())
            .finish()
            .try_init(),
    }
    .map_err(TelemetryError::Installed)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Rust's own hook writes several lines of plain text, which a collector of JSON lines cannot read.
fn log_panic(info: &std::panic::PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("(no message)");
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    tracing::error!(%location, %thread, "panic: {message}");
}

fn parse_filter(text: &str) -> Result<EnvFilter, TelemetryError> {
    // A `[` starts a span directive, in which commas and bare words have another meaning.
    if !text.contains('[')
        && let Some(word) = text
            .split(',')
            .find(|part| !part.contains('=') && !is_level(part))
    {
        return Err(TelemetryError::Level {
            text: text.to_owned(),
            word: word.to_owned(),
        });
    }
    EnvFilter::builder()
        .parse(with_quiet_client(text))
        .map_err(|source| TelemetryError::Filter {
            text: text.to_owned(),
            source,
        })
}

/// The client logs a response of the API server that does not decode as a whole, as a warning, and it may contain the
/// Secrets of every namespace. It also logs each request that fails, and its watches each time that they are forbidden: who sends a request
/// reports its failure, once. So what the client logs is shown only if the filter names it.
fn with_quiet_client(text: &str) -> String {
    if is_off(text) {
        text.to_owned()
    } else {
        format!("kube_client=off,kube_runtime=error,{text}")
    }
}

fn is_off(text: &str) -> bool {
    text.parse::<LevelFilter>()
        .is_ok_and(|level| level == LevelFilter::OFF)
}

fn is_level(word: &str) -> bool {
    // The parser of levels would accept an empty word, and an empty filter would silence everything.
    !word.is_empty() && word.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn levels_and_directives_are_accepted() {
        for text in [
            "info",
            "DEBUG",
            "off",
            "info,helmops_webhook=debug",
            "warn,[reconcile{name=a}]=trace",
        ] {
            assert!(parse_filter(text).is_ok(), "{text}");
        }
    }

    /// Whether an error of the client, a warning of its watches, and one of this project are logged.
    fn logged(filter: &str) -> [bool; 3] {
        let filter = parse_filter(filter).unwrap();
        let subscriber = tracing_subscriber::registry().with(filter);
        tracing::subscriber::with_default(subscriber, || {
            [
                tracing::enabled!(target: "kube_client::client", tracing::Level::ERROR),
                tracing::enabled!(target: "kube_runtime::watcher", tracing::Level::WARN),
                tracing::enabled!(target: "helmops_controller", tracing::Level::WARN),
            ]
        })
    }

    #[test]
    fn neither_responses_nor_each_failed_request_are_logged() {
        for filter in ["info", "debug", "trace", "warn,helmops_controller=debug"] {
            assert_eq!(logged(filter), [false, false, true], "{filter}");
        }
        assert_eq!(logged("off"), [false; 3]);
        assert_eq!(
            logged("info,kube_client=debug,kube_runtime=info"),
            [true; 3],
            "the filter names the client"
        );
    }

    #[test]
    fn a_misspelt_level_is_named_instead_of_silencing_everything() {
        for (text, word) in [("inof", "inof"), ("info,debgu", "debgu"), ("", "")] {
            let error = parse_filter(text).unwrap_err();
            assert!(
                matches!(&error, TelemetryError::Level { word: w, .. } if w == word),
                "{error:?}"
            );
        }
        assert!(
            parse_filter("inof")
                .unwrap_err()
                .to_string()
                .contains("\"inof\" is not a log level")
        );
    }

    #[test]
    fn a_directive_that_does_not_parse_is_rejected_with_its_text() {
        let error = parse_filter("helmops_webhook=loud").unwrap_err();
        assert!(matches!(error, TelemetryError::Filter { .. }), "{error:?}");
        assert!(error.to_string().contains("helmops_webhook=loud"), "{error}");
    }
}
