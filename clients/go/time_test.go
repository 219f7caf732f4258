package tidemark_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidemark"
)

var (
	march = tidemark.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	may   = tidemark.Text("2026-05-01T00:00:00Z")
	july  = tidemark.Text("2026-07-01")
)

// isAt compares instants of whatever form.
func isAt(test *testing.T, got, wanted tidemark.Instant) {
	test.Helper()
	when, err := got.Time()
	must(test, err)
	at, err := wanted.Time()
	must(test, err)
	equal(test, when, at)
}

func TestARowSaysWhereItStands(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	_, err := books.Over(tidemark.Period{ValidFrom: march, ValidTo: july}).Create(ctx, book("b", "one", 1))
	must(test, err)
	_, err = books.Over(tidemark.Period{ValidFrom: may, ValidTo: july}).
		Update(ctx, "b", tidemark.Row{"title": "two"})
	must(test, err)
	april := tidemark.Text("2026-04-01")
	found, err := books.Get(ctx, "b", tidemark.ValidAt(april))
	must(test, err)
	equal(test, found.Title, "one")
	isAt(test, found.ValidFrom, march)
	isAt(test, found.ValidTo, may)
	equal(test, found.Coordinates, tidemark.Coordinates{ValidAt: april})
	equal(test, found.Mark > 0 && strings.HasPrefix(found.Version, "b@"), true)

	_, err = books.Create(ctx, book("n", "now", 2))
	must(test, err)
	now, err := books.Get(ctx, "n")
	must(test, err)
	equal(test, now.ReadAt, tidemark.ReadAt{Mark: it.Mark()})
	submitted, err := books.Submit().Get(ctx, "n").Wait(ctx)
	must(test, err)
	equal(test, submitted.ReadAt, tidemark.ReadAt{Mark: it.Mark()})

	rows, err := tidemark.NewTable[tidemark.Row](it, "books")
	must(test, err)
	plain, err := rows.Get(ctx, "b", tidemark.ValidAt(april))
	must(test, err)
	isAt(test, plain.ReadAt().ValidTo, may)
	equal(test, tidemark.Row{}.ReadAt(), tidemark.ReadAt{})
	_, err = rows.Upsert(ctx, plain) // What says where it stands is no column.
	must(test, err)
}

func TestVersionsOfAModelHaveTheirPeriods(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	_, err := books.Over(tidemark.Period{ValidFrom: march}).Create(ctx, book("b", "one", 1))
	must(test, err)
	_, err = books.Over(tidemark.Period{ValidFrom: may}).
		Update(ctx, "b", tidemark.Row{"title": "two"})
	must(test, err)
	versions, err := books.Each(ctx, tidemark.Versions()).All()
	must(test, err)
	shown := map[string]int{}
	for _, one := range versions {
		shown[strings.TrimSpace(fmt.Sprintln(one.Title, one.ValidTo.IsZero(), one.SystemTo.IsZero()))]++
	}
	same(test, shown, map[string]int{"one true false": 1, "one false true": 1, "two true true": 1})
}

func TestManyRowsAreReadAtCoordinates(test *testing.T) {
	it := client(test, nil)
	authors, _ := library(test, it)
	first := Author{ID: "ann", Name: "Ann", Mail: "a"}
	_, err := authors.Over(tidemark.Period{ValidFrom: march}).Create(ctx, first)
	must(test, err)
	then, err := it.Now(ctx)
	must(test, err)
	_, err = authors.Over(tidemark.Period{ValidFrom: march}).
		Update(ctx, "ann", tidemark.Row{"name": "Anne"})
	must(test, err)
	rows, err := tidemark.NewTable[tidemark.Row](it, "authors")
	must(test, err)
	at := []tidemark.Query{tidemark.AsOf(then.AsOf), tidemark.ValidAt(may)}
	byID, err := authors.GetMany(ctx, []string{"ann", "none"}, at...)
	must(test, err)
	byKey, err := authors.GetBy(ctx, "by_mail", []any{"a", "none"}, at...)
	must(test, err)
	byMail, err := authors.ByMail.GetMany(ctx, []string{"a", "none"}, at...)
	must(test, err)
	for _, found := range [][]*Author{byID, byKey, byMail} {
		equal(test, found[0].Name == "Ann" && found[1] == nil, true)
	}
	selected := append(at, tidemark.Select("mail"))
	plain, err := rows.GetMany(ctx, []string{"ann"}, selected...)
	must(test, err)
	equal(test, (*plain[0])["name"] == nil && (*plain[0])["mail"] == "a", true)
	where := plain[0].ReadAt().Coordinates
	isAt(test, where.AsOf, then.AsOf)
	isAt(test, where.ValidAt, may)
	valid, err := authors.GetMany(ctx, []string{"ann"}, tidemark.ValidAt(may))
	must(test, err)
	equal(test, valid[0].Name, "Anne")
	_, err = authors.GetMany(ctx, []string{"ann"}, tidemark.Limit(1))
	equal(test, err != nil && strings.Contains(err.Error(), `not "limit"`), true)
}

