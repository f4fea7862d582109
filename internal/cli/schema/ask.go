package schema

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/conclave-dp/conclave/internal/proposal"
)

// ask asks for everything that is still TODO. An empty answer leaves a TODO; the end of the input leaves the rest.
func ask(p *proposal.Proposal, in io.Reader, out io.Writer) error {
	answers := bufio.NewScanner(in)
	fmt.Fprintln(out, "Answer from public knowledge, not by looking at the rows. Press Enter to leave TODO.")
	question := func(what string, take func(answer string) error) (more bool) {
		for {
			fmt.Fprintf(out, "%s: ", what)
			if !answers.Scan() {
				fmt.Fprintln(out)
				return false
			}
			err := take(answers.Text())
			if err == nil {
				return true
			}
			fmt.Fprintln(out, " ", err)
		}
	}
	for i := range p.Columns {
		c := &p.Columns[i]
		hint := ""
		if c.Hint != "" {
			hint = " (" + c.Hint + ")"
		}
		for _, field := range c.Unfinished() {
			what := fmt.Sprintf("%s, %s%s", c.Name, field, hint)
			hint = ""
			if !question(what, func(answer string) error { return c.Set(field, answer) }) {
				return answers.Err()
			}
		}
	}
	if p.Label != "" {
		return answers.Err()
	}
	question("label (the column that rows are generated for), if any", func(answer string) error {
		return p.SetLabel(strings.TrimSpace(answer))
	})
	return answers.Err()
}
