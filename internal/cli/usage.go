package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const usageTemplate = `usage: {{broken .UseLine 110}}{{if .HasAvailableSubCommands}}

commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{.CommandPath}} COMMAND --help shows the flags of a command{{end}}{{if .HasAvailableFlags}}

flags:
{{.Flags.FlagUsagesWrapped 110 | trimTrailingWhitespaces}}{{end}}
`

func init() { cobra.AddTemplateFunc("broken", broken) }

// broken breaks a usage line that is longer than most columns, at spaces outside of brackets.
func broken(line string, most int) string {
	const label = "usage: "
	most -= len(label)
	var out strings.Builder
	depth, start, used := 0, 0, 0 // start is that of the current part, used the length of the current line
	add := func(part string) {
		switch {
		case used == 0:
		case used+1+len(part) > most:
			out.WriteString("\n" + strings.Repeat(" ", len(label)))
			used = 0
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(part)
		used += len(part)
	}
	for i, r := range line {
		switch r {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case ' ':
			if depth == 0 {
				add(line[start:i])
				start = i + 1
			}
		}
	}
	add(line[start:])
	return out.String()
}

// usageError is wrong usage; without a text, a group of commands was called without one.
type usageError struct {
	text string
	at   *cobra.Command // command whose help to read; nil for the command that was run
}

func (e *usageError) Error() string { return e.text }

// Misuse is an error about the usage of a command. The program adds where help is, and ends with exit code 2.
func Misuse(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// show prints what is wrong with the usage of a command, and where help is.
func (e *usageError) show(c *cobra.Command) {
	if e.text == "" {
		fmt.Fprint(os.Stderr, c.UsageString())
		return
	}
	what := "the flags"
	if e.at != nil {
		c, what = e.at, "the commands"
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n%s --help shows %s\n", c.Root().Name(), e.text, c.CommandPath(), what)
}

// noArguments refuses arguments; after a group of commands they are taken as the name of one.
func noArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !c.HasAvailableSubCommands():
		return Misuse("unexpected argument %q", args[0])
	case c.HasParent() && args[0] == "help":
		return helpBelow(c, args[1:])
	}
	return &usageError{fmt.Sprintf("unknown command %q%s", args[0], suggestion(c, args[0], "")), c}
}

// helpBelow shows the help of a command below c, or of c if none is named.
func helpBelow(c *cobra.Command, names []string) error {
	found, err := find(c, names)
	if err != nil {
		return err
	}
	show := found.HelpFunc()
	c.SetHelpFunc(func(*cobra.Command, []string) { show(found, nil) })
	return pflag.ErrHelp
}

// OneArgument requires exactly one argument; what names it.
func OneArgument(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Misuse("give exactly one: %s", what)
		}
		return nil
	}
}

// AtMostOneArgument refuses a second argument.
func AtMostOneArgument(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return Misuse("unexpected argument %q", args[1])
	}
	return nil
}

func helpTopic(help *cobra.Command, args []string) error {
	_, err := find(help.Root(), args)
	return err
}

// find returns the command of these names below c. Its error says which name is unknown.
func find(c *cobra.Command, names []string) (*cobra.Command, error) {
	found, rest, err := c.Find(names)
	if err != nil || len(rest) > 0 {
		return nil, noArguments(found, rest)
	}
	return found, nil
}

// wanted says what a flag of a type takes, for a value that is none.
func wanted(kind string) string {
	switch {
	case kind == "bool":
		return "give true or false"
	case strings.HasPrefix(kind, "float"):
		return "give a number, such as 0.5"
	}
	return "give a whole number"
}

// flagError says what is wrong with a flag, in the same words for all programs.
func flagError(c *cobra.Command, err error) error {
	if c.HasAvailableSubCommands() && c.Flags().NArg() > 0 {
		return noArguments(c, c.Flags().Args()) // the flag may belong to the command that was meant
	}
	if invalid := new(pflag.InvalidValueError); errors.As(err, &invalid) {
		cause := invalid.Unwrap()
		if number := new(strconv.NumError); errors.As(cause, &number) {
			cause = number.Err
			if errors.Is(cause, strconv.ErrSyntax) {
				cause = errors.New(wanted(invalid.GetFlag().Value.Type()))
			}
		}
		return Misuse("--%s %q: %v", invalid.GetFlag().Name, invalid.GetValue(), cause)
	}
	unknown := new(pflag.NotExistError)
	if !errors.As(err, &unknown) {
		return Misuse("%v", err)
	}
	written, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
	if written == "" {
		name := unknown.GetSpecifiedName()
		return Misuse("unknown flag --%s%s", name, suggestion(flagNames(c), name, "--"))
	}
	if written == "elp" { // -h exists, and the rest is taken for flags of one letter
		written = "help"
	}
	if c.Flags().Lookup(written) != nil {
		return Misuse("unknown flag -%s; flags have two dashes, write --%s", written, written)
	}
	return Misuse("unknown flag -%s%s", written, suggestion(flagNames(c), written, "--"))
}

// suggestion names similar commands that cobra finds below c.
func suggestion(c *cobra.Command, written, dashes string) string {
	c.SuggestionsMinimumDistance = 2
	alike := c.SuggestionsFor(written)
	if len(alike) == 0 {
		return ""
	}
	return "; did you mean " + dashes + strings.Join(alike, " or "+dashes) + "?"
}

// flagNames has a command per flag, because cobra only suggests commands.
func flagNames(c *cobra.Command) *cobra.Command {
	names := &cobra.Command{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return names
}
