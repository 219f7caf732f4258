package tidemark

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Row is a row of a table without a struct of its own: columns by their names, and members that
// begin with $, of which only $id is written.
type Row map[string]any

// ReadAt says where a row that was read stands.
func (r Row) ReadAt() ReadAt {
	at, _ := r[readAtMember].(ReadAt)
	return at
}

const (
	idTag = "$id"
	// readAtMember of a Row that was read holds its ReadAt.
	readAtMember = "$readAt"
	// sizeDefault is that of texts without a size, in characters: such columns can be indexed (at
	// most 768).
	sizeDefault = 255
)

// column is a field of a struct, as it is stored.
type column struct {
	name  string
	field int
	size  int
}

// shape says how rows of one type are written and read.
type shape struct {
	of      reflect.Type
	columns []column
	id      int
	readAt  int
}

var (
	timeType   = reflect.TypeOf(time.Time{})
	readAtType = reflect.TypeOf(ReadAt{})
	rowType    = reflect.TypeOf(Row{})
)

// shapeOf reads the tags of a struct; of Row there is nothing to read.
func shapeOf(of reflect.Type) (*shape, error) {
	found := &shape{of: of, id: -1, readAt: -1}
	if of == rowType {
		return found, nil
	}
	if of.Kind() != reflect.Struct {
		return nil, fmt.Errorf("tidemark: a row is a struct or a Row, not %v", of)
	}
	for place := 0; place < of.NumField(); place++ {
		field := of.Field(place)
		tag, tagged := field.Tag.Lookup("tidemark")
		switch {
		case field.Type == readAtType:
			found.readAt = place
		case !tagged:
		case tag == idTag && field.Type.Kind() == reflect.String:
			found.id = place
		case !field.IsExported():
			return nil, fmt.Errorf("tidemark: %v.%s has a tag and is not exported", of, field.Name)
		default:
			one, err := columnOf(tag)
			if err != nil {
				return nil, fmt.Errorf("tidemark: %v.%s: %w", of, field.Name, err)
			}
			one.field = place
			found.columns = append(found.columns, one)
		}
	}
	if found.id < 0 {
		return nil, fmt.Errorf("tidemark: %v has no text with the tag `tidemark:\"$id\"`", of)
	}
	return found, nil
}

// columnOf reads a tag: the column's name, and size=N for texts.
func columnOf(tag string) (column, error) {
	words := strings.Split(tag, ",")
	found := column{name: words[0], size: sizeDefault}
	if found.name == "" || strings.HasPrefix(found.name, "$") {
		return found, fmt.Errorf("%q names no column", tag)
	}
	for _, word := range words[1:] {
		text := strings.TrimPrefix(word, "size=")
		size, err := strconv.Atoi(text)
		if err != nil || text == word {
			return found, fmt.Errorf("%q is no option of a column; size=N is", word)
		}
		found.size = size
	}
	return found, nil
}

// encode takes a row apart: its id, made if there is none, and its columns.
func (s *shape) encode(row reflect.Value) (string, map[string]any) {
	values := map[string]any{}
	id := ""
	if s.of == rowType {
		for _, name := range row.MapKeys() {
			if !strings.HasPrefix(name.String(), "$") {
				values[name.String()] = row.MapIndex(name).Interface()
			}
		}
		if text, isText := row.Interface().(Row)[idTag].(string); isText {
			id = text
		}
	} else {
		for _, column := range s.columns {
			values[column.name] = content(row.Field(column.field))
		}
		id = row.Field(s.id).String()
	}
	if id == "" {
		id = NewID()
	}
	return id, values
}

// content is what a field holds. A column of several values is never null.
func content(field reflect.Value) any {
	if field.Kind() == reflect.Slice && field.IsNil() {
		return []any{}
	}
	return field.Interface()
}

// place is where rows of one answer were read.
type place struct {
	at   Coordinates
	seen mark
}

// read says where a row was read, as far as its type keeps that.
func (s *shape) read(row reflect.Value) ReadAt {
	switch {
	case s.of == rowType:
		return row.Interface().(Row).ReadAt()
	case s.readAt >= 0:
		return row.Field(s.readAt).Interface().(ReadAt)
	}
	return ReadAt{}
}

// decode fills row from what the server sent; columns that were not selected stay as they are.
func (s *shape) decode(sent json.RawMessage, row reflect.Value, where place) error {
	at, err := readAt(sent, where.at, where.seen)
	if err != nil {
		return err
	}
	if s.of == rowType {
		members := row.Addr().Interface().(*Row)
		if err := json.Unmarshal(sent, members); err != nil {
			return err
		}
		(*members)[readAtMember] = at
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(sent, &members); err != nil {
		return err
	}
	fill := func(name string, field int) error {
		value, isThere := members[name]
		if !isThere {
			return nil
		}
		err := json.Unmarshal(value, row.Field(field).Addr().Interface())
		if err != nil {
			return fmt.Errorf("tidemark: column %s: %w", name, err)
		}
		return nil
	}
	for _, column := range s.columns {
		if err := fill(column.name, column.field); err != nil {
			return err
		}
	}
	if s.readAt >= 0 {
		row.Field(s.readAt).Set(reflect.ValueOf(at))
	}
	return fill(idTag, s.id)
}

// text is the text that a column holds; empty where it holds none.
func (s *shape) text(row reflect.Value, name string) string {
	if s.of == rowType {
		text, _ := row.Interface().(Row)[name].(string)
		return text
	}
	for _, column := range s.columns {
		if column.name != name {
			continue
		}
		field := row.Field(column.field)
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		if field.Kind() == reflect.String {
			return field.String()
		}
	}
	return ""
}

// has says whether the rows have such a column; anything may be one where there is no struct.
func (s *shape) has(name string) bool {
	for _, column := range s.columns {
		if column.name == name {
			return true
		}
	}
	return s.of == rowType
}

// times are the coordinates that queries name.
func times(queries []Query) Coordinates {
	var at Coordinates
	for _, query := range queries {
		if len(query.Values) != 1 {
			continue
		}
		when, isInstant := query.Values[0].(Instant)
		switch {
		case !isInstant:
		case query.Method == "asOf":
			at.AsOf = when
		case query.Method == "validAt":
			at.ValidAt = when
		}
	}
	return at
}
