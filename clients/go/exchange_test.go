package tidemark_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark"
)

// played meets requests with answers and failures, one after the other.
type played struct {
	coming []any
	sent   []*http.Request
	bodies []string
}

func (p *played) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	p.sent, p.bodies = append(p.sent, request), append(p.bodies, string(body))
	event := p.coming[0]
	p.coming = p.coming[1:]
	if failure, isFailure := event.(error); isFailure {
		return nil, failure
	}
	made := event.(answer)
	header := http.Header{}
	for name, value := range made.headers {
		header.Set(name, value)
	}
	return &http.Response{
		StatusCode: made.status, Header: header, Body: io.NopCloser(strings.NewReader(made.body)),
		Request: request,
	}, nil
}

type answer struct {
	status  int
	body    string
	headers map[string]string
}

var (
	written = answer{status: 200, body: `{"results":[{"mark":7}]}`}
	row     = answer{200, `{"$id":"a","mail":"m"}`, map[string]string{"X-Tidemark-Mark": "9"}}
	listed  = answer{200, `{"total":0,"rows":[]}`,
		map[string]string{"X-Tidemark-Cache": "hit; mark=5; age=0"}}
	busy    = answer{status: 503, body: `{"code":503,"type":"general_service_unavailable"}`}
	lost    = errors.New("played")
	refused = error(&net.OpError{Op: "dial", Err: errors.New("played")})
)

func play(
	test *testing.T, retryFor time.Duration, coming ...any,
) (*tidemark.Client, *tidemark.Table[Author], *played) {
	test.Helper()
	transport := &played{coming: coming}
	it, err := tidemark.New(tidemark.Options{
		Endpoint: "http://x/v1", Project: "p", RetryFor: retryFor,
		HTTP: &http.Client{Transport: transport},
	})
	must(test, err)
	table, err := tidemark.NewTable[Author](it, "t")
	must(test, err)
	return it, table, transport
}

func TestAWriteIsRepeatedUnderOneKey(test *testing.T) {
	for _, coming := range [][]any{{written}, {lost, written}, {busy, refused, lost, written}} {
		it, table, transport := play(test, 0, coming...)
		done, err := table.Create(ctx, Author{})
		must(test, err)
		equal(test, done.Mark, 7)
		equal(test, it.Mark(), 7)
		equal(test, len(transport.sent), len(coming))
		for place, request := range transport.sent {
			first := transport.sent[0].Header.Get("Idempotency-Key")
			equal(test, request.Header.Get("Idempotency-Key"), first)
			equal(test, transport.bodies[place], transport.bodies[0])
		}
	}
}

func TestTwoWritesHaveTwoKeys(test *testing.T) {
	_, table, transport := play(test, 0, written, written)
	for range []int{1, 2} {
		_, err := table.Create(ctx, Author{})
		must(test, err)
	}
	one, other := transport.sent[0].Header, transport.sent[1].Header
	equal(test, one.Get("Idempotency-Key") == other.Get("Idempotency-Key"), false)
}

func TestAReadNamesTheHighestMarkSeen(test *testing.T) {
	it, table, transport := play(test, 0, row, written, listed, lost, row)
	_, err := table.Get(ctx, "a")
	must(test, err)
	_, err = table.Create(ctx, Author{})
	must(test, err)
	_, err = table.Page(ctx)
	must(test, err)
	_, err = table.Get(ctx, "a")
	must(test, err)
	named := []string{}
	for _, request := range transport.sent {
		named = append(named, request.Header.Get("X-Tidemark-Min-Mark"))
	}
	same(test, strings.Join(named, ","), ",,9,9,9")
	equal(test, it.Mark(), 9)
}

func TestWhatHasNoKeyIsRepeatedOnlyIfItHadNoEffect(test *testing.T) {
	made := answer{status: 201, body: "{}"}
	for requests, first := range map[int]any{1: lost, 2: refused} {
		it, _, transport := play(test, 0, first, made)
		err := it.Request(ctx, http.MethodPost, "/tablesdb", tidemark.Row{}, nil)
		equal(test, len(transport.sent), requests)
		var silent *tidemark.NoAnswerError
		equal(test, errors.As(err, &silent), requests == 1)
		equal(test, silent == nil || silent.Sent, true)
	}
}

