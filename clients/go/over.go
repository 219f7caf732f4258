package tidemark

import (
	"context"
	"reflect"
)

const (
	validFrom = "$validFrom"
	validTo   = "$validTo"
)

// with are the values of a row over the period.
func (p Period) with(values map[string]any) map[string]any {
	if p.ValidFrom.IsZero() && p.ValidTo.IsZero() {
		return values
	}
	timed := map[string]any{}
	for name, value := range values {
		timed[name] = value
	}
	if !p.ValidFrom.IsZero() {
		timed[validFrom] = p.ValidFrom
	}
	if !p.ValidTo.IsZero() {
		timed[validTo] = p.ValidTo
	}
	return timed
}

// Over is the same table, whose writes are for this period of valid time.
//
//	_, err := books.Over(tidemark.Period{ValidFrom: march}).Update(ctx, "dune", changes)
func (t *Table[T]) Over(period Period) Over[T] { return Over[T]{t, period} }

// Over is a table whose writes are for one period of valid time.
type Over[T any] struct {
	table  *Table[T]
	period Period
}

// Create makes a row over the period. ErrConflict if it is there at any instant of it.
func (o Over[T]) Create(ctx context.Context, row T) (Written, error) {
	return o.writeRow(ctx, "create", row)
}

// Upsert merges the columns where the row is in the period, and makes it in the gaps.
func (o Over[T]) Upsert(ctx context.Context, row T) (Written, error) {
	return o.writeRow(ctx, "upsert", row)
}

// Update changes some columns where the row is in the period. ErrNotFound if it is nowhere there.
func (o Over[T]) Update(ctx context.Context, id string, changes Row) (Written, error) {
	return o.write(ctx, "update", id, changes)
}

// Delete makes the row absent over the period.
func (o Over[T]) Delete(ctx context.Context, id string) (Written, error) {
	return o.write(ctx, "delete", id, nil)
}

// CreateMany is Table.CreateMany over the period.
func (o Over[T]) CreateMany(ctx context.Context, rows []T) ([]Written, error) {
	return o.table.writeMany(ctx, "create", rows, o.period)
}

// UpsertMany is Table.UpsertMany over the period.
func (o Over[T]) UpsertMany(ctx context.Context, rows []T) ([]Written, error) {
	return o.table.writeMany(ctx, "upsert", rows, o.period)
}

func (o Over[T]) writeRow(ctx context.Context, action string, row T) (Written, error) {
	id, values := o.table.shape.encode(reflect.ValueOf(row))
	return o.write(ctx, action, id, values)
}

func (o Over[T]) write(
	ctx context.Context, action, id string, values map[string]any,
) (Written, error) {
	return run(ctx, o.table.client, o.table.writing(action, id, o.period.with(values)))
}

// End makes the row end at this instant instead; what lay behind it is deleted. It is about the
// period that holds now or, if none does, the next one to begin. ErrNotFound if the row has ended
// already and is not scheduled again, ErrInvalid if the end would lie before the beginning.
func (t *Table[T]) End(ctx context.Context, id string, at Instant) (Written, error) {
	return run(ctx, t.client, t.movingEnd(id, at))
}

// Extend makes what the row holds at its end go on up to this instant; no instant is no end, and
// Next is where the row begins again. It fails as End does, of which it is the other direction.
func (t *Table[T]) Extend(ctx context.Context, id string, to Instant) (Written, error) {
	return run(ctx, t.client, t.movingEnd(id, to))
}

// MoveStart makes the row begin at this instant instead: its first content earlier, or what lay
// before it is deleted. It fails as End does.
func (t *Table[T]) MoveStart(ctx context.Context, id string, at Instant) (Written, error) {
	return run(ctx, t.client, t.movingStart(id, at))
}

func (t *Table[T]) movingEnd(id string, to Instant) rowCall[Written] {
	return t.writing("update", id, map[string]any{validTo: to})
}

func (t *Table[T]) movingStart(id string, at Instant) rowCall[Written] {
	return t.writing("update", id, map[string]any{validFrom: at})
}
