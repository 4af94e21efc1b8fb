//! `GET /models`: the models that cut out, the caller's default first.

use crate::engine::EngineState;
use crate::http::admission::{Caller, default_model};
use crate::http::reply::{self, Reply};
use crate::http::state::ApiState;
use crate::model::added::{AddedModel, FindError};
use crate::recipe::{InferenceMode, Network};
use hyper::StatusCode;
use serde_json::{Value, json};

/// The type of the built-in network.
const BUILT_IN: &str = "fgnet";

/// Answers the models that a request may name.
pub(crate) fn answer(state: &ApiState, caller: &Caller) -> Reply {
    let processor = &*state.app.processor;
    let default = default_model(&state.app, caller).ok();
    let weights = processor.weights();
    let built_in = |mode: InferenceMode| {
        json!({
            "name": mode.of(&processor.model()),
            "type": BUILT_IN,
            "parameters": weights.parameters,
            "licence": weights.licence,
            "commercial_use": true,
            "device": processor.device(),
            "loaded": processor.state() == EngineState::Ready,
            "is_default": default == Some(Network::BuiltIn(mode)),
        })
    };
    let added = |model: Result<AddedModel, FindError>| {
        let AddedModel { name, card, .. } = model.ok()?;
        Some(json!({
            "name": name.to_string(),
            "type": card.kind.name(),
            "parameters": card.parameters,
            "licence": card.licence,
            "commercial_use": card.commercial,
            "device": processor.added().config().device.name(),
            "loaded": processor.is_loaded(&name),
            "is_default": default == Some(Network::Added(name)),
        }))
    };
    let mut models: Vec<Value> = InferenceMode::ALL.map(built_in).into();
    models.extend(processor.added().list().into_iter().filter_map(added));
    models.sort_by_key(|model| model["is_default"] != json!(true));
    reply::json(StatusCode::OK, &json!({ "models": models }))
}
