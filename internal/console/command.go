package console

import (
	"fmt"

	"github.com/spf13/pflag"
)

// ListenFlag adds the flag of a command that serves a console.
func ListenFlag(f *pflag.FlagSet) *string {
	return f.String("listen", "127.0.0.1:0", "loopback `address` of the console; port 0: any free port")
}

// Print tells the person how to open a console.
func Print(address string) error {
	_, err := fmt.Println(address)
	return err
}
