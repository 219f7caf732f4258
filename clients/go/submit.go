package tidemark

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
)

// bytesMax is of the contents that share a request: a fifth of what a server takes by default.
const bytesMax = 4 << 20

// Future is the outcome of a call that was submitted.
type Future[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// Wait waits for the outcome, or until the context ends; the call goes on then.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// rowCall is a request about one row, which may share a request with others.
type rowCall[T any] struct {
	// call when it is sent alone; a write has none, because alone it is a batch of one.
	call  call
	part  part
	parse func(sent json.RawMessage, seen mark) (T, error)
}

// part is what the call contributes to a request that it shares: a write, or the read of a row.
type part struct {
	database  string
	table, id string
	write     *operation
}

// submitted is a call that waits for its request.
type submitted struct {
	ctx    context.Context
	call   call
	part   part
	size   int
	meta   string
	settle func(sent json.RawMessage, seen mark, err error)
}

func run[T any](ctx context.Context, client *Client, row rowCall[T]) (T, error) {
	sent, seen, err := client.alone(ctx, row.call, row.part)
	if err != nil {
		var none T
		return none, err
	}
	return row.parse(sent, seen)
}

// alone sends a call by itself, and gives its row with the answer's mark, or its result.
func (c *Client) alone(
	ctx context.Context, call call, part part,
) (json.RawMessage, mark, error) {
	if part.write == nil {
		got, err := c.do(ctx, call)
		return got.body, got.seen, err
	}
	// Alone it is atomic, so that what stands against it is the answer's own status.
	results, err := c.write(ctx, part.database, []operation{*part.write}, true)
	if err != nil {
		return nil, 0, err
	}
	sent, err := ofResult(results[0])
	return sent, 0, err
}

func ofResult(one result) (json.RawMessage, error) {
	if one.Error != nil {
		return nil, one.Error
	}
	return json.Marshal(one)
}

func submit[T any](ctx context.Context, client *Client, row rowCall[T]) *Future[T] {
	future := &Future[T]{done: make(chan struct{})}
	settle := func(sent json.RawMessage, seen mark, err error) {
		if err == nil {
			future.value, err = row.parse(sent, seen)
		}
		future.err = err
		close(future.done)
	}
	one := submitted{ctx: ctx, call: row.call, part: row.part, settle: settle}
	if err := client.lanes.put(one); err != nil {
		settle(nil, 0, err)
	}
	return future
}

// Submit is the same table, without waiting: each call gives a Future. Calls that wait at the same
// time share requests; writes take effect in the order in which they were submitted. A context
// ends the waiting for a request, not the request.
func (t *Table[T]) Submit() Submit[T] { return Submit[T]{t} }

// Submit is a table whose calls are not waited for.
type Submit[T any] struct{ table *Table[T] }

// Get is Table.Get as of now.
func (s Submit[T]) Get(ctx context.Context, id string) *Future[T] {
	return submit(ctx, s.table.client, s.table.getting(id))
}

// Create is Table.Create.
func (s Submit[T]) Create(ctx context.Context, row T) *Future[Written] {
	return submit(ctx, s.table.client, s.table.writingRow("create", row))
}

// Upsert is Table.Upsert.
func (s Submit[T]) Upsert(ctx context.Context, row T) *Future[Written] {
	return submit(ctx, s.table.client, s.table.writingRow("upsert", row))
}

// Update is Table.Update.
func (s Submit[T]) Update(ctx context.Context, id string, changes Row) *Future[Written] {
	return submit(ctx, s.table.client, s.table.writing("update", id, changes))
}

// Delete is Table.Delete.
func (s Submit[T]) Delete(ctx context.Context, id string) *Future[Written] {
	return submit(ctx, s.table.client, s.table.writing("delete", id, nil))
}

// End is Table.End.
func (s Submit[T]) End(ctx context.Context, id string, at Instant) *Future[Written] {
	return submit(ctx, s.table.client, s.table.movingEnd(id, at))
}

// Extend is Table.Extend.
func (s Submit[T]) Extend(ctx context.Context, id string, to Instant) *Future[Written] {
	return submit(ctx, s.table.client, s.table.movingEnd(id, to))
}

// MoveStart is Table.MoveStart.
func (s Submit[T]) MoveStart(ctx context.Context, id string, at Instant) *Future[Written] {
	return submit(ctx, s.table.client, s.table.movingStart(id, at))
}

// Increment is Table.Increment.
func (s Submit[T]) Increment(ctx context.Context, id, column string, by float64) *Future[Written] {
	return submit(ctx, s.table.client, s.table.incrementing(id, column, by))
}

// lanes hold what was submitted and waits: one for writes, with one request under way at a time,
// so that they take effect in their order; one for reads, with as many as the options say. What
// is submitted meanwhile shares the next request: the longer the server takes, the more do.
type lanes struct {
	client *Client
	// room holds a place for each call that is submitted and not done.
	room   chan struct{}
	mutex  sync.Mutex
	closed bool
	reads  lane
	writes lane
	// busy counts goroutines that send.
	busy sync.WaitGroup
}

type lane struct {
	requestsMax int
	requests    int
	waiting     []submitted
}

func (l *lanes) init(client *Client) {
	l.client = client
	l.room = make(chan struct{}, client.options.PendingMax)
	l.reads.requestsMax = client.options.RequestsMax
	l.writes.requestsMax = 1
}

func (l *lanes) put(one submitted) error {
	if one.part.write != nil {
		content, err := json.Marshal(one.part.write)
		if err != nil {
			return err
		}
		one.size = len(content)
		if one.meta, err = metaOf(one.ctx); err != nil {
			return err
		}
	}
	select {
	case l.room <- struct{}{}:
	case <-one.ctx.Done():
		return one.ctx.Err()
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		<-l.room
		return ErrClosed
	}
	lane := &l.reads
	if one.part.write != nil {
		lane = &l.writes
	}
	lane.waiting = append(lane.waiting, one)
	if lane.requests < lane.requestsMax {
		lane.requests++
		l.busy.Add(1)
		go l.drain(lane)
	}
	return nil
}

// drain sends what waits in a lane until nothing does.
func (l *lanes) drain(lane *lane) {
	defer l.busy.Done()
	for {
		l.mutex.Lock()
		if len(lane.waiting) == 0 {
			lane.requests--
			l.mutex.Unlock()
			return
		}
		taken := lane.take()
		l.mutex.Unlock()
		l.send(taken)
		for range taken {
			<-l.room
		}
	}
}

// take gives the calls of the next request, at least one.
func (l *lane) take() []submitted {
	first, size, count := l.waiting[0], 0, 0
	for count < len(l.waiting) && count < operationsMax {
		one := l.waiting[count]
		size += one.size
		// One request carries the metadata of all commits that it makes.
		isOther := one.part.database != first.part.database || one.meta != first.meta
		if count > 0 && (size > bytesMax || isOther) {
			break
		}
		count++
	}
	taken := l.waiting[:count]
	l.waiting = l.waiting[count:]
	return taken
}

// send sends calls in one request, and settles each.
func (l *lanes) send(taken []submitted) {
	var calls []submitted
	for _, one := range taken {
		if err := one.ctx.Err(); err != nil {
			one.settle(nil, 0, err)
			continue
		}
		calls = append(calls, one)
	}
	// No context of one caller may end what others wait for; attempts have a timeout.
	ctx := detached(taken[0].ctx)
	if len(calls) > 1 {
		err := l.together(ctx, calls)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrInvalid) {
			for _, one := range calls {
				one.settle(nil, 0, err)
			}
			return
		}
		// Refused before anything was done; only one of them may be to blame.
	}
	for _, one := range calls {
		one.settle(l.client.alone(ctx, one.call, one.part))
	}
}

