//! Configuration section `[generate]`: the image APIs behind the model ids, and their cache.

use super::picture_size::PictureSize;
use crate::recipe::ModelId;
use crate::store::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use url::{Host, Url};

/// Maximum timeout; no request lives longer.
const MAX_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Section `[generate]`: image APIs that generate backdrops, in addition to the built-in generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GenerateConfig {
    /// Location of the picture cache: `s3://`, `gs://`, `az://` or `file://`; by default the folder `backdrops` in
    /// `data_dir`. Daemons may share a location.
    pub cache: Option<String>,
    /// Bound of the cache, in megabytes; the least recently used pictures are deleted first. 0 disables the cache.
    pub cache_megabytes: u64,
    /// The image APIs for the ids of `/replace-bg-ai`'s `model`, each with the OpenAI images protocol.
    pub models: BTreeMap<String, UpstreamConfig>,
}

/// Section `[generate.models."ID"]`: the image API for an id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamConfig {
    /// Base address; `/v1/images/generations` is appended.
    pub base_url: String,
    /// Name of the model in the API.
    pub model: String,
    /// Name of the environment variable with the API key; `None` sends no key. The key itself is never written here.
    pub api_key_env: Option<String>,
    /// Sizes that the API supports, such as `1024x1024`; the size nearest to the result's aspect ratio is requested.
    pub sizes: Vec<String>,
    /// Time limit of a picture, including retries.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub timeout: Duration,
    /// Value of the request field `quality`, if the API has this field.
    pub quality: Option<String>,
    /// Value of the request field `response_format`, if the API has it: `b64_json` or `url`. Both are accepted.
    pub response_format: Option<String>,
    /// Accounts that may use the model. If this and `plans` are empty, every account with the endpoint may.
    pub accounts: Vec<String>,
    /// Plans whose accounts may use the model.
    pub plans: Vec<Plan>,
    /// Allows plain http in `base_url` beyond the loopback interface: key, prompts and pictures are then unencrypted.
    pub allow_http: bool,
}

impl Default for GenerateConfig {
    fn default() -> Self {
        Self { cache: None, cache_megabytes: 512, models: BTreeMap::new() }
    }
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            base_url: String::new(),
            model: String::new(),
            api_key_env: None,
            sizes: ["1024x1024", "1536x1024", "1024x1536"].map(str::to_owned).to_vec(),
            timeout: Duration::from_secs(60),
            quality: None,
            response_format: None,
            accounts: Vec::new(),
            plans: Vec::new(),
            allow_http: false,
        }
    }
}

impl GenerateConfig {
    /// All mistakes of this section, each a sentence. No value is quoted: it may be a misplaced key.
    #[must_use]
    pub fn validate(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        if self.cache_megabytes > 1_000_000_000 {
            mistakes.push("generate.cache_megabytes: expected at most 1000000000".to_owned());
        }
        for (id, upstream) in &self.models {
            if ModelId::named(id).is_none() {
                let known: Vec<_> = ModelId::all().map(ModelId::as_str).collect();
                mistakes.push(format!("generate.models: {id:?}: expected one of {}", known.join(", ")));
            }
            let own = upstream.mistakes().into_iter();
            mistakes.extend(own.map(|mistake| format!("generate.models: {id:?}: {mistake}")));
        }
        mistakes
    }
}

