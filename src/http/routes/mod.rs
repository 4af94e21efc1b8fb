//! What answers the routes.

pub(super) mod image;
