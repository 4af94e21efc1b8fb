//! One change against the tables of an open write transaction.
//!
//! Every check of a change comes before its first write: a refused change leaves the transaction as it was, so the
//! others of the same group commit are not disturbed.

use super::fault::Failure;
use super::tables::Writing;
use super::{Account, Change, ChangeError, Key, KeyHash, Month, Request, Rows, UnixSeconds, Usage};

impl Writing<'_> {
    /// Applies `change`; gives the rows that it wrote, as they are now.
    pub(super) fn apply(&mut self, change: Change) -> Result<Rows, Failure> {
        match change {
            Change::CreateAccount { account, first_key } => self.create_account(account, first_key),
            Change::SetAccount { account, plan, generates } => {
                let account = self.accounts.named(&account)?;
                let (plan, generates) = (plan.unwrap_or(account.plan), generates.unwrap_or(account.generates));
                self.put_account(Account { plan, generates, ..account })
            }
            Change::CreateKey { hash, key } => {
                self.accounts.named(&key.account)?;
                self.keys.check_new(hash, &key)?;
                Ok(Rows { keys: vec![self.keys.put(hash, key)?], ..Rows::default() })
            }
            Change::RevokeKey { id, at } => {
                let (hash, key) = self.keys.named(&id)?;
                let key = Key { revoked_at: key.revoked_at.or(Some(at)), ..key };
                Ok(Rows { keys: vec![self.keys.put(hash, key)?], ..Rows::default() })
            }
            Change::RotateKey { id, hash, key, revoke_at } => self.rotate_key(id, hash, key, revoke_at),
            Change::TouchKeys { used } => self.touch_keys(used),
            Change::Bill { account, month, images, microdollars, request } => {
                self.bill(account, month, Usage { images, microdollars }, request)
            }
            Change::ForgetRequests { before } => {
                self.requests.forget(before)?;
                Ok(Rows::default())
            }
            Change::PutPreset { preset } => {
                self.accounts.named(&preset.account)?;
                Ok(Rows { presets: vec![self.presets.put(preset)?], ..Rows::default() })
            }
            Change::ReplacePreset { preset } => {
                if self.presets.get(&preset.account, &preset.id)?.is_none() {
                    return Err(ChangeError::NoSuchPreset(preset.id).into());
                }
                Ok(Rows { presets: vec![self.presets.put(preset)?], ..Rows::default() })
            }
            Change::DeletePreset { account, id } => {
                self.presets.delete(&account, &id)?;
                Ok(Rows::default())
            }
        }
    }

    fn create_account(&mut self, account: Account, first_key: Option<(KeyHash, Key)>) -> Result<Rows, Failure> {
        self.accounts.check_new(&account.name)?;
        if let Some((hash, key)) = &first_key {
            self.keys.check_new(*hash, key)?;
        }
        let mut rows = self.put_account(account)?;
        if let Some((hash, key)) = first_key {
            rows.keys.push(self.keys.put(hash, key)?);
        }
        Ok(rows)
    }

    fn put_account(&mut self, account: Account) -> Result<Rows, Failure> {
        Ok(Rows { accounts: vec![self.accounts.put(account)?], ..Rows::default() })
    }

    fn rotate_key(&mut self, id: String, hash: KeyHash, key: Key, revoke_at: UnixSeconds) -> Result<Rows, Failure> {
        let (old_hash, old) = self.keys.named(&id)?;
        if old.revoked_at.is_some() {
            return Err(ChangeError::KeyRevoked(id).into());
        }
        self.keys.check_new(hash, &key)?;
        let key = Key { account: old.account.clone(), label: old.label.clone(), test: old.test, ..key };
        let old = Key { revoked_at: Some(revoke_at), ..old };
        Ok(Rows { keys: vec![self.keys.put(old_hash, old)?, self.keys.put(hash, key)?], ..Rows::default() })
    }

    fn touch_keys(&mut self, used: Vec<(String, UnixSeconds)>) -> Result<Rows, Failure> {
        let mut rows = Rows::default();
        for (id, at) in used {
            let Some((hash, key)) = self.keys.find(&id)? else { continue };
            if key.last_used_at < Some(at) {
                rows.keys.push(self.keys.put(hash, Key { last_used_at: Some(at), ..key })?);
            }
        }
        Ok(rows)
    }

    fn bill(
        &mut self,
        account: String,
        month: Month,
        more: Usage,
        request: Option<(String, Request)>,
    ) -> Result<Rows, Failure> {
        if !self.accounts.contains(&account)? {
            return Err(ChangeError::NoSuchAccount(account).into());
        }
        let usage = self.usage.add(&account, month, more)?;
        let mut rows = Rows::default();
        if let Some((key, request)) = request {
            self.requests.put(&account, &key, request)?;
            rows.requests.push((account.clone(), key, request));
        }
        rows.usage.push((account, month, usage));
        Ok(rows)
    }
}
