//! `POST /estimate`: the cost of a call, from the price table that bills it.

use crate::account::price::{Call, Units, in_dollars};
use crate::http::reply::{self, Reply, Result};
use crate::http::request::json::{self, Object};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::recipe::FieldError;
use hyper::StatusCode;
use serde_json::{Value, json};

/// Validates the body and answers the price; nothing is processed or counted.
pub(crate) async fn answer(state: &ApiState, context: &mut RequestContext) -> Result<Reply> {
    let object = json::read(&context.headers, &mut context.body).await?;
    let received = context.body.received();
    let (endpoint, call) = parse(object)?;
    let call = Call { endpoint: &endpoint, ..call };
    let estimate = state.app.prices.price(&call)?;
    let (units, unit) = match estimate.units {
        Units::Images(images) => (Value::from(images), "image"),
        Units::Seconds(seconds) => (seconds.into(), "second"),
    };
    let body = json!({
        "endpoint": endpoint,
        "estimated_cost_usd": in_dollars(estimate.total()),
        "unit_price_usd": in_dollars(estimate.unit_price),
        "units": units,
        "unit": unit,
        "currency": "USD",
    });
    Ok(reply::timed_json(StatusCode::OK, &body, received.elapsed()))
}

/// The names of the members of the body.
const MEMBERS: [&str; 7] = ["endpoint", "scale", "stroke_width", "width", "height", "count", "seconds"];

/// The endpoint, and the call without it.
fn parse(object: Object) -> Result<(String, Call<'static>), FieldError> {
    let (mut endpoint, mut call) = (None, Call::default());
    for (name, value) in object.unique()? {
        if value.is_null() && MEMBERS.contains(&name.as_str()) {
            continue;
        }
        let refuse = |expected: &str| FieldError::invalid(&name, &value.to_string(), expected);
        let whole = || whole(&value).ok_or_else(|| refuse("a whole number that is not negative"));
        match name.as_str() {
            "endpoint" => {
                let path = value.as_str().ok_or_else(|| refuse("the path of an endpoint, such as /remove"))?;
                endpoint = Some(path.to_owned());
            }
            "scale" => call.scale = Some(whole()?),
            "stroke_width" => call.stroke_width = Some(whole()?),
            "width" => call.width = Some(whole()?),
            "height" => call.height = Some(whole()?),
            "count" => call.count = Some(whole()?),
            "seconds" => call.seconds = Some(number(&value).ok_or_else(|| refuse("a number of seconds"))?),
            _ => return Err(FieldError::unknown(&name, MEMBERS)),
        }
    }
    Ok((endpoint.ok_or_else(|| FieldError::Missing { param: "endpoint".to_owned() })?, call))
}

/// A number, or a string that holds one.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A number without fraction, however it is written.
fn whole(value: &Value) -> Option<u32> {
    let number =
        number(value).filter(|number| number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number))?;
    Some(number as u32)
}