// together settles the calls, or gives the error of their request and settles none.
func (l *lanes) together(ctx context.Context, calls []submitted) error {
	if calls[0].part.write != nil {
		return l.writeTogether(ctx, calls)
	}
	return l.readTogether(ctx, calls)
}

func (l *lanes) writeTogether(ctx context.Context, calls []submitted) error {
	operations := make([]operation, len(calls))
	for place, one := range calls {
		operations[place] = *one.part.write
	}
	results, err := l.client.write(ctx, calls[0].part.database, operations, false)
	if err != nil {
		return err
	}
	for place, one := range calls {
		sent, err := ofResult(results[place])
		one.settle(sent, 0, err)
	}
	return nil
}

func (l *lanes) readTogether(ctx context.Context, calls []submitted) error {
	var tables []wanted
	order := map[string]int{}
	type place struct{ table, row int }
	places := make([]place, len(calls))
	for number, one := range calls {
		at, known := order[one.part.table]
		if !known {
			at = len(tables)
			order[one.part.table] = at
			tables = append(tables, wanted{TableID: one.part.table})
		}
		places[number] = place{at, len(tables[at].IDs)}
		tables[at].IDs = append(tables[at].IDs, one.part.id)
	}
	got, err := l.client.read(ctx, calls[0].part.database, tables)
	if err != nil {
		return err
	}
	for number, one := range calls {
		found := got.Results[places[number].table]
		if found.Error != nil {
			one.settle(nil, 0, found.Error)
			continue
		}
		one.settle(found.Rows[places[number].row], got.Mark, nil)
	}
	return nil
}

// close waits until everything that was submitted is done.
func (l *lanes) close() {
	l.mutex.Lock()
	l.closed = true
	l.mutex.Unlock()
	l.busy.Wait()
}
