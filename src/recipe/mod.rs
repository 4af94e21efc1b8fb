//! Module recipe.
