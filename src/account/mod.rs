//! Accounts and their keys.
