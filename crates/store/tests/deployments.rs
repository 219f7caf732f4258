//! What deletion leaves of deployments goes in slices.

mod suite;

use futures_executor::block_on;
use model::{DeploymentId, FunctionDefinition, FunctionId, ProjectId};
use rusqlite::Connection;
use store::{
    ArchivePart, ArchivePiece, CatalogueOp, DeploymentAct, DeploymentRefusal, FunctionName,
    FunctionOp, Op, Refusal,
};
use suite::db::{Db, Directory, PROJECT, create_project};
use testing::OwnTurn;

const PIECE: usize = 1 << 20;

fn function() -> FunctionName {
    FunctionName {
        project: ProjectId::new(PROJECT).unwrap(),
        id: FunctionId::new("f").unwrap(),
    }
}

fn act(act: DeploymentAct) -> Op {
    let id = DeploymentId::new("d").unwrap();
    let function = function();
    Op::Function(FunctionOp::Deployment { function, id, act })
}

fn piece(start: usize, byte: u8, length: usize) -> Op {
    act(DeploymentAct::PutPiece(ArchivePiece {
        part: ArchivePart::Source,
        start: start as u64,
        bytes: vec![byte; length].into(),
    }))
}

/// A function with a deployment of so many bytes.
fn open(directory: &Directory, source_bytes: usize) -> Db {
    let mut db = Db::open(directory);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    let definition = FunctionDefinition::new("F".to_owned(), "node-22".to_owned());
    let create = CatalogueOp::CreateFunction(function(), Box::new(definition));
    db.ok(vec![Op::Catalogue(create)]);
    db.ok(vec![Op::Function(FunctionOp::CreateDeployment {
        function: function(),
        id: DeploymentId::new("d").unwrap(),
        source_bytes: source_bytes as u64,
        activate: true,
        entrypoint: "main.js".to_owned(),
        commands: String::new(),
    })]);
    db
}

fn is_piece(refused: &Refusal) -> bool {
    matches!(
        refused,
        Refusal::OfDeployment(DeploymentRefusal::PieceInvalid(_))
    )
}

fn pieces(directory: &Directory) -> i64 {
    let file = directory.0.path().join("data/tidemark.db");
    let database = Connection::open(file).unwrap();
    let sql = "SELECT count(*) FROM deployment_piece";
    database.query_row(sql, (), |row| row.get(0)).unwrap()
}

#[test]
fn pieces_of_a_deleted_function_go_in_slices_of_eight_mebibytes() {
    let directory = Directory::new();
    let mut db = open(&directory, 20 * PIECE);
    for nth in 0..20 {
        db.ok(vec![piece(nth * PIECE, 1, PIECE)]);
    }
    assert_eq!(pieces(&directory), 20);
    db.ok(vec![Op::Catalogue(CatalogueOp::DeleteFunction(function()))]);
    assert_eq!(pieces(&directory), 20, "readers wait for no archive");
    assert!(block_on(db.store.run_upkeep()).unwrap());
    assert_eq!(pieces(&directory), 12);
    while block_on(db.store.run_upkeep()).unwrap() {}
    assert_eq!(pieces(&directory), 0);
}

#[test]
fn pieces_meet_no_others_unless_they_are_the_same() {
    let directory = Directory::new();
    let mut db = open(&directory, 100);
    db.ok(vec![piece(40, 1, 20)]);
    db.ok(vec![piece(40, 1, 20)]);
    for wrong in [
        piece(40, 2, 20),
        piece(40, 1, 19),
        piece(40, 1, 21),
        piece(30, 1, 11),
        piece(59, 1, 1),
        piece(0, 1, 100),
        piece(90, 1, 11),
        piece(50, 1, 0),
        piece(usize::MAX, 1, 1),
        piece(0, 1, PIECE + 1),
    ] {
        let refused = db.refused(vec![wrong.clone()]);
        assert!(is_piece(&refused), "{wrong:?}");
    }
    db.ok(vec![piece(0, 1, 40)]);
    let moved = db.refused(vec![act(DeploymentAct::BeginBuild)]);
    let moved = matches!(
        moved,
        Refusal::OfDeployment(DeploymentRefusal::BuildMoved(_))
    );
    assert!(moved, "40 bytes are not there");
    db.ok(vec![piece(60, 1, 40)]);
    db.ok(vec![act(DeploymentAct::BeginBuild)]);
}

#[test]
fn pieces_of_one_archive_are_bounded_in_number() {
    let directory = Directory::new();
    let mut db = open(&directory, 4_000);
    for nth in 0..1_024 {
        db.ok(vec![piece(nth, 1, 1)]);
    }
    let refused = db.refused(vec![piece(1_024, 1, 1)]);
    assert!(is_piece(&refused));
}