impl UpstreamConfig {
    fn mistakes(&self) -> Vec<&'static str> {
        let mut mistakes = Vec::new();
        let mut check = |holds: bool, mistake: &'static str| {
            if !holds {
                mistakes.push(mistake);
            }
        };
        match self.base() {
            Some(base) => {
                let is_safe = base.scheme() == "https" || self.allow_http || is_loopback(&base);
                check(
                    is_safe,
                    "base_url: expected https; plain http elsewhere than on this machine needs `allow_http`",
                );
                let path = base.path().trim_end_matches('/');
                check(!path.ends_with("/v1"), "base_url: expected it without /v1, which is added");
            }
            None => check(
                false,
                "base_url: expected an address such as https://api.example.org, without user, query and fragment",
            ),
        }
        check(!self.model.trim().is_empty(), "model: expected what the API calls the model");
        let is_name = |name: &String| {
            let good = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            name.chars().all(good) && name.starts_with(|first: char| !first.is_ascii_digit())
        };
        check(
            self.api_key_env.as_ref().is_none_or(is_name),
            "api_key_env: expected the name of an environment variable (A-Z, 0-9 and _), and not the key itself",
        );
        check(
            !self.sizes.is_empty() && self.sizes.iter().all(|size| PictureSize::parse(size).is_some()),
            "sizes: expected a list of sizes from 64x64 to 4096x4096, such as [\"1024x1024\"]",
        );
        check(
            !self.timeout.is_zero() && self.timeout <= MAX_TIMEOUT,
            "timeout: expected more than no time and at most 10m, such as 60s",
        );
        let formats = [None, Some("b64_json"), Some("url")];
        check(formats.contains(&self.response_format.as_deref()), "response_format: expected b64_json or url");
        mistakes
    }

    /// `base_url`; `None` if no path can be appended to it.
    pub(super) fn base(&self) -> Option<Url> {
        Url::parse(&self.base_url).ok().filter(|url| {
            let plain = url.username().is_empty() && url.password().is_none();
            matches!(url.scheme(), "http" | "https") && plain && url.query().is_none() && url.fragment().is_none()
        })
    }

    /// Whether an account on this plan may use the model.
    pub(super) fn is_open_to(&self, account: &str, plan: Plan) -> bool {
        let unrestricted = self.accounts.is_empty() && self.plans.is_empty();
        unrestricted || self.plans.contains(&plan) || self.accounts.iter().any(|listed| listed == account)
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        // By name only: the operator controls how the system resolves it.
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> UpstreamConfig {
        UpstreamConfig {
            base_url: "https://api.example.org".into(),
            model: "image-1".into(),
            ..UpstreamConfig::default()
        }
    }

    fn with(id: &str, upstream: UpstreamConfig) -> GenerateConfig {
        GenerateConfig { models: BTreeMap::from([(id.to_owned(), upstream)]), ..GenerateConfig::default() }
    }

    #[test]
    fn a_good_section_is_valid_and_survives_a_round_trip() {
        assert!(GenerateConfig::default().validate().is_empty());
        let upstream = UpstreamConfig {
            api_key_env: Some("IMAGES_API_KEY".into()),
            quality: Some("high".into()),
            response_format: Some("b64_json".into()),
            accounts: vec!["acme".into()],
            plans: vec![Plan::Plus],
            ..good()
        };
        let config = with("famA-image-2.5-flare", upstream);
        assert_eq!(config.validate(), Vec::<String>::new());
        let text = toml::to_string(&config).expect("plain data");
        assert_eq!(toml::from_str::<GenerateConfig>(&text).expect("its own text"), config, "{text}");
        assert!(text.contains("[models.\"famA-image-2.5-flare\"]"), "{text}");
    }

    #[test]
    fn every_mistake_is_reported_and_no_value_is_quoted() {
        let upstream = UpstreamConfig {
            base_url: "ftp://api.example.org".into(),
            model: " ".into(),
            api_key_env: Some("sk-proj-secret".into()),
            sizes: vec!["1024".into()],
            timeout: Duration::ZERO,
            response_format: Some("png".into()),
            ..UpstreamConfig::default()
        };
        let mistakes = with("famZ-image-9", upstream).validate();
        assert_eq!(mistakes.len(), 7, "{mistakes:?}");
        let prefix = "generate.models: \"famZ-image-9\": ";
        assert!(mistakes.iter().all(|mistake| mistake.starts_with(prefix)), "{mistakes:?}");
        assert!(!mistakes.join("\n").contains("secret"), "{mistakes:?}");
        assert!(GenerateConfig { cache_megabytes: u64::MAX, ..GenerateConfig::default() }.validate().len() == 1);
    }

    #[test]
    fn plain_http_beyond_the_loopback_needs_allow_http() {
        let mistakes = |base_url: &str, allow_http| {
            UpstreamConfig { base_url: base_url.into(), allow_http, ..good() }.mistakes().len()
        };
        for local in ["http://127.0.0.1:8188", "http://[::1]/", "http://localhost:1234/images"] {
            assert_eq!(mistakes(local, false), 0, "{local}");
        }
        for far in ["http://10.0.0.7", "http://api.example.org", "http://localhost.example.org"] {
            assert_eq!((mistakes(far, false), mistakes(far, true)), (1, 0), "{far}");
        }
        for bad in ["", "api.example.org", "https://user@a.example", "https://a.example/?q", "https://a.example/v1/"] {
            assert_eq!(mistakes(bad, true), 1, "{bad}");
        }
    }

    #[test]
    fn api_key_env_is_a_variable_name_instead_of_a_key() {
        let takes = |name: &str| UpstreamConfig { api_key_env: Some(name.into()), ..good() }.mistakes().is_empty();
        assert!(takes("KEY") && takes("_IMAGES_2"));
        for bad in ["", "2KEY", "sk-abc", "key", "A KEY", "A=B"] {
            assert!(!takes(bad), "{bad}");
        }
    }
}
