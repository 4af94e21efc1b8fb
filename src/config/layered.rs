//! Settings from several places, one over the other: flag over environment variable over TOML file over default.
//!
//! Nothing here knows a setting by name. The defaults, serialised, are the list of what exists; every value that
//! somebody set is tried alone on top of the defaults, so that each wrong one is found and told with the place it
//! came from, and not only the first.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Every variable of ours begins with this.
const PREFIX: &str = "BACKDROP";

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the TOML file.
    File(PathBuf),
    /// In this environment variable.
    Variable(String),
    /// With this flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was set; a default has no place.
    pub origin: Option<Origin>,
    /// The setting, `section.key`; empty when the whole file is meant.
    pub setting: String,
    /// What is wrong.
    pub message: String,
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

/// Everything that is wrong with the configuration, one to a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration has {} mistake{}", self.0.len(), if self.0.len() == 1 { "" } else { "s" })?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Problems {}

/// What was said, place by place.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Path and text of the TOML file.
    pub file: Option<(PathBuf, String)>,
    /// The process's environment.
    pub environment: Vec<(String, String)>,
    /// Setting (`section.key`), the flag that set it, and its value as it was typed.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

/// The merged settings, and where each came from that is not a default.
#[derive(Clone, Debug)]
pub struct Layered<T> {
    /// The settings.
    pub settings: T,
    origins: BTreeMap<String, Origin>,
}

impl<T> Layered<T> {
    /// Where `setting` was set; nothing when it has its default.
    #[must_use]
    pub fn origin(&self, setting: &str) -> Option<&Origin> {
        self.origins.get(setting)
    }
}

