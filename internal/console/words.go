package console

import (
	"html/template"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/report/text"
)

// functions are the functions for templates.
var functions = template.FuncMap{
	"epsilon": func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) },
	"when":    When,
	"day": func(at string) string {
		day, _, _ := strings.Cut(When(at), " ")
		return day
	},
	"short": func(s string) string {
		return s[:min(len(s), 12)]
	},
	"add":   func(a, b int) int { return a + b },
	"class": func(state string) string { return strings.ReplaceAll(state, " ", "-") },
	"bytes": Bytes, "several": several,
}

// When formats an RFC 3339 time for people, to the minute; a dash if it is invalid.
func When(at string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04") + " UTC"
}

// several counts things. The number may be of any integer type, as those of messages are.
func several(n any, thing string) string {
	v := reflect.ValueOf(n)
	if v.CanUint() {
		return text.Several(v.Uint(), thing)
	}
	return text.Several(v.Int(), thing)
}

// Bytes formats a number of bytes for people.
func Bytes(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	if i == 0 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[i]
}
