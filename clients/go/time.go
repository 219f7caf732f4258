package tidemark

import (
	"encoding/json"
	"time"
)

// Instant is a point in valid or system time. The zero value is none: each use says what that
// means there.
type Instant struct {
	text   string
	micros int64
	is     bool
}

// At is the instant of a time, to the microsecond.
func At(when time.Time) Instant { return Micros(when.UnixMicro()) }

// Micros is an instant in microseconds since 1970, as marks are.
func Micros(micros int64) Instant { return Instant{micros: micros, is: true} }

// Text is an instant as the server reads it: a date and time, or a date.
func Text(text string) Instant { return Instant{text: text, is: true} }

var (
	// Beginning is the beginning of time.
	Beginning = Text("min")
	// Next stands for the row's next scheduled change, as the end of a Period.
	Next = Text("next")
)

// IsZero says that there is no instant.
func (i Instant) IsZero() bool { return !i.is }

// MarshalJSON writes the instant as the server reads it, none as null.
func (i Instant) MarshalJSON() ([]byte, error) {
	switch {
	case !i.is:
		return []byte("null"), nil
	case i.text != "":
		return json.Marshal(i.text)
	}
	return json.Marshal(i.micros)
}

// UnmarshalJSON reads what the server writes.
func (i *Instant) UnmarshalJSON(text []byte) error {
	*i = Instant{}
	if string(text) == "null" {
		return nil
	}
	i.is = true
	if text[0] == '"' {
		return json.Unmarshal(text, &i.text)
	}
	return json.Unmarshal(text, &i.micros)
}

// Coordinates are the point a read looks through: what was known at AsOf about ValidAt. Without
// ValidAt the server takes what was valid at AsOf. The answer of a read at coordinates that have
// passed never changes.
type Coordinates struct {
	AsOf    Instant
	ValidAt Instant
}

// Queries are what a read at the coordinates takes.
func (c Coordinates) Queries() []Query {
	var queries []Query
	if !c.AsOf.IsZero() {
		queries = append(queries, AsOf(c.AsOf))
	}
	if !c.ValidAt.IsZero() {
		queries = append(queries, ValidAt(c.ValidAt))
	}
	return queries
}

// ReadAt, embedded in a row's struct, keeps the coordinates at which the row was read; they are
// zero for a row read as of now.
type ReadAt struct {
	Coordinates Coordinates
}

// Period is the valid time that a write is for: from ValidFrom up to, and without, ValidTo.
//
// Without ValidFrom it begins with the commit. Without ValidTo it has no end, and writes over
// whatever was scheduled; Next stops where the row's next scheduled change begins.
type Period struct {
	ValidFrom Instant
	ValidTo   Instant
}
