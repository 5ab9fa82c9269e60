use proptest::prelude::*;

use super::*;

/// The oracle: what serde_json makes of the same text.
fn oracle(value: &Value) -> serde_json::Value {
    match &value.kind {
        Kind::Null => serde_json::Value::Null,
        Kind::Bool(b) => (*b).into(),
        Kind::Number(text) => serde_json::from_str(text).unwrap(),
        Kind::String(s) => s.clone().into(),
        Kind::Array(values) => values.iter().map(oracle).collect(),
        Kind::Object(members) => members.iter().map(|m| (m.key.clone(), oracle(&m.value))).collect(),
    }
}

fn agrees(text: &str) -> Result<(), TestCaseError> {
    let (ours, errors) = parse(text);
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(theirs) => {
            prop_assert_eq!(&errors, &[]);
            prop_assert_eq!(oracle(&ours.unwrap()), theirs);
        }
        Err(error) if error.to_string().starts_with("number out of range") => {}
        Err(error) => prop_assert!(!errors.is_empty(), "{} is accepted, but: {}", text, error),
    }
    Ok(())
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_json_reads_as_serde_json_reads_it(value in tree(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        agrees(&text)?;
    }

    #[test]
    fn damaged_json_is_refused_when_serde_json_refuses_it(value in tree(), at: prop::sample::Index, c in "[\\x00-\\x7f]?") {
        let text = serde_json::to_string(&value).unwrap();
        let mut damaged: Vec<char> = text.chars().collect();
        let at = at.index(damaged.len());
        damaged.splice(at..=at, c.chars());
        agrees(&damaged.into_iter().collect::<String>())?;
    }

    #[test]
    fn soup_of_json_pieces_agrees(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\":", "0", "-", "1", ".", "e", "E+", "true", "null", " ", "\n", "\"",
                "\\", "\\u", "d800", "\\udc00", "\\ud83d\\ude00", "x", "/", "//", "\t", "\u{e9}", "\u{feff}",
            ]),
            0..24,
        )
    ) {
        agrees(&pieces.concat())?;
    }

    #[test]
    fn never_panics(text: String) {
        let (_, errors) = parse(&text);
        prop_assert!(errors.len() <= MAX_ERRORS);
    }
}

fn messages(text: &str) -> Vec<String> {
    parse(text).1.into_iter().map(|e| format!("{}: {}", e.position, e.message)).collect()
}

#[test]
fn positions_count_lines_and_characters() {
    let (value, errors) = parse("{\r\n  \"\u{e9}\u{e9}\": [1,\r\n true]\r\n}");
    assert_eq!(errors, []);
    let Kind::Object(members) = value.unwrap().kind else { panic!("no object") };
    assert_eq!(members[0].position, Position { line: 2, column: 3 });
    assert_eq!(members[0].value.position, Position { line: 2, column: 9 });
    let Kind::Array(values) = &members[0].value.kind else { panic!("no array") };
    assert_eq!(values[1].position, Position { line: 3, column: 2 });
}

#[test]
fn says_where_and_what_was_expected() {
    assert_eq!(messages(""), ["1:1: the file is empty: expected { … }"]);
    assert_eq!(messages("{\"a\" 1}"), ["1:6: expected : after \"a\", found \"1\""]);
    assert_eq!(messages("{\"a\": 1;}"), ["1:8: expected , or }, found \";\""]);
    assert_eq!(messages("{\"a\": }"), ["1:7: expected a value, found \"}\""]);
    assert_eq!(messages("{a: 1}"), ["1:2: expected a field name in double quotes, found \"a\""]);
    assert_eq!(messages("{\"a\": 'b'}"), ["1:7: strings take double quotes"]);
    assert_eq!(messages("{\"a\": True}"), ["1:7: expected a value, found \"True\": write true"]);
    assert_eq!(messages("{\"a\":\n [1, 2"), ["2:7: the file ends, but the [ of line 2 is still open"]);
    assert_eq!(messages("{\"a\": \"b\n}"), ["1:7: the string that begins here has no closing quote in its line"]);
    assert_eq!(messages("{} x"), ["1:4: expected the end of the file, found \"x\""]);
    assert_eq!(messages("[-]"), ["1:3: expected a digit, found \"]\""]);
    assert_eq!(messages("[\"\\q\"]"), ["1:3: expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX"]);
}

#[test]
fn reads_past_what_is_usual_in_files_written_by_hand() {
    let text = "{ // first\n \"a\": [1, 2,],\n \"b\": 0x10 \"c\": 007,\n # last\n}";
    let (value, errors) = parse(text);
    assert!(value.is_some());
    let lines: Vec<u32> = errors.iter().map(|e| e.position.line).collect();
    assert_eq!(lines, [1, 2, 3, 3, 3, 4, 5], "{errors:?}");
}

#[test]
fn depth_is_limited() {
    let text = "[".repeat(100_000);
    assert_eq!(messages(&text), ["1:65: too many levels of { and ["]);
    assert!(parse(&format!("{}{}", "[".repeat(60), "]".repeat(60))).1.is_empty());
}
