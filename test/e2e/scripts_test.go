package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/conclave-dp/conclave/internal/cli/clitest"
	"github.com/conclave-dp/conclave/internal/testkit"
)

// Output and refusals of the roles' programs; the scripts are in testdata. Those of usage start the programs, and the
// others run in this process. It is not parallel, because they change the folder of the process.
func TestScripts(t *testing.T) {
	commands, err := filepath.Abs(filepath.Join("..", "..", "cmd"))
	testkit.Must(t, err)
	for _, program := range []string{"aggregator", "teacher", "student"} {
		t.Run(program, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:                 filepath.Join(commands, program, "testdata", "script"),
				RequireExplicitExec: true,
				Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
					"call": clitest.Script(programs[program]),
				},
				Setup: func(e *testscript.Env) error {
					e.Setenv("PATH", filepath.Join(built.dir, "bin")+string(os.PathListSeparator)+e.Getenv("PATH"))
					return nil
				},
			})
		})
	}
}
