//! What a fingerprint is blind to, and what it never is.

mod laws;

use samekey_core::fingerprint::{
    Change, Comparison, Difference, Fingerprint, Kind, Payload, Place, RawReason, explain, fingerprint,
    significant_body, why_raw,
};
use samekey_core::select::{Profile, Significant};

fn profile(significant: Significant) -> Profile {
    Profile::new(None, significant).unwrap()
}

fn body<'a>(content_type: &'a str, body: &'a str) -> Payload<'a> {
    Payload { content_type: Some(content_type.as_bytes()), body: body.as_bytes(), ..Payload::default() }
}

fn json(text: &str) -> Payload<'_> {
    body("application/json", text)
}

fn whole(payload: &Payload<'_>) -> Fingerprint {
    fingerprint(payload, &Profile::default())
}

#[track_caller]
fn text(payload: &Payload<'_>, significant: Significant, expected: &str) {
    assert_eq!(String::from_utf8_lossy(&significant_body(payload, &profile(significant))), expected);
}

/// Two payloads are the same exactly if `explain` finds nothing.
#[track_caller]
fn compare(a: &Payload<'_>, b: &Payload<'_>, significant: &Significant, same: bool) {
    let profile = profile(significant.clone());
    assert_eq!(fingerprint(a, &profile) == fingerprint(b, &profile), same, "{a:?}\n{b:?}");
    let differences = explain(a, b, &profile);
    assert_eq!(differences.is_empty(), same, "{differences:?}\n{a:?}\n{b:?}");
}

#[track_caller]
fn same(a: &Payload<'_>, b: &Payload<'_>) {
    compare(a, b, &Significant::everything(), true);
}

#[track_caller]
fn differ(a: &Payload<'_>, b: &Payload<'_>) {
    compare(a, b, &Significant::everything(), false);
}

