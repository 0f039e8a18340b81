//! The token file: who may do what on the admin listener.
//!
//! ```text
//! # scopes        token                                     name
//! claim,read,settle samekey_5f0c…                           first
//! read            samekey_91aa…                             prometheus
//! ```
//!
//! One token a line: scopes with commas between, the token, and perhaps a name, which the records of what it did
//! then carry. `#` begins a comment. The file is read again within a second of a change; one that is not usable
//! changes nothing and is reported.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

/// Its name, if nobody says another.
pub(crate) const DEFAULT_FILE: &str = "samekey.token";
/// A changed file is noticed within this time.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Hundreds of tokens; a file that grows beyond it is not one of tokens.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// 128 bits in hexadecimal: what is shorter can be guessed, or was typed by a person.
const MIN_TOKEN_BYTES: usize = 32;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Claim keys, and end its own claims.
    Claim,
    /// See metrics and records.
    Read,
    /// Say how uncertain outcomes ended.
    Settle,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Claim, Self::Read, Self::Settle];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Read => "read",
            Self::Settle => "settle",
        }
    }
}

/// What the token of a request allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) scopes: Vec<Scope>,
    /// Who that is: the name in the file, or the beginning of the token's hash.
    pub(crate) name: Arc<str>,
}

/// Why a token file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {why}", file.display(), line.map_or_else(String::new, |line| format!(":{line}")))]
pub(crate) struct TokenFileError {
    file: PathBuf,
    line: Option<usize>,
    why: String,
}

/// Hashes only: what is in memory opens nothing.
type Hash = [u8; 32];
/// By the hash of the token.
type Known = Arc<[(Hash, Grant)]>;

/// The tokens of a file, read again when it changes: all of it or nothing.
#[derive(Debug)]
pub(crate) struct Tokens {
    file: Arc<Path>,
    known: Mutex<Known>,
    looked: tokio::sync::Mutex<Looked>,
}

#[derive(Debug)]
struct Looked {
    at: Instant,
    /// What was last read, usable or not.
    seen: Result<Hash, TokenFileError>,
}

impl Tokens {
    /// Reads the file, after making one with a token for everything if there is none. Blocks.
    pub(crate) fn open(file: &Path) -> Result<Self, TokenFileError> {
        if let Err(error) = std::fs::metadata(file)
            && error.kind() == std::io::ErrorKind::NotFound
        {
            make(file).map_err(|error| {
                let why = format!("cannot be made ({error}); make it yourself, or name another place for it");
                TokenFileError { file: file.to_owned(), line: None, why }
            })?;
        }
        let (seen, known) = read(file)?;
        let looked = tokio::sync::Mutex::new(Looked { at: Instant::now(), seen: Ok(seen) });
        Ok(Self { file: file.into(), known: Mutex::new(known), looked })
    }

    /// What this token allows; `None` if it does not stand in the file.
    pub(crate) async fn grant(&self, token: &[u8]) -> Option<Grant> {
        // One request looks at the file, the others go on with what is known.
        if let Ok(looked) = self.looked.try_lock() {
            self.look(looked).await;
        }
        let known = Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner));
        let hash = hash(token);
        // All of them are compared: how long it takes says nothing.
        known
            .iter()
            .fold(None, |found, (known, grant)| if bool::from(known.ct_eq(&hash)) { Some(grant) } else { found })
            .cloned()
    }

    async fn look(&self, mut looked: tokio::sync::MutexGuard<'_, Looked>) {
        if looked.at.elapsed() < LOOK_EVERY {
            return;
        }
        let file = Arc::clone(&self.file);
        let Ok(now) = tokio::task::spawn_blocking(move || read(&file)).await else { return };
        looked.at = Instant::now();
        match now {
            Ok((seen, known)) if looked.seen.as_ref() != Ok(&seen) => {
                looked.seen = Ok(seen);
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
                tracing::info!(event = "config", file = %self.file.display(), "the tokens of the admin listener were read anew");
            }
            Err(error) if looked.seen.as_ref() != Err(&error) => {
                tracing::error!(event = "config", %error, "the changed token file is not usable; the tokens that were read before still count");
                looked.seen = Err(error);
            }
            _ => {}
        }
    }
}

fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// A token of the file that may do this, for a command of whoever can read it.
pub(crate) fn pick(file: &Path, scope: Scope) -> Result<String, TokenFileError> {
    let of = |why: String| TokenFileError { file: file.to_owned(), line: None, why };
    let text = text_of(file)?;
    let known = parse(&text).map_err(|(line, why)| TokenFileError { file: file.to_owned(), line, why })?;
    let may = |token: &&str| {
        known.iter().any(|(known, grant)| *known == hash(token.as_bytes()) && grant.scopes.contains(&scope))
    };
    text.split_whitespace()
        .find(may)
        .map(str::to_owned)
        .ok_or_else(|| of(format!("holds no token with the scope {}; add one, or name another file", scope.as_str())))
}

