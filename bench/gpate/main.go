// Command gpate measures what synthetic data of G-PATE is worth: it runs every line of
// a table on a real local cluster and prints it beside coin flips in the place of the
// teachers' gradients, beside real rows, and beside the figures of the paper.
//
//	go run ./bench/gpate --data DIR                      # all of it, hours
//	go run ./bench/gpate --data DIR --only adult-sum,mnist-sum
//
// DIR holds the data sets, each in a folder with its schema.yaml; flchain is part of the
// project. Figures come from real rows and are NOT PRIVATE.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/conclave-dp/conclave/evaluate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gpate:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("gpate", flag.ContinueOnError)
	o := options{}
	f.StringVar(&o.data, "data", "", "folder of the data sets, each in a folder of its name")
	only := f.String("only", "", "names of lines, separated by commas (default: all)")
	f.IntVar(&o.seeds, "seeds", 3, "number of seeds of tables, from 1 on; images have one")
	f.BoolVar(&o.coin, "coin", true, "measure coin flips too")
	f.BoolVar(&o.real, "real", true, "measure real rows too")
	f.StringVar(&o.options, "options", "", "options of gpate in YAML's flow style, in the place of a line's, to try some")
	format := f.String("format", "text", "text or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.seeds < 1 || f.NArg() > 0 || (*format != "text" && *format != "json") {
		return errors.New("want --seeds of at least 1, --format text or json, and no other arguments")
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, evaluate.NotPrivate)
	var results []*result
	for _, l := range chosen {
		if l.data != "flchain" && o.data == "" {
			return fmt.Errorf("line %s needs the data set %s; name the folder of the data sets with --data", l.name, l.data)
		}
		r, err := o.run(ctx, l)
		if err != nil {
			return fmt.Errorf("line %s: %w", l.name, err)
		}
		results = append(results, r)
		if *format == "text" {
			if len(results) == 1 {
				fmt.Println(header)
			}
			fmt.Println(r)
		}
	}
	if *format == "json" {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(results)
	}
	return nil
}

func choose(only string) ([]line, error) {
	if only == "" {
		return lines, nil
	}
	var chosen []line
	for name := range strings.SplitSeq(only, ",") {
		found := false
		for _, l := range lines {
			if l.name == strings.TrimSpace(name) {
				chosen, found = append(chosen, l), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no line is named %q", name)
		}
	}
	return chosen, nil
}
