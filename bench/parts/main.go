// Command parts measures parts of the program beside other software, in the same run: the kernels of internal/nn beside
// OpenBLAS, gonum and PyTorch, and tables that are read and summed beside pandas. See README.md.
package main

import (
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

func main() {
	root := &cobra.Command{Use: "parts COMMAND [flags]", Short: "compare parts of the program with other software"}
	kernels := &cobra.Command{Use: "kernels COMMAND [flags]", Short: "compare internal/nn with other libraries"}
	kernels.AddCommand(gemmCommand(), ensembleCommand(), torchCommand())
	root.AddCommand(kernels, rowsCommand())
	cli.Main(root)
}