func TestTheEndsOfARowMove(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	is := func(when string, wanted bool) {
		test.Helper()
		_, err := books.Get(ctx, "c", tidemark.ValidAt(tidemark.Text(when)))
		found, err := tidemark.IsThere(err)
		must(test, err)
		equal(test, found, wanted)
	}
	done := func(_ tidemark.Written, err error) {
		test.Helper()
		must(test, err)
	}
	done(books.Over(tidemark.Period{ValidFrom: march}).Create(ctx, book("c", "contract", 1)))
	done(books.End(ctx, "c", tidemark.Text("2100-01-01")))
	is("2099-12-31", true)
	is("2100-01-01", false)
	done(books.Extend(ctx, "c", tidemark.Text("2101-01-01")))
	is("2100-12-31", true)
	is("2101-01-01", false)
	done(books.Extend(ctx, "c", tidemark.Instant{}))
	is("2900-01-01", true)
	done(books.MoveStart(ctx, "c", tidemark.Text("2026-01-01")))
	is("2026-02-01", true)
	done(books.MoveStart(ctx, "c", may))
	is("2026-04-01", false)
	year := tidemark.Period{ValidFrom: tidemark.Text("2100-01-01"), ValidTo: tidemark.Text("2101-01-01")}
	done(books.Over(year).Delete(ctx, "c"))
	is("2100-06-01", false)
	is("2101-06-01", true)
	_, err := books.End(ctx, "c", tidemark.Text("2026-01-01"))
	var refused *tidemark.Error
	equal(test, errors.As(err, &refused), true)
	equal(test, refused.Type, "invalid_range")
	_, err = books.End(ctx, "none", july)
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
	futures := []*tidemark.Future[tidemark.Written]{
		books.Submit().End(ctx, "c", tidemark.Text("2050-01-01")),
		books.Submit().Extend(ctx, "c", tidemark.Text("2060-01-01")),
		books.Submit().MoveStart(ctx, "c", march),
	}
	for _, future := range futures {
		_, err := future.Wait(ctx)
		must(test, err)
	}
	is("2026-04-01", true)
	is("2059-01-01", true)
	many := books.Over(tidemark.Period{ValidFrom: march, ValidTo: may})
	_, err = many.CreateMany(ctx, []Book{book("x", "x", 5), book("y", "y", 6)})
	must(test, err)
	_, err = many.UpsertMany(ctx, []Book{book("x", "xx", 5)})
	must(test, err)
	found, err := books.GetMany(ctx, []string{"x", "y"}, tidemark.ValidAt(tidemark.Text("2026-04-01")))
	must(test, err)
	equal(test, found[0].Title+found[1].Title, "xxy")
}

func TestARequirementHoldsAtAnInstant(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	_, err := books.Over(tidemark.Period{ValidFrom: march}).Create(ctx, book("b", "one", 1))
	must(test, err)
	winter := tidemark.Text("2026-01-01")
	_, err = it.Commit(ctx, nil,
		tidemark.RequireExists(books.Table, "b", false).At(winter),
		tidemark.RequireEquals(books.Table, "b", tidemark.Row{"title": "one"}).At(may))
	must(test, err)
	_, err = it.Commit(ctx, nil, tidemark.RequireExists(books.Table, "b", true).At(winter))
	equal(test, errors.Is(err, tidemark.ErrConflict), true)
}

