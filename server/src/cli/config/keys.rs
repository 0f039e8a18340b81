//! Which keys stand where, and what to say of one that does not.

/// Keys of `[actor]` and the flags they stand for.
pub(super) const ACTOR: &[(&str, &str)] = &[
    ("from", "actor"),
    ("trusted_proxies", "trusted_proxies"),
    ("jwt_key_file", "jwt_key_file"),
    ("jwks_file", "jwks_file"),
    ("jwt_audience", "jwt_audience"),
    ("jwt_issuer", "jwt_issuer"),
    ("accept_shared_actor", "accept_shared_actor"),
];

/// What is said on the command line or in the environment only: a file that holds it would say it for ever.
pub(super) const FLAGS_ONLY: &[&str] = &["config", "accept_unnamed_records", "accept_actor_change", "json", "strict"];

/// Keys of `[[operation]]` beside those of `[defaults]`.
pub(super) const OPERATION: &[&str] = &["name", "aliases", "method", "path", "significant", "anonymous", "probe"];

/// Keys of `significant`.
pub(super) const SIGNIFICANT: &[&str] = &["include", "exclude", "headers", "query"];

/// Keys of `[operation.probe]`.
pub(super) const PROBE: &[&str] = &["url", "headers", "done", "absent", "media_type", "timeout", "max_age"];

/// Keys that are planned. Whoever writes one of them must not believe that it works.
const LATER: &[(&str, &str)] = &[
    ("key_file", "answers are not encrypted"),
    ("encryption", "answers are not encrypted"),
    ("lane", "operations do not wait for each other"),
    ("lanes", "operations do not wait for each other"),
    ("fence", "it is always there with credentials"),
    ("jwks", "keys are read from a file, jwks_file"),
    ("journaled", "only handlers in Rust have a journal of effects"),
];

/// Where a key belongs that stands in the wrong place.
pub(super) struct Places<'a> {
    pub(super) flags: &'a [String],
    pub(super) top: &'a [String],
    pub(super) defaults: &'a [String],
}

/// What to say of a key that is not known where it stands.
pub(super) fn unknown(key: &str, here: &[String], places: &Places<'_>) -> String {
    if let Some((_, why)) =
        LATER.iter().find(|(later, _)| *later == key && !places.flags.iter().any(|flag| flag == later))
    {
        return format!("{key} is not there yet: {why}; take it out");
    }
    if FLAGS_ONLY.contains(&key) {
        return format!("{key} is a flag only: --{}", key.replace('_', "-"));
    }
    let spelled = key.replace('-', "_");
    if here.contains(&spelled) {
        return format!("{key} is written {spelled} in a file");
    }
    if places.defaults.contains(&spelled) {
        return format!("{key} belongs into [defaults] or [[operation]]");
    }
    if OPERATION.contains(&key) || SIGNIFICANT.contains(&key) {
        return format!("{key} belongs into [[operation]]");
    }
    if places.top.contains(&spelled) {
        return format!("{key} belongs to the top of the file, before the first [table]");
    }
    if let Some((_, _)) = ACTOR.iter().find(|(actor, id)| *actor == key || *id == key) {
        return format!("{key} belongs into [actor]");
    }
    if let Some(known) = nearest(&spelled, here) {
        return format!("{key} is no key here; did you mean {known}?");
    }
    match nearest(&spelled, places.top).or_else(|| nearest(&spelled, places.defaults)) {
        Some(known) => unknown(&known.clone(), here, places).replacen(known, &format!("{key} is no key; {known}"), 1),
        None => format!("{key} is no key here; known are {}", here.join(", ")),
    }
}

/// The key that was meant, if one is near enough.
fn nearest<'a>(key: &str, known: &'a [String]) -> Option<&'a String> {
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known, key), known))
        .min()
        .filter(|(distance, known)| *distance <= 1 + known.len().min(key.len()) / 4)
        .map(|(_, known)| known)
}
