package reference

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/partition"
)

// Tables and images, and a public number of records, whose defaults are compared: what is the same for all of a sort
// does not depend on the schema.
var (
	someTables = []string{
		"label: y\ncolumns: [{name: x, kind: continuous, lower: 0, upper: 1}, {name: y, kind: binary}]",
		"label: y\ncolumns: [{name: x, kind: continuous, lower: 0, upper: 1, repeat: 30}, " +
			"{name: y, kind: categorical, categories: [a, b, c]}]",
		"columns: [{name: x, kind: categorical, categories: [a, b], repeat: 400}]",
	}
	someRecords = 10000
	someImages  = []string{images(28, 28, 1), images(32, 32, 3), images(8, 8, 1)}
)

func images(height, width, channels int) string {
	return fmt.Sprintf("format: idx\nlabel: y\nimage: {height: %d, width: %d, channels: %d}\ncolumns: "+
		"[{name: x, kind: integer, lower: 0, upper: 255, repeat: %d}, {name: y, kind: binary}]",
		height, width, channels, height*width*channels)
}

func schemas(texts []string) (list []*partition.Schema, err error) {
	for _, text := range texts {
		s, err := partition.ParseSchema([]byte(text))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// runYAML is the part of the page of run.yaml that follows from the code: a table of the run, and one for
// each section of a pipeline, a warm start or a stage that is registered.
func runYAML(c *comments) (string, error) {
	tables, err := schemas(someTables)
	pictures, err2 := schemas(someImages)
	if err := errors.Join(err, err2); err != nil {
		return "", err
	}
	var b strings.Builder
	w := specWriter(c, tables, pictures)
	run, err := w.fields(reflect.TypeFor[runfile.Spec](), start(""), false)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "## The run\n\n%s", run)
	for _, name := range sectionNames() {
		w := sectionWriter(c, name, tables, pictures)
		t := w.defaults().Type()
		section, err := w.documented(t, start(name))
		if err != nil {
			return "", err
		}
		write(&b, "##", part{name, section})
	}
	return b.String(), nil
}

func start(path string) place {
	return place{path, path, func(root reflect.Value) reflect.Value { return root }}
}

// write adds a heading, the text of a struct, its table, and those of the structs in it.
func write(b *strings.Builder, heading string, p part) {
	fmt.Fprintf(b, "\n%s %s\n", heading, p.path)
	if p.table.doc != "" {
		fmt.Fprintf(b, "\n%s\n", p.table.doc)
	}
	if len(p.table.fields) > 0 {
		fmt.Fprintf(b, "\n%s", p.table)
	}
	for _, below := range p.table.below {
		write(b, heading+"#", below)
	}
}

// specWriter writes the fields that belong to no section.
func specWriter(c *comments, tables, images []*partition.Schema) *writer {
	spec := func() *runfile.Spec {
		s := runfile.DefaultSpec()
		s.ByData()
		return s
	}
	chosen := func(list []*partition.Schema) (all []reflect.Value) {
		for _, schema := range list {
			s := spec()
			s.Privacy.Epsilon, s.Privacy.Delta, s.Privacy.Records = 1, 1e-5, someRecords
			s.Choose(schema)
			s.Privacy = spec().Privacy // it was not chosen
			all = append(all, reflect.ValueOf(s).Elem())
		}
		return all
	}
	return &writer{
		comments: c, tables: chosen(tables), images: chosen(images),
		defaults: func() reflect.Value { return reflect.ValueOf(spec()).Elem() },
		validate: func(root reflect.Value) error { return root.Addr().Interface().(*runfile.Spec).Validate() },
	}
}

// sectionWriter is that of a section; a pipeline says what it chooses.
func sectionWriter(c *comments, name string, tables, images []*partition.Schema) *writer {
	w := &writer{
		comments: c,
		defaults: func() reflect.Value { return reflect.ValueOf(pipelines.Sections()[name]).Elem() },
		validate: func(root reflect.Value) error { return root.Addr().Interface().(pipeline.Options).Validate() },
	}
	p, ok := pipelines.Named(name)
	if !ok {
		return w
	}
	chosen := func(list []*partition.Schema) (all []reflect.Value) {
		for _, schema := range list {
			s := runfile.DefaultSpec()
			options := reflect.New(w.defaults().Type()).Elem()
			options.Set(reflect.ValueOf(p.New(s.Sections[name], s.Problem(schema)).Chosen()))
			all = append(all, options)
		}
		return all
	}
	if w.tables = chosen(tables); !p.TablesOnly {
		w.images = chosen(images)
	}
	return w
}

// sectionNames are those of pipelines, then of warm starts, then of stages, in the order of their lists.
func sectionNames() (names []string) {
	for _, p := range pipelines.All {
		names = append(names, p.Name)
	}
	for _, p := range pipelines.Warm() {
		if p.Warm.Options != nil {
			names = append(names, p.Warm.Section)
		}
	}
	for _, s := range pipelines.Stages {
		names = append(names, s.Name)
	}
	all := slices.Sorted(maps.Keys(pipelines.Sections()))
	return append(names, slices.DeleteFunc(all, func(n string) bool { return slices.Contains(names, n) })...)
}
