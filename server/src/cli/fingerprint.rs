//! `samekey fingerprint`: what the server takes a payload for, and why two payloads are not the same to it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use samekey_core::fingerprint::{Payload, explain, fingerprint, significant_body, why_raw};
use samekey_core::select::{Profile, Significant};

/// Print the fingerprint of a payload, or say in which significant fields two payloads differ.
///
/// The same key with another fingerprint is refused with `key_payload_mismatch`. This command shows what the server
/// compares: JSON counts in its canonical form (RFC 8785 with exact numbers), a form by its fields, multipart by its
/// parts without the boundary, everything else by its bytes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The body to read, `-` for standard input
    #[arg(value_name = "FILE", required_unless_present = "diff", conflicts_with = "diff")]
    pub file: Option<PathBuf>,

    /// Compare two bodies: print the significant fields that differ, one per line
    ///
    /// Exits with 0 if the fingerprints are the same and with 1 if they differ.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "canonical")]
    pub diff: Vec<PathBuf>,

    /// Print what counts of the body instead of its fingerprint
    ///
    /// In this text `_` stands for an excluded element or an included field that is absent.
    #[arg(long)]
    pub canonical: bool,

    /// Only these fields count: an RFC 6901 pointer, `*` stands for every element or member; may be repeated
    #[arg(long, value_name = "POINTER", conflicts_with = "exclude")]
    pub include: Vec<String>,

    /// These fields do not count: an RFC 6901 pointer, `*` stands for every element or member; may be repeated
    #[arg(long, value_name = "POINTER")]
    pub exclude: Vec<String>,

    /// What the body claims to be, as in the request's `Content-Type`
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    pub content_type: String,

    /// The query string of the request, without `?`; it counts as sent
    #[arg(long)]
    pub query: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  samekey fingerprint order.json
  curl -s https://shop.example/cart | samekey fingerprint --canonical -
  samekey fingerprint --exclude /ui --exclude '/items/*/note' order.json
  samekey fingerprint --content-type application/x-www-form-urlencoded --include /amount form.txt
  samekey fingerprint --exclude /ui --diff first.json second.json";

/// Runs the command. The exit code is 1 if two payloads differ.
pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    run_with(args, out, &mut io::stderr())
}

