//! Merges settings by precedence: flag over environment variable over TOML file over default.
//!
//! Generic over the settings: the serialised defaults are the list of settings. Each given value is deserialised separately on top of
//! the defaults, so that all invalid values are reported with their origins.

use crate::recipe::nearest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Prefix of our environment variables.
const PREFIX: &str = "BACKDROP";

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// In the TOML file, in this line if it is known.
    File(PathBuf, Option<usize>),
    /// In this environment variable.
    Variable(String),
    /// With this flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Self::File(path, None) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where it was set; `None` for a default.
    pub(super) origin: Option<Origin>,
    /// The setting, `section.key`; empty for the whole file.
    pub(super) setting: String,
    pub(super) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if !self.setting.is_empty() {
            write!(f, "{}: ", self.setting)?;
        }
        f.write_str(&self.message)
    }
}

/// All mistakes in the configuration, one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub(super) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration has {} mistake{}", self.0.len(), if self.0.len() == 1 { "" } else { "s" })?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}

/// The given values, by source.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    /// Path and text of the TOML file.
    pub(super) file: Option<(PathBuf, String)>,
    /// The process's environment.
    pub(super) environment: Vec<(String, String)>,
    /// Setting (`section.key`), its flag, and the flag's value.
    pub(super) flags: Vec<(&'static str, &'static str, String)>,
}

/// The merged settings, and the origin of each that is not a default.
#[derive(Clone, Debug)]
pub(super) struct Merged<T> {
    pub(super) settings: T,
    origins: BTreeMap<String, Origin>,
}

impl<T> Merged<T> {
    /// Where `setting` was set; `None` if it has its default.
    pub(super) fn origin(&self, setting: &str) -> Option<&Origin> {
        self.origins.get(setting)
    }
}

/// Merges the sources over `T`'s defaults. `short` are additional variable names, each with its setting.
///
/// An unknown variable is a mistake if its name begins with a section or is similar to a setting's variable. Other variables with our
/// prefix are ignored: clients and Kubernetes set such variables (`BACKDROP_KEY`, `BACKDROP_SERVICE_HOST`).
///
/// Also returns all problems: unknown keys and variables, values of the wrong type, a file that is not TOML. Invalid values have their
/// default, so that the rest can still be validated.
pub(super) fn merge<T: Default + Serialize + DeserializeOwned>(
    sources: &Sources,
    short: &[(&str, &str)],
) -> (Merged<T>, Vec<Problem>) {
    let mut merging = Merger::new::<T>();
    if let Some((path, text)) = &sources.file {
        merging.file::<T>(path, text);
    }
    let known = merging.known();
    let full = known.iter().map(|setting| (variable_name(setting), setting.as_str()));
    let short = short.iter().map(|(variable, setting)| ((*variable).to_owned(), *setting));
    let variables: Vec<_> = full.chain(short).collect();
    merging.unknown_variables(&sources.environment, &variables);
    for (variable, setting) in variables {
        if let Some((_, text)) = sources.environment.iter().find(|(name, _)| *name == variable) {
            merging.text::<T>(setting, text, Origin::Variable(variable));
        }
    }
    for (setting, flag, text) in &sources.flags {
        merging.text::<T>(setting, text, Origin::Flag(flag));
    }
    merging.finish()
}

/// The environment variable of a setting: `limits.rate_per_minute` is `BACKDROP_LIMITS_RATE_PER_MINUTE`.
fn variable_name(setting: &str) -> String {
    format!("{PREFIX}_{}", setting.replace('.', "_").to_uppercase())
}

/// Every setting of `T`, as `section.key`.
#[cfg(test)]
pub(super) fn setting_names<T: Default + Serialize>() -> Vec<String> {
    Merger::new::<T>().known()
}

struct Merger {
    defaults: Value,
    merged: Value,
    origins: BTreeMap<String, Origin>,
    problems: Vec<Problem>,
}

impl Merger {
    fn new<T: Default + Serialize>() -> Self {
        let defaults = serde_json::to_value(T::default()).expect("settings are plain data");
        Self { merged: defaults.clone(), defaults, origins: BTreeMap::new(), problems: Vec::new() }
    }

