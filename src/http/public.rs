//! The service of the public listener: finds the route of a request, admits its caller and runs the endpoint.

use crate::http::admission::admit;
use crate::http::contract::docs;
use crate::http::reply::{Reply, Result};
use crate::http::request_context::{RequestContext, Service};
use crate::http::router::{self, Routine, Target};
use crate::http::state::ApiState;
use crate::http::{compat, page, routes};
use crate::store::RateKind;
use hyper::header::HeaderName;

/// On every reply to a caller whose plan or key has a quota: images left this month.
const QUOTA_REMAINING: HeaderName = HeaderName::from_static("x-quota-remaining");

impl Service for ApiState {
    const NAME: &'static str = "public";
    const LOGGED: bool = true;
    const FOR_BROWSERS: bool = true;
    const DRAINS: bool = true;

    async fn answer(&self, context: &mut RequestContext) -> Result<Reply> {
        let answer = dispatch(self, context).await;
        // After the work, so that the images of this request are subtracted.
        if let Some(caller) = context.caller.take()
            && let Some(remaining) = caller.allowance.remaining()
        {
            context.reply_headers.insert(QUOTA_REMAINING, remaining.into());
        }
        answer
    }
}

async fn dispatch(state: &ApiState, context: &mut RequestContext) -> Result<Reply> {
    if let Some(route) = compat::find(&state.app.compat, context.uri.path()) {
        return compat::answer(state, route, context).await;
    }
    let (path, with_page) = (context.uri.path(), state.config.page);
    if let Some(file) = page::find(Some(&state.daemon_file), path, with_page) {
        context.endpoint = file.endpoint();
        return file.reply(&context.method, &context.headers);
    }
    let (route, parameter) = router::find(&context.method, context.uri.path())?;
    let parameter = parameter.to_owned();
    context.endpoint = route.path;
    match &route.target {
        Target::Page(page) => Ok(docs::page_reply(*page, state)),
        Target::Image(endpoint) => {
            let caller = admit(state, RateKind::Calls, context).await?;
            state.require_room(&caller.account)?;
            if endpoint.input.is_single() {
                routes::image::answer(state, endpoint, &caller, context).await
            } else {
                routes::batch::answer(state, endpoint, &caller, context).await
            }
        }
        Target::Clip => {
            let caller = admit(state, RateKind::Calls, context).await?;
            routes::video::answer(state, &caller, context).await
        }
        Target::Result => routes::results::answer(state, context, &parameter).await,
        Target::Service(service) => {
            let caller = admit(state, RateKind::Services, context).await?;
            match service {
                Routine::Account => routes::account::answer(state, &caller).await,
                Routine::Models => Ok(routes::models::answer(state, &caller)),
                Routine::Usage => routes::usage::answer(state, &caller, context).await,
                Routine::Estimate => routes::estimate::answer(state, context).await,
                Routine::ListPresets => routes::presets::list(state, &caller, context).await,
                Routine::SavePreset => routes::presets::save(state, &caller, context).await,
                Routine::DeletePreset => routes::presets::delete(state, &caller, context).await,
                Routine::ListJobs => routes::jobs::list(state, &caller, context).await,
                Routine::ShowJob => routes::jobs::show(state, &caller, context, &parameter).await,
                Routine::ChangeJob => routes::jobs::change(state, &caller, context, &parameter).await,
                Routine::RemoveJob => routes::jobs::remove(state, &caller, context, &parameter).await,
                Routine::Bulk => routes::bulk::answer(state, &caller, context).await,
            }
        }
    }
}
