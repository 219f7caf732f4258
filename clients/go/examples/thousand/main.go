// Command thousand is the performance example: new objects written and read, one by one and in
// batch.
//
//	go run ./examples/thousand -endpoint http://127.0.0.1:8280/v1 -project shop -key …
//
// It prints a table of objects per second of each client, the median of the runs, with the 99th
// percentile of a call.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"sort"
	"strings"
	"sync"
	"time"

	"tidemark"
)

// batch is how many objects one request holds.
const batch = 100

type thing struct {
	ID   string `tidemark:"$id"`
	Run  string `tidemark:"run"`
	Code string `tidemark:"code"`
	Text string `tidemark:"text"`
}

type things struct {
	*tidemark.Table[thing]
	ByCode tidemark.Unique[thing, string] `tidemark:"code"`
}

// timed are the calls of one step.
type timed struct {
	name  string
	calls []time.Duration
}

func (t *timed) call(act func() error) error {
	began := time.Now()
	err := act()
	t.calls = append(t.calls, time.Since(began))
	return err
}

// fresh makes new objects of about 120 bytes.
func fresh(count int) []thing {
	run, made := tidemark.NewID(), make([]thing, count)
	for place := range made {
		made[place] = thing{
			ID: tidemark.NewID(), Run: run, Code: fmt.Sprint(run, "-", place),
			Text: strings.Repeat("x", 48),
		}
	}
	return made
}

func check(found, wanted thing) error {
	if found != wanted {
		return fmt.Errorf("read %v, wrote %v", found, wanted)
	}
	return nil
}

// runOnce takes every step once, over objects of its own.
func runOnce(ctx context.Context, table things, count int) ([]*timed, error) {
	own := fresh(count)
	steps := []struct {
		name string
		act  func(*timed) error
	}{
		{"write one by one", func(t *timed) error { return writeEach(ctx, t, table, own) }},
		{"write 100 a request", func(t *timed) error { return writeMany(ctx, t, table, fresh(count)) }},
		{"write submitted", func(t *timed) error { return submit(ctx, t, table, fresh(count)) }},
		{"read all in one query", func(t *timed) error { return readAll(ctx, t, table, own) }},
		{"read 100 a request", func(t *timed) error { return readMany(ctx, t, table, own) }},
		{"read by key", func(t *timed) error {
			return readEach(t, own, func(one thing) (thing, error) {
				return table.ByCode.Get(ctx, one.Code)
			})
		}},
		{"read by id", func(t *timed) error {
			return readEach(t, own, func(one thing) (thing, error) { return table.Get(ctx, one.ID) })
		}},
	}
	var done []*timed
	for _, step := range steps {
		one := &timed{name: step.name}
		if err := step.act(one); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		done = append(done, one)
	}
	return done, nil
}

func writeEach(ctx context.Context, t *timed, table things, own []thing) error {
	for _, one := range own {
		err := t.call(func() error { _, err := table.Create(ctx, one); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// slices gives the objects a hundred at a time.
func slices(own []thing) [][]thing {
	var found [][]thing
	for len(own) > batch {
		found, own = append(found, own[:batch]), own[batch:]
	}
	return append(found, own)
}

func writeMany(ctx context.Context, t *timed, table things, own []thing) error {
	for _, some := range slices(own) {
		err := t.call(func() error { _, err := table.CreateMany(ctx, some); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

func submit(ctx context.Context, t *timed, table things, own []thing) error {
	return t.call(func() error {
		var futures []*tidemark.Future[tidemark.Written]
		for _, one := range own {
			futures = append(futures, table.Submit().Create(ctx, one))
		}
		for _, future := range futures {
			if _, err := future.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func readAll(ctx context.Context, t *timed, table things, own []thing) error {
	var page tidemark.Page[thing]
	err := t.call(func() (err error) {
		page, err = table.Page(ctx, tidemark.Equal("run", own[0].Run), tidemark.Limit(len(own)))
		return err
	})
	if err != nil || len(page.Rows) != len(own) {
		return fmt.Errorf("%d rows of %d: %w", len(page.Rows), len(own), err)
	}
	for place, one := range own {
		if err := check(page.Rows[place], one); err != nil {
			return err
		}
	}
	return nil
}

func readMany(ctx context.Context, t *timed, table things, own []thing) error {
	for _, some := range slices(own) {
		var found []*thing
		codes := make([]string, len(some))
		for place, one := range some {
			codes[place] = one.Code
		}
		err := t.call(func() (err error) { found, err = table.ByCode.GetMany(ctx, codes); return err })
		if err != nil {
			return err
		}
		for place, one := range some {
			if err := check(*found[place], one); err != nil {
				return err
			}
		}
	}
	return nil
}

func readEach(t *timed, own []thing, read func(thing) (thing, error)) error {
	for _, one := range own {
		var found thing
		err := t.call(func() (err error) { found, err = read(one); return err })
		if err == nil {
			err = check(found, one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// report prints the median rate and the 99th percentile of each step.
func report(runs [][]*timed, objects int) {
	fmt.Printf("%-24s%12s%10s\n", "", "objects/s", "p99 ms")
	for place, step := range runs[0] {
		var rates []float64
		var calls []time.Duration
		for _, steps := range runs {
			var sum time.Duration
			for _, call := range steps[place].calls {
				sum += call
			}
			rates = append(rates, float64(objects)/sum.Seconds())
			calls = append(calls, steps[place].calls...)
		}
		sort.Float64s(rates)
		sort.Slice(calls, func(a, b int) bool { return calls[a] < calls[b] })
		p99 := calls[(len(calls)*99-1)/100]
		fmt.Printf("%-24s%12.0f%10.2f\n", step.name, rates[len(rates)/2], p99.Seconds()*1000)
	}
}

func main() {
	endpoint := flag.String("endpoint", "http://127.0.0.1:8280/v1", "with the version")
	project := flag.String("project", "", "required")
	key := flag.String("key", "", "an API key, required")
	objects := flag.Int("objects", 1000, "new objects of each step")
	warmUps := flag.Int("warm-ups", 3, "runs that are not counted")
	runs := flag.Int("runs", 10, "runs that are")
	clients := flag.Int("clients", 1, "working at the same time")
	flag.Parse()
	ctx := context.Background()
	client, err := tidemark.New(tidemark.Options{
		Endpoint: *endpoint, Project: *project, Key: *key, Database: "performance",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	var table things
	if err := tidemark.Bind(client, "things", &table); err != nil {
		log.Fatal(err)
	}
	if err := client.CreateDatabase(ctx); err != nil {
		log.Fatal(err)
	}
	if err := table.CreateTable(ctx); err != nil {
		log.Fatal(err)
	}
	var all [][]*timed
	var mutex sync.Mutex
	var working sync.WaitGroup
	for number := 0; number < *clients; number++ {
		working.Add(1)
		go func() {
			defer working.Done()
			for run := 0; run < *warmUps+*runs; run++ {
				steps, err := runOnce(ctx, table, *objects)
				if err != nil {
					log.Fatal(err)
				}
				if run >= *warmUps {
					mutex.Lock()
					all = append(all, steps)
					mutex.Unlock()
				}
			}
		}()
	}
	working.Wait()
	report(all, *objects)
}