/// A file with one token for everything, whole or not at all; one that came to be meanwhile stays.
fn make(file: &Path) -> std::io::Result<()> {
    let mut entropy = [0; 32];
    crate::random(&mut entropy);
    let text = format!(
        "# Tokens of samekey's admin listener: scopes (claim, read, settle), the token, and perhaps a name.\n\
         # Programs send one as `Authorization: Bearer TOKEN`. Changes count within a second.\n\
         claim,read,settle samekey_{} first\n",
        crate::hex(&entropy)
    );
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Made for its owner only.
    let mut made = tempfile::NamedTempFile::new_in(folder)?;
    made.write_all(text.as_bytes())?;
    made.as_file().sync_all()?;
    match made.persist_noclobber(file) {
        Err(error) if error.error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

/// The hash of the file, and what stands in it.
fn read(path: &Path) -> Result<(Hash, Known), TokenFileError> {
    let text = text_of(path)?;
    let known = parse(&text).map_err(|(line, why)| TokenFileError { file: path.to_owned(), line, why })?;
    Ok((hash(text.as_bytes()), known.into()))
}

/// The file's text, if nobody but its owner may read it.
fn text_of(path: &Path) -> Result<String, TokenFileError> {
    let of = |why: String| TokenFileError { file: path.to_owned(), line: None, why };
    let cannot = |error: std::io::Error| of(format!("cannot be read ({error}); samekey must own it, or be allowed to"));
    let file = File::open(path).map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    // Where root gives a secret to a group, as Kubernetes does, the group is how we get it at all.
    let shared = if about.uid() == 0 && !rustix::process::geteuid().is_root() { 0o037 } else { 0o077 };
    if about.mode() & shared != 0 {
        let why = format!(
            "others than its owner may use it (mode {:04o}); run chmod 600 on it, and give it new tokens if somebody may have read them",
            about.mode() & 0o7777
        );
        return Err(of(why));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(of("is larger than 64 KiB, which no file of tokens is".into()));
    }
    Ok(text)
}

type Complaint = (Option<usize>, String);

fn parse(text: &str) -> Result<Vec<(Hash, Grant)>, Complaint> {
    let mut known: Vec<(Hash, Grant)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let wrong = |why: String| (Some(number), why);
        let mut words = line.split_whitespace();
        let Some(scopes) = words.next() else { continue };
        let (Some(token), name, None) = (words.next(), words.next(), words.next()) else {
            return Err(wrong("a line is scopes, token and perhaps a name, as in `read TOKEN prometheus`".into()));
        };
        let scopes = scopes.split(',').map(scope).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        // What a Bearer line can carry (RFC 6750, section 2.1).
        let carried = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if token.len() < MIN_TOKEN_BYTES || !token.bytes().all(carried) {
            return Err(wrong(format!(
                "a token has {MIN_TOKEN_BYTES} or more letters, digits or -._~+/=; make one by openssl rand -hex 32"
            )));
        }
        let hash = hash(token.as_bytes());
        if known.iter().any(|(other, _)| *other == hash) {
            return Err(wrong("this token stands in the file twice; give it all its scopes in one line".into()));
        }
        let name = name.map_or_else(|| crate::hex(&hash[..4]).into(), Into::into);
        known.push((hash, Grant { scopes, name }));
    }
    match known.is_empty() {
        true => Err((
            None,
            "holds no token; write a line such as `claim,read,settle TOKEN`, or remove it: samekey then makes one"
                .into(),
        )),
        false => Ok(known),
    }
}

fn scope(word: &str) -> Result<Scope, String> {
    let known = Scope::ALL.into_iter().find(|scope| scope.as_str() == word);
    known.ok_or_else(|| format!("{word:?} is no scope; known are claim, read and settle, with commas between"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const ONE: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn lines_say_scopes_token_and_name() {
        let known = parse(&format!("# all\n\n  claim,settle\t{ONE}  ann # her own\nread {OTHER}\n")).unwrap();
        assert_eq!(known.len(), 2);
        assert_eq!(
            known[0],
            (hash(ONE.as_bytes()), Grant { scopes: vec![Scope::Claim, Scope::Settle], name: "ann".into() })
        );
        assert_eq!(known[1].1.scopes, [Scope::Read]);
        assert_eq!(known[1].1.name.len(), 8);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_without_the_token() {
        for (text, line, hint) in [
            (String::new(), None, "no token"),
            ("# nothing\n".into(), None, "no token"),
            (format!("\n{ONE}"), Some(2), "a line is"),
            (format!("read {ONE} a b"), Some(1), "a line is"),
            (format!("read,write {ONE}"), Some(1), "write"),
            (format!("read, settle {ONE}"), Some(1), "commas between"),
            ("read secret".into(), Some(1), "openssl rand"),
            (format!("read {ONE}\u{e9}"), Some(1), "openssl rand"),
            (format!("read {ONE}\nsettle {ONE}"), Some(2), "twice"),
        ] {
            let (at, why) = parse(&text).unwrap_err();
            assert_eq!(at, line, "{text:?}: {why}");
            assert!(why.contains(hint) && !why.contains(ONE), "{text:?}: {why}");
        }
    }

    #[tokio::test]
    async fn the_first_start_makes_a_file_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(DEFAULT_FILE);
        let tokens = Tokens::open(&file).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        let token = text.split_whitespace().find(|word| word.starts_with("samekey_")).unwrap();
        assert_eq!(tokens.grant(token.as_bytes()).await.unwrap().scopes, Scope::ALL);
        assert_eq!(tokens.grant(&token.as_bytes()[1..]).await, None);
        assert_eq!(tokens.grant(b"").await, None);
        Tokens::open(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "made once");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_others_may_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t");
        std::fs::write(&file, format!("read {ONE}\n")).unwrap();
        for mode in [0o644, 0o640, 0o620, 0o601] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let said = Tokens::open(&file).unwrap_err().to_string();
            assert!(said.contains("chmod 600") && said.contains(&format!("{mode:04o}")), "{said}");
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
        Tokens::open(&file).unwrap();
        let said = Tokens::open(&folder.path().join("no/t")).unwrap_err().to_string();
        assert!(said.contains("cannot be made"), "{said}");
    }
}
