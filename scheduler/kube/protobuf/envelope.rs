//! The parts around the objects: the frames of a watch, and the envelope of each object.
//!
//! A watch is a sequence of `WatchEvent`s, each behind its length (four bytes, the highest first).
//! The object in it, and any object that is an answer by itself, begins with four bytes that mark
//! it, followed by a `runtime.Unknown`.

use bytes::{Buf, Bytes, BytesMut};
use kube::core::Status;
use prost::Message;

use super::Decode;
use super::messages as wire;

/// The first bytes of each object.
const MAGIC: &[u8] = b"k8s\0";

/// The bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// The most bytes of a frame, far more than an object can have: etcd takes 1.5 MB by default, and
/// no installation allows this much.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// The reason why the server's data are no watch event of this encoding.
#[derive(Debug, thiserror::Error)]
pub enum BadFrame {
    /// The length is impossible, most likely because this is not the beginning of a frame.
    #[error("a frame of {0} bytes")]
    TooLong(usize),
    /// The object does not begin with the mark.
    #[error("an object that does not begin as one")]
    NoMagic,
    /// The type of the event is unknown.
    #[error("a watch event of type {0:?}")]
    UnknownType(String),
    /// The fields cannot be decoded.
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
}

/// One event of a watch, with its object: as bytes, until that is read.
#[derive(Debug)]
pub enum News<T> {
    /// ADDED or MODIFIED
    There(T),
    /// DELETED
    Gone(T),
    /// BOOKMARK: an object of the kind with metadata alone.
    Bookmark(T),
    /// ERROR
    Error(Box<Status>),
}

impl News<Bytes> {
    /// Reads the object.
    pub fn read<K>(self, decode: Decode<K>) -> Result<News<K>, BadFrame> {
        Ok(match self {
            News::There(object) => News::There(decode(object)?),
            News::Gone(object) => News::Gone(decode(object)?),
            News::Bookmark(object) => News::Bookmark(decode(object)?),
            News::Error(status) => News::Error(status),
        })
    }
}

/// Takes the first frame off the received bytes, if all of it has arrived.
pub fn take_frame(arrived: &mut BytesMut) -> Result<Option<Bytes>, BadFrame> {
    let Some(length) = arrived.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(BadFrame::TooLong(length));
    }
    if arrived.len() < LENGTH_BYTES + length {
        return Ok(None);
    }
    arrived.advance(LENGTH_BYTES);
    Ok(Some(arrived.split_to(length).freeze()))
}

/// Reads a frame.
pub fn read_frame(frame: Bytes) -> Result<News<Bytes>, BadFrame> {
    let event = wire::WatchEvent::decode(frame)?;
    let object = open(event.object.unwrap_or_default().raw)?;
    match event.r#type.as_str() {
        "ADDED" | "MODIFIED" => Ok(News::There(object)),
        "DELETED" => Ok(News::Gone(object)),
        "BOOKMARK" => Ok(News::Bookmark(object)),
        "ERROR" => Ok(News::Error(status(object)?.boxed())),
        _ => Err(BadFrame::UnknownType(event.r#type)),
    }
}

/// Takes an object out of its envelope.
pub fn open(mut bytes: Bytes) -> Result<Bytes, BadFrame> {
    if !bytes.starts_with(MAGIC) {
        return Err(BadFrame::NoMagic);
    }
    bytes.advance(MAGIC.len());
    Ok(wire::Unknown::decode(bytes)?.raw)
}

/// Reads a Status.
pub fn status(bytes: Bytes) -> Result<Status, BadFrame> {
    let status = wire::Status::decode(bytes)?;
    let code = u16::try_from(status.code).unwrap_or(0);
    Ok(Status::failure(&status.message, &status.reason).with_code(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_as_they_arrive() {
        let mut arrived = BytesMut::new();
        let mut taken = Vec::new();
        for byte in [0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0, 0, 0, 1, b'c', 0, 0] {
            arrived.extend_from_slice(&[byte]);
            taken.extend(take_frame(&mut arrived).unwrap());
        }
        assert_eq!(taken, ["ab", "", "c"]);
        assert_eq!(&arrived[..], [0, 0]);
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        let mut json = BytesMut::from(&br#"{"type":"ADDED"}"#[..]);
        assert!(matches!(take_frame(&mut json), Err(BadFrame::TooLong(0x7b22_7479))));
        assert!(matches!(open(Bytes::from_static(b"{}")), Err(BadFrame::NoMagic)));
        assert!(matches!(read_frame(Bytes::from_static(&[0xff])), Err(BadFrame::Decode(_))));
    }
}
