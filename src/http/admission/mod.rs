//! Who may do what: key, rate, model, plan, preset, idempotency, quota, and the memory of each account.

mod auth_throttle;
mod authenticate;
mod authorize;
mod caller;
mod memory;
mod model_select;

pub(super) use auth_throttle::AuthThrottle;
pub(super) use authenticate::{OUT_OF_SCOPE, admit, admit_without_key, authenticate, require_scope};
pub(super) use authorize::{
    Authorized, PLAN_REQUIRED, QUOTA_EXHAUSTED, authorize, is_free, merge_preset, require_backdrop_access,
    require_plan, reserve_quota,
};
pub use caller::Caller;
pub(super) use memory::{AccountMemory, Memory, Share, uploads_full_error};
pub(super) use model_select::{MODEL_FIELD, clip_model, default_model, require_clip_model, select_model};