#[test]
fn the_values_are_pinned_for_as_long_as_records_live() {
    for (payload, expected) in [
        (Payload::default(), "fp1:raw:74c905db:8f324e111d436225b664651f95a8f61526a081bdf4cf2a35d94187e89bbb4cd5"),
        (
            json(r#"{"b":[1.0,"é"],"a":null}"#),
            "fp1:json:74c905db:6d82097e640f724cd7fab7aa116eb6b7bd0f844cfb56c61a1b64a69fd7cba968",
        ),
        (
            body("application/x-www-form-urlencoded", "a=1&b=x+y&b=%FF"),
            "fp1:form:74c905db:42db53695f622c57b817648d1f907fe863394db3caccd22bebd239948f49c646",
        ),
        (
            body(
                "multipart/form-data; boundary=x",
                "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n",
            ),
            "fp1:multipart:74c905db:4be7b38145f0be5ffb859e6b843882629925cea4ba8ec27afd7470878deb22ab",
        ),
        (
            body("text/plain", "hello"),
            "fp1:raw:74c905db:212e2bdd4fcdb8abc6976c39275e3976bd9c464021350cb31a5ef8fe90bf906c",
        ),
    ] {
        assert_eq!(whole(&payload).to_text(), expected);
    }
}

#[test]
fn json_is_one_however_it_is_written() {
    for content_type in [
        "application/json",
        " Application/JSON ;charset=UTF-8",
        "application/json;",
        "application/json; charset=\"utf-8\"; v=1",
    ] {
        let other = body(content_type, " {\"a\" : [ 1e0 ], \"b\":\"\\u00e9\"}");
        same(&json(r#"{"b":"é","a":[1.0]}"#), &other);
        assert_eq!(whole(&other).kind(), Kind::Json);
    }
    assert_eq!(whole(&body("application/merge-patch+json", "{}")).kind(), Kind::Json);
    differ(&json("[1]"), &json("[1.00000000000000000001]"));
    differ(&json("[1]"), &json("[\"1\"]"));
    differ(&json("{}"), &body("application/vnd.order+json", "{}"));
}

#[test]
fn what_is_not_what_it_claims_counts_byte_for_byte() {
    for text in [
        "{\"a\":1,\"a\":1}",
        "\"\\ud800\"",
        "\u{feff}{}",
        "{} x",
        "{'a':1}",
        "[01]",
        "1e9223372036854775808",
        "[1,]",
        "NaN",
        &"[".repeat(200),
    ] {
        assert_eq!(whole(&json(text)).kind(), Kind::Raw, "{text}");
        assert!(matches!(why_raw(&json(text)), Some(RawReason::Json(_))));
        differ(&json(text), &json(&format!("{text} ")));
        same(&json(text), &json(text));
    }
    assert!(why_raw(&json("{}")).is_none());
    assert!(why_raw(&body("text/plain", "{")).is_none());
    assert_eq!(why_raw(&body("application/json; charset=utf-16", "{}")), Some(RawReason::Charset));
}

#[test]
fn a_content_coding_makes_it_raw_and_identity_is_none() {
    let plain = json("{ }");
    let coded = |coding: &'static str| Payload { content_encoding: Some(coding.as_bytes()), ..plain };
    same(&plain, &coded(" Identity"));
    assert_eq!(why_raw(&coded("gzip")), Some(RawReason::ContentCoding));
    differ(&plain, &coded("gzip"));
    differ(&coded("br"), &coded("gzip"));
}

#[test]
fn no_body_is_an_empty_body_whatever_is_said_about_it() {
    same(&Payload::default(), &json(""));
    same(&json(""), &Payload { content_encoding: Some(b"gzip"), ..body("text/plain", "") });
    differ(&json(""), &json("null"));
    differ(&json(""), &json(" "));
}

#[test]
fn the_character_set_of_raw_bytes_counts_unless_it_is_utf8() {
    same(&body("text/plain", "x"), &body("text/plain; charset=UTF-8; format=flowed", "x"));
    differ(&body("text/plain", "x"), &body("text/plain; charset=latin1", "x"));
    differ(&body("text/plain", "x"), &body("text/html", "x"));
    differ(&body("text/plain", "x"), &Payload { body: b"x", ..Payload::default() });
}

#[test]
fn a_lone_question_mark_is_no_query_and_the_rest_counts_as_sent() {
    let query = |query| Payload { query, ..json("1") };
    same(&query(None), &query(Some("")));
    differ(&query(None), &query(Some("a")));
    differ(&query(Some("a=%20")), &query(Some("a=+")));
    differ(&query(Some("a=1&b=2")), &query(Some("b=2&a=1")));
}

#[test]
fn bytes_cannot_move_between_the_parts() {
    let payload = |path: &'static [&'static str], query, content_type: &'static str, body: &'static str| Payload {
        path_params: path,
        query: Some(query),
        content_type: Some(content_type.as_bytes()),
        body: body.as_bytes(),
        ..Payload::default()
    };
    let payloads = [
        payload(&[], "ab", "text/plain", "c"),
        payload(&[], "a", "text/plain", "bc"),
        payload(&[], "", "text/plain", "abc"),
        payload(&["ab"], "", "text/plain", "c"),
        payload(&["a", "b"], "", "text/plain", "c"),
        payload(&["a"], "b", "text/plain", "c"),
        payload(&["", "ab"], "", "text/plain", "c"),
        payload(&["ab", ""], "", "text/plain", "c"),
        payload(&[], "", "application/json", "12"),
        payload(&[], "", "application/json", " 12"),
        payload(&[], "", "application/x-www-form-urlencoded", "12"),
        payload(&[], "", "text/plain", "12"),
        payload(&[], "", "text/plain12", ""),
        payload(&[], "12", "text/plain", ""),
        payload(&["12"], "", "text/plain", ""),
    ];
    for (i, a) in payloads.iter().enumerate() {
        for (j, b) in payloads.iter().enumerate() {
            // White space of JSON is the one difference in this list that is none.
            compare(a, b, &Significant::everything(), i == j || (i.min(j), i.max(j)) == (8, 9));
        }
    }
}

#[test]
fn an_excluded_member_is_absent_and_an_excluded_element_is_a_hole() {
    let exclude = |pointers: &[&str]| Significant::exclude(pointers.to_vec());
    text(&json(r#"{"ui":{"x":1},"a":1}"#), exclude(&["/ui"]), r#"{"a":1}"#);
    text(&json(r#"{"ui":1}"#), exclude(&["/ui"]), "{}");
    text(&json("[1,2,3]"), exclude(&["/1"]), "[1,_,3]");
    text(&json("[1]"), exclude(&["/0"]), "[_]");
    text(&json("[1,[2,3]]"), exclude(&["/*/0", "/0"]), "[_,[_,3]]");
    text(
        &json(r#"{"items":[{"sku":"a","note":"x"},{"note":1,"sku":"b"},[1]]}"#),
        exclude(&["/items/*/note"]),
        r#"{"items":[{"sku":"a"},{"sku":"b"},[1]]}"#,
    );
    text(&json(r#"{"a":{"b":1,"c":2},"d":3}"#), exclude(&["/*/b"]), r#"{"a":{"c":2},"d":3}"#);
    text(&json(r#"{"a":{"b":1}}"#), exclude(&["/*"]), "{}");
    text(&json(r#"{"a/b":1,"m~n":2,"":3,"c":4}"#), exclude(&["/a~1b", "/m~0n", "/"]), r#"{"c":4}"#);
    text(&json(r#"{"a":{"":{"0":1}}}"#), exclude(&["/a//0"]), r#"{"a":{"":{}}}"#);
    text(&json("3"), exclude(&["/a"]), "3");

    let ui = exclude(&["/ui", "/tags/0"]);
    compare(&json(r#"{"ui":1,"a":2}"#), &json(r#"{"a":2}"#), &ui, true);
    compare(&json(r#"{"tags":[1,2]}"#), &json(r#"{"tags":[9,2]}"#), &ui, true);
    compare(&json(r#"{"tags":[1,2]}"#), &json(r#"{"tags":[2]}"#), &ui, false);
    compare(&json(r#"{"tags":[1]}"#), &json(r#"{"tags":[]}"#), &ui, false);
    compare(&json(r#"{"tags":[1]}"#), &json(r#"{"tags":[null]}"#), &ui, true);
}

#[test]
fn a_hole_is_no_value() {
    let first = profile(Significant::exclude(["/0"]));
    for other in ["[null]", "[]", "[\"_\"]", "[0]", "[{}]"] {
        let hole = significant_body(&json("[1]"), &first);
        assert_ne!(hole, significant_body(&json(other), &Profile::default()));
    }
}

#[test]
fn an_included_pointer_that_finds_nothing_counts_as_absent() {
    let include = |pointers: &[&str]| Significant::include(pointers.to_vec());
    text(&json(r#"{"a":{"b":1,"x":2},"d":3}"#), include(&["/c", "/a/b"]), r#"~{"/a/b":1,"/c":_}"#);
    text(&json(r#"{"items":[{"sku":1,"x":2},{"x":3},4]}"#), include(&["/items/*/sku"]), r#"~{"/items/*/sku":[1,_,_]}"#);
    text(&json(r#"{"b":{"n":1},"a":{"n":2,"x":1}}"#), include(&["/*/n"]), r#"~{"/*/n":{"a":2,"b":1}}"#);
    text(&json(r#"[5,6]"#), include(&["/1"]), r#"~{"/1":6}"#);
    text(&json(r#"{"x":1}"#), include(&["/a", "/b"]), r#"{"x":1}"#);
    text(&json(r#"{"items":[]}"#), include(&["/items/*/sku"]), r#"{"items":[]}"#);
    text(&json(r#"{"b":1,"a":2}"#), include(&[""]), r#"~{"":{"a":2,"b":1}}"#);
    text(&json(r#"{"b":1,"a":2}"#), include(&[]), r#"{"a":2,"b":1}"#);

    let order = include(&["/total", "/items/*/sku"]);
    compare(&json(r#"{"total":1,"x":1}"#), &json(r#"{"total":1.0,"x":2}"#), &order, true);
    compare(&json(r#"{"total":1}"#), &json(r#"{"total":2}"#), &order, false);
    compare(&json(r#"{"total":1,"items":[]}"#), &json(r#"{"total":1}"#), &order, false);
    compare(&json(r#"{"total":1,"items":[{"sku":1}]}"#), &json(r#"{"total":1,"items":[{"sku":1},{}]}"#), &order, false);
    compare(
        &json(r#"{"total":1,"items":{"0":{"sku":1}}}"#),
        &json(r#"{"total":1,"items":[{"sku":1}]}"#),
        &order,
        false,
    );
    // Neither has any of it: unrelated payloads stay apart.
    compare(&json(r#"{"x":1}"#), &json(r#"{"x":2}"#), &order, false);
    // The projection of one payload is no text of another.
    compare(&json(r#"{"c":1,"d":2}"#), &json(r#"{"/c":1}"#), &include(&["/c"]), false);
}

#[test]
fn raw_bodies_count_whole_under_any_selection() {
    let include = Significant::include(["/a"]);
    compare(&json(r#"{"a":1,"b":1,"b":1}"#), &json(r#"{"a":1,"b":2,"b":2}"#), &include, false);
    compare(&body("text/plain", "a=1"), &body("text/plain", "a=1&b=2"), &include, false);
}

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn forms_are_pairs_in_order() {
    let form = |text| body(FORM, text);
    same(&form("a=x+y&b=%7e"), &form("a=x%20y&%62=~"));
    for (a, b) in [
        ("a=1&b=2", "b=2&a=1"),
        ("a=%FF", "a=%FE"),
        ("a", "a="),
        ("a=1&a=2", "a=2"),
        ("a=1%26b=2", "a=1&b=2"),
        ("a=b=c", "a=b%26c"),
    ] {
        differ(&form(a), &form(b));
        assert_eq!(whole(&form(a)).kind(), Kind::Form);
    }
    for text in ["a=%", "a=1&", "{\"a\":1}", "a=x y", "a=é"] {
        assert_eq!(whole(&form(text)).kind(), Kind::Raw, "{text}");
    }
}

#[test]
fn pointers_select_form_fields_by_name() {
    let form = |text| body(FORM, text);
    text(&form("ui=1&a=x+y&ui=2&b"), Significant::exclude(["/ui"]), "a=x%20y&b");
    text(&form("ui=1&a=1&b=2&a=3"), Significant::include(["/a", "/no/t", "/z"]), "~a=1&a=3?%2Fno%2Ft?%2Fz");
    text(&form("ui=1"), Significant::include(["/a"]), "ui=1");
    text(&form("items[0][note]=1&x=2"), Significant::exclude(["/items[0][note]"]), "x=2");
    compare(&form("a=1&ui=1"), &form("a=1&ui=2"), &Significant::exclude(["/ui"]), true);
    compare(&form("a=1&ui=1"), &form("a=2&ui=1"), &Significant::exclude(["/ui"]), false);
    compare(&form("a=1&b=1"), &form("a=1"), &Significant::include(["/a"]), true);
    compare(&form("a=1"), &form("b=1"), &Significant::include(["/a"]), false);
}

fn multipart(boundary: &str, parts: &[(&str, &str)]) -> (String, String) {
    let mut text = String::new();
    for (headers, content) in parts {
        text.push_str(&format!("--{boundary}\r\n{headers}\r\n\r\n{content}\r\n"));
    }
    text.push_str(&format!("--{boundary}--\r\n"));
    (format!("multipart/form-data; boundary={boundary}"), text)
}

const FIELD: &str = "Content-Disposition: form-data; name=\"note\"";
const FILE: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png";

#[test]
fn the_boundary_does_not_count_and_everything_else_of_a_part_does() {
    let of = |boundary: &str, parts: &[(&str, &str)]| {
        let (content_type, text) = multipart(boundary, parts);
        let payload = body(&content_type, &text);
        assert_eq!(whole(&payload).kind(), Kind::Multipart, "{text}");
        whole(&payload)
    };
    let original = of("----WebKitFormBoundaryA", &[(FIELD, "hi\r\n--\r\n"), (FILE, "\0\r\n\u{1}")]);
    assert_eq!(of("axios-1.2", &[(FIELD, "hi\r\n--\r\n"), (FILE, "\0\r\n\u{1}")]), original);
    for other in [
        &[(FIELD, "hi\r\n--\r\n"), (FILE, "\0\r\n\u{2}")][..],
        &[(FIELD, "ho\r\n--\r\n"), (FILE, "\0\r\n\u{1}")],
        &[(FILE, "\0\r\n\u{1}"), (FIELD, "hi\r\n--\r\n")],
        &[(FIELD, "hi\r\n--\r\n")],
        &[(FIELD, "hi\r\n--\r\n"), (&FILE.replace("a.png", "b.png"), "\0\r\n\u{1}")],
        &[(FIELD, "hi\r\n--\r\n"), (&FILE.replace("image/png", "image/gif"), "\0\r\n\u{1}")],
        &[(&FIELD.replace("note", "nota"), "hi\r\n--\r\n"), (FILE, "\0\r\n\u{1}")],
        &[],
    ] {
        assert_ne!(of("x", other), original, "{other:?}");
    }
    let length = format!("{FIELD}\r\ncontent-length: 2");
    assert_eq!(of("x", &[(&length, "hi")]), of("y", &[(FIELD, "hi")]));
}

#[test]
fn parts_are_selected_by_name_and_explained() {
    let (content_type_a, text_a) = multipart("a", &[(FIELD, "1"), (FILE, "x")]);
    let (content_type_b, text_b) = multipart("b", &[(FIELD, "2"), (FILE, "x")]);
    let (a, b) = (body(&content_type_a, &text_a), body(&content_type_b, &text_b));
    compare(&a, &b, &Significant::exclude(["/note"]), true);
    compare(&a, &b, &Significant::include(["/file"]), true);
    compare(&a, &b, &Significant::everything(), false);
    assert_eq!(
        explain(&a, &b, &Profile::default()),
        [Difference { place: Place::Field("note".into()), change: Change::Changed }]
    );
}

#[test]
fn what_is_not_plain_form_data_counts_byte_for_byte() {
    let (content_type, good) = multipart("b", &[(FIELD, "1"), (FILE, "x")]);
    let cases = [
        ("preamble", format!("hello\r\n{good}")),
        ("line end in front", format!("\r\n{good}")),
        ("epilogue", format!("{good}bye")),
        ("no last boundary", good.replace("--b--\r\n", "--b\r\n")),
        ("cut", good[..good.len() - 5].to_owned()),
        ("cut in the content", good[..good.len() - 9].to_owned()),
        ("longer boundary", good.replace("--b--", "--bb--")),
        ("padded boundary", good.replace("--b\r\nContent", "--b \r\nContent")),
        ("no name", good.replace("; name=\"note\"", "")),
        ("two names", good.replace("name=\"note\"", "name=\"note\"; name=\"x\"")),
        ("extended name", good.replace("filename=", "filename*=")),
        ("attachment", good.replace("form-data", "attachment")),
        ("transfer encoding", good.replace("Content-Type:", "Content-Transfer-Encoding: base64\r\nContent-Type:")),
        ("unknown header", good.replace("Content-Type:", "X-A: b\r\nContent-Type:")),
        ("repeated header", good.replace("Content-Type:", "Content-Type: a/b\r\nContent-Type:")),
        ("nested", good.replace("image/png", "multipart/mixed; boundary=c")),
        ("wrong length", good.replace("Content-Type:", "Content-Length: 2\r\nContent-Type:")),
        ("bare line ends", good.replace("\r\n", "\n")),
        ("no blank line", good.replace("\r\n\r\n1", "\r\n1")),
        ("open quote", good.replace("name=\"note\"", "name=\"note")),
    ];
    for (name, text) in &cases {
        let payload = body(&content_type, text);
        assert_eq!(whole(&payload).kind(), Kind::Raw, "{name}");
        assert!(matches!(why_raw(&payload), Some(RawReason::Multipart(_))), "{name}");
    }
    assert_eq!(whole(&body("multipart/form-data", &good)).kind(), Kind::Raw);
    assert_eq!(whole(&body("multipart/mixed; boundary=b", &good)).kind(), Kind::Raw);
    // axios under Node sends multipart bodies under the name of a form.
    assert_eq!(whole(&body(FORM, &good)).kind(), Kind::Raw);
    assert_eq!(whole(&body("multipart/form-data; boundary=\"b\"", &good)).kind(), Kind::Multipart);
}

#[test]
fn listed_headers_count_in_addition() {
    let headers = |headers| Payload { headers, ..json("1") };
    let tenant = Significant::everything().headers(["X-Tenant"]);
    compare(&headers(&[("x-tenant", b"a")]), &headers(&[("X-TENANT", b" a "), ("other", b"1")]), &tenant, true);
    compare(&headers(&[("x-tenant", b"a")]), &headers(&[("x-tenant", b"b")]), &tenant, false);
    compare(&headers(&[("x-tenant", b"")]), &headers(&[]), &tenant, false);
    compare(&headers(&[("x-tenant", b"a"), ("x-tenant", b"b")]), &headers(&[("x-tenant", b"ab")]), &tenant, false);
    compare(
        &headers(&[("x-tenant", b"a"), ("x-tenant", b"b")]),
        &headers(&[("x-tenant", b"b"), ("x-tenant", b"a")]),
        &tenant,
        false,
    );
    same(&headers(&[("x-tenant", b"a")]), &headers(&[]));
}

#[test]
fn listed_query_parameters_alone_count() {
    let query = |query| Payload { query: Some(query), ..json("1") };
    let only = Significant::everything().query(["dry run", "n"]);
    compare(&query("n=1&_=123"), &query("_=456&n=1"), &only, true);
    compare(&query("n=1"), &query("%6E=1&"), &only, true);
    compare(&query("dry+run=1"), &query("dry%20run=1"), &only, true);
    compare(&query("n=1"), &query("n=2"), &only, false);
    compare(&query("n=1&n=2"), &query("n=2&n=1"), &only, false);
    compare(&query("n"), &query(""), &only, false);
    compare(&query("%zz=1"), &query("%zz=2"), &only, false);
}

#[test]
fn explain_names_the_fields() {
    let a = Payload {
        path_params: &["7"],
        query: Some("x=1"),
        ..json(r#"{"items":[{"q/t":1,"n":[1,2]},2],"a":1,"ui":1}"#)
    };
    let b = Payload { path_params: &["8"], query: None, ..json(r#"{"items":[{"q/t":2,"n":[1]}],"b":1,"ui":2}"#) };
    let lines: Vec<_> =
        explain(&a, &b, &profile(Significant::exclude(["/ui"]))).iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "path parameter 1: differs",
            "query: only in the first",
            "/a: only in the first",
            "/b: only in the second",
            "/items/0/n/1: only in the first",
            "/items/0/q~1t: differs",
            "/items/1: only in the first",
        ]
    );
    let lines: Vec<_> = explain(&a, &b, &profile(Significant::include(["/items/*/q~1t", "/items/0", "/b"])))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        lines[2..],
        [
            "/b: only in the second",
            "/items/0/q~1t: differs",
            "/items/1: only in the first",
            "/items/0/n/1: only in the first"
        ]
    );
}

#[test]
fn another_profile_is_no_mismatch() {
    let (old, new) = (profile(Significant::everything()), profile(Significant::exclude(["/ui"])));
    let stored = fingerprint(&json("1"), &old);
    assert_eq!(stored.compare(&fingerprint(&json("1.0"), &old)), Comparison::Same);
    assert_eq!(stored.compare(&fingerprint(&json("2"), &old)), Comparison::Differs);
    assert_eq!(stored.compare(&fingerprint(&json("1"), &new)), Comparison::OtherProfile(old.id()));
}
