mod suite;
use std::sync::Arc;
use std::time::Instant;
use futures_executor::block_on;
use model::{ColumnKind, Table, Value};
use store::{Durability, Op, Options, Store};
use suite::db::*;
struct P(tempfile::TempDir);
fn enc(_: &Table, values: &[Value], out: &mut Vec<u8>) {
    use std::io::Write as _;
    out.push(b'{');
    for v in values { match v { Value::Text(t) => { out.extend_from_slice(b"\"somekey\":\""); out.extend_from_slice(t.as_bytes()); out.extend_from_slice(b"\","); } Value::Int(n) => write!(out, "\"k\":{n},").unwrap(), Value::Float(n) => write!(out, "\"k\":{n},").unwrap(), _ => out.extend_from_slice(b"\"k\":null,") } }
    out.push(b'}');
}
impl Place for P { fn open(&self) -> Arc<dyn Store> { store::open(Options { directory: self.0.path().join("d"), durability: Durability::Normal, encode_row: enc, reader_cache_bytes: 64<<20, read_limit_ms: 60_000, vfs: None }).unwrap() } }
fn cpu() -> f64 { let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 }; unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) }; t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3 }
fn run(db: &mut Db, name: &str, group: usize, n: usize, op: impl Fn(&Db, usize) -> Op) {
    let (mut apply, mut commit) = (0.0, 0.0);
    let t = Instant::now();
    for g in 0..n / group {
        let batches: Vec<_> = (0..group).map(|i| db.batch(vec![op(db, g * group + i)])).collect();
        let c = cpu();
        let p = block_on(db.store.apply(&batches, db.next)).unwrap();
        let c2 = cpu();
        let o = block_on(p.commit()).unwrap();
        let c3 = cpu();
        apply += c2 - c; commit += c3 - c2;
        for a in o { let m = a.unwrap().mark.unwrap(); db.next = model::Mark(m.0 + 5000); }
    }
    println!("{name:32} group {group:4}: apply {:6.1} us/op, commit {:6.1} us/op, wall {:?}", apply / n as f64, commit / n as f64, t.elapsed());
}
fn catalog() -> Table {
    let mut t = notes_called("notes");
    t.columns = (1..=15).map(|n| column(n, &format!("col{n}"), if n % 3 == 0 { ColumnKind::Bigint { min: i64::MIN, max: i64::MAX } } else { ColumnKind::Text }, false)).collect();
    t.indexes.clear();
    t
}
fn row15(n: usize) -> Vec<Value> { (1..=15).map(|c| if c % 3 == 0 { Value::Int((n * c) as i64) } else { Value::Text(format!("some text of the column {c} in row {n}")) }).collect() }
#[test]
fn speed() {
    let p = P(tempfile::tempdir().unwrap());
    for indexed in [false, true] {
        for group in [1, 32] {
            let p = P(tempfile::tempdir().unwrap());
            let mut db = Db::open(&p);
            db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
            db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
            let mut t = catalog();
            if indexed { t.indexes = vec![index(1, "a", model::IndexKind::Key, &[(0, model::Direction::Asc)]), index(2, "b", model::IndexKind::Unique, &[(1, model::Direction::Asc)])]; }
            db.ok(vec![Op::Catalogue(store::CatalogueOp::CreateTable(Box::new(t)))]);
            let l = if indexed { "15 cols 2 idx" } else { "15 cols 0 idx" };
            run(&mut db, &format!("insert {l}"), group, 32000, |db, n| db.insert(&format!("row{:x}", n.wrapping_mul(0x9E3779B1) & 0xffffffff), row15(n)));
            run(&mut db, &format!("insert 2 grants {l}"), group, 32000, |db, n| db.insert_granted(&format!("rpw{:x}", n.wrapping_mul(0x9E3779B1) & 0xffffffff), row15(n+100000), &["read(\"any\")", "update(\"user:ann\")"]));
            run(&mut db, &format!("update {l}"), group, 32000, |db, n| db.update(&format!("row{:x}", n.wrapping_mul(0x9E3779B1) & 0xffffffff), vec![(2, Value::Int(-1 - n as i64))]));
            run(&mut db, &format!("delete {l}"), group, 32000, |db, n| db.delete(&format!("row{:x}", n.wrapping_mul(0x9E3779B1) & 0xffffffff)));
        }
    }
    drop(p);
}
