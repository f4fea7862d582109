package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// input is the typed input, shared by all questions of a command.
var input = sync.OnceValue(func() *bufio.Reader { return bufio.NewReader(os.Stdin) })

// Confirm asks a question on standard error and reports whether the answer on standard input is yes. It repeats the
// question after any answer except yes and no. The end of the input, or of the context, means no.
func Confirm(ctx context.Context, question string) bool {
	answer := make(chan bool, 1)
	go func() { answer <- confirm(input(), os.Stderr, question) }()
	select {
	case yes := <-answer:
		return yes
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return false
	}
}

func confirm(in *bufio.Reader, out io.Writer, question string) bool {
	for {
		fmt.Fprintf(out, "%s yes or no: ", question)
		line, err := in.ReadString('\n')
		switch answer := strings.TrimSpace(line); {
		case answer == "yes":
			return true
		case answer == "no" || err != nil:
			return false
		}
		fmt.Fprintln(out, "type the whole word, yes or no, in small letters")
	}
}
