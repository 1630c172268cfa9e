//! What a loop's connections lend each other: maps for headers, and buffers for replies.
//!
//! A request on a connection that is kept alive needs a map for its headers and one for those of its reply. Both have two
//! allocations inside, which are worth keeping: a map that comes back is emptied and keeps its room.
//!
//! Always true: what is kept is empty, not larger than usual, and not more than [`KEPT`] of it per thread.

use super::ReplyHead;
use bytes::BytesMut;
use http::{HeaderMap, Request, Uri, request, response};
use std::cell::RefCell;

/// As many as a loop uses at a time when it answers at once, and some that wait.
const KEPT: usize = 32;
/// Maps with room for more headers than that are let go: emptying takes time by room.
const MAP_ROOM_MAX: usize = 64;
/// Room that a buffer for replies begins with.
const BUFFER_ROOM: usize = 16 * 1024;

thread_local! {
    #[expect(clippy::vec_box)] // the boxes are what is kept
    static REQUESTS: RefCell<Vec<Box<request::Parts>>> = const { RefCell::new(Vec::new()) };
    #[expect(clippy::vec_box)]
    static REPLIES: RefCell<Vec<Box<response::Parts>>> = const { RefCell::new(Vec::new()) };
    static MAPS: RefCell<Vec<HeaderMap>> = const { RefCell::new(Vec::new()) };
    static BUFFERS: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty map with room for some headers, used before if this thread has one.
///
/// ```
/// let mut headers = netwright_http::header_map();
/// headers.insert("content-type", "text/plain".parse().unwrap());
/// netwright_http::recycle_headers(headers);
/// ```
#[inline]
pub fn header_map() -> HeaderMap {
    MAPS.try_with(|maps| maps.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

/// Keeps a map for the next one who asks this thread for one. Its headers are dropped.
///
/// ```
/// let mut headers = netwright_http::header_map();
/// headers.insert("server", "mine".parse().unwrap());
/// netwright_http::recycle_headers(headers);
/// assert!(netwright_http::header_map().is_empty()); // with the room of the one before
/// ```
#[inline]
pub fn recycle_headers(mut map: HeaderMap) {
    if map.capacity() == 0 || map.capacity() > MAP_ROOM_MAX {
        return;
    }
    map.clear();
    let _ = MAPS.try_with(|maps| {
        let mut maps = maps.borrow_mut();
        if maps.len() < KEPT {
            maps.push(map);
        }
    });
}

/// A box for the head of a request, without headers, used before if this thread has one. Method, target and version are to be
/// set.
#[inline]
pub(crate) fn request_box() -> Box<request::Parts> {
    let used = REQUESTS.try_with(|requests| requests.borrow_mut().pop()).ok().flatten();
    used.unwrap_or_else(|| Box::new(Request::new(()).into_parts().0))
}

/// Keeps the head of a request that is answered for the next one. Its headers and its target are dropped: they lie in the loop's
/// read buffer, which could not be used again while one of them is there.
#[inline]
pub(crate) fn recycle_request_box(mut parts: Box<request::Parts>) {
    if parts.headers.capacity() > MAP_ROOM_MAX || !parts.extensions.is_empty() {
        return;
    }
    parts.headers.clear();
    parts.uri = Uri::default();
    let _ = REQUESTS.try_with(|requests| {
        let mut requests = requests.borrow_mut();
        if requests.len() < KEPT {
            requests.push(parts);
        }
    });
}

/// Puts the head of a reply in a box that was used before, if this thread has one.
#[inline]
pub(crate) fn reply_box(parts: response::Parts) -> Box<response::Parts> {
    let used = REPLIES.try_with(|replies| replies.borrow_mut().pop()).ok().flatten();
    let Some(mut used) = used else { return Box::new(parts) };
    // What lies there holds no memory, so nothing is lost, and the time to find that out is saved.
    std::mem::forget(std::mem::replace(&mut *used, parts));
    used
}

/// Keeps the box of a reply that is written, and its map.
#[inline]
pub(crate) fn recycle_reply_head(head: ReplyHead) {
    let mut parts = head.into_box();
    recycle_headers(std::mem::take(&mut parts.headers));
    parts.extensions = http::Extensions::new();
    let _ = REPLIES.try_with(|replies| {
        let mut replies = replies.borrow_mut();
        if replies.len() < KEPT {
            replies.push(parts);
        }
    });
}

/// A buffer for a batch of replies.
#[inline]
pub(crate) fn buffer() -> BytesMut {
    let mut buffer =
        BUFFERS.try_with(|buffers| buffers.borrow_mut().pop()).ok().flatten().unwrap_or_default();
    // Nobody uses the batch before it any more, mostly: then this takes its room back, and else makes some.
    if !buffer.try_reclaim(BUFFER_ROOM) && buffer.capacity() < BUFFER_ROOM / 4 {
        buffer = BytesMut::with_capacity(BUFFER_ROOM);
    }
    buffer
}

/// What is left of a buffer when its batch was split off.
#[inline]
pub(crate) fn recycle_buffer(buffer: BytesMut) {
    debug_assert!(buffer.is_empty());
    let _ = BUFFERS.try_with(|buffers| {
        let mut buffers = buffers.borrow_mut();
        if buffers.len() < KEPT / 8 {
            buffers.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_empty_and_with_its_room() {
        let mut map = header_map();
        map.insert("host", "example".parse().unwrap());
        let room = map.capacity();
        recycle_headers(map);
        let again = header_map();
        assert!(again.is_empty());
        assert_eq!(again.capacity(), room);
    }

    #[test]
    fn large_maps_are_let_go_and_only_so_many_are_kept() {
        recycle_headers(HeaderMap::with_capacity(1000));
        assert!(MAPS.with_borrow(Vec::is_empty));
        (0..100).for_each(|_| recycle_headers(HeaderMap::with_capacity(8)));
        assert_eq!(MAPS.with_borrow(Vec::len), KEPT);
    }
}
