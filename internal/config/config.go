// Package config reads the configuration files of the roles: strict YAML over
// defaults, then the environment.
//
// Start with [Load]. It knows nothing about what a configuration means; each
// role validates its own, and asks [CheckName] about names.
package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Load decodes the YAML file at path over the defaults already in into, a
// pointer to a struct with yaml tags. Unknown fields, duplicate fields and
// trailing documents are errors that name the file and line. Then each
// scalar field may be replaced from the environment: the field `tls.ca` by
// CONCLAVE_TLS_CA, and so on.
func Load(path string, into any) error {
	if _, err := LoadText(path, into); err != nil {
		return err
	}
	if err := fromEnvironment("CONCLAVE", reflect.ValueOf(into).Elem(), os.LookupEnv); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// LoadText is Load without the environment, for files that describe a job and
// not a machine. It returns the file's text, without a byte order mark.
func LoadText(path string, into any) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read configuration: %w; give an existing file", err)
	}
	// Some editors put a byte order mark in front of UTF-8; YAML allows it.
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if err := Decode(bytes.NewReader(raw), into); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return string(raw), nil
}

// Decode reads one strict YAML document over the defaults in into. Its errors
// say the line and how to fix it.
func Decode(r io.Reader, into any) (err error) {
	defer func() {
		// The YAML parser gives up on some broken files with a panic.
		if recover() != nil {
			err = errors.New("not valid YAML; compare it with a file that works")
		}
	}()
	defaults := reflect.New(reflect.TypeOf(into).Elem()).Elem()
	defaults.Set(reflect.ValueOf(into).Elem())
	raw, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := CheckYAML(raw, MaxFile); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(raw), yaml.Strict())
	err = d.Decode(into)
	if errors.Is(err, io.EOF) {
		// An empty file means the defaults; the decoder has cleared them.
		reflect.ValueOf(into).Elem().Set(defaults)
		return nil
	}
	if err != nil {
		return cmp.Or(checkValues(raw, reflect.TypeOf(into)), explain(err))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("more than one YAML document; keep only one")
	}
	return checkValues(raw, reflect.TypeOf(into))
}

// wordEnd is the end of a word of a Go name; fields have an underscore there.
var wordEnd = regexp.MustCompile(`([a-z])([A-Z])`)

// explain rewrites the YAML decoder's errors for people who do not know Go.
func explain(err error) error {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		return errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	place := at.GetToken().Position
	says := at.GetMessage()
	var unknown *yaml.UnknownFieldError
	var twice *yaml.DuplicateKeyError
	var kind *yaml.TypeError
	var large *yaml.OverflowError
	switch {
	case errors.As(err, &unknown):
		says += "; correct its name or remove it"
	case errors.As(err, &twice):
		says += "; keep one of them"
	case errors.As(err, &kind):
		says = "want " + kindName(kind.DstType)
		if kind.StructFieldName != nil {
			_, field, _ := strings.Cut(*kind.StructFieldName, ".")
			says = strings.ToLower(wordEnd.ReplaceAllString(field, "${1}_${2}")) + ": " + says
		}
	case errors.As(err, &large):
		says = "want " + kindName(large.DstType) + "; the number is too large or negative"
	}
	return fmt.Errorf("line %d, column %d: %s", place.Line, place.Column, says)
}

// kindName names the kind of value that a field accepts.
func kindName(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 10s"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Uint32, reflect.Uint64:
		return "a whole number of at least 0"
	case reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "fields with values"
}

// Resolve returns path relative to the folder of the file it was read from.
// Empty and absolute paths stay as they are.
func Resolve(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

func fromEnvironment(prefix string, v reflect.Value, lookup func(string) (string, bool)) error {
	for _, field := range reflect.VisibleFields(v.Type()) { // those of inlined structs among them
		tag, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if !field.IsExported() || tag == "-" || tag == "" {
			continue
		}
		name := prefix + "_" + strings.ToUpper(tag)
		target := v.FieldByIndex(field.Index)
		if target.Kind() == reflect.Struct {
			if err := fromEnvironment(name, target, lookup); err != nil {
				return err
			}
			continue
		}
		text, ok := lookup(name)
		if !ok {
			continue
		}
		if err := set(target, text); err != nil {
			return fmt.Errorf("environment variable %s: %w", name, err)
		}
	}
	return nil
}

func wrong(v reflect.Value) error { return errors.New("want " + kindName(v.Type())) }

func set(v reflect.Value, text string) error {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			return wrong(v)
		}
		v.SetInt(int64(d))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return wrong(v)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return wrong(v)
		}
		v.SetInt(n)
	case reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return wrong(v)
		}
		v.SetUint(n)
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return wrong(v)
		}
		v.SetFloat(x)
	default:
		return errors.New("this field can only be set in the file")
	}
	return nil
}
