//! Notices on the first page of a cache file: who listens receives each, or that it has missed some.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::thread;

use tiers::{FILE_NOTICE_BYTES_MAX, FileTier, ListenEvent, Stored, Tier, TierFault};

mod support;

use support::{Numbers, read, settings, tier};

const BYTES: u64 = 1 << 20;

/// What a listener has received; `None` for [`ListenEvent::Began`].
fn received(listener: FileTier, count: usize) -> mpsc::Receiver<Option<Vec<u8>>> {
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        let mut left = count;
        let ended = listener.listen(|notice| {
            let said = match notice {
                ListenEvent::Began => None,
                ListenEvent::Notice(bytes) => Some(bytes.to_vec()),
                ListenEvent::Quiet => return true,
            };
            left -= 1;
            to.send(said).is_ok() && left > 0
        });
        ended.unwrap();
    });
    from
}

#[test]
fn notices_of_a_file_reach_all_that_listen_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let sender = tier(folder.path(), BYTES, 1);
    // Before any of them listens.
    sender.announce(b"early").unwrap();
    let listeners: Vec<_> = (0..3)
        .map(|_| received(tier(folder.path(), BYTES, 1), 4))
        .collect();
    for listener in &listeners {
        assert_eq!(listener.recv().unwrap(), None);
    }
    let largest = vec![7; FILE_NOTICE_BYTES_MAX];
    let notices: [&[u8]; 3] = [b"", b"second", &largest];
    for notice in notices {
        sender.announce(notice).unwrap();
    }
    for listener in &listeners {
        for notice in notices {
            assert_eq!(listener.recv().unwrap().unwrap(), notice);
        }
    }
    let error = sender
        .announce(&[0; FILE_NOTICE_BYTES_MAX + 1])
        .unwrap_err();
    assert_eq!(error.fault, TierFault::TooLarge);
}

#[test]
fn listener_that_has_missed_notices_of_a_file_hears_that() {
    let folder = tempfile::tempdir().unwrap();
    let sender = tier(folder.path(), BYTES, 1);
    let listener = tier(folder.path(), BYTES, 1);
    let (mut begun, mut next) = (0, 0_u32);
    listener
        .listen(|notice| {
            match notice {
                ListenEvent::Began => {
                    begun += 1;
                    // More than the page has room for, before the listener looks at it.
                    let count = if begun == 1 { 100 } else { 20 };
                    for _ in 0..count {
                        sender.announce(&next.to_le_bytes()).unwrap();
                        next += 1;
                    }
                }
                ListenEvent::Notice(bytes) => {
                    let number = u32::from_le_bytes(bytes.try_into().unwrap());
                    assert!((100..120).contains(&number), "{number}");
                    return number < 119;
                }
                ListenEvent::Quiet => {}
            }
            true
        })
        .unwrap();
    assert_eq!(begun, 2);
}

#[test]
fn notices_of_many_writers_are_all_heard_or_missed_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    let listener = tier(folder.path(), BYTES, 1);
    let (mut begun, mut count, mut last) = (0, 0, [0_u8; 4]);
    let mut writers = Vec::new();
    listener
        .listen(|notice| {
            match notice {
                ListenEvent::Began if begun == 0 => {
                    begun = 1;
                    for writer in 0..4_u8 {
                        let path = path.clone();
                        writers.push(thread::spawn(move || {
                            let sender = tier(&path, BYTES, 1);
                            for number in 1..=50_u8 {
                                let notice = [writer, number];
                                while let Err(error) = sender.announce(&notice) {
                                    assert_eq!(error.fault, TierFault::Busy, "{error}");
                                }
                                thread::yield_now();
                            }
                        }));
                    }
                }
                ListenEvent::Began => {
                    begun += 1;
                    last = [0; 4];
                }
                ListenEvent::Notice(&[writer, number]) => {
                    count += 1;
                    let last = &mut last[usize::from(writer)];
                    // Without a gap, unless it was said that there is one.
                    assert!(*last == 0 || number == *last + 1, "{number} after {last}");
                    *last = number;
                }
                ListenEvent::Notice(other) => panic!("{other:?} was never announced"),
                ListenEvent::Quiet => return !writers.iter().all(thread::JoinHandle::is_finished),
            }
            true
        })
        .unwrap();
    assert!(count == 200 || begun > 1, "{count} of 200");
    for writer in writers {
        writer.join().unwrap();
    }
}

#[test]
fn listener_of_a_file_outlives_damage_and_hears_of_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let sender = tier(folder.path(), BYTES, 1);
    sender.check().unwrap();
    let path = settings(folder.path(), BYTES, 1).path;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let mut numbers = Numbers(3);
    let mut rounds = 0;
    let listener = tier(folder.path(), BYTES, 1);
    listener
        .listen(|_| {
            rounds += 1;
            let at = 1_000 + numbers.below(3_000);
            let bytes: Vec<u8> = (0..64).map(|_| numbers.next() as u8).collect();
            file.write_all_at(&bytes, at).unwrap();
            sender.announce(b"notice").unwrap();
            rounds < 20
        })
        .unwrap();
    // The entries are beside it.
    assert_eq!(sender.set(b"k", b"v", None, None).unwrap(), Stored::Kept);
    assert!(read(&sender, b"k").unwrap().is_some());
    let mut begun = 0;
    let listener = tier(folder.path(), BYTES, 1);
    listener
        .listen(|notice| {
            if notice == ListenEvent::Began {
                begun += 1;
                file.set_len(10).unwrap();
                std::fs::remove_file(&path).unwrap_or_default();
            }
            begun < 2
        })
        .unwrap_or_else(|error| assert_eq!(error.fault, TierFault::Damaged, "{error}"));
}
