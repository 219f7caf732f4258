package tidemark

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// CreateDatabase makes the client's database; an existing one is left alone.
func (c *Client) CreateDatabase(ctx context.Context) error {
	id := c.options.Database
	body := Row{"databaseId": id, "name": id}
	return existing(c.Request(ctx, http.MethodPost, "/tablesdb", body, nil))
}

// CreateTable makes the table with its columns and indexes, and declares its references; a table
// that exists is not changed. Only API keys may read it until permissions say otherwise.
func (t *Table[T]) CreateTable(ctx context.Context, permissions ...string) error {
	columns, err := t.shape.definitions()
	if err != nil {
		return err
	}
	indexes, references := []Row{}, []Row{}
	for _, one := range t.lookups {
		kind := "key"
		if one.isUnique {
			kind = "unique"
		}
		indexes = append(indexes, Row{"key": one.key, "type": kind, "attributes": one.columns})
		if one.reference != "" {
			references = append(references, Row{"column": one.columns[0], "table": one.reference})
		}
	}
	body := Row{"tableId": t.id, "name": t.id, "columns": columns, "indexes": indexes}
	if len(permissions) > 0 {
		body["permissions"] = permissions
	}
	path := join("tablesdb", t.database, "tables")
	err = existing(t.client.Request(ctx, http.MethodPost, path, body, nil))
	if err != nil || len(references) == 0 {
		return err
	}
	path = join("tidemark", "databases", t.database, "tables", t.id, "constraints")
	constraints := Row{"unique": []Row{}, "refs": references}
	return t.client.Request(ctx, http.MethodPut, path, constraints, nil)
}

// existing takes a refusal because something exists as a success.
func existing(err error) error {
	var refused *Error
	if errors.As(err, &refused) && strings.HasSuffix(refused.Type, "_already_exists") {
		return nil
	}
	return err
}

// definitions are the columns as the server takes them.
func (s *shape) definitions() ([]Row, error) {
	if s.of == rowType {
		return nil, errors.New("tidemark: only a struct says which columns a table has")
	}
	found := make([]Row, len(s.columns))
	for place, column := range s.columns {
		field := s.of.Field(column.field)
		definition := Row{"key": column.name, "required": true}
		of := field.Type
		if of.Kind() == reflect.Pointer {
			definition["required"] = false
			of = of.Elem()
		} else if of.Kind() == reflect.Slice {
			definition["array"] = true
			of = of.Elem()
		}
		switch of.Kind() {
		case reflect.String:
			definition["type"], definition["size"] = "varchar", column.size
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			definition["type"] = "integer"
		case reflect.Float32, reflect.Float64:
			definition["type"] = "double"
		case reflect.Bool:
			definition["type"] = "boolean"
		default:
			if of != timeType {
				return nil, fmt.Errorf("tidemark: %v.%s: %v is no column's type", s.of, field.Name, of)
			}
			definition["type"] = "datetime"
		}
		found[place] = definition
	}
	return found, nil
}
