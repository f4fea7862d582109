package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// reminder warns against adapting a schema to its violations.
const reminder = "Rows count from 1, without the header. Bounds and categories are public: take them from " +
	"documentation or knowledge of the field. Never widen them to the minimum or maximum of the rows, because " +
	"that would reveal two records."

// checked is the result for a file.
type checked struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	// Rows is the number of rows read.
	Rows       int                 `json:"rows"`
	Violations []tabular.Violation `json:"violations,omitempty"`
	// Problem is why the file, or the rest of it, could not be read.
	Problem string `json:"problem,omitempty"`
	// Parts are the invalid parts of a folder or pattern.
	Parts    []checked `json:"parts,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

func checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check --schema FILE FILE...",
		Short: "check files of rows against a schema",
		Long: `Reads files of rows as a node or a run does, and reports all cells and rows that the schema does not
allow: their counts by column and kind, and the first row numbers, but never a value. Row numbers are private: keep the
output at the site.

Exit codes: 0 all files match the schema, 1 some do not or cannot be read, 2 wrong usage.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Misuse("give at least one file of rows")
			}
			return nil
		},
	}
	path := c.Flags().String("schema", "", "the public schema.yaml, a `file`")
	format := cli.Format(c)
	c.RunE = func(c *cobra.Command, files []string) error {
		if *path == "" {
			return cli.Misuse("--schema is required")
		}
		return check(c.Context(), *path, files, *format)
	}
	return c
}

// check checks files one after the other.
func check(ctx context.Context, path string, files []string, format string) error {
	s, err := partition.LoadSchema(path)
	if err != nil {
		if format == "json" {
			answer := map[string]any{"ok": false, "problem": err.Error(), "files": []checked{}}
			err = errors.Join(err, cli.PrintJSON(answer))
		}
		return err
	}
	all := make([]checked, 0, len(files))
	good, violations := true, false
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		one := checkFile(s, file)
		good, violations = good && one.OK, violations || one.violates()
		all = append(all, one)
		if format != "json" {
			one.show()
		}
	}
	if format == "json" {
		err = cli.PrintJSON(map[string]any{"ok": good, "schema_sha256": s.SHA256, "files": all, "note": reminder})
	} else if violations {
		fmt.Println(reminder)
	}
	if err == nil && !good {
		err = &cli.ExitError{Code: 1} // the problems have been shown
	}
	return err
}

func checkFile(s *partition.Schema, file string) checked {
	one := checked{File: file}
	warn := func(odd string) { one.Warnings = append(one.Warnings, odd) }
	t, err := tabular.Read(s, file, tabular.Options{Warn: warn})
	if err == nil {
		one.OK, one.Rows = true, t.Len()
		return one
	}
	one.refuse(err)
	return one
}

// refuse records what is wrong with a file, by part if it has some.
func (c *checked) refuse(err error) {
	var parts *tabular.WrongParts
	var found *tabular.Violations
	switch {
	case errors.As(err, &parts):
		c.Rows = parts.Rows
		c.Problem = fmt.Sprintf("the schema does not allow the contents of %d of %s", len(parts.Wrong),
			text.Several(parts.Parts, "part"))
		if parts.Unread > 0 {
			c.Problem += fmt.Sprintf(" (%d were not read; fix these first)", parts.Unread)
		}
		for _, err := range parts.Wrong {
			part := checked{}
			part.refuse(err)
			c.Parts = append(c.Parts, part)
		}
	case errors.As(err, &found):
		c.File, c.Rows, c.Violations = cmp.Or(c.File, found.File), found.Rows, found.Found
		if found.Ended != nil {
			c.Problem = found.Ended.Error()
		}
	default:
		var wrong *partition.InputError
		if errors.As(err, &wrong) {
			c.File = cmp.Or(c.File, wrong.File)
		}
		c.Problem = err.Error()
	}
}

// violates reports whether any cell or row violates the schema.
func (c *checked) violates() bool {
	return len(c.Violations) > 0 || slices.ContainsFunc(c.Parts, func(part checked) bool { return part.violates() })
}

// show prints the result for a file: warnings to standard error, the rest to standard output.
func (c *checked) show() {
	for _, odd := range c.Warnings {
		cli.Warn(odd)
	}
	switch {
	case c.OK:
		fmt.Printf("%s: %s, all match the schema\n", c.File, text.Several(c.Rows, "row"))
		return
	case len(c.Parts) > 0:
		fmt.Printf("%s: %s:\n", c.File, c.Problem)
		for i := range c.Parts {
			c.Parts[i].show()
		}
	case len(c.Violations) > 0:
		fmt.Printf("%s: %s, not all match the schema:\n", c.File, text.Several(c.Rows, "row"))
		for i := range c.Violations {
			v := &c.Violations[i]
			fmt.Printf("  %s\n    fix: %s\n", v.Where(), v.Advice())
		}
		if c.Problem != "" {
			fmt.Printf("  the rest could not be read: %s\n", strings.TrimPrefix(c.Problem, c.File+", "))
		}
	default:
		fmt.Println(c.Problem)
	}
}
