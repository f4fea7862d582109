package reference

import (
	"fmt"
	"reflect"
	"strings"
)

// field is a row of a table.
type field struct{ path, values, byDefault, meaning string }

// table is what a page says about a struct.
type table struct {
	doc    string
	fields []field
	// below are the tables of structs within, by their path.
	below []part
}

type part struct {
	path  string
	table table
}

// place is where a field lies: its path on the page and in errors, and how to reach it in a configuration.
type place struct {
	path, inErrors string
	in             func(root reflect.Value) reflect.Value
}

func (p place) field(i int, name string) place {
	join := func(path string) string { return strings.TrimPrefix(path+"."+name, ".") }
	return place{join(p.path), join(p.inErrors), func(root reflect.Value) reflect.Value { return p.in(root).Field(i) }}
}

// element is the only element of a list.
func (p place) element() place {
	return place{p.path + "[]", p.inErrors + "[0]", func(root reflect.Value) reflect.Value {
		list := p.in(root)
		if list.Len() == 0 {
			list.Set(reflect.Append(list, empty(list.Type().Elem())))
		}
		return list.Index(0)
	}}
}

func (p place) pointed() place {
	return place{p.path, p.inErrors, func(root reflect.Value) reflect.Value {
		pointer := p.in(root)
		if pointer.IsNil() {
			pointer.Set(reflect.New(pointer.Type().Elem()))
		}
		return pointer.Elem()
	}}
}

// fields makes the table of a struct. If apart is set, structs within it get tables of their own.
func (w *writer) fields(t reflect.Type, at place, apart bool) (out table, err error) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, how, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" || name == "" && how != "inline" {
			continue
		}
		if how == "inline" {
			inline := place{at.path, at.inErrors, at.field(i, "").in}
			inner, err := w.fields(f.Type, inline, apart)
			if err != nil {
				return out, err
			}
			out.fields, out.below = append(out.fields, inner.fields...), append(out.below, inner.below...)
			continue
		}
		inner, kind := at.field(i, name), f.Type
		if kind.Kind() == reflect.Slice && isStruct(kind.Elem()) {
			inner, kind = inner.element(), kind.Elem()
		}
		if kind.Kind() == reflect.Pointer && isStruct(kind.Elem()) {
			inner, kind = inner.pointed(), kind.Elem()
		}
		if isStruct(kind) && apart {
			below, err := w.documented(kind, inner)
			if err != nil {
				return out, err
			}
			out.below = append(out.below, part{inner.path, below})
			continue
		}
		if !isStruct(kind) || kind != f.Type { // what a list or an optional part is needs a row too
			row, err := w.row(t, f, at.field(i, name))
			if err != nil {
				return out, err
			}
			out.fields = append(out.fields, row)
		}
		if isStruct(kind) {
			below, err := w.fields(kind, inner, false)
			if err != nil {
				return out, err
			}
			out.fields = append(out.fields, below.fields...)
		}
	}
	return out, nil
}

// documented is the table of a struct with the struct's own comment.
func (w *writer) documented(t reflect.Type, at place) (table, error) {
	comment, err := w.comments.of(t, "")
	if err != nil {
		return table{}, err
	}
	out, err := w.fields(t, at, true)
	// The first sentence tells a programmer what the type is.
	_, out.doc, _ = strings.Cut(prose(comment, ""), ". ")
	return out, err
}

func (w *writer) row(t reflect.Type, f reflect.StructField, at place) (field, error) {
	comment, err := w.comments.of(t, f.Name)
	if err != nil {
		return field{}, err
	}
	meaning, stated := statedDefault(prose(comment, f.Name))
	values, err := w.values(f.Type, at)
	if err != nil {
		return field{}, err
	}
	row := field{path: at.path, values: values, byDefault: w.byDefault(at), meaning: meaning}
	switch {
	case stated == "" || stated == row.byDefault:
	case !w.unset(at):
		return field{}, fmt.Errorf("%s: the comment of %s states a default, but the code sets %s; leave it out of the "+
			"comment", at.path, f.Name, row.byDefault)
	default:
		row.byDefault = stated
	}
	return row, nil
}

// isStruct tells whether a type has fields of a configuration.
func isStruct(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") != "" {
			return true
		}
	}
	return false
}

// String is the table in Markdown.
func (t table) String() string {
	var b strings.Builder
	b.WriteString("| field | values | default | meaning |\n|---|---|---|---|\n")
	for _, f := range t.fields {
		row := []string{"`" + f.path + "`", f.values, f.byDefault, f.meaning}
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], "|", `\|`)
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}
