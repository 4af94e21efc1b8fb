//! `POST /estimate`: the cost of a call, from the price table that bills it.

use crate::account::price::{Call, in_dollars};
use crate::http::reply::error::ApiError;
use crate::http::reply::{self, Reply};
use crate::http::request::json::{self, Object};
use crate::http::request_context::RequestContext;
use crate::http::state::ApiState;
use crate::recipe::FieldError;
use hyper::StatusCode;
use serde_json::{Value, json};

/// Validates the body and answers the price; nothing is processed or counted.
pub(crate) async fn answer(state: &ApiState, context: &mut RequestContext) -> Result<Reply, ApiError> {
    let object = json::read(&context.headers, &mut context.body).await?;
    let received = context.body.received();
    let request = EstimateRequest::parse(object)?;
    let call = Call {
        endpoint: &request.endpoint,
        scale: request.scale,
        stroke_width: request.stroke_width,
        width: request.width,
        height: request.height,
        count: request.count,
        seconds: request.seconds,
    };
    let estimate = state.app.prices.price(&call)?;
    let body = json!({
        "endpoint": request.endpoint,
        "estimated_cost_usd": in_dollars(estimate.total()),
        "unit_price_usd": in_dollars(estimate.unit_price),
        "units": estimate.units.number(),
        "unit": estimate.units.name(),
        "currency": "USD",
    });
    Ok(reply::timed_json(StatusCode::OK, &body, received.elapsed()))
}

/// The names of the members of the body.
const MEMBERS: [&str; 7] = ["endpoint", "scale", "stroke_width", "width", "height", "count", "seconds"];

/// The members of the body.
#[derive(Default)]
struct EstimateRequest {
    endpoint: String,
    scale: Option<u32>,
    stroke_width: Option<u32>,
    width: Option<u32>,
    height: Option<u32>,
    count: Option<u32>,
    seconds: Option<f64>,
}

impl EstimateRequest {
    fn parse(object: Object) -> Result<Self, FieldError> {
        let mut request = Self::default();
        let mut endpoint = None;
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
                "scale" => request.scale = Some(whole()?),
                "stroke_width" => request.stroke_width = Some(whole()?),
                "width" => request.width = Some(whole()?),
                "height" => request.height = Some(whole()?),
                "count" => request.count = Some(whole()?),
                "seconds" => request.seconds = Some(number(&value).ok_or_else(|| refuse("a number of seconds"))?),
                _ => return Err(FieldError::unknown(&name, MEMBERS)),
            }
        }
        request.endpoint = endpoint.ok_or_else(|| FieldError::Missing { param: "endpoint".to_owned() })?;
        Ok(request)
    }
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
