package tidemark_test

import (
	"errors"
	"testing"

	"tidemark"
)

func TestTheTableIsAsTheModelDeclaresIt(test *testing.T) {
	it := client(test, nil)
	_, books := library(test, it)
	must(test, books.CreateTable(ctx)) // It is there, and left as it is.
	var made struct {
		Columns []struct {
			Key, Type       string
			Required, Array bool
			Size            int
		}
		Indexes []struct {
			Key, Type string
			Columns   []string
		}
	}
	path := "/tablesdb/" + database(test) + "/tables/books"
	must(test, it.Request(ctx, "GET", path, nil, &made))
	same(test, made.Columns, "[{Key:title Type:varchar Required:true Array:false Size:200} "+
		"{Key:author Type:varchar Required:false Array:false Size:255} "+
		"{Key:shelf Type:varchar Required:true Array:false Size:255} "+
		"{Key:slot Type:integer Required:true Array:false Size:0} "+
		"{Key:price Type:double Required:false Array:false Size:0} "+
		"{Key:printed Type:datetime Required:false Array:false Size:0} "+
		"{Key:lent Type:boolean Required:true Array:false Size:0} "+
		"{Key:tags Type:varchar Required:true Array:true Size:255}]")
	same(test, made.Indexes, "[{Key:by_slot Type:unique Columns:[shelf slot]} "+
		"{Key:by_title Type:key Columns:[title]} {Key:by_author Type:key Columns:[author]}]")
}

func TestLookups(test *testing.T) {
	it := client(test, nil)
	authors, books := library(test, it)
	ann, bob := "ann", "bob"
	for _, name := range []string{ann, bob} {
		_, err := authors.Create(ctx, Author{ID: name, Name: name, Mail: name + "@example.com"})
		must(test, err)
	}
	rows := []Book{}
	for slot := 0; slot < 5; slot++ {
		row := book("", "t"+string(rune('0'+slot%2)), slot)
		row.Author = &ann
		if slot > 2 {
			row.Author = &bob
		}
		rows = append(rows, row)
	}
	_, err := books.CreateMany(ctx, rows)
	must(test, err)
	found, err := authors.ByMail.Get(ctx, "ann@example.com")
	must(test, err)
	equal(test, found.ID, "ann")
	_, err = authors.ByMail.Get(ctx, "none")
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
	many, err := authors.ByMail.GetMany(ctx, []string{"bob@example.com", "none"})
	must(test, err)
	equal(test, many[0].ID == "bob" && many[1] == nil, true)
	at, err := books.BySlot.Get(ctx, Slot{"A", 3})
	must(test, err)
	equal(test, at.Slot, 3)
	both, err := books.BySlot.GetMany(ctx, []Slot{{"A", 4}, {"B", 4}})
	must(test, err)
	equal(test, both[0].Slot == 4 && both[1] == nil, true)
	titled, err := books.ByTitle.Each(ctx, "t1").All()
	must(test, err)
	same(test, slots(titled), []int{1, 3})
	written, err := books.ByAuthor.Each(ctx, "ann").All()
	must(test, err)
	same(test, slots(written), []int{0, 1, 2})
	author, err := books.ByAuthor.Follow(ctx, at)
	must(test, err)
	equal(test, author.ID, "bob")
	_, err = books.ByAuthor.Follow(ctx, Book{})
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
}

func TestAReferenceIsFollowedAtTheCoordinatesOfItsRow(test *testing.T) {
	it := client(test, nil)
	authors, books := library(test, it)
	ann := "ann"
	_, err := authors.Create(ctx, Author{ID: ann, Name: "Ann", Mail: "old"})
	must(test, err)
	dune := book("dune", "Dune", 1)
	dune.Author = &ann
	_, err = books.Create(ctx, dune)
	must(test, err)
	then, err := it.Now(ctx)
	must(test, err)
	_, err = authors.Update(ctx, ann, tidemark.Row{"mail": "new"})
	must(test, err)
	for mail, queries := range map[string][]tidemark.Query{"old": then.Queries(), "new": nil} {
		found, err := books.BySlot.Get(ctx, Slot{"A", 1}, queries...)
		must(test, err)
		author, err := books.ByAuthor.Follow(ctx, found)
		must(test, err)
		equal(test, author.Mail, mail)
	}
	var refused *tidemark.Error
	_, err = it.Commit(ctx, nil, tidemark.Delete(authors.Table, ann, tidemark.Period{}))
	equal(test, errors.As(err, &refused), true)
	equal(test, refused.Type, "ref_violation")
}

func TestWhatIsNoModelSaysWhy(test *testing.T) {
	it := client(test, nil)
	bind := func(model any) error { return tidemark.Bind(it, "t", model) }
	type nameless struct {
		Title string `tidemark:"title"`
	}
	type unknownOption struct {
		ID    string `tidemark:"$id"`
		Title string `tidemark:"title,large"`
	}
	_, noID := tidemark.NewTable[nameless](it, "t")
	_, noOption := tidemark.NewTable[unknownOption](it, "t")
	_, noStruct := tidemark.NewTable[int](it, "t")
	cases := []error{
		bind(Books{}),
		bind(&struct{ N int }{}),
		bind(&struct {
			*tidemark.Table[Book]
			ByNone tidemark.Index[Book, string] `tidemark:"none"`
		}{}),
		bind(&struct {
			*tidemark.Table[Book]
			ByMail tidemark.Unique[Author, string] `tidemark:"title"`
		}{}),
		bind(&struct {
			*tidemark.Table[Book]
			ByAuthor tidemark.Reference[Book, Author] `tidemark:"author"`
		}{}),
		noID, noOption, noStruct,
	}
	for place, err := range cases {
		if err == nil {
			test.Errorf("case %d is taken", place)
		}
	}
	var books Books
	must(test, bind(&books))
	type Pair struct{ A, B, C string }
	wrong := struct {
		*tidemark.Table[Book]
		BySlot tidemark.Unique[Book, Pair] `tidemark:"shelf,slot"`
	}{}
	must(test, bind(&wrong))
	_, err := wrong.BySlot.Get(ctx, Pair{})
	equal(test, err != nil, true)
}
