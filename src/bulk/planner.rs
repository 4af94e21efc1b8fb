//! What is to be done with each listed object.

use super::claim::Claims;
use super::failure::{Code, Failure};
use super::known::Known;
use super::row::{Row, version};
use super::select::Select;
use super::shard::Shard;
use super::template::Template;
use super::{hash, transfer};
use crate::source::{Objects, unaddressable};
use object_store::ObjectMeta;
use object_store::path::Path;

/// Where pictures come from and where results go.
#[derive(Clone, Debug)]
pub struct Places {
    /// Where pictures come from.
    pub from: Objects,
    /// Where results go.
    pub to: Objects,
    /// What the addresses in each begin with.
    sources: String,
    results: String,
}

/// Why two places cannot be used together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacesError {
    /// Results could not be told from sources.
    #[error("results cannot go to the place that the pictures come from; choose another folder or bucket")]
    Same,
}

impl Places {
    /// Two places. The place of the results may lie in that of the sources: what is in it is left out.
    ///
    /// # Errors
    /// When they are the same.
    pub fn new(from: Objects, to: Objects) -> Result<Self, PlacesError> {
        let (sources, results) = (from.place(), to.place());
        if sources == results { Err(PlacesError::Same) } else { Ok(Self { from, to, sources, results }) }
    }

    /// Address of an object, and the key of its result below the place of the results; nothing when a run with this
    /// order passes it over.
    fn concern(&self, order: &Order, meta: &ObjectMeta) -> Option<(String, String)> {
        let unaddressable = unaddressable(&meta.location);
        let source = self.from.address(unaddressable.as_deref().unwrap_or(meta.location.as_ref()));
        let key = source.strip_prefix(self.sources.as_str())?;
        if source.starts_with(self.results.as_str()) && self.results.starts_with(self.sources.as_str())
            || !order.select.takes(key)
        {
            return None;
        }
        let below = order.template.render(key, order.extension);
        let below = below.trim_start_matches('/').to_owned();
        let ours = order.shard.is_none_or(|shard| shard.has(hash(&[&below])));
        ours.then_some((source, below))
    }

    /// Whether a run with this order looks at the object at all.
    pub(super) fn concerns(&self, order: &Order, meta: &ObjectMeta) -> bool {
        self.concern(order, meta).is_some()
    }
}

/// What is to be done, with which objects.
#[derive(Clone, Debug)]
pub struct Order {
    /// Which objects.
    pub select: Select,
    /// Keys of the results.
    pub template: Template,
    /// Extension of the results.
    pub extension: &'static str,
    /// The part of the run that is done here.
    pub shard: Option<Shard>,
    /// Objects at most, beside those that are done or refused unread.
    pub limit: Option<u64>,
    /// Hash of the endpoint, its parameters and the model.
    pub parameters: String,
    /// Name and version of the weights.
    pub model: String,
    /// Bytes of a source at most.
    pub max_bytes: u64,
}

/// What is to be done with an object.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing: it is not asked for, or another machine's.
    Passed,
    /// Nothing: it is done.
    Done,
    /// It cannot be done, which is known without reading it.
    Refused(Box<Row>),
    /// It is to be done.
    Task(Box<Task>),
    /// Nothing, and nothing with those after it: the limit is reached.
    Full,
}

/// An object to be done.
#[derive(Debug)]
pub(super) struct Task {
    /// As it was listed.
    pub(super) meta: ObjectMeta,
    /// Where its result goes.
    pub(super) output: Path,
    /// What is known of its row.
    pub(super) row: Row,
}

/// Judges the objects of one listing, in its order.
pub(super) struct Sieve<'a> {
    places: &'a Places,
    order: &'a Order,
    known: &'a Known,
    claims: Claims,
    tasks: u64,
}

impl<'a> Sieve<'a> {
    pub(super) fn new(places: &'a Places, order: &'a Order, known: &'a Known) -> Self {
        Self { places, order, known, claims: Claims::default(), tasks: 0 }
    }

    pub(super) fn judge(&mut self, meta: ObjectMeta) -> Verdict {
        let Places { to, sources, results, .. } = self.places;
        let Some((source, below)) = self.places.concern(self.order, &meta) else { return Verdict::Passed };
        let prefix = to.prefix.as_ref();
        let output = if prefix.is_empty() { below } else { format!("{prefix}/{below}") };
        let row = Row {
            output: to.address(&output),
            source_etag: version(&meta),
            source_bytes: meta.size,
            parameters: self.order.parameters.clone(),
            model: self.order.model.clone(),
            source,
            ..Row::default()
        };
        // The first of two that want one result has it, also when it cannot be done or is done already.
        if !self.claims.take(hash(&[&row.output])) {
            return refused(row, Code::Conflict, "another object before it has the same result; change --output");
        }
        if unaddressable(&meta.location).is_some() {
            let why = "no request can name its key: a part of it is empty, `.`, `..` or not text";
            return refused(row, Code::InvalidParameter, why);
        }
        // The place of the results may lie in that of the sources, which is not read there, but not the other way round.
        if row.output.starts_with(sources.as_str()) && !results.starts_with(sources.as_str()) {
            return refused(row, Code::Conflict, "its result would lie among the sources; change --output");
        }
        let Some(output) = Path::parse(&output).ok().filter(|path| path.as_ref() == output) else {
            return refused(row, Code::InvalidParameter, "its result would have a key that no request can name");
        };
        if self.known.has(row.mark()) {
            return Verdict::Done;
        }
        if meta.size > self.order.max_bytes {
            let Failure { code, message } = transfer::too_large(self.order.max_bytes);
            return Verdict::Refused(Box::new(row.failed(Failure { code, message })));
        }
        if self.order.limit.is_some_and(|limit| self.tasks >= limit) {
            return Verdict::Full;
        }
        self.tasks += 1;
        Verdict::Task(Box::new(Task { meta, output, row }))
    }
}

fn refused(row: Row, code: Code, message: &str) -> Verdict {
    Verdict::Refused(Box::new(row.failed(Failure::new(code, message))))
}
