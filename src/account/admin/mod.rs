//! Admin interface for operators: a small JSON API for accounts and keys.
//!
//! ```text
//! POST   /accounts           {"name","plan"[,"generates"][,"model"]}   201 account
//! GET    /accounts                                                     200 {"accounts":[…]}
//! PATCH  /accounts/{name}    {["plan"][,"generates"][,"model"]}        200 account
//! POST   /keys               {"account","label","test", restrictions}  201 key with its secret, in `key`, this once
//! GET    /keys[?account=]                                              200 {"keys":[…]}
//! PATCH  /keys/{id}          {restrictions}                            200 key
//! POST   /keys/{id}/rotate   {["keep_old_for"]}                        201 key with another secret, as above
//! DELETE /keys/{id}                                                    200 key, with `revoked_at`
//! ```
//!
//! Restrictions of a key are `expires_in` (`"30d"`) or `expires_at`, `images_per_month` and `scopes` (`["remove"]`), all
//! optional; `null`, and an empty list of scopes, lift a restriction.
//!
//! One function executes all requests. The daemon serves it on its admin listener behind a token ([`Admin`]) that it
//! writes to its data directory ([`AdminEndpoint`]); the command line calls it there, or in its own process when no daemon
//! has the store open ([`AdminClient`]).

mod client;
mod discovery;
mod operations;
mod reply;
mod request;
mod route;
mod server;

pub use client::{AdminClient, AdminClientError, StorePlace};
pub use discovery::{AdminEndpoint, PublishedEndpoint};
pub use reply::Reply;
pub use server::Admin;