    fn known(&self) -> Vec<String> {
        let mut known = Vec::new();
        for (name, value) in self.defaults.as_object().into_iter().flatten() {
            if let Value::Object(section) = value {
                known.extend(section.keys().map(|key| format!("{name}.{key}")));
            } else {
                known.push(name.clone());
            }
        }
        known
    }

    fn file<T: DeserializeOwned>(&mut self, path: &Path, text: &str) {
        let origin = |setting: &str| Origin::File(path.to_owned(), line_of(text, setting));
        let table: Map<String, Value> = match toml::from_str(text) {
            Ok(table) => table,
            Err(error) => {
                return self.problem(Some(Origin::File(path.to_owned(), None)), "", &syntax_error(&error, text));
            }
        };
        for (name, value) in table {
            // A quoted name with a dot, which would be read as a setting of a section.
            if name.contains('.') {
                self.problem(Some(Origin::File(path.to_owned(), None)), &name, "unknown field");
                continue;
            }
            let is_section = self.defaults.get(&name).is_some_and(Value::is_object);
            if let (true, Value::Object(section)) = (is_section, &value) {
                for (key, value) in section {
                    let setting = format!("{name}.{key}");
                    self.set::<T>(&setting, [value.clone()], &origin(&setting));
                }
            } else {
                self.set::<T>(&name, [value], &origin(&name));
            }
        }
    }

    /// Sets a value given as text, interpreted as the first that the setting accepts: a number, a boolean or a JSON object, a
    /// string, a comma-separated list.
    fn text<T: DeserializeOwned>(&mut self, setting: &str, text: &str, origin: Origin) {
        let is_typed = |value: &Value| value.is_number() || value.is_boolean() || value.is_object();
        let typed = serde_json::from_str::<Value>(text.trim()).ok().filter(is_typed);
        let list = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect();
        let candidates = typed.into_iter().chain([Value::from(text), Value::Array(list)]);
        self.set::<T>(setting, candidates, &origin);
    }

    /// Sets the first candidate that `T` accepts; reports the error of the first when it accepts none.
    fn set<T: DeserializeOwned>(
        &mut self,
        setting: &str,
        candidates: impl IntoIterator<Item = Value>,
        origin: &Origin,
    ) {
        let mut first_error = None;
        for candidate in candidates {
            let mut alone = self.defaults.clone();
            set_path(&mut alone, setting, candidate.clone());
            match serde_json::from_value::<T>(alone) {
                Ok(_) => {
                    set_path(&mut self.merged, setting, candidate);
                    self.origins.insert(setting.to_owned(), origin.clone());
                    return;
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if let Some(error) = first_error {
            self.problem(Some(origin.clone()), setting, &in_words(&error.to_string()));
        }
    }

    /// Reports variables that name no setting, but are similar to a setting's variable.
    fn unknown_variables(&mut self, given: &[(String, String)], known: &[(String, &str)]) {
        let of_kubernetes = |name: &str| {
            ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT"].iter().any(|end| name.ends_with(end)) || name.contains("_PORT_")
        };
        let sections: Vec<_> = self
            .defaults
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| value.is_object())
            .map(|(name, _)| format!("{}_", variable_name(name)))
            .collect();
        for (name, _) in given {
            let Some(own) = name.strip_prefix(PREFIX).and_then(|own| own.strip_prefix('_')) else { continue };
            if known.iter().any(|(known, _)| known == name) || of_kubernetes(name) {
                continue;
            }
            let meant = nearest(own, known.iter().filter_map(|(known, _)| known.get(PREFIX.len() + 1..)));
            if meant.is_some() || sections.iter().any(|section| name.starts_with(section)) {
                let meant = meant.map(|meant| format!("; did you mean {PREFIX}_{meant}?")).unwrap_or_default();
                self.problem(Some(Origin::Variable(name.clone())), "", &format!("there is no such setting{meant}"));
            }
        }
    }

    fn problem(&mut self, origin: Option<Origin>, setting: &str, message: &str) {
        self.problems.push(Problem { origin, setting: setting.to_owned(), message: message.to_owned() });
    }

    fn finish<T: Default + DeserializeOwned>(mut self) -> (Merged<T>, Vec<Problem>) {
        let settings = serde_json::from_value(self.merged.take()).unwrap_or_else(|error| {
            self.problem(None, "", &error.to_string());
            T::default()
        });
        (Merged { settings, origins: self.origins }, self.problems)
    }
}

/// The line of a setting in a TOML file, from 1; `None` if it is not written as `key = …` below its section.
fn line_of(text: &str, setting: &str) -> Option<usize> {
    let (section, key) = setting.split_once('.').unwrap_or(("", setting));
    let mut current = "";
    let mut lines = text.lines().map(str::trim).zip(1..);
    let found = lines.find(|(line, _)| {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            current = header.trim();
            return section.is_empty() && current == key;
        }
        current == section && line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    });
    found.map(|(_, line)| line)
}

/// A message of serde with its types in words.
fn in_words(message: &str) -> String {
    let Some((before, expected)) = message.split_once(", expected ") else { return message.to_owned() };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        expected if expected.starts_with("struct ") => "a table",
        expected => expected,
    };
    format!("{before}, expected {expected}")
}

