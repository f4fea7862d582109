package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// input is what a person types, for all questions of a command.
var input = sync.OnceValue(func() *bufio.Reader { return bufio.NewReader(os.Stdin) })

// Confirm asks a question on standard error and says whether the answer on standard input is yes. The end of the input,
// or of the context, is none.
func Confirm(ctx context.Context, question string) bool {
	fmt.Fprintf(os.Stderr, "%s yes or no: ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := input().ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		return strings.TrimSpace(line) == "yes"
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return false
	}
}
