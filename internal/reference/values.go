package reference

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// writer makes the tables of one configuration.
type writer struct {
	comments *comments
	// defaults makes the configuration with its defaults, validate says what is wrong with one.
	defaults func() reflect.Value
	validate func(root reflect.Value) error
	// chosen are configurations with all that is left to be chosen filled in: for several tables, and for
	// images of several sizes.
	tables, images []reflect.Value
}

// empty is a value of a type as an empty mapping in YAML has it.
func empty(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if err := yaml.Unmarshal([]byte("{}"), v.Interface()); err != nil {
		return reflect.Zero(t)
	}
	return v.Elem()
}

// unset tells whether a field has the zero value by default, or another one that says that it is chosen.
func (w *writer) unset(at place) bool {
	v := at.in(w.defaults())
	return v.IsZero() || v.CanFloat() && v.Float() == -1 || w.isChosen(at)
}

func (w *writer) isChosen(at place) bool {
	own := shown(at.in(w.defaults()))
	return slices.ContainsFunc(slices.Concat(w.tables, w.images), func(root reflect.Value) bool {
		return root.IsValid() && shown(at.in(root)) != own
	})
}

// byDefault is the default of a field, with what is chosen if the default leaves it to be chosen.
func (w *writer) byDefault(at place) string {
	own := at.in(w.defaults())
	text := "`" + shown(own) + "`"
	if own.IsZero() && slices.Contains([]reflect.Kind{reflect.String, reflect.Slice, reflect.Pointer, reflect.Map,
		reflect.Struct}, own.Kind()) {
		text = "none"
	}
	if !w.isChosen(at) {
		return text
	}
	tables, images := w.choice(at, w.tables), w.choice(at, w.images)
	choice := tables + " for tables, " + images + " for images"
	switch {
	case tables == "" || images == "" && len(w.images) > 0:
		choice = ""
	case len(w.images) == 0 || tables == images:
		choice = tables
	}
	switch {
	case !own.CanInt() && !own.CanFloat():
		return or(choice, "chosen")
	case choice == "":
		return text + ": chosen"
	}
	return text + ": chosen, " + choice
}

// choice is the value that all configurations have, empty if they differ or there are none.
func (w *writer) choice(at place, of []reflect.Value) string {
	if len(of) == 0 {
		return ""
	}
	first := shown(at.in(of[0]))
	for _, root := range of[1:] {
		if shown(at.in(root)) != first {
			return ""
		}
	}
	if first == "" {
		return "none"
	}
	return "`" + first + "`"
}

// shown is a value as YAML has it.
func shown(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return short(d.String())
	}
	switch v.Kind() {
	case reflect.Float64, reflect.Float32:
		return number(v.Float())
	case reflect.Slice:
		var list []string
		for i := range v.Len() {
			list = append(list, shown(v.Index(i)))
		}
		return strings.Join(list, ", ")
	case reflect.Array:
		return strings.ReplaceAll(fmt.Sprint(v.Interface()), " ", ", ")
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return shown(v.Elem())
	case reflect.Struct, reflect.Map:
		return ""
	}
	return fmt.Sprint(v.Interface())
}

func number(x float64) string {
	if size := math.Abs(x); size != 0 && (size < 1e-5 || size >= 1e12) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

var zeros = regexp.MustCompile(`([hm])(?:0[ms])+`)

// short leaves out minutes and seconds that are zero in the durations of a text.
func short(text string) string { return zeros.ReplaceAllString(text, "$1") }

// values says what a field may be. Bounds are those of the error that a value out of all bounds gets.
func (w *writer) values(t reflect.Type, at place) (string, error) {
	if t == reflect.TypeFor[time.Duration]() {
		bound := w.refused(at, func(v reflect.Value) { v.SetInt(-99) })
		if bound == "" {
			return "duration, such as `30s`", nil
		}
		return "duration, " + short(bound), nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return "`true`, `false`", nil
	case reflect.Pointer:
		return w.values(t.Elem(), at)
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return or(w.refused(at, func(v reflect.Value) {
			if v.CanInt() {
				v.SetInt(-99)
			}
		}), "whole number"), nil
	case reflect.Float64:
		return or(w.refused(at, func(v reflect.Value) { v.SetFloat(math.NaN()) }), "number"), nil
	case reflect.String:
		return or(w.refused(at, func(v reflect.Value) { v.SetString("?") }), "text"), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			words := w.refused(at, func(v reflect.Value) { v.Set(reflect.Append(v, reflect.ValueOf("?"))) })
			return or(words, "list"), nil
		}
		if t.Name() == "" {
			return "list", nil
		}
	case reflect.Array:
		return fmt.Sprintf("list of %d numbers", t.Len()), nil
	case reflect.Map:
		return "mapping", nil
	}
	if isStruct(t) {
		return "mapping", nil
	}
	if !strings.HasPrefix(t.PkgPath(), module) {
		return "text", nil
	}
	comment, err := w.comments.of(t, "") // of a type that reads itself
	words, _, _ := strings.Cut(prose(comment, t.Name()), ". ")
	return strings.ToLower(words[:min(1, len(words))]) + strings.TrimSuffix(words[min(1, len(words)):], "."), err
}

func or(found, otherwise string) string {
	if found == "" {
		return otherwise
	}
	return found
}

var (
	oneOf    = regexp.MustCompile(`is not one of \[(.*)\]`)
	use      = regexp.MustCompile(`"\?" is [^;]*; use ([\w-]+(?:(?:, or | or |, )[\w-]+)*)$`)
	bounds   = regexp.MustCompile(`(?:NaN|-99(?:ns)?) is (not|below) ([^;]*)`)
	between  = regexp.MustCompile(`^between (\S+)(?: \([^)]*\))? and (\S+)$`)
	toChoose = regexp.MustCompile(`, or \S+ to have it chosen|, or 0 for .*$| \([^)]*\)`)
	figure   = regexp.MustCompile(`\d[\d.]*e[+-]\d+`)
)

// refused sets a field to a value that nothing allows, and reads from the error what it may be.
func (w *writer) refused(at place, set func(reflect.Value)) string {
	if w.validate == nil {
		return ""
	}
	root := w.defaults()
	set(at.in(root))
	err := w.validate(root)
	if err == nil {
		return ""
	}
	for line := range strings.Lines(err.Error()) {
		_, said, ok := strings.Cut(strings.TrimSpace(line), at.inErrors)
		if !ok || !strings.HasPrefix(strings.TrimPrefix(said, "[0]"), ": ") {
			continue
		}
		if found := oneOf.FindStringSubmatch(said); found != nil {
			return strings.ReplaceAll(strings.ReplaceAll(found[1], `" "`, "`, `"), `"`, "`")
		}
		if found := use.FindStringSubmatch(said); found != nil {
			return "`" + strings.NewReplacer(", or ", "`, `", ", ", "`, `", " or ", "`, `").Replace(found[1]) + "`"
		}
		if found := bounds.FindStringSubmatch(said); found != nil {
			return allowed(found[1], found[2])
		}
	}
	return ""
}

// allowed words the bounds of an error: what a value is not, or what it is below.
func allowed(how, bound string) string {
	if how == "below" {
		return "at least " + bound
	}
	bound = figure.ReplaceAllStringFunc(bound, func(s string) string {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return number(x)
	})
	bound = toChoose.ReplaceAllString(bound, "")
	return between.ReplaceAllString(bound, "$1 to $2")
}