func TestItEndsAtTheLimitAndWithItsContext(test *testing.T) {
	_, table, transport := play(test, -1, busy)
	_, err := table.Get(ctx, "a")
	equal(test, errors.Is(err, tidemark.ErrUnavailable), true)
	equal(test, len(transport.sent), 1)
	ended, end := context.WithCancel(ctx)
	_, table, _ = play(test, 0, context.Canceled)
	end()
	_, err = table.Get(ended, "a")
	equal(test, errors.Is(err, context.Canceled), true)
}

func TestWhatIsNoErrorOfTheServerIsNamedByItsStatus(test *testing.T) {
	_, table, _ := play(test, 0, answer{status: 502, body: "<html>"})
	_, err := table.Get(ctx, "a")
	var shown *tidemark.Error
	equal(test, errors.As(err, &shown), true)
	same(test, []any{shown.Code, shown.Type}, "[502 unknown]")
}

// losing delivers each request, and loses the answer to the first write.
type losing struct{ lost int }

func (l *losing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	if err == nil && l.lost == 0 && strings.HasSuffix(request.URL.Path, "/batch/writes") {
		l.lost++
		response.Body.Close()
		return nil, lost
	}
	return response, err
}

func TestAWriteWhoseAnswerWasLostHasItsEffectOnce(test *testing.T) {
	library(test, client(test, nil))
	transport := &losing{}
	it := client(test, func(options *tidemark.Options) {
		options.HTTP = &http.Client{Transport: transport}
	})
	table, err := tidemark.NewTable[Book](it, "books")
	must(test, err)
	made, err := table.Create(ctx, book("a", "a", 1))
	must(test, err)
	equal(test, transport.lost, 1)
	equal(test, made.Mark, it.Mark())
	transport.lost = 0
	_, err = table.Increment(ctx, "a", "slot", 5)
	must(test, err)
	found, err := table.Get(ctx, "a")
	must(test, err)
	equal(test, found.Slot, 6)
}

// held counts requests, and holds them back until they are let go.
type held struct {
	mutex sync.Mutex
	paths []string
	goOn  chan struct{}
}

func (h *held) RoundTrip(request *http.Request) (*http.Response, error) {
	h.mutex.Lock()
	words := strings.Split(request.URL.Path, "/")
	h.paths = append(h.paths, words[len(words)-1])
	h.mutex.Unlock()
	<-h.goOn
	return http.DefaultTransport.RoundTrip(request)
}

// holding is a client of one request at a time.
func holding(test *testing.T, pending int) (tidemark.Submit[Book], *held, *tidemark.Client) {
	test.Helper()
	library(test, client(test, nil))
	transport := &held{goOn: make(chan struct{})}
	it := client(test, func(options *tidemark.Options) {
		options.HTTP = &http.Client{Transport: transport}
		options.RequestsMax, options.PendingMax = 1, pending
	})
	table, err := tidemark.NewTable[Book](it, "books")
	must(test, err)
	return table.Submit(), transport, it
}

func TestCallsThatWaitShareARequestInTheirOrder(test *testing.T) {
	submit, transport, _ := holding(test, 0)
	writes := []*tidemark.Future[tidemark.Written]{submit.Create(ctx, book("r", "first", 0))}
	for slot := 1; slot <= 50; slot++ {
		writes = append(writes, submit.Update(ctx, "r", tidemark.Row{"slot": slot}))
	}
	clash := submit.Create(ctx, book("r", "again", 99))
	wrong := submit.Create(ctx, book("no id, as it has spaces and signs!", "x", 98))
	last := submit.Increment(ctx, "r", "slot", 1)
	close(transport.goOn)
	marks := int64(0)
	for _, future := range append(writes, last) {
		done, err := future.Wait(ctx)
		must(test, err)
		equal(test, done.Mark > marks, true)
		marks = done.Mark
	}
	_, err := clash.Wait(ctx)
	equal(test, errors.Is(err, tidemark.ErrConflict), true)
	_, err = wrong.Wait(ctx)
	equal(test, errors.Is(err, tidemark.ErrInvalid), true)
	reads := []*tidemark.Future[Book]{submit.Get(ctx, "r"), submit.Get(ctx, "none")}
	found, err := reads[0].Wait(ctx)
	must(test, err)
	equal(test, found.Slot, 51)
	_, err = reads[1].Wait(ctx)
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
}