/// Merges the sources over `T`'s defaults. `short` are more names of variables, each with its setting.
///
/// A variable that begins with ours but names no setting is left alone: Kubernetes makes such ones
/// (`BACKDROP_PORT`, `BACKDROP_SERVICE_HOST`) for a service of our name.
///
/// Returned beside the settings: all problems at once, unknown keys, values of the wrong type, a file that is not TOML.
/// What could not be used has its default, so that the rest can still be looked at.
pub fn merge<T: Default + Serialize + DeserializeOwned>(
    sources: &Sources,
    short: &[(&str, &str)],
) -> (Layered<T>, Vec<Problem>) {
    let mut merging = Merging::new::<T>();
    if let Some((path, text)) = &sources.file {
        merging.file::<T>(path, text);
    }
    let known = merging.known();
    let full = known.iter().map(|setting| (variable_of(setting), setting.as_str()));
    for (variable, setting) in full.chain(short.iter().map(|(variable, setting)| ((*variable).to_owned(), *setting))) {
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
#[must_use]
pub fn variable_of(setting: &str) -> String {
    format!("{PREFIX}_{}", setting.replace('.', "_").to_uppercase())
}

/// Every setting of `T`, as `section.key`.
#[must_use]
pub fn settings_of<T: Default + Serialize>() -> Vec<String> {
    Merging::new::<T>().known()
}

struct Merging {
    defaults: Value,
    merged: Value,
    origins: BTreeMap<String, Origin>,
    problems: Vec<Problem>,
}

impl Merging {
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
        let origin = Origin::File(path.to_owned());
        let table: Map<String, Value> = match toml::from_str(text) {
            Ok(table) => table,
            Err(error) => return self.problem(Some(origin), "", error.to_string().trim_end()),
        };
        for (name, value) in table {
            let is_section = self.defaults.get(&name).is_some_and(Value::is_object);
            if let (true, Value::Object(section)) = (is_section, &value) {
                for (key, value) in section {
                    self.set::<T>(&format!("{name}.{key}"), [value.clone()], &origin);
                }
            } else {
                self.set::<T>(&name, [value], &origin);
            }
        }
    }

    /// A value that came as text. Its type is whichever the setting takes: a number or boolean, else a string,
    /// else a list with commas.
    fn text<T: DeserializeOwned>(&mut self, setting: &str, text: &str, origin: Origin) {
        let scalar =
            serde_json::from_str::<Value>(text.trim()).ok().filter(|value| value.is_number() || value.is_boolean());
        let list = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect();
        let readings = scalar.into_iter().chain([Value::from(text), Value::Array(list)]);
        self.set::<T>(setting, readings, &origin);
    }

    /// Takes the first reading that `T` accepts; complains about the first when it accepts none.
    fn set<T: DeserializeOwned>(&mut self, setting: &str, readings: impl IntoIterator<Item = Value>, origin: &Origin) {
        let mut complaint = None;
        for reading in readings {
            let mut alone = self.defaults.clone();
            place(&mut alone, setting, reading.clone());
            match serde_json::from_value::<T>(alone) {
                Ok(_) => {
                    place(&mut self.merged, setting, reading);
                    self.origins.insert(setting.to_owned(), origin.clone());
                    return;
                }
                Err(error) => complaint = complaint.or(Some(error)),
            }
        }
        if let Some(complaint) = complaint {
            self.problem(Some(origin.clone()), setting, &complaint.to_string());
        }
    }

    fn problem(&mut self, origin: Option<Origin>, setting: &str, message: &str) {
        self.problems.push(Problem { origin, setting: setting.to_owned(), message: message.to_owned() });
    }

    fn finish<T: Default + DeserializeOwned>(mut self) -> (Layered<T>, Vec<Problem>) {
        let settings = serde_json::from_value(self.merged.take()).unwrap_or_else(|error| {
            self.problem(None, "", &error.to_string());
            T::default()
        });
        (Layered { settings, origins: self.origins }, self.problems)
    }
}

fn place(tree: &mut Value, setting: &str, value: Value) {
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
    ) -> Result<Layered<Settings>, Problems> {
        let sources = Sources {
            file: Some(("b.toml".into(), file.to_owned())),
            environment: environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            flags: flags.iter().map(|(setting, flag, value)| (*setting, *flag, value.to_string())).collect(),
        };
        match merge(&sources, &[("BACKDROP_HERE", "limits.label")]) {
            (layered, problems) if problems.is_empty() => Ok(layered),
            (_, problems) => Err(Problems(problems)),
        }
    }

    #[test]
    fn a_setting_may_have_a_second_shorter_variable() {
        let limits = merged("", &[("BACKDROP_HERE", "short")], &[]).unwrap().settings.limits;
        assert_eq!(limits.label.as_deref(), Some("short"));
    }

    #[test]
    fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
        let file = "place = 'file'\n[limits]\ncount = 1\nlabel = 'file'\n";
        let variables = [("BACKDROP_PLACE", "variable"), ("BACKDROP_LIMITS_COUNT", "2")];
        let layered = merged(file, &variables, &[("place", "--place", "flag")]).unwrap();
        assert_eq!(layered.settings.place.as_deref(), Some(Path::new("flag")));
        assert_eq!(layered.settings.limits.count, 2);
        assert_eq!(layered.settings.limits.label.as_deref(), Some("file"));
        assert!(!layered.settings.limits.on);
        assert_eq!(layered.origin("place"), Some(&Origin::Flag("--place")));
        assert_eq!(layered.origin("limits.count"), Some(&Origin::Variable("BACKDROP_LIMITS_COUNT".into())));
        assert_eq!(layered.origin("limits.on"), None);
    }

    #[test]
    fn every_mistake_is_told_at_once_with_its_place() {
        let file = "colour = 1\n[limits]\ncuont = 1\n[limts]\ncount = 1\n";
        let variables = [("BACKDROP_LIMITS_ON", "maybe")];
        let problems = merged(file, &variables, &[("limits.count", "--count", "-1")]).unwrap_err();
        let told = problems.to_string();
        assert_eq!(problems.0.len(), 5, "{told}");
        assert!(told.contains("b.toml: colour: unknown field `colour`, expected `place` or `limits`"), "{told}");
        assert!(told.contains("b.toml: limits.cuont: unknown field `cuont`"), "{told}");
        assert!(told.contains("b.toml: limts: unknown field `limts`"), "{told}");
        assert!(
            told.contains("BACKDROP_LIMITS_ON: limits.on: invalid type: string \"maybe\", expected a boolean"),
            "{told}"
        );
        assert!(told.contains("--count: limits.count: invalid value: integer `-1`, expected u32"), "{told}");
    }

    #[test]
    fn text_becomes_whatever_type_the_setting_has() {
        let variables =
            [("BACKDROP_LIMITS_NAMES", "a, b"), ("BACKDROP_LIMITS_LABEL", "12"), ("BACKDROP_LIMITS_ON", "true")];
        let limits = merged("", &variables, &[]).unwrap().settings.limits;
        assert_eq!(
            limits,
            Section { count: 0, names: vec!["a".into(), "b".into()], label: Some("12".into()), on: true }
        );
    }

    #[test]
    fn a_variable_that_names_no_setting_is_left_alone() {
        assert!(merged("", &[("BACKDROP_SERVICE_HOST", "10.0.0.1")], &[]).is_ok());
    }

    #[test]
    fn a_file_that_is_not_toml_is_told_with_the_line() {
        let told = merged("[limits\n", &[], &[]).unwrap_err().to_string();
        assert!(told.contains("b.toml: TOML parse error at line 1"), "{told}");
    }

    #[test]
    fn a_section_that_is_not_a_table_is_refused() {
        let told = merged("limits = 3\n", &[], &[]).unwrap_err().to_string();
        assert!(told.contains("b.toml: limits: invalid type: integer `3`, expected struct Section"), "{told}");
    }
}