fn run_with(args: &Args, out: &mut impl Write, notes: &mut impl Write) -> anyhow::Result<ExitCode> {
    let significant = match (args.include.as_slice(), args.exclude.as_slice()) {
        ([], exclude) => Significant::exclude(exclude),
        (include, _) => Significant::include(include),
    };
    let profile = Profile::new(None, significant)?;
    if let [first, second] = args.diff.as_slice() {
        return diff(args, &profile, first, second, out, notes);
    }
    let file = args.file.as_deref().context("no file given")?;
    let body = read(file)?;
    let payload = payload(args, &body);
    note_raw(file, &payload, notes)?;
    if args.canonical {
        out.write_all(&significant_body(&payload, &profile))?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", fingerprint(&payload, &profile).to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn diff(
    args: &Args,
    profile: &Profile,
    first: &Path,
    second: &Path,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let (first_body, second_body) = (read(first)?, read(second)?);
    let (one, other) = (payload(args, &first_body), payload(args, &second_body));
    note_raw(first, &one, notes)?;
    note_raw(second, &other, notes)?;
    let differences = explain(&one, &other, profile);
    for difference in &differences {
        writeln!(out, "{difference}")?;
    }
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn payload<'a>(args: &'a Args, body: &'a [u8]) -> Payload<'a> {
    Payload {
        query: args.query.as_deref(),
        content_type: Some(args.content_type.as_bytes()),
        body,
        ..Payload::default()
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut body = Vec::new();
        io::stdin().read_to_end(&mut body).context("cannot read standard input")?;
        return Ok(body);
    }
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Says why a body counts byte for byte although its content type asks for more.
fn note_raw(file: &Path, payload: &Payload<'_>, notes: &mut impl Write) -> io::Result<()> {
    match why_raw(payload) {
        Some(reason) => writeln!(notes, "{}: fingerprinted byte for byte: {reason}", file.display()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (name, content) in files {
                fs::write(folder.path().join(name), content).unwrap();
            }
            Self(folder)
        }

        /// Arguments that end in `.txt` or `.json` are files of the folder. Gives output, notes and whether it succeeded.
        fn run(&self, arguments: &[&str]) -> anyhow::Result<(String, String, bool)> {
            let path = |argument: &&str| match argument.rsplit('.').next() {
                Some("json" | "txt") => self.0.path().join(argument).into_os_string(),
                _ => argument.into(),
            };
            let arguments = std::iter::once("fingerprint".into()).chain(arguments.iter().map(path));
            let args = Command::try_parse_from(arguments)?.args;
            let (mut out, mut notes) = (Vec::new(), Vec::new());
            let code = run_with(&args, &mut out, &mut notes)?;
            let notes = String::from_utf8(notes)?.replace(&format!("{}/", self.0.path().display()), "");
            Ok((String::from_utf8(out)?, notes, code == ExitCode::SUCCESS))
        }
    }

    #[test]
    fn the_fingerprint_is_blind_to_spelling() {
        let folder = Folder::new(&[("a.json", "{\"b\":1,\"a\":2}"), ("b.json", "{ \"a\": 2.0, \"b\": 1 }\n")]);
        let (a, notes, _) = folder.run(&["a.json"]).unwrap();
        assert!(a.starts_with("fp1:json:74c905db:") && a.ends_with('\n') && notes.is_empty(), "{a}{notes}");
        assert_eq!(folder.run(&["b.json"]).unwrap().0, a);
        assert_ne!(folder.run(&["--query", "x=1", "b.json"]).unwrap().0, a);
        assert_eq!(folder.run(&["--canonical", "b.json"]).unwrap().0, "{\"a\":2,\"b\":1}\n");
    }

    #[test]
    fn a_fallback_to_bytes_is_explained_with_its_place() {
        let folder = Folder::new(&[("a.json", "{\"a\":1,\"a\":2}")]);
        let (out, notes, success) = folder.run(&["a.json"]).unwrap();
        assert!(out.starts_with("fp1:raw:") && success);
        assert_eq!(
            notes,
            "a.json: fingerprinted byte for byte: not strict JSON: a member name that occurs twice at byte 7\n"
        );
    }

    #[test]
    fn differing_fields_are_listed_one_per_line() {
        let folder = Folder::new(&[
            ("a.json", r#"{"items":[{"sku":"tea","note":"x"}],"ui":1,"total":2}"#),
            ("b.json", r#"{"items":[{"sku":"pot","note":"y"}],"ui":2}"#),
        ]);
        let diff = |arguments: &[&str]| folder.run(&[arguments, &["--diff", "a.json", "b.json"]].concat()).unwrap();
        let fields = "/items/0/sku: differs\n/total: only in the first\n";
        assert_eq!(diff(&["--exclude", "/ui", "--exclude", "/items/*/note"]), (fields.into(), String::new(), false));
        assert_eq!(diff(&["--include", "/items/*/sku"]).0, "/items/0/sku: differs\n");
        assert_eq!(diff(&["--exclude", "/*"]), (String::new(), String::new(), true));
    }

    #[test]
    fn forms_have_fields_too() {
        let folder = Folder::new(&[("a.txt", "amount=1&ui=x+y")]);
        let form = ["--content-type", "application/x-www-form-urlencoded", "--canonical", "a.txt"];
        assert_eq!(folder.run(&form).unwrap().0, "amount=1&ui=x%20y\n");
        assert_eq!(folder.run(&[&["--include", "/amount"][..], &form].concat()).unwrap().0, "~amount=1\n");
    }

    #[test]
    fn wrong_usage_is_an_error() {
        let folder = Folder::new(&[("a.json", "1")]);
        let error = |arguments: &[&str]| folder.run(arguments).unwrap_err().to_string();
        assert!(error(&[]).contains("required"));
        assert!(error(&["--include", "/a", "--exclude", "/b", "a.json"]).contains("cannot be used with"));
        assert!(error(&["--diff", "a.json"]).contains("2 values required"));
        assert_eq!(error(&["--exclude", "ui", "a.json"]), "significant field `ui`: a pointer starts with `/`");
        assert!(error(&["missing.json"]).starts_with("cannot read "));
    }

    #[test]
    fn the_help_shows_examples() {
        use clap::CommandFactory;
        let help = Command::command().render_long_help().to_string();
        assert!(help.contains("--exclude /ui --diff first.json second.json"), "{help}");
    }
}
