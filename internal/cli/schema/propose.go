package schema

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/proposal"
	"github.com/conclave-dp/conclave/internal/report/text"
	"github.com/conclave-dp/conclave/partition"
)

type proposeFlags struct {
	proposal.Options
	out        string
	force, yes bool
	format     *string
}

func proposeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "propose FILE... [--dictionary FILE] [--label COLUMN] [--out schema.yaml] [flags]",
		Short: "write a first schema for a table in CSV files",
		Long: `Writes a first schema.yaml for a table in one CSV file, or in several with the same header.

Kinds and formats are detected from the cells. Bounds never are: they come from a data dictionary, or from a list of
common clinical and demographic variables. On a terminal the command asks for the others; without an answer they
remain TODO.

A dictionary is a CSV file with the columns name, type, lower, upper, categories (with | between them), description,
unit, format, pattern and codes; or metadata of SDV, or a Frictionless table schema, in JSON.`,
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return cli.Misuse("give the CSV file of the table")
			}
			return nil
		},
	}
	var o proposeFlags
	f := c.Flags()
	f.StringVar(&o.Dictionary, "dictionary", "", "`file` with public knowledge about the columns")
	f.StringVar(&o.Label, "label", "", "the `column` that models will predict")
	f.IntVar(&o.Rows, "rows", 0, "public estimate of the number of rows at all sites; with --epsilon, for prefixes "+
		"of codes")
	f.Float64Var(&o.Epsilon, "epsilon", 0, "budget of the run; a larger one allows finer prefixes of codes")
	f.StringVar(&o.out, "out", "schema.yaml", "`file` to write")
	f.BoolVar(&o.force, "force", false, "replace --out if it exists")
	f.BoolVar(&o.yes, "yes", false, "do not ask, even in a terminal")
	o.format = cli.Format(c)
	c.RunE = func(_ *cobra.Command, files []string) error {
		o.Files, o.Folder = files, filepath.Dir(o.out)
		if (o.Rows == 0) != (o.Epsilon == 0) || o.Rows < 0 || !(o.Epsilon >= 0) {
			return cli.Misuse("--rows and --epsilon: give both, above 0")
		}
		return o.propose()
	}
	return c
}

func (o *proposeFlags) propose() error {
	if err := o.checkOut(); err != nil {
		return err
	}
	p, err := proposal.Propose(o.Options)
	if err != nil {
		return err
	}
	if err := o.checkInputs(p.Read); err != nil {
		return err
	}
	if !o.yes && *o.format == "text" && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		if err := ask(p, os.Stdin, os.Stderr); err != nil {
			return err
		}
	}
	if err := writePrivate(o.out, p.YAML()); err != nil {
		return fmt.Errorf("write the schema: %w", err)
	}
	fmt.Fprintln(os.Stderr, "note:", proposal.Note)
	if len(p.Unknown) > 0 {
		fmt.Fprintf(os.Stderr, "warning: the dictionary has columns that the table does not have: %s. Check their "+
			"spelling.\n", strings.Join(p.Unknown, ", "))
	}
	if names := p.FromRows(); len(names) > 0 {
		fmt.Fprintf(os.Stderr, "warning: outside the guarantee: the categories of %s come from the rows, and "+
			"certificates will say so. To avoid this, take them from public knowledge and remove source: "+
			"rows.\n", strings.Join(names, ", "))
	}
	if *o.format == "json" {
		return cli.PrintJSON(o.result(p))
	}
	return o.show(p)
}

// proposed is the result as JSON.
type proposed struct {
	Schema  string           `json:"schema"`
	Columns []proposedColumn `json:"columns"`
	Ignored []string         `json:"ignored"`
	Next    string           `json:"next"`
}

type proposedColumn struct {
	Name   string           `json:"name"`
	Kind   string           `json:"kind"`
	Source partition.Source `json:"source"` // empty if there are no bounds or categories
	Todo   []string         `json:"todo"`   // fields that are still TODO
	Remark string           `json:"remark"`
}

func (o *proposeFlags) result(p *proposal.Proposal) proposed {
	r := proposed{Schema: o.out, Ignored: []string{}, Next: o.next()}
	for i := range p.Columns {
		c := &p.Columns[i]
		r.Columns = append(r.Columns, proposedColumn{c.Name, c.Kind, c.Source, append([]string{}, c.Unfinished()...),
			c.Comment()})
	}
	for _, c := range p.Ignored {
		r.Ignored = append(r.Ignored, c.Name)
	}
	return r
}

// show prints the proposal for each column, and what is left to do.
func (o *proposeFlags) show(p *proposal.Proposal) error {
	w := cli.Columns()
	fmt.Fprintln(w, "column\tkind\tsource\tleft to do")
	for i := range p.Columns {
		c := &p.Columns[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.Kind, cli.Dash(string(c.Source)),
			cli.Dash(strings.Join(leftToDo(c), ", ")))
	}
	for _, c := range p.Ignored {
		fmt.Fprintf(w, "%s\tignored\t-\t-\n", c.Name)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("\nWrote %s.", o.out)
	if n := p.Unfinished(); n > 0 {
		fmt.Printf(" Replace each TODO in %s as the comments there say, and remove source: TODO.",
			text.Several(n, "column"))
	}
	fmt.Printf("\nnext:\n  %s\n", o.next())
	return nil
}

// leftToDo says which fields a person must fill in or, where they are from the rows, should replace.
func leftToDo(c *proposal.Column) []string {
	fields := c.Unfinished()
	if c.Source == partition.SourceRows {
		fields = append(fields, "categories from public knowledge")
	}
	return fields
}

// next is the command that checks the files against the finished schema.
func (o *proposeFlags) next() string {
	command := "conclave schema check --schema " + text.ShellWord(o.out)
	for _, file := range o.Files {
		command += " " + text.ShellWord(file)
	}
	return command
}
