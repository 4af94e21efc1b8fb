//! Checks which places in object storage the bulk runs of an account use, against those that the operator has allowed.

use super::config::JobsConfig;
use crate::bulk::csv_path;
use crate::source::Place;
use std::path::Path;

/// The places of a run, by their URLs.
#[derive(Clone, Copy, Debug)]
pub struct BulkPlaces<'a> {
    /// Where the pictures are.
    pub from: &'a str,
    /// Where the results go.
    pub to: &'a str,
    /// The address of the report, whose folder gets a CSV too; `None` for a report in `to`.
    pub report: Option<&'a str>,
}

/// Places that an account may use, by the URLs that `file://` paths have when symbolic links are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPlaces {
    /// Where the pictures are.
    pub from: String,
    /// Where the results go.
    pub to: String,
    /// The report; `None` for one in `to`.
    pub report: Option<String>,
}

impl JobsConfig {
    /// The parameter of the first place that the account may not use, by the URLs alone.
    #[must_use]
    pub fn refused_bulk_place(&self, account: &str, places: &BulkPlaces<'_>) -> Option<&'static str> {
        self.allowed(account, places, Place::parse).err()
    }

    /// The places with the symbolic links of `file://` paths resolved. Reads the file system.
    ///
    /// # Errors
    /// The parameter of the first place that the account may not use then.
    pub fn resolved_bulk_places(&self, account: &str, places: &BulkPlaces<'_>) -> Result<ResolvedPlaces, &'static str> {
        self.allowed(account, places, |url| Place::parse(url)?.resolved())
    }

    fn allowed(
        &self,
        account: &str,
        places: &BulkPlaces<'_>,
        read: impl Fn(&str) -> Option<Place>,
    ) -> Result<ResolvedPlaces, &'static str> {
        let allowed = self.bulk_places.get(account).into_iter().flatten();
        let allowed: Vec<Place> = allowed.filter_map(|url| read(url)).collect();
        let require = |param: &'static str, url: &str| {
            let place = read(url).filter(|place| allowed.iter().any(|outer| outer.contains(place)));
            place.map(|place| place.url().to_owned()).ok_or(param)
        };
        let report = |url: &str| -> Result<String, &'static str> {
            let report = require("report", url)?;
            require("report", &csv_path(Path::new(&report)).to_string_lossy())?;
            Ok(report)
        };
        Ok(ResolvedPlaces {
            from: require("from", places.from)?,
            to: require("to", places.to)?,
            report: places.report.map(report).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn with_places(places: &[&str]) -> JobsConfig {
        let places = places.iter().map(|&place| place.to_owned()).collect();
        JobsConfig { bulk_places: BTreeMap::from([("shop".to_owned(), places)]), ..JobsConfig::default() }
    }

    const fn places<'a>(from: &'a str, to: &'a str, report: Option<&'a str>) -> BulkPlaces<'a> {
        BulkPlaces { from, to, report }
    }

    #[test]
    fn a_place_that_is_none_is_a_mistake() {
        let mistakes = with_places(&["s3://shop", "/srv/shop", "s3://shop/../x"]).validate();
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
        assert!(mistakes.iter().all(|mistake| mistake.starts_with("jobs.bulk_places: ")), "{mistakes:?}");
    }

    #[test]
    fn bulk_runs_are_allowed_by_account_and_place_and_by_default_to_none() {
        let config = with_places(&["s3://shop/photos", "gs://archive", "s3://shop/r.jsonl"]);
        assert_eq!(config.validate(), Vec::<String>::new());
        for (account, text, is_allowed) in [
            ("shop", "s3://shop/photos/2026", true),
            ("shop", "gs://archive", true),
            ("shop", "s3://shop", false),
            ("shop", "s3://shop/photos2", false),
            ("shop", "photos", false),
            ("other", "s3://shop/photos", false),
        ] {
            let places = places(text, text, None);
            assert_eq!(config.refused_bulk_place(account, &places).is_none(), is_allowed, "{account} {text}");
        }
        for (run, refused) in [
            (places("gs://archive/a", "s3://b", None), Some("to")),
            (places("gs://archive/a", "gs://archive/b", Some("s3://b/r.jsonl")), Some("report")),
            (places("gs://archive/a", "gs://archive/b", Some("gs://archive/r.jsonl")), None),
            // The object alone: its CSV may not be written.
            (places("gs://archive/a", "gs://archive/b", Some("s3://shop/r.jsonl")), Some("report")),
        ] {
            assert_eq!(config.refused_bulk_place("shop", &run), refused, "{run:?}");
        }
        let anywhere = places("s3://shop/photos", "s3://shop/photos/out", None);
        assert_eq!(JobsConfig::default().refused_bulk_place("shop", &anywhere), Some("from"));
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_does_not_lead_out_of_an_allowed_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = |name: &str| format!("file://{}/{name}", folder.path().display());
        for name in ["allowed/in", "outside"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        for (target, link) in [("outside", "out"), ("allowed/in", "same"), ("missing", "dangling")] {
            let (target, link) = (folder.path().join(target), folder.path().join("allowed").join(link));
            std::os::unix::fs::symlink(target, link).expect("a link");
        }
        let config = with_places(&[&url("allowed")]);
        for (to, is_allowed) in [
            ("allowed/new/folder", true),
            ("allowed/same/new", true),
            ("allowed/out", false),
            ("allowed/out/new", false),
            ("allowed/dangling", false),
            ("allowed/dangling/new", false),
        ] {
            let (from, to) = (url("allowed/in"), url(to));
            let places = places(&from, &to, None);
            assert_eq!(config.refused_bulk_place("shop", &places), None, "{to}: its text is in the place");
            let resolved = config.resolved_bulk_places("shop", &places);
            assert_eq!(resolved.err(), (!is_allowed).then_some("to"), "{to}");
        }
        let (from, to) = (url("allowed/in"), url("allowed/same/new"));
        let resolved = config.resolved_bulk_places("shop", &places(&from, &to, None)).expect("allowed");
        assert!(resolved.to.ends_with("/allowed/in/new"), "{}", resolved.to);
    }
}
