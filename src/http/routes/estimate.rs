//! `POST /estimate`: what a call will cost, by the very table that it is billed by.

use crate::account::price::{Call, PriceError, in_dollars};
use crate::http::error::{ApiError, ErrorCode};
use crate::http::exchange::Exchange;
use crate::http::facade::Facade;
use crate::http::json::{self, Object};
use crate::http::response::{self, Reply};
use crate::recipe::FieldError;
use hyper::StatusCode;
use serde_json::{Value, json};

/// Judges the body and answers at once; nothing is computed, nothing counted.
pub(in crate::http) async fn answer(facade: &Facade, exchange: &mut Exchange) -> Result<Reply, ApiError> {
    json::only(&exchange.headers)?;
    let object = json::read(&mut exchange.body).await?;
    let received = exchange.body.received();
    let asked = Asked::of(object)?;
    let call = Call {
        endpoint: &asked.endpoint,
        scale: asked.scale,
        stroke_width: asked.stroke_width,
        count: asked.count,
        seconds: asked.seconds,
    };
    let estimate = facade.app.prices.price(&call)?;
    let body = json!({
        "endpoint": asked.endpoint,
        "estimated_cost_usd": in_dollars(estimate.total()),
        "unit_price_usd": in_dollars(estimate.unit_price),
        "units": estimate.units.number(),
        "unit": estimate.units.name(),
        "currency": "USD",
    });
    response::timed_json(StatusCode::OK, &body, received.elapsed())
}

/// The names of the members of the body.
const MEMBERS: [&str; 5] = ["endpoint", "scale", "stroke_width", "count", "seconds"];

/// The members of the body.
#[derive(Default)]
struct Asked {
    endpoint: String,
    scale: Option<u32>,
    stroke_width: Option<u32>,
    count: Option<u32>,
    seconds: Option<f64>,
}

impl Asked {
    fn of(object: Object) -> Result<Self, FieldError> {
        let mut asked = Self::default();
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
                "scale" => asked.scale = Some(whole()?),
                "stroke_width" => asked.stroke_width = Some(whole()?),
                "count" => asked.count = Some(whole()?),
                "seconds" => asked.seconds = Some(number(&value).ok_or_else(|| refuse("a number of seconds"))?),
                _ => return Err(FieldError::unknown(&name, MEMBERS)),
            }
        }
        asked.endpoint = endpoint.ok_or_else(|| FieldError::Missing { param: "endpoint".to_owned() })?;
        Ok(asked)
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

impl From<PriceError> for ApiError {
    fn from(error: PriceError) -> Self {
        match error {
            PriceError::UnknownEndpoint(_) => {
                Self::new(ErrorCode::InvalidEndpoint, error.to_string()).param("endpoint")
            }
            PriceError::Field(error) => error.into(),
        }
    }
}
