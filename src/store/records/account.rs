//! Stored account: name, plan, creation time, permission to generate backdrops, network.

use serde::{Deserialize, Serialize};

use super::{Plan, Record};
use crate::recipe::Network;
use crate::store::UnixSeconds;
use std::fmt;

/// An account in its newest form, whatever version it was stored in.
pub type Account = AccountV3;

/// An account's network where a request names none; `None` for the daemon's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountModel(pub Option<Network>);

impl AccountModel {
    /// The name of the daemon's default.
    const DEFAULT: &'static str = "default";
}

impl fmt::Display for AccountModel {
    /// As operators write it: `default`, `standard`, `quality`, `fast`, or the name of an added model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str(Self::DEFAULT),
            Some(network) => network.fmt(f),
        }
    }
}

impl std::str::FromStr for AccountModel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == Self::DEFAULT {
            return Ok(Self(None));
        }
        text.parse()
            .map(Some)
            .map(Self)
            .map_err(|_| "expected default, standard, quality, fast or the name of an added model")
    }
}

/// An account, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountRecord {
    /// Schema 1.
    V1(AccountV1),
    /// Since schema 2.
    V2(AccountV2),
    /// Since schema 4.
    V3(AccountV3),
}

/// Version 1 of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountV1 {
    /// Unique name; also the key of the table.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixSeconds,
}

/// Version 2 of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountV2 {
    /// Unique name; also the key of the table.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// Whether it is on the allow-list for generated backdrops.
    pub generates: bool,
}

/// Version 3 of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountV3 {
    /// Unique name; also the key of the table.
    pub name: String,
    /// Its plan.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixSeconds,
    /// Whether it is on the allow-list for generated backdrops.
    pub generates: bool,
    /// Its network.
    pub model: AccountModel,
}

impl Record for AccountRecord {
    type Latest = AccountV3;

    fn latest(self) -> AccountV3 {
        let model = AccountModel::default();
        match self {
            Self::V1(AccountV1 { name, plan, created_at }) => {
                AccountV3 { name, plan, created_at, generates: false, model }
            }
            Self::V2(AccountV2 { name, plan, created_at, generates }) => {
                AccountV3 { name, plan, created_at, generates, model }
            }
            Self::V3(account) => account,
        }
    }

    fn from_latest(latest: AccountV3) -> Self {
        Self::V3(latest)
    }
}
