package tidemark_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tidemark"
)

func TestARowIsWrittenReadChangedAndDeleted(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	printed := time.Date(2020, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	price := 9.5
	dune := book("dune", "Dune", 1)
	dune.Price, dune.Printed, dune.Lent, dune.Tags = &price, &printed, true, []string{"sand"}
	made, err := books.Create(ctx, dune)
	must(test, err)
	equal(test, made, tidemark.Written{ID: "dune", Mark: it.Mark()})
	found, err := books.Get(ctx, "dune")
	must(test, err)
	equal(test, *found.Price, 9.5)
	equal(test, found.Printed.Equal(printed), true)
	equal(test, found.Lent && found.Author == nil, true)
	same(test, found.Tags, []string{"sand"})

	_, err = books.Update(ctx, "dune", tidemark.Row{"title": "Dune II"})
	must(test, err)
	unchanged, err := books.Update(ctx, "dune", tidemark.Row{"title": "Dune II"})
	must(test, err)
	equal(test, unchanged.Mark, 0)
	_, err = books.Increment(ctx, "dune", "slot", 4)
	must(test, err)
	_, err = books.Increment(ctx, "dune", "slot", -2)
	must(test, err)
	found, err = books.Get(ctx, "dune")
	must(test, err)
	equal(test, fmt.Sprint(found.Title, found.Slot), "Dune II3")
	found.Tags = nil
	_, err = books.Upsert(ctx, found)
	must(test, err)
	_, err = books.Delete(ctx, "dune")
	must(test, err)
	_, err = books.Get(ctx, "dune")
	isThere, err := tidemark.IsThere(err)
	must(test, err)
	equal(test, isThere, false)
}

func TestRowsWithoutAStruct(test *testing.T) {
	it := client(test, nil)
	library(test, it)
	authors, err := tidemark.NewTable[tidemark.Row](it, "authors")
	must(test, err)
	made, err := authors.Create(ctx, tidemark.Row{"name": "Ann", "mail": "a"})
	must(test, err)
	equal(test, len(made.ID), 32)
	found, err := authors.Get(ctx, made.ID)
	must(test, err)
	equal(test, found["name"].(string), "Ann")
	found["name"] = "Anne"
	again, err := authors.Upsert(ctx, found)
	must(test, err)
	equal(test, again.ID, made.ID)
	if err := authors.CreateTable(ctx); err == nil {
		test.Fatal("only a struct says which columns a table has")
	}
}

func TestRefusalsAreTyped(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	_, err := books.Create(ctx, book("dune", "Dune", 1))
	must(test, err)
	long := book("long", fmt.Sprintf("%0201d", 0), 2)
	guest, err := tidemark.NewTable[Book](client(test, func(options *tidemark.Options) {
		options.Key = ""
	}), "books")
	must(test, err)
	none, err := tidemark.NewTable[Book](it, "none")
	must(test, err)
	create := func(table *tidemark.Table[Book], row Book) error {
		_, err := table.Create(ctx, row)
		return err
	}
	_, absent := books.Update(ctx, "none", tidemark.Row{"slot": 1})
	cases := []struct {
		err  error
		is   error
		code int
		name string
	}{
		{create(books.Table, book("dune", "x", 2)), tidemark.ErrConflict, 409, "row_already_exists"},
		{create(books.Table, book("x", "x", 1)), tidemark.ErrConflict, 409,
			"row_unique_constraint_violation"},
		{create(books.Table, long), tidemark.ErrInvalid, 400, "row_invalid_structure"},
		{create(guest, book("x", "x", 2)), tidemark.ErrDenied, 401, "user_unauthorized"},
		{create(none, book("x", "x", 2)), tidemark.ErrNotFound, 404, "table_not_found"},
		{absent, tidemark.ErrNotFound, 404, "row_not_found"},
	}
	for _, one := range cases {
		var refused *tidemark.Error
		if !errors.As(one.err, &refused) || !errors.Is(one.err, one.is) {
			test.Fatalf("%v is no %v", one.err, one.is)
		}
		equal(test, refused.Code, one.code)
		equal(test, refused.Type, one.name)
		equal(test, refused.Message != "", true)
	}
}

func TestManyRowsInOneRequest(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	rows := []Book{}
	for slot := 0; slot < 20; slot++ {
		rows = append(rows, book(fmt.Sprint("b", slot), "t", slot))
	}
	made, err := books.CreateMany(ctx, rows)
	must(test, err)
	equal(test, len(made), 20)
	equal(test, made[0].Mark, made[19].Mark)
	found, err := books.GetMany(ctx, []string{"b3", "none", "b1"})
	must(test, err)
	equal(test, found[1] == nil, true)
	same(test, []int{found[0].Slot, found[2].Slot}, []int{3, 1})
	_, err = books.CreateMany(ctx, []Book{book("new", "t", 50), book("b0", "t", 51)})
	equal(test, errors.Is(err, tidemark.ErrConflict), true)
	_, err = books.First(ctx, tidemark.Equal("slot", 50))
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
	_, err = books.UpsertMany(ctx, []Book{book("b0", "changed", 0), book("new", "t", 50)})
	must(test, err)
	page, err := books.Page(ctx, tidemark.Less("slot", 5), tidemark.Limit(2))
	must(test, err)
	equal(test, page.Total, 5)
	same(test, slots(page.Rows), []int{0, 1})
}

func TestAnIterationShowsWhatWasThereAtItsFirstPage(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	rows := []Book{}
	for slot := 0; slot < 250; slot++ {
		rows = append(rows, book(fmt.Sprint("b", slot), "t", slot))
	}
	_, err := books.CreateMany(ctx, rows)
	must(test, err)
	seen := []int{}
	each := books.Each(ctx, tidemark.OrderAsc("slot"))
	for each.Next() {
		seen = append(seen, each.Row().Slot)
		if len(seen) == 1 {
			_, err := books.Delete(ctx, "b249")
			must(test, err)
			_, err = books.Create(ctx, book("more", "t", 1000))
			must(test, err)
		}
	}
	must(test, each.Err())
	equal(test, len(seen), 250)
	equal(test, seen[249], 249)
	all, err := books.Each(ctx, tidemark.Greater("slot", 247)).All()
	must(test, err)
	same(test, slots(all), []int{248, 1000})
	equal(test, all[0].Coordinates.AsOf.IsZero(), false)
	_, err = books.Each(ctx, tidemark.Limit(1)).All()
	equal(test, err != nil, true)
	_, err = books.Each(ctx, tidemark.Select("title")).All()
	equal(test, err != nil, true)
}

func TestReadsAtCoordinatesNeverChange(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	_, err := books.Create(ctx, book("b", "old", 1))
	must(test, err)
	then, err := it.Now(ctx)
	must(test, err)
	_, err = books.Update(ctx, "b", tidemark.Row{"title": "new"})
	must(test, err)
	_, err = books.Create(ctx, book("c", "later", 2))
	must(test, err)
	found, err := books.Get(ctx, "b", then.Queries()...)
	must(test, err)
	equal(test, found.Title, "old")
	equal(test, found.Coordinates, then)
	equal(test, found.Version != "" && !found.SystemFrom.IsZero(), true)
	_, err = books.Get(ctx, "c", then.Queries()...)
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
	all, err := books.Each(ctx, then.Queries()...).All()
	must(test, err)
	equal(test, len(all), 1)
	_, err = books.Get(ctx, "b", tidemark.AsOf(tidemark.At(time.Now().AddDate(9, 0, 0))))
	var refused *tidemark.Error
	equal(test, errors.As(err, &refused), true)
	equal(test, refused.Type, "future_tt")
	versions, err := books.Each(ctx, tidemark.Equal("$id", "b"), tidemark.Versions()).All()
	must(test, err)
	equal(test, len(versions), 3)
}

func TestOperationsAreCommittedAtOneMark(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	_, err := books.Create(ctx, book("a", "a", 1))
	must(test, err)
	spring := tidemark.Text("2026-03-01T00:00:00Z")
	autumn := tidemark.Text("2026-09-01T00:00:00Z")
	done, err := it.Commit(ctx, tidemark.Row{"user": "ann"},
		tidemark.RequireExists(books.Table, "a", true),
		tidemark.RequireEquals(books.Table, "a", tidemark.Row{"title": "a"}),
		tidemark.RequireUnchanged(books.Table, "a", it.Mark()),
		tidemark.Insert(books.Table, book("b", "b", 2), tidemark.Period{ValidFrom: spring}),
		tidemark.Put(books.Table, book("a", "aa", 1), tidemark.Period{}),
		tidemark.Update(books.Table, "b", tidemark.Row{"title": "bb"},
			tidemark.Period{ValidFrom: autumn, ValidTo: tidemark.Next}),
		tidemark.Delete(books.Table, "none", tidemark.Period{}),
	)
	must(test, err)
	equal(test, done.Mark, it.Mark())
	same(test, done.Affected, []bool{false, false, false, true, true, true, false})
	now, err := it.Now(ctx)
	must(test, err)
	for when, title := range map[tidemark.Instant]string{spring: "b", autumn: "bb"} {
		at := tidemark.Coordinates{AsOf: now.AsOf, ValidAt: when}
		found, err := books.Get(ctx, "b", at.Queries()...)
		must(test, err)
		equal(test, found.Title, title)
	}
	record, err := it.Read(ctx, tidemark.Row{"kind": "tx", "tt": done.Mark})
	must(test, err)
	equal(test, len(record.Rows) > 0, true)
	at, err := record.AsOf.Time()
	must(test, err)
	equal(test, at.UnixMicro(), done.Mark)
	_, err = it.Commit(ctx, nil, tidemark.RequireExists(books.Table, "a", false))
	equal(test, errors.Is(err, tidemark.ErrConflict), true)
	_, err = it.Commit(ctx, nil, tidemark.Erase(books.Table, "b"))
	must(test, err)
	both := tidemark.Row{"kind": "history", "table": "books", "id": "b", "axis": "both"}
	history, err := it.Read(ctx, both)
	must(test, err)
	equal(test, string(history.Rows), "[]")
}

func TestAClientThatIsToldAMarkReadsNothingOlder(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	written, err := books.Create(ctx, book("m", "m", 1))
	must(test, err)
	other := client(test, func(options *tidemark.Options) { options.Mark = written.Mark })
	table, err := tidemark.NewTable[Book](other, "books")
	must(test, err)
	_, err = table.Get(ctx, "m")
	must(test, err)
	equal(test, other.Mark() >= written.Mark, true)
}
