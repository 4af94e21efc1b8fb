//! Writes the tree as YAML that readers of versions 1.1 and 1.2 understand alike.
//!
//! Block collections only, no anchors and no tags; text is quoted unless it can be nothing but text. `serde_yaml_ng` leaves
//! `1:1` and `yes` bare, which YAML 1.1 (PyYAML, Ruby's Psych) reads as 61 and as true, and it does not fold long lines.

use super::node::{Node, Object};

/// Columns of a line of folded text at most, unless a word is longer.
const WIDTH: usize = 120;

/// The document.
pub(super) fn written(root: &Object) -> String {
    let mut text = String::new();
    write_members(&mut text, root, 0, false);
    text
}

/// Members at a depth in columns. With `continues` the first member stands on the current line.
fn write_members(text: &mut String, object: &Object, depth: usize, continues: bool) {
    for (at, (key, value)) in object.members().iter().enumerate() {
        if at > 0 || !continues {
            indent(text, depth);
        }
        text.push_str(&scalar(key));
        text.push(':');
        write_value(text, value, depth);
    }
}

/// A value behind its key, which is at `depth`.
fn write_value(text: &mut String, value: &Node, depth: usize) {
    match value {
        Node::Object(object) if object.members().is_empty() => text.push_str(" {}\n"),
        Node::Object(object) => {
            text.push('\n');
            write_members(text, object, depth + 2, false);
        }
        Node::List(values) if values.is_empty() => text.push_str(" []\n"),
        Node::List(values) => {
            text.push('\n');
            for value in values {
                indent(text, depth + 2);
                text.push('-');
                write_item(text, value, depth + 2);
            }
        }
        Node::Text(content) => write_text(text, content, depth + 2),
        Node::Boolean(value) => text.push_str(&format!(" {value}\n")),
        // Without a fraction an f64 is displayed as an integer.
        Node::Number(value) => text.push_str(&format!(" {value}\n")),
    }
}

/// A value behind the dash of its sequence, which is at `depth`.
fn write_item(text: &mut String, value: &Node, depth: usize) {
    match value {
        Node::Object(object) if !object.members().is_empty() => {
            text.push(' ');
            write_members(text, object, depth + 2, true);
        }
        Node::Object(_) | Node::List(_) | Node::Text(_) | Node::Boolean(_) | Node::Number(_) => {
            write_value(text, value, depth);
        }
    }
}

/// Text behind its key or dash, in as many lines as it needs, which are at `depth`.
fn write_text(text: &mut String, content: &str, depth: usize) {
    let words: Vec<_> = content.split(' ').collect();
    let folds = content.len() + depth > WIDTH && words.iter().all(|word| !word.is_empty());
    if let Some(lines) = content.strip_suffix('\n')
        && !content.starts_with([' ', '\n'])
        && !lines.ends_with('\n')
    {
        text.push_str(" |\n");
        for line in lines.split('\n') {
            if !line.is_empty() {
                indent(text, depth);
            }
            text.push_str(line);
            text.push('\n');
        }
    } else if folds && !content.contains(char::is_control) {
        text.push_str(" >-\n");
        let mut column = 0;
        for word in words {
            let length = word.chars().count();
            if column == 0 {
                indent(text, depth);
                column = depth + length;
            } else if column + 1 + length > WIDTH {
                text.push('\n');
                indent(text, depth);
                column = depth + length;
            } else {
                text.push(' ');
                column += 1 + length;
            }
            text.push_str(word);
        }
        text.push('\n');
    } else {
        text.push_str(&format!(" {}\n", scalar(content)));
    }
}

/// Text within one line: bare where every reader takes it as text, else quoted as in JSON, which YAML reads too.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { serde_json::to_string(text).expect("text is JSON") }
}

fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || " $/_-.,;()'`".contains(letter);
    let begins_safely = text.starts_with(|first: char| first.is_ascii_alphabetic() || "$/".contains(first));
    let is_version = text.split('.').count() == 3 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
    is_version || begins_safely && text.chars().all(is_safe) && !text.ends_with(' ') && !is_word
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n(' ', depth));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn only_what_is_text_to_every_reader_is_bare() {
        for text in ["png", "x-service-model", "/remove", "$ref", "Any failure, of any kind.", "3.1.0", "it's `a`"] {
            assert_eq!(scalar(text), text);
        }
        let words = "200 1:1 16:9 1.5 0x10 2026-01-01 yes No ON null ~ #fff @a `a` * &a !a | [a] {a} % ü a:";
        for text in words.split(' ').chain(["", "a: b", "a #b", "- a", "a ", " a"]) {
            assert_eq!(scalar(text), serde_json::to_string(text).expect("text"), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let long = "Long text: with a colon, `code` and a # in it. ".repeat(9);
        let inner =
            Object::default().with("a: b", "1:1").with("lines", "one\n\n  two: #\n").with("none", Object::default());
        let list: Node =
            [Node::from("x"), inner.clone().into(), true.into(), Node::List(Vec::new())].into_iter().collect();
        let root = Object::default()
            .with("200", inner)
            .with("list", list)
            .with("folded", long.trim().to_owned())
            .with("spaces", format!("{}  {}", long.trim(), long.trim()))
            .with("break", "one\ntwo")
            .with("number", 0.5)
            .with("integer", 8192u32);
        let text = written(&root);
        assert!(text.lines().all(|line| line.len() < 200 || line.starts_with("spaces:")), "{text}");
        let read: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        assert_eq!(read, json!(root));
        assert_eq!(read["integer"], json!(8192));
        assert_eq!(read["list"][1]["a: b"], json!("1:1"));
    }
}