// metaOf is the metadata that the record of a commit shows.
func metaOf(test *testing.T, it *tidemark.Client, mark int64) string {
	test.Helper()
	record, err := it.Read(ctx, tidemark.Row{"kind": "tx", "tt": mark})
	must(test, err)
	var shown struct{ Meta json.RawMessage }
	must(test, json.Unmarshal(record.Rows, &shown))
	return string(shown.Meta)
}

func TestEveryWriteTakesMetadata(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	with := tidemark.WithMeta(ctx, tidemark.Row{"who": "Ann \u2603 \U0001f600\x7f", "n": 7})
	const shown = "{\"n\":7,\"who\":\"Ann ☃ 😀\x7f\"}"
	marks := []int64{}
	done := func(made tidemark.Written, err error) {
		test.Helper()
		must(test, err)
		marks = append(marks, made.Mark)
	}
	done(books.Create(with, book("a", "a", 1)))
	done(books.Update(with, "a", tidemark.Row{"title": "b"}))
	done(books.Upsert(with, book("a", "c", 1)))
	done(books.Increment(with, "a", "slot", 1))
	done(books.Over(tidemark.Period{ValidFrom: march}).Upsert(with, book("a", "d", 1)))
	done(books.End(with, "a", tidemark.Text("2100-01-01")))
	done(books.Submit().Extend(with, "a", tidemark.Instant{}).Wait(ctx))
	done(books.Delete(with, "a"))
	many, err := books.CreateMany(with, []Book{book("m", "m", 5)})
	must(test, err)
	committed, err := it.Commit(with, nil, tidemark.Delete(books.Table, "m", tidemark.Period{}))
	must(test, err)
	for _, mark := range append(marks, many[0].Mark, committed.Mark) {
		equal(test, metaOf(test, it, mark), shown)
	}
	// That of a commit's own wins, and without any there is none.
	own, err := it.Commit(with, tidemark.Row{"own": 1}, tidemark.Put(books.Table, book("m", "n", 5), tidemark.Period{}))
	must(test, err)
	equal(test, metaOf(test, it, own.Mark), `{"own":1}`)
	none, err := books.Update(tidemark.WithMeta(with, nil), "m", tidemark.Row{"title": "o"})
	must(test, err)
	equal(test, metaOf(test, it, none.Mark) == shown, false)
}

func TestSubmittedWritesShareRequestsWithTheirMetadata(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	futures := []*tidemark.Future[tidemark.Written]{}
	for slot := 0; slot < 40; slot++ {
		with := tidemark.WithMeta(ctx, tidemark.Row{"half": slot / 20})
		futures = append(futures, books.Submit().Create(with, book("", "t", slot)))
	}
	for slot, future := range futures {
		made, err := future.Wait(ctx)
		must(test, err)
		equal(test, metaOf(test, it, made.Mark), fmt.Sprintf(`{"half":%d}`, slot/20))
	}
}

func TestMetadataThatNoHeaderTakesIsRefusedAtOnce(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	long := func(letters int) tidemark.Row { return tidemark.Row{"x": strings.Repeat("y", letters)} }
	for why, members := range map[string]tidemark.Row{
		"1025 bytes as JSON; at most 1024": long(1_017),
		"unsupported type":                 {"x": func() {}},
	} {
		with := tidemark.WithMeta(ctx, members)
		_, err := books.Create(with, book("x", "x", 1))
		_, submitted := books.Submit().Create(with, book("x", "x", 1)).Wait(ctx)
		for _, err := range []error{err, submitted} {
			equal(test, err != nil && strings.Contains(err.Error(), why), true)
		}
	}
	_, err := books.Create(tidemark.WithMeta(ctx, long(1_016)), book("x", "x", 1))
	must(test, err)
}

