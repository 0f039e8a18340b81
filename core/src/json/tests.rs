use alloc::format;
use alloc::string::String;

use super::{JsonReason, canonical};

fn text(json: impl AsRef<[u8]>) -> String {
    String::from_utf8(canonical(json.as_ref()).unwrap()).unwrap()
}

#[track_caller]
fn check(json: &str, expected: &str) {
    assert_eq!(text(json), expected);
    assert_eq!(text(expected), expected, "canonical is canonical");
}

#[track_caller]
fn refused(json: impl AsRef<[u8]>, offset: usize, reason: JsonReason) {
    let error = canonical(json.as_ref()).expect_err("strict");
    assert_eq!((error.offset, error.reason), (offset, reason), "{:?}", String::from_utf8_lossy(json.as_ref()));
}

#[test]
fn rfc_8785_section_3_2_2() {
    check(
        r#"{
          "numbers": [333333333.3333333, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
          "literals": [null, true, false]
        }"#,
        concat!(
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        ),
    );
}

#[test]
fn rfc_8785_section_3_2_3_sorts_by_utf16() {
    check(
        r#"{
          "\u20ac": "Euro Sign",
          "\r": "Carriage Return",
          "\ufb33": "Hebrew Letter Dalet With Dagesh",
          "1": "One",
          "\ud83d\ude00": "Emoji: Grinning Face",
          "\u0080": "Control",
          "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#,
        concat!(
            r#"{"\r":"Carriage Return","1":"One",""#,
            "\u{80}",
            r#"":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","#,
            r#""😀":"Emoji: Grinning Face",""#,
            "\u{fb33}",
            r#"":"Hebrew Letter Dalet With Dagesh"}"#
        ),
    );
}

/// RFC 8785, appendix B, from the spelling each double has there.
#[test]
fn rfc_8785_appendix_b() {
    for number in [
        "0",
        "5e-324",
        "-5e-324",
        "1.7976931348623157e+308",
        "-1.7976931348623157e+308",
        "9007199254740992",
        "-9007199254740992",
        "295147905179352830000",
        "9.999999999999997e+22",
        "1e+23",
        "1.0000000000000001e+23",
        "999999999999999700000",
        "999999999999999900000",
        "1e+21",
        "9.999999999999997e-7",
        "0.000001",
        "333333333.3333332",
        "333333333.33333325",
        "333333333.3333333",
        "333333333.3333334",
        "333333333.33333343",
        "-0.0000033333333333333333",
        "1424953923781206.2",
    ] {
        check(number, number);
    }
    check("-0", "0");
}

#[test]
fn spellings_of_one_number_are_one() {
    for (expected, spellings) in [
        ("0", &["0", "-0", "0.0", "-0.00", "0e5", "0E-5", "-0.0e+99", "0e9223372036854775807"][..]),
        ("1", &["1", "1.0", "10e-1", "0.1e1", "1e0", "1E+0", "1e-0", "100.00e-2", "0.00001e5"]),
        ("-12.5", &["-12.5", "-12.50", "-125e-1", "-0.125e2", "-1.25e1"]),
        ("100", &["100", "1e2", "1E2", "100.0", "0.1e3", "10000e-2"]),
        ("0.000001", &["0.000001", "1e-6", "0.0000010", "10e-7"]),
        ("1e-7", &["1e-7", "0.0000001", "0.00000010"]),
        ("1.5e-7", &["15e-8", "0.00000015"]),
        ("100000000000000000000", &["1e20", "100000000000000000000", "100000000000000000000.0"]),
        ("1e+21", &["1e21", "1000000000000000000000", "0.1e22"]),
        ("123456789012345678901", &["123456789012345678901", "1234567890123456789.01e2"]),
        ("123456789012345678901.5", &["123456789012345678901.5", "1234567890123456789015e-1"]),
        ("1.234567890123456789012e+21", &["1234567890123456789012", "1234567890123456789012.0"]),
        ("1e+999999999", &["1e999999999", "10e999999998", "0.001E+1000000002"]),
        ("1e+9223372036854775807", &["1e9223372036854775807", "10e9223372036854775806", "100e09223372036854775805"]),
        ("1e-9223372036854775808", &["1e-9223372036854775808", "0.1e-9223372036854775807"]),
    ] {
        for spelling in spellings {
            assert_eq!(text(spelling), expected, "{spelling}");
        }
        assert_eq!(text(expected), expected);
    }
}

#[test]
fn a_longer_spelling_keeps_what_it_says() {
    for number in ["9007199254740993", "333333333.33333329", "1e+400", "1e-400", "0.1000000000000000055511151231257827"]
    {
        check(number, number);
    }
}