func TestWritesThatWaitTakeFewRequests(test *testing.T) {
	submit, transport, it := holding(test, 0)
	writes := []*tidemark.Future[tidemark.Written]{}
	for slot := 0; slot < 100; slot++ {
		writes = append(writes, submit.Upsert(ctx, book(fmt.Sprint("b", slot), "t", slot)))
	}
	writes = append(writes, submit.Delete(ctx, "b0"))
	close(transport.goOn)
	it.Close()
	for _, future := range writes {
		_, err := future.Wait(ctx)
		must(test, err)
	}
	equal(test, len(transport.paths) <= 3, true)
	_, err := submit.Get(ctx, "b1").Wait(ctx)
	equal(test, errors.Is(err, tidemark.ErrClosed), true)
}

func TestReadsThatWaitShareARequest(test *testing.T) {
	submit, transport, it := holding(test, 0)
	direct := client(test, nil)
	table, err := tidemark.NewTable[Book](direct, "books")
	must(test, err)
	for slot := 0; slot < 4; slot++ {
		_, err := table.Create(ctx, book(fmt.Sprint("b", slot), "t", slot))
		must(test, err)
	}
	reads := []*tidemark.Future[Book]{}
	for slot := 0; slot < 4; slot++ {
		reads = append(reads, submit.Get(ctx, fmt.Sprint("b", slot)))
	}
	none := submit.Get(ctx, "none")
	close(transport.goOn)
	for slot, future := range reads {
		found, err := future.Wait(ctx)
		must(test, err)
		equal(test, found.Slot, slot)
	}
	_, err = none.Wait(ctx)
	equal(test, errors.Is(err, tidemark.ErrNotFound), true)
	it.Close()
	equal(test, len(transport.paths) <= 3, true)
	equal(test, transport.paths[len(transport.paths)-1], "reads")
}

func TestSubmittingEndsWithItsContextWhileTooMuchIsPending(test *testing.T) {
	submit, transport, _ := holding(test, 1)
	first := submit.Create(ctx, book("a", "a", 1))
	ended, end := context.WithCancel(ctx)
	end()
	_, err := submit.Create(ended, book("b", "b", 2)).Wait(ctx)
	equal(test, errors.Is(err, context.Canceled), true)
	_, err = first.Wait(ended)
	equal(test, errors.Is(err, context.Canceled), true)
	close(transport.goOn)
	_, err = first.Wait(ctx)
	must(test, err)
	_, err = submit.Create(ctx, book("c", "c", 3)).Wait(ctx)
	must(test, err)
}

func TestAClientOutlivesARestartOfTheServer(test *testing.T) {
	own, err := start()
	must(test, err)
	defer own.remove()
	it, err := tidemark.New(tidemark.Options{
		Endpoint: own.Endpoint, Project: own.Project, Key: own.Key,
	})
	must(test, err)
	defer it.Close()
	authors, _ := library(test, it)
	_, err = authors.Create(ctx, Author{ID: "a", Mail: "a"})
	must(test, err)
	before := it.Mark()
	must(test, own.stop())
	future := authors.Submit().Create(ctx, Author{ID: "b", Mail: "b"})
	must(test, own.serveAgain())
	_, err = future.Wait(ctx)
	must(test, err)
	_, err = authors.Get(ctx, "a")
	must(test, err)
	equal(test, it.Mark() > before, true)
}
