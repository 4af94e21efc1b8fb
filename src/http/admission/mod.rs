//! Who may do what: key, rate, model, plan, preset, idempotency, quota, and the memory of each account.

pub(super) mod auth_throttle;
pub(super) mod authenticate;
pub(super) mod authorize;
pub(super) mod caller;
pub(super) mod memory;
pub(super) mod model_select;
