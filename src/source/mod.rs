//! Where pictures come from beside uploads: callers' URLs.