#[test]
fn strings_are_written_in_one_way() {
    check(r#""\u0008\u0009\u000a\u000c\u000d\u0000\u001F\u007f\/\u00e9""#, "\"\\b\\t\\n\\f\\r\\u0000\\u001f\u{7f}/é\"");
    check("\"A\u{30a} </script> \\uffff \\ufdd0 \\ud83d\\uDE02\"", "\"A\u{30a} </script> \u{ffff} \u{fdd0} 😂\"");
    check(r#"{"b\u0022":1,"b":2,"\u0062!":3}"#, r#"{"b":2,"b!":3,"b\"":1}"#);
}

#[test]
fn containers_are_kept_and_white_space_is_not() {
    check(" \t\r\n[ ] ", "[]");
    check("{ \n}", "{}");
    check(r#"[ [ ] , { } , [ { "" : [ 1 , 2 ] } ] ]"#, r#"[[],{},[{"":[1,2]}]]"#);
    check(r#"{"z":{"b":1,"a":[{"d":1,"c":2}]},"y":0,"x":{}}"#, r#"{"x":{},"y":0,"z":{"a":[{"c":2,"d":1}],"b":1}}"#);
}

#[test]
fn what_is_not_json_is_refused_where_it_goes_wrong() {
    use JsonReason as R;
    refused("", 0, R::UnexpectedEnd);
    refused("  ", 2, R::UnexpectedEnd);
    refused("\u{feff}1", 0, R::ByteOrderMark);
    refused(b"[\"\xff\"]", 2, R::InvalidUtf8);
    refused(b"\"\xed\xa0\x80\"", 1, R::InvalidUtf8);
    refused("1 2", 2, R::TrailingBytes);
    refused("{}}", 2, R::TrailingBytes);
    refused("[1,]", 3, R::UnexpectedByte(b']'));
    refused("[,1]", 1, R::UnexpectedByte(b','));
    refused("[1 2]", 3, R::UnexpectedByte(b'2'));
    refused("[1", 2, R::UnexpectedEnd);
    refused("{\"a\"", 4, R::UnexpectedEnd);
    refused("{\"a\":1,}", 7, R::UnexpectedByte(b'}'));
    refused("{a:1}", 1, R::UnexpectedByte(b'a'));
    refused("{\"a\" 1}", 5, R::UnexpectedByte(b'1'));
    refused("tru", 3, R::UnexpectedEnd);
    refused("trux", 3, R::UnexpectedByte(b'x'));
    refused("NaN", 0, R::UnexpectedByte(b'N'));
    refused("nullx", 4, R::TrailingBytes);
    refused("'a'", 0, R::UnexpectedByte(b'\''));
    refused("[1]//", 3, R::TrailingBytes);
    refused("\u{b}1", 0, R::UnexpectedByte(0x0b));
    refused("\"a\u{1}\"", 2, R::ControlCharacter);
    refused("\"a\\n\n\"", 4, R::ControlCharacter);
    refused("\"abc", 4, R::UnexpectedEnd);
    refused("\"\\", 2, R::UnexpectedEnd);
    refused("\"\\x\"", 1, R::InvalidEscape);
    refused("\"\\u12\"", 1, R::InvalidEscape);
    refused("\"\\u+123\"", 1, R::InvalidEscape);
}

#[test]
fn half_a_surrogate_pair_is_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#""\ud800\ud800""#,
        r#""\ud83d\u0041""#,
        r#""\ud83d\ude0""#,
    ] {
        refused(text, 1, JsonReason::LoneSurrogate);
    }
    refused(r#"{"a\udfff":1}"#, 3, JsonReason::LoneSurrogate);
}

#[test]
fn numbers_are_strict() {
    use JsonReason as R;
    for (text, offset) in
        [("01", 0), ("-01", 1), ("00", 0), ("-x", 1), ("1.x", 2), ("1ex", 2), ("1e+x", 3), ("1.e1", 2), ("-.5", 1)]
    {
        refused(text, offset, R::InvalidNumber);
    }
    for text in ["-", "1.", "1e", "1e+", "1.5E-"] {
        refused(text, text.len(), R::UnexpectedEnd);
    }
    for text in ["+1", ".5", "Infinity"] {
        refused(text, 0, R::UnexpectedByte(text.as_bytes()[0]));
    }
    refused("1e9223372036854775808", 2, R::ExponentTooLarge);
    refused("10e9223372036854775807", 3, R::ExponentTooLarge);
    refused("1e-9223372036854775809", 3, R::ExponentTooLarge);
    refused("[0.01e-9223372036854775808]", 7, R::ExponentTooLarge);
    refused("0e99999999999999999999", 2, R::ExponentTooLarge);
}

#[test]
fn a_member_may_not_occur_twice() {
    refused(r#"{"a":1,"a":1}"#, 7, JsonReason::DuplicateMember);
    refused(r#"{"a":1,"\u0061":2}"#, 7, JsonReason::DuplicateMember);
    refused(r#"{"b":1,"a":1,"b":3,"a":2}"#, 13, JsonReason::DuplicateMember);
    refused(r#"[{"x":{"b":{},"a":[],"c":0,"\u0062":1}}]"#, 27, JsonReason::DuplicateMember);
    check(r#"{"b":{"a":1},"a":{"a":1}}"#, r#"{"a":{"a":1},"b":{"a":1}}"#);
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(text(nested(128)), nested(128));
    refused(nested(129), 128, JsonReason::TooDeep);
    let members = |depth: usize| format!("{}0{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert_eq!(text(members(128)), members(128));
    refused(members(129), 128 * 5, JsonReason::TooDeep);
    refused("[".repeat(1_000_000), 128, JsonReason::TooDeep);
}
