//! The file with the key: made when it is first used, and never made again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use model::Mark;
use store::{CatalogueOp, Op, RecordsOf, StoreError, WriteBatch, inspect};

use super::fixture::{KEY, SECRET, SealedPlace, on_both, sealed_notes, values};
use crate::suite::db::{DATABASE, Db, PROJECT, assert_holds, create_database, create_project};

#[test]
fn key_file_that_is_missing_or_wrong_is_refused_and_not_replaced() {
    on_both("sealed_key", |place| {
        let mut db = place.begin();
        db.ok(vec![db.insert("a", values("a", "a"))]);
        db.close();
        let file = place.key();
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = fs::read(&file).unwrap();
        let looked = || match place {
            SealedPlace::Directory(_) => inspect(&place.data().into()).unwrap().unwrap().key(),
            // What a server says is what is looked at.
            SealedPlace::Database(..) => place.try_open().map(|_| Some(())),
        };

        fs::remove_file(&file).unwrap();
        let missing = StoreError::KeyMissing { file: file.clone() };
        assert_eq!(place.try_open().err(), Some(missing.clone()));
        assert_eq!(looked(), Err(missing.clone()));
        assert!(missing.to_string().contains(KEY), "{missing}");
        assert!(!file.exists(), "no other key is made");

        let wrong = StoreError::KeyWrong { file: file.clone() };
        for other in [b"".to_vec(), [b'0'; 64].to_vec(), vec![0xff; 64]] {
            fs::write(&file, other).unwrap();
            assert_eq!(place.try_open().err(), Some(wrong.clone()));
            assert_eq!(looked(), Err(wrong.clone()));
        }

        // Others could read it meanwhile; the next start of a store in the directory closes it.
        fs::write(&file, key).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let db = Db::open(place);
        assert_holds(&db.get("a").unwrap(), &db.table(), &values("a", "a"));
        if let SealedPlace::Directory(_) = place {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    });
}

#[test]
fn key_that_no_commit_used_is_used_later() {
    on_both("sealed_key_unused", |place| {
        let mut db = Db::open(place);
        db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
        db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
        let create = || Op::Catalogue(CatalogueOp::CreateTable(Box::new(sealed_notes())));
        // The batch is refused as a whole, after the key was made for its first operation.
        db.refused(vec![create(), create()]);
        let key = fs::read(place.key()).unwrap();
        // Nothing is sealed by a key that the database does not name.
        let batch = WriteBatch {
            meta: Some(SECRET.into()),
            noted_in: Some(db.database().seq),
            ..db.batch(vec![Op::Catalogue(create_project("p2"))])
        };
        let mark = db.commit(&[batch]).remove(0).unwrap().mark.unwrap();
        db.close();
        let mut db = Db::open(place);
        let recorded = futures_executor::block_on(db.store.recorded(RecordsOf {
            after: Mark(mark.0 - 1),
            upto: mark,
            limit: 1,
            database: db.database().seq,
            tables: Vec::new(),
            changed: None,
            filter: None,
        }));
        assert_eq!(recorded.unwrap()[0].meta.as_deref(), Some(SECRET));
        db.ok(vec![create()]);
        db.ok(vec![db.insert("a", values("a", "a"))]);
        assert_eq!(fs::read(place.key()).unwrap(), key);
        db.close();
        let db = Db::open(place);
        assert!(db.get("a").is_some());
    });
}
