//! Recycles scratch memory: a dropped value keeps its allocations for the next use of its type.
//!
//! Fresh memory costs a page fault and a clearing every 4 KiB. The number of values of a type never exceeds the most
//! that were in use simultaneously. [`free`] drops unused values.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Box<dyn Any + Send>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops all unused values.
pub fn free() {
    let unused = std::mem::take(&mut *kept());
    drop(unused);
}

/// A value of scratch memory, kept for the next user when it is dropped.
pub struct Recycled<T: Send + 'static> {
    value: Option<Box<T>>,
    is_kept: bool,
}

const IN_USE: &str = "it is there until it is dropped";

impl<T: Default + Send + 'static> Recycled<T> {
    /// The last used value as it was left, or a new one.
    #[must_use]
    pub fn take() -> Self {
        let mut kept = kept();
        let last = kept.iter().rposition(|value| value.is::<T>()).map(|at| kept.remove(at));
        drop(kept);
        let value = last.and_then(|value| value.downcast().ok());
        Self { value: Some(value.unwrap_or_default()), is_kept: true }
    }
}

impl<T: Copy + Default + Send + 'static> Recycled<Vec<T>> {
    /// `len` values, possibly of an earlier use: only for callers that write each.
    #[must_use]
    pub fn for_overwrite(len: usize) -> Self {
        let mut values = Self::take();
        if values.capacity() < len {
            // A new vector of the exact length, without a copy of the old values.
            *values = vec![T::default(); len];
        }
        values.resize(len, T::default());
        values
    }

    /// `len` times `value`.
    #[must_use]
    pub fn filled(len: usize, value: T) -> Self {
        let mut values = Self::for_overwrite(len);
        values.fill(value);
        values
    }

    /// A copy of `values`.
    #[must_use]
    pub fn copy_of(values: &[T]) -> Self {
        let mut copy = Self::for_overwrite(values.len());
        copy.copy_from_slice(values);
        copy
    }

    /// The values of an iterator.
    #[must_use]
    pub fn collected(values: impl Iterator<Item = T>) -> Self {
        let mut collected = Self::take();
        collected.clear();
        collected.extend(values);
        collected
    }
}

impl<T: Send + 'static> From<T> for Recycled<T> {
    /// Wraps a value made elsewhere. It is freed when dropped: kept, the number of values would grow with each.
    fn from(value: T) -> Self {
        Self { value: Some(Box::new(value)), is_kept: false }
    }
}

impl<T: Send + 'static> Drop for Recycled<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take().filter(|_| self.is_kept) {
            kept().push(value);
        }
    }
}

impl<T: Send + 'static> Deref for Recycled<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_deref().expect(IN_USE)
    }
}

impl<T: Send + 'static> DerefMut for Recycled<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect(IN_USE)
    }
}

impl<T: Clone + Default + Send + 'static> Clone for Recycled<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::take();
        copy.clone_from(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        T::clone_from(self, source);
    }
}

impl<T: PartialEq + Send + 'static> PartialEq for Recycled<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug + Send + 'static> fmt::Debug for Recycled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each test has its own type, because tests run in parallel.

    #[test]
    fn a_dropped_value_is_used_again_as_it_was() {
        #[derive(Default)]
        struct Own {
            bytes: Vec<u8>,
        }
        let mut first = Recycled::<Own>::take();
        first.bytes = vec![7; 1000];
        let address = first.bytes.as_ptr() as usize;
        let second = Recycled::<Own>::take();
        assert!(second.bytes.is_empty(), "one that is in use was given away");
        drop(second);
        drop(first);
        let third = Recycled::<Own>::take();
        assert_eq!((third.bytes.as_ptr() as usize, third.bytes.len()), (address, 1000));
    }

    #[test]
    fn values_for_overwriting_have_their_length_and_others_their_content() {
        drop(Recycled::filled(10, 7_i16));
        assert_eq!(**Recycled::<Vec<i16>>::for_overwrite(4), [7; 4]);
        assert_eq!(**Recycled::<Vec<i16>>::for_overwrite(12), [0; 12], "a longer one is new");
        assert_eq!(**Recycled::filled(3, 5_i16), [5; 3]);
        assert_eq!(**Recycled::copy_of(&[1_i16, 2]), [1, 2]);
        assert_eq!(**Recycled::collected(3..6_i16), [3, 4, 5]);
    }

    #[test]
    fn a_wrapped_value_is_not_kept() {
        #[derive(Default)]
        struct Own(u8);
        drop(Recycled::from(Own(7)));
        assert_eq!(Recycled::<Own>::take().0, 0);
    }
}
