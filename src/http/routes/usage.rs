//! `GET /usage`: images, seconds and cost of each key of the account, by day (UTC); to a key with scopes, its own.

use crate::account::price::in_dollars;
use crate::http::admission::Caller;
use crate::http::reply::{self, ApiError, ErrorCode, Reply, Result};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::recipe::FieldError;
use crate::store::{Day, KEY_DAYS_KEPT, KeyDay, Month, UnixSeconds};
use hyper::StatusCode;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Maximum rows of a reply: some megabytes.
const MAX_ROWS: usize = 10_000;

/// Answers the rows of the days from `from` to `to`, and their sum.
pub(crate) async fn answer(state: &ApiState, caller: &Caller, context: &RequestContext) -> Result<Reply> {
    let (from, to) = date_range(context.query(), UnixSeconds::now())?;
    // One more row than fits, to detect that there are more.
    let mut rows = state.app.store.key_days(&caller.account, (from, to), MAX_ROWS + 1).await?;
    if rows.len() > MAX_ROWS {
        let message = format!("these days have more than {MAX_ROWS} rows; ask for fewer days at once");
        return Err(ApiError::new(ErrorCode::InvalidParameter, message).param("from"));
    }
    // After the check: beyond the limit rows are missing, possibly rows of this key.
    if caller.scopes.are_limited() {
        rows.retain(|(_, key_id, _)| *key_id == caller.key_id);
    }
    let keys = state.app.store.keys(Some(&caller.account)).await?;
    let labels: HashMap<String, String> = keys.into_iter().map(|key| (key.id, key.label)).collect();
    let mut total = KeyDay::default();
    let mut usage = Vec::with_capacity(rows.len());
    for (day, key_id, used) in rows {
        total = total.plus(used);
        let mut row = totals(&used);
        row["date"] = day.date().into();
        row["key"] = json!({ "id": key_id, "name": labels.get(&key_id) });
        usage.push(row);
    }
    let body = json!({ "usage": usage, "total": totals(&total), "request_id": context.id });
    Ok(reply::json(StatusCode::OK, &body))
}

fn totals(used: &KeyDay) -> Value {
    json!({
        "images": used.images,
        "seconds": used.milliseconds as f64 / 1000.0,
        "cost_usd": in_dollars(used.microdollars),
    })
}

/// The range of days of a query, by default the current month. `from` alone ends today, `to` alone begins with its
/// month.
fn date_range<N: AsRef<str>, V: AsRef<str>>(
    query: impl Iterator<Item = (N, V)>,
    now: UnixSeconds,
) -> Result<(Day, Day), FieldError> {
    let (mut from, mut to) = (None, None);
    for (name, value) in query {
        let (name, value) = (name.as_ref(), value.as_ref());
        let place = match name {
            "from" => &mut from,
            "to" => &mut to,
            other => return Err(FieldError::Unknown { param: other.to_owned() }),
        };
        let refuse = || FieldError::invalid(name, value, "a date such as 2026-11-23");
        if place.replace(Day::parse(value).ok_or_else(refuse)?).is_some() {
            return Err(FieldError::Repeated { param: name.to_owned() });
        }
    }
    let to_or_today = to.unwrap_or(Day::of(now));
    let from = from.unwrap_or_else(|| Day::first_of(Month::of(to_or_today.starts())));
    if from > to_or_today || to_or_today.before(KEY_DAYS_KEPT - 1) > from {
        let expected = format!("a date up to `to`, {KEY_DAYS_KEPT} days with it at most");
        return Err(FieldError::invalid("from", &from.date(), expected));
    }
    Ok((from, to_or_today))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_days_default_to_the_current_month() {
        // 2026-11-23T12:00:00Z.
        let now = UnixSeconds(1_795_435_200);
        type Case = (&'static [(&'static str, &'static str)], Result<[&'static str; 2], &'static str>);
        let cases: [Case; 13] = [
            (&[], Ok(["2026-11-01", "2026-11-23"])),
            (&[("from", "2026-11-20")], Ok(["2026-11-20", "2026-11-23"])),
            (&[("to", "2026-02-10")], Ok(["2026-02-01", "2026-02-10"])),
            (&[("from", "2026-11-23"), ("to", "2026-11-23")], Ok(["2026-11-23", "2026-11-23"])),
            // 400 days, and one more.
            (&[("from", "2025-10-20"), ("to", "2026-11-23")], Ok(["2025-10-20", "2026-11-23"])),
            (&[("from", "2025-10-19"), ("to", "2026-11-23")], Err("from")),
            (&[("from", "2026-11-24")], Err("from")),
            (&[("from", "2026-11-24"), ("to", "2026-11-30")], Ok(["2026-11-24", "2026-11-30"])),
            (&[("from", "2026-11-31")], Err("from")),
            (&[("to", "yesterday")], Err("to")),
            (&[("from", "1969-12-31")], Err("from")),
            (&[("to", "2026-11-23"), ("to", "2026-11-23")], Err("to")),
            (&[("form", "2026-11-23")], Err("form")),
        ];
        for (query, expected) in cases {
            let range = date_range(query.iter().copied(), now);
            let range = range.map(|(from, to)| [from.date(), to.date()]).map_err(|error| error.param().to_owned());
            assert_eq!(range, expected.map(|days| days.map(str::to_owned)).map_err(str::to_owned), "{query:?}");
        }
    }
}