/// The message and position of a syntax error. The text of `toml` also shows the line, which may hold a secret.
fn syntax_error(error: &toml::de::Error, text: &str) -> String {
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return format!("TOML parse error: {}", error.message());
    };
    let (line, start) = (before.matches('\n').count() + 1, before.rfind('\n').map_or(0, |newline| newline + 1));
    let column = before[start..].chars().count() + 1;
    format!("TOML parse error at line {line}, column {column}: {}", error.message())
}

fn set_path(tree: &mut Value, setting: &str, value: Value) {
    match setting.split_once('.') {
        Some((section, key)) => tree[section][key] = value,
        None => tree[setting] = value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Section {
        count: u32,
        names: Vec<String>,
        label: Option<String>,
        on: bool,
        places: BTreeMap<String, u32>,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Settings {
        place: Option<PathBuf>,
        limits: Section,
    }

    fn merged(
        file: &str,
        environment: &[(&str, &str)],
        flags: &[(&'static str, &'static str, &str)],
    ) -> Result<Merged<Settings>, Problems> {
        let sources = Sources {
            file: Some(("b.toml".into(), file.to_owned())),
            environment: environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            flags: flags.iter().map(|(setting, flag, value)| (*setting, *flag, value.to_string())).collect(),
        };
        match merge(&sources, &[("BACKDROP_HERE", "limits.label")]) {
            (merged_settings, problems) if problems.is_empty() => Ok(merged_settings),
            (_, problems) => Err(Problems(problems)),
        }
    }

    #[test]
    fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
        let file = "place = 'file'\n[limits]\ncount = 1\nlabel = 'file'\n";
        let variables = [("BACKDROP_PLACE", "variable"), ("BACKDROP_LIMITS_COUNT", "2")];
        let merged_settings = merged(file, &variables, &[("place", "--place", "flag")]).unwrap();
        assert_eq!(merged_settings.settings.place.as_deref(), Some(Path::new("flag")));
        assert_eq!(merged_settings.settings.limits.count, 2);
        assert_eq!(merged_settings.settings.limits.label.as_deref(), Some("file"));
        assert!(!merged_settings.settings.limits.on);
        assert_eq!(merged_settings.origin("place"), Some(&Origin::Flag("--place")));
        assert_eq!(merged_settings.origin("limits.count"), Some(&Origin::Variable("BACKDROP_LIMITS_COUNT".into())));
        assert_eq!(merged_settings.origin("limits.on"), None);
    }

    #[test]
    fn every_mistake_is_reported_at_once_with_its_origin() {
        let file = "colour = 1\n\"place.x\" = 1\n[limits]\ncuont = 1\n[limts]\ncount = 1\n";
        let variables = [("BACKDROP_LIMITS_ON", "maybe")];
        let problems = merged(file, &variables, &[("limits.count", "--count", "-1")]).unwrap_err();
        let message = problems.to_string();
        assert_eq!(problems.0.len(), 6, "{message}");
        for problem in [
            "b.toml: place.x: unknown field",
            "b.toml:1: colour: unknown field `colour`, expected `place` or `limits`",
            "b.toml:4: limits.cuont: unknown field `cuont`",
            "b.toml:5: limts: unknown field `limts`",
            "BACKDROP_LIMITS_ON: limits.on: invalid type: string \"maybe\", expected true or false",
            "--count: limits.count: invalid value: integer `-1`, expected a whole number",
        ] {
            assert!(message.contains(problem), "{problem} is not in {message}");
        }
    }

    #[test]
    fn text_is_parsed_as_the_type_of_the_setting_and_a_setting_may_have_a_shorter_variable() {
        let variables = [("BACKDROP_LIMITS_NAMES", "a, b"), ("BACKDROP_HERE", "12"), ("BACKDROP_LIMITS_ON", "true")];
        let limits = merged("", &variables, &[]).unwrap().settings.limits;
        assert_eq!(
            limits,
            Section { names: vec!["a".into(), "b".into()], label: Some("12".into()), on: true, ..Section::default() }
        );
    }

    #[test]
    fn a_table_is_given_as_a_json_object() {
        let file = "[limits]\nplaces = { a = 1, b = 2 }\n";
        let limits = merged(file, &[("BACKDROP_LIMITS_PLACES", r#" {"a": 3} "#)], &[]).unwrap().settings.limits;
        assert_eq!(limits.places, BTreeMap::from([("a".to_owned(), 3)]));
        let limits = merged("", &[("BACKDROP_LIMITS_LABEL", r#"{"a": 3}"#)], &[]).unwrap().settings.limits;
        assert_eq!(limits.label.as_deref(), Some(r#"{"a": 3}"#));
        let message = merged("", &[("BACKDROP_LIMITS_PLACES", r#"{"a": "3"}"#)], &[]).unwrap_err().to_string();
        let expected = r#"BACKDROP_LIMITS_PLACES: limits.places: invalid type: string "3", expected a whole number"#;
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn a_misspelt_variable_is_a_mistake_and_one_of_kubernetes_or_a_client_is_not() {
        for (name, meant) in [
            ("BACKDROP_LIMITS_COUNTS", "; did you mean BACKDROP_LIMITS_COUNT?"),
            ("BACKDROP_PLAEC", "; did you mean BACKDROP_PLACE?"),
            ("BACKDROP_LIMITS_SOMETHING", ""),
        ] {
            let message = merged("", &[(name, "3")], &[]).unwrap_err().to_string();
            assert!(message.ends_with(&format!("{name}: there is no such setting{meant}")), "{message}");
        }
        for name in [
            "BACKDROP_SERVICE_HOST",
            "BACKDROP_PORT_8080_TCP",
            "BACKDROP_LIMITS_SERVICE_PORT",
            "BACKDROP_KEY",
            "BACKDROP_URL",
        ] {
            assert!(merged("", &[(name, "10.0.0.1")], &[]).is_ok(), "{name}");
        }
    }

    #[test]
    fn invalid_toml_is_reported_with_its_line_and_without_the_text_of_it() {
        for (file, problem) in [
            ("[limits\n", "b.toml: TOML parse error at line 1, column 8: "),
            ("label = 'ü' x", "b.toml: TOML parse error at line 1, column 13: "),
            ("[limits]\nlabel = \"ü hush\n", "b.toml: TOML parse error at line 2, column "),
            ("[limits]\nlabel = hush\n", "b.toml: TOML parse error at line 2, column "),
            ("[limits]\nlabel = \"hush\" x\n", "b.toml: TOML parse error at line 2, column "),
            ("label = 'hush'\nlabel = 'hush'", "b.toml: TOML parse error at line 2, column 1: duplicate key"),
            ("limits = 3\n", "b.toml:1: limits: invalid type: integer `3`, expected a table"),
        ] {
            let message = merged(file, &[], &[]).unwrap_err().to_string();
            assert!(message.contains(problem) && !message.contains("hush"), "{message}");
        }
    }
}
