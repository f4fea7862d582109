package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Output and refusals of the roles' programs; the scripts are in testdata.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"aggregator", "teacher", "student"} {
		t.Run(program, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:                 filepath.Join("..", "..", "cmd", program, "testdata", "script"),
				RequireExplicitExec: true,
				Setup: func(e *testscript.Env) error {
					e.Setenv("PATH", filepath.Join(built.dir, "bin")+string(os.PathListSeparator)+e.Getenv("PATH"))
					return nil
				},
			})
		})
	}
}
