// Command gen writes the assembly of packages gemm and vector, and the Go declarations of
// it, into folders of these names.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/buildtags"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// outputs are the files to write: PKG/NAME_amd64.s and PKG/NAME_stubs_amd64.go.
var outputs = []struct {
	pkg, name string
	generate  func(*build.Context)
}{
	{"gemm", "gemm", gemm},
	{"gemm", "transpose", transpose},
	{"vector", "vector", vector},
}

func main() {
	for _, o := range outputs {
		if err := write(o.pkg, o.name, o.generate); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

func write(pkg, name string, generate func(*build.Context)) error {
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
	cfg := printer.Config{Argv: []string{"go", "generate"}, Pkg: pkg}
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		return err
	}
	for path, print := range map[string]printer.Printer{
		name + "_amd64.s":        printer.NewGoAsm(cfg),
		name + "_stubs_amd64.go": printer.NewStubs(cfg),
	} {
		raw, err := print.Print(file)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(filepath.Join(pkg, path), bytes.TrimLeft(raw, "\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
