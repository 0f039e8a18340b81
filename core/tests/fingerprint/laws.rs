//! Laws over random bodies and selections.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use samekey_core::fingerprint::{Fingerprint, Payload, explain, fingerprint, significant_body};
use samekey_core::select::Significant;

use super::{FORM, body, profile, whole};

/// Small payloads over a small alphabet, so that near misses are frequent.
fn bodies() -> impl Strategy<Value = (String, String)> {
    let value = prop_oneof![
        "[0-2]",
        "\\{(\"a\":[01])?\\}",
        "\\[([01](,[01])?)?\\]",
        "\\{\"b\":[01],\"a\":(\\[[01]\\]|[01])\\}",
        "\\[\\{\"a\":[01]\\}(,\\{\"[ab]\":1\\})?\\]"
    ];
    let form = "[ab](=[01])?(&[ab](=[01])?){0,2}";
    prop_oneof![
        value.prop_map(|text| ("application/json".to_owned(), text)),
        form.prop_map(|text| (FORM.to_owned(), text)),
        "[01{}]{0,3}".prop_map(|text| ("application/json".to_owned(), text)),
        "[01]{0,2}".prop_map(|text| ("text/plain".to_owned(), text)),
    ]
}

fn selections() -> impl Strategy<Value = Significant> {
    let pointers = || {
        vec(
            prop_oneof![
                Just("/a"),
                Just("/b"),
                Just("/0"),
                Just("/*"),
                Just("/*/a"),
                Just("/a/0"),
                Just("/a/*"),
                Just("/0/a")
            ],
            0..4,
        )
    };
    prop_oneof![pointers().prop_map(Significant::exclude), pointers().prop_map(Significant::include)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn explain_is_empty_exactly_for_equal_fingerprints(a in bodies(), b in bodies(), significant in selections()) {
        let profile = profile(significant);
        let (a, b) = (body(&a.0, &a.1), body(&b.0, &b.1));
        let equal = fingerprint(&a, &profile) == fingerprint(&b, &profile);
        prop_assert_eq!(explain(&a, &b, &profile).is_empty(), equal);
        let written = significant_body(&a, &profile) == significant_body(&b, &profile);
        prop_assert!(written || !equal);
    }

    #[test]
    fn any_bytes_have_a_fingerprint(body in vec(any::<u8>(), 0..100), content_type in vec(any::<u8>(), 0..40), query in any::<String>(), significant in selections()) {
        let profile = profile(significant);
        for content_type in [&content_type[..], b"application/json", FORM.as_bytes(), b"multipart/form-data; boundary=\"-\""] {
            let payload = Payload { query: Some(&query), content_type: Some(content_type), body: &body, ..Payload::default() };
            let taken = fingerprint(&payload, &profile);
            prop_assert_eq!(Fingerprint::parse(&taken.to_text()), Ok(taken));
            prop_assert!(explain(&payload, &payload, &profile).is_empty());
        }
    }
}

#[test]
fn different_bodies_of_every_kind_never_meet() {
    let mut seen = HashMap::new();
    let texts = ["1", "a", "a=", "{}", "[]", "null", "\"\"", "_", "~{}", "a=1&b", "a?b", "--x--"];
    for content_type in
        ["application/json", FORM, "multipart/form-data; boundary=x", "text/plain", "json", "", "application/x+json"]
    {
        for text in texts {
            if let Some(other) = seen.insert(whole(&body(content_type, text)).to_text(), (content_type, text)) {
                panic!("{content_type} {text} is {other:?}");
            }
        }
    }
}
