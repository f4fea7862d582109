// Command gen writes the assembly of package kernel, and the Go declarations of
// it, into the current folder.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// outputs are the files to write: NAME_amd64.s and NAME_stubs_amd64.go.
var outputs = []struct {
	name     string
	generate func(*build.Context)
}{
	{"gemm", gemm},
	{"transpose", transpose},
	{"vector", vector},
}

func main() {
	for _, o := range outputs {
		if err := write(o.name, o.generate); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

func write(name string, generate func(*build.Context)) error {
	ctx := build.NewContext()
	ctx.Constraint(buildtags.Term("amd64"))
	ctx.Constraint(buildtags.Not("noasm"))
	generate(ctx)
	file, err := ctx.Result()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := pass.Compile.Execute(file); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	cfg := printer.Config{Argv: []string{"go", "generate"}, Pkg: "kernel"}
	for path, print := range map[string]printer.Printer{
		name + "_amd64.s":        printer.NewGoAsm(cfg),
		name + "_stubs_amd64.go": printer.NewStubs(cfg),
	} {
		raw, err := print.Print(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(path, bytes.TrimLeft(raw, "\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