func TestCommitsAreUndone(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	made, err := books.Create(ctx, book("a", "one", 1))
	must(test, err)
	run := tidemark.Row{"run": 7}
	_, err = books.Update(tidemark.WithMeta(ctx, run), "a", tidemark.Row{"title": "two"})
	must(test, err)
	_, err = books.Create(tidemark.WithMeta(ctx, run), book("b", "new", 2))
	must(test, err)
	which := tidemark.Undoing{After: tidemark.Micros(made.Mark), Meta: run, DryRun: true}
	tried, err := it.Undo(ctx, which)
	must(test, err)
	equal(test, tried.Mark, 0)
	equal(test, tried.Commits, 2)
	which.DryRun = false
	why := tidemark.WithMeta(ctx, tidemark.Row{"why": "nonsense"})
	done, err := it.Undo(why, which)
	must(test, err)
	same(test, done.Rows, tried.Rows)
	equal(test, done.Mark, it.Mark())
	equal(test, metaOf(test, it, done.Mark), `{"why":"nonsense"}`)
	changed, created := done.Rows[0], done.Rows[1]
	equal(test, changed.Table+"/"+changed.ID, "books/a")
	same(test, changed.Changes[0].Data["title"], "one")
	equal(test, changed.Permissions == nil && changed.Changes[0].ValidTo.IsZero(), true)
	equal(test, created.Changes[0].Data == nil, true)
	found, err := books.Get(ctx, "a")
	must(test, err)
	equal(test, found.Title, "one")
	_, err = books.Get(ctx, "b")
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
	// Its own commit has changed the rows since.
	which.Until = tidemark.Micros(done.Mark - 1)
	_, err = it.Undo(ctx, which)
	equal(test, errors.Is(err, tidemark.ErrConflict) && strings.Contains(err.Error(), "books/a"), true)
	nothing, err := it.Undo(ctx, tidemark.Undoing{After: tidemark.Micros(done.Mark), User: "key:nobody"})
	must(test, err)
	equal(test, nothing.Mark+int64(nothing.Commits+len(nothing.Rows)), 0)
}

func TestIndexesHaveOneNameInEveryClient(test *testing.T) {
	it := client(test, nil)
	var shelf struct {
		*tidemark.Table[Book]
		ByISBN13    tidemark.Index[Book, string]  `tidemark:"title"`
		ByShelfSlot tidemark.Unique[Book, Slot]   `tidemark:"shelf,slot"`
		HTTPPort    tidemark.Index[Book, float64] `tidemark:"price"`
		Named       tidemark.Index[Book, string]  `tidemark:"author,name=by_writer"`
	}
	must(test, tidemark.Bind(it, "shelf", &shelf))
	must(test, it.CreateDatabase(ctx))
	must(test, shelf.CreateTable(ctx))
	var made struct{ Indexes []struct{ Key string } }
	path := "/tablesdb/" + database(test) + "/tables/shelf"
	must(test, it.Request(ctx, "GET", path, nil, &made))
	same(test, made.Indexes, "[{Key:by_isbn13} {Key:by_shelf_slot} {Key:http_port} {Key:by_writer}]")
	_, err := shelf.ByShelfSlot.GetMany(ctx, []Slot{{"A", 1}})
	must(test, err)
}

func TestInstantsAreReadInBothForms(test *testing.T) {
	wanted := time.Date(2026, 3, 1, 0, 0, 0, 1_000, time.UTC)
	for _, sent := range []string{
		"1772323200000001", `"2026-03-01T00:00:00.000001+00:00"`, `"2026-03-01T01:00:00.000001+01:00"`,
	} {
		var when tidemark.Instant
		must(test, json.Unmarshal([]byte(sent), &when))
		at, err := when.Time()
		must(test, err)
		equal(test, at, wanted)
	}
	isAt(test, tidemark.Text("2026-03-01"), march)
	for _, wrong := range []tidemark.Instant{{}, tidemark.Beginning, tidemark.Next, tidemark.Text("soon")} {
		_, err := wrong.Time()
		equal(test, err != nil, true)
	}
}
