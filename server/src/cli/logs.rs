//! Logs on the error stream: text for people, one JSON object per line for machines.
//!
//! What is logged carries HMAC prefixes of keys and actors, never a key, a payload or a
//! credential. Libraries below say at `trace` what passes through them, so their level follows
//! `--log-level` only when they are named in it.

use std::fmt;
use std::io::{self, IsTerminal as _, stderr};
use std::time::SystemTime;

use clap::ValueEnum;
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How log lines look, and which are written.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// How log lines look. They go to the error stream.
    #[arg(long, env = "SAMEKEY_LOG", value_name = "FORMAT", default_value = "text")]
    pub(crate) log: LogFormat,

    /// The least level that is logged: error, warn, info, debug or trace; or directives such as
    /// `warn,samekey=debug,hyper=info`.
    #[arg(long, env = "SAMEKEY_LOG_LEVEL", value_name = "LEVEL", default_value = "info", value_parser = level)]
    pub(crate) log_level: String,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people; coloured on a terminal, unless `NO_COLOR` is set.
    Text,
    /// One object per line: `ts`, `level`, then the event's own fields.
    Json,
}

impl LogArgs {
    /// Starts logging for the whole process. A second call, as in a test, changes nothing.
    pub(crate) fn install(&self) {
        let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        let _ = subscriber(self, stderr, colour).try_init();
    }
}

fn subscriber<W>(args: &LogArgs, writer: W, colour: bool) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(&args.log_level))
        .with_writer(writer)
        // It would complain on the error stream that it cannot write to the error stream, and
        // panic there: a log pipe that went away must not end requests.
        .log_internal_errors(false);
    match args.log {
        LogFormat::Text => Box::new(lines.with_ansi(colour).with_target(false).with_timer(Utc).finish()),
        LogFormat::Json => Box::new(lines.with_ansi(false).event_format(JsonLines).finish()),
    }
}

fn level(text: &str) -> Result<String, String> {
    match EnvFilter::builder().parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A bare level speaks of samekey; of the libraries only what deserves attention is heard.
fn filter(level: &str) -> EnvFilter {
    let directives = match level.parse::<LevelFilter>() {
        Ok(level) => format!("{},samekey={level}", level.min(LevelFilter::WARN)),
        Err(_) => level.to_owned(),
    };
    EnvFilter::builder().parse_lossy(directives)
}

/// RFC 3339 in UTC, to the millisecond.
struct Utc;

impl Utc {
    fn now() -> humantime::Rfc3339Timestamp {
        humantime::format_rfc3339_millis(SystemTime::now())
    }
}

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", Self::now())
    }
}

/// The event's fields beside `ts` and `level`, in the order in which they were given. Spans are
/// left out: each event says everything that belongs to it.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let level = match *metadata.level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(writer, "{{\"ts\":\"{}\",\"level\":\"{level}\"", Utc::now())?;
        let mut members = Members { line: &mut writer, written: Ok(()) };
        if !metadata.target().starts_with("samekey") {
            members.add("target", metadata.target());
        }
        event.record(&mut members);
        members.written?;
        writer.write_str("}\n")
    }
}

/// Writes each member where it belongs: a line for every request must not cost a tree of values.
struct Members<'a, 'w> {
    line: &'a mut Writer<'w>,
    written: fmt::Result,
}

impl Members<'_, '_> {
    fn add(&mut self, name: &str, value: impl Serialize) {
        if self.written.is_ok() {
            self.written = self.line.write_char(',').and_then(|()| self.json(name));
            self.written = self.written.and_then(|()| self.line.write_char(':')).and_then(|()| self.json(value));
        }
    }

    fn json(&mut self, value: impl Serialize) -> fmt::Result {
        serde_json::to_writer(Bytes(self.line), &value).map_err(|_| fmt::Error)
    }
}

/// JSON is written as bytes that are text.
struct Bytes<'a, 'w>(&'a mut Writer<'w>);

impl io::Write for Bytes<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Visit for Members<'_, '_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field.name(), format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Pages(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Pages {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: LogFormat, log_level: &str, write: impl FnOnce()) -> String {
        let pages = Pages::default();
        let writer = pages.clone();
        let args = LogArgs { log, log_level: log_level.to_owned() };
        tracing::subscriber::with_default(subscriber(&args, move || writer.clone(), false), write);
        String::from_utf8(pages.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_is_one_flat_object_per_line() {
        let lines = logged(LogFormat::Json, "info", || {
            tracing::info!(event = "request", http.response.status_code = 201_u16, duration_ms = 0.5, "two\n\"lines\"");
            tracing::warn!(event = "uncertain", state = ?Some(1), replayed = false, age_s = -1);
        });
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["level"], "info");
        assert_eq!(lines[0]["event"], "request");
        assert_eq!(lines[0]["http.response.status_code"], 201);
        assert_eq!(lines[0]["duration_ms"], 0.5);
        assert_eq!(lines[0]["message"], "two\n\"lines\"");
        let ts = lines[0]["ts"].as_str().unwrap();
        assert!(ts.len() == 24 && ts.ends_with('Z'), "{ts}");
        assert_eq!(lines[1]["state"], "Some(1)");
        assert_eq!(lines[1]["replayed"], false);
        assert_eq!(lines[1]["age_s"], -1);
        assert!(lines[1].get("target").is_none());
    }

    #[test]
    fn text_is_plain_when_nobody_watches() {
        let line = logged(LogFormat::Text, "info", || {
            tracing::info!(event = "request", "hello");
        });
        assert!(line.contains("INFO") && line.contains("hello") && line.contains("request"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }

    #[test]
    fn a_bare_level_is_samekeys_own() {
        let write = || {
            tracing::debug!("mine");
            tracing::debug!(target: "hyper::proto", "a header");
            tracing::warn!(target: "hyper::proto", "a warning");
        };
        let lines = logged(LogFormat::Json, "debug", write);
        assert!(lines.contains("mine") && !lines.contains("a header"), "{lines}");
        assert!(lines.contains("\"target\":\"hyper::proto\""), "{lines}");
        assert!(logged(LogFormat::Json, "hyper=debug", write).contains("a header"));
        assert!(logged(LogFormat::Json, "error", write).is_empty());
        assert!(logged(LogFormat::Json, "off", write).is_empty());
    }

    #[test]
    fn nonsense_is_refused_where_it_is_given() {
        assert!(level("info").is_ok() && level("warn,samekey=debug").is_ok());
        assert!(level("samekey=loud").is_err());
    }
}
