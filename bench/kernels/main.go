// Command kernels measures how fast the kernels of internal/nn are, each beside something else
// in the same run: matrix products beside OpenBLAS and gonum, a step of 1,000 teachers beside a
// loop over gonum, a convolutional discriminator beside PyTorch. See README.md.
package main

import (
	"github.com/spf13/cobra"

	"github.com/conclave-dp/conclave/internal/cli"
)

func main() {
	root := &cobra.Command{Use: "kernels COMMAND [flags]", Short: "compare internal/nn with other libraries"}
	root.AddCommand(gemmCommand(), ensembleCommand(), torchCommand())
	cli.Main(root)
}
