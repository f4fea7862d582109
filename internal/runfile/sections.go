package runfile

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/internal/config"
	"github.com/conclave-dp/conclave/internal/pipeline"
	"github.com/conclave-dp/conclave/internal/pipelines"
)

// Section returns the section with the type T of a registered pipeline or stage.
func Section[T any](s *Spec) *T {
	for _, options := range s.Sections {
		if of, ok := options.(any).(*T); ok {
			return of
		}
	}
	panic("no pipeline or stage has a section of type " + reflect.TypeFor[T]().String())
}

// Clone returns a spec that shares no options with s.
func (s *Spec) Clone() *Spec {
	c := *s
	c.Sections = map[string]pipeline.Options{}
	for name, options := range s.Sections {
		of := reflect.New(reflect.TypeOf(options).Elem())
		of.Elem().Set(reflect.ValueOf(options).Elem())
		c.Sections[name] = of.Interface().(pipeline.Options)
	}
	return &c
}

func yamlFields() []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Spec]()), func(f reflect.StructField) bool {
		return f.Tag.Get("yaml") == "-"
	})
}

// FileType is a struct with all fields of a run.yaml: the fields of a spec, and the sections.
func FileType() reflect.Type {
	fields := yamlFields()
	sections := pipelines.Sections()
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		fields = append(fields, reflect.StructField{
			Name: strings.ToUpper(name), Type: reflect.TypeOf(sections[name]).Elem(),
			Tag: reflect.StructTag(`yaml:"` + name + `"`),
		})
	}
	for i := range fields { // keyed by their index in another struct
		fields[i].Index, fields[i].Offset = nil, 0
	}
	return reflect.StructOf(fields)
}

// Parse reads the text of a run.yaml over the spec.
func (s *Spec) Parse(text string) error {
	return s.decode(func(file any) error { return config.Decode(strings.NewReader(text), file) })
}

// decode reads a run.yaml over the spec, with a function that takes a pointer to a struct.
func (s *Spec) decode(read func(file any) error) error {
	file := reflect.New(FileType())
	parts := map[string]reflect.Value{} // of the spec, by the names of fields of the file
	for _, f := range yamlFields() {
		parts[f.Name] = reflect.ValueOf(s).Elem().FieldByIndex(f.Index)
	}
	for name, options := range s.Sections {
		parts[strings.ToUpper(name)] = reflect.ValueOf(options).Elem()
	}
	for name, part := range parts {
		file.Elem().FieldByName(name).Set(part)
	}
	if err := read(file.Interface()); err != nil {
		return err
	}
	for name, part := range parts {
		part.Set(file.Elem().FieldByName(name))
	}
	return nil
}
